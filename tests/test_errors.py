"""Errors are values: once raised they do not change, and a caller that needs another hint gets a copy."""

from __future__ import annotations

import pytest

from mcp_workbench.errors import (
    Fault,
    NeedsLogin,
    Overloaded,
    ServerExited,
    ServerRefused,
    ServerResting,
    ServerUnavailable,
    WorkbenchError,
)

FAULTS = [
    ServerExited("it died"),
    Overloaded("too much"),
    ServerRefused("no", rpc_code=-32602, data=b"{}"),
    NeedsLogin("dev", "s"),
    ServerResting(3, ServerExited("it died"), 4.0),
    ServerUnavailable("gone", kind="dns", retry_after=2.0),
]


def raised(error: WorkbenchError) -> WorkbenchError:
    try:
        raise error
    except WorkbenchError as caught:
        return caught


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("name", ["hint", "counts", "retry_after"])
def test_an_error_that_was_raised_cannot_be_changed(fault: Fault, name: str):
    error = raised(fault.copy_with())
    with pytest.raises(AttributeError, match="copy_with"):
        setattr(error, name, None)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_copy_differs_in_what_is_said_and_the_original_stays(fault: Fault):
    before = (str(fault), fault.hint, fault.counts, vars(fault).copy())
    copy = fault.copy_with(hint="Do this.", counts=None)
    assert (type(copy), str(copy), copy.hint, copy.counts) == (type(fault), str(fault), "Do this.", None)
    assert (str(fault), fault.hint, fault.counts, vars(fault)) == before
    assert {**vars(copy), **vars(fault)}.keys() == vars(fault).keys() | {"hint", "counts"}


def test_a_raised_error_can_be_raised_again_from_another_one():
    error = raised(ServerExited("it died"))
    with pytest.raises(ServerExited) as caught:
        raise error from ValueError("why")
    assert caught.value is error
