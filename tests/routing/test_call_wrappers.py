"""The wrappers around a call, each alone: what is made again, and what is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import CallFailed, ConnectFailed, ServerExited, ShuttingDown
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.routing.calls import RecordedCalls, RetriedCalls
from mcp_workbench.routing.requests import ForwardedRequest, Request, ToolCall
from mcp_workbench.servers.supervisor import ServerClosed
from mcp_workbench.wire.caller import LIBRARY
from mcp_workbench.wire.exchange import Exchange
from tests.support.library import DeafLine

TOOL = ToolIdentifier("dev", "s", "echo")
CALL = ToolCall(TOOL, Raw(b'{"a":1}'))
RESULT = Raw(b'{"content":[]}')
CLOSED = ShuttingDown("it is being closed")


class Outcomes:
    """Calls whose outcomes are given."""

    def __init__(self, *outcomes: Raw | Exception) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[Request] = []

    async def call(self, request: Request) -> Raw:
        self.requests.append(request)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Configurations:
    """Each look finds the next configuration in force."""

    def __init__(self, *versions: int) -> None:
        self._versions = list(versions)

    @property
    def config(self) -> int:
        return self._versions.pop(0)


def forwarded(method: str, **params: Any) -> ForwardedRequest:
    return ForwardedRequest(ServerIdentifier("dev", "s"), method, params, Exchange(LIBRARY, DeafLine()))


# -- made again


@pytest.mark.parametrize(
    "error",
    [ConnectFailed("dev", "s", CLOSED), CallFailed(TOOL, ServerClosed()), ServerClosed()],
    ids=["start", "call", "request"],
)
async def test_a_request_that_was_not_sent_before_another_configuration_came_is_made_again(error: Exception):
    inner = Outcomes(error, RESULT)
    assert await RetriedCalls(inner, Configurations(1, 2, 2)).call(CALL) is RESULT
    assert inner.requests == [CALL, CALL]


@pytest.mark.parametrize(
    ("error", "versions"),
    [
        (CallFailed(TOOL, CLOSED), (1, 2)),  # it was sent
        (CallFailed(TOOL, ServerClosed()), (1, 1)),  # the same configuration
        (CallFailed(TOOL, ServerExited("it died")), (1, 2)),  # for another reason
    ],
    ids=["sent", "unchanged", "exited"],
)
async def test_any_other_failure_is_the_outcome(error: Exception, versions: tuple[int, int]):
    inner = Outcomes(error)
    with pytest.raises(type(error)) as caught:
        await RetriedCalls(inner, Configurations(*versions)).call(CALL)
    assert caught.value is error
    assert len(inner.requests) == 1


# -- recorded


class Notes:
    """A recorder that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def began(self, tool: ToolIdentifier) -> str:
        return tool.tool

    def ended(self, *what: Any) -> None:
        self.told.append(("ended", *what))

    def failed(self, *what: Any) -> None:
        self.told.append(("failed", *what))


@pytest.mark.parametrize(
    ("request_", "name", "given"),
    [
        (CALL, "echo", b'{"a":1}'),
        (forwarded("tools/call", name=Raw(b'"read"'), arguments=Raw(b"{}")), "read", b"{}"),
        (forwarded("tools/call"), "?", b""),
    ],
    ids=["tool", "forwarded", "nameless"],
)
async def test_each_call_of_a_tool_is_recorded_with_arguments_and_result(request_: Request, name: str, given: bytes):
    notes: Any = Notes()
    assert await RecordedCalls(Outcomes(RESULT), notes).call(request_) is RESULT
    [(kind, noted, arguments, result, members)] = notes.told
    assert (kind, noted, bytes(arguments), result, list(members)) == ("ended", name, given, RESULT, ["content"])


async def test_a_call_that_failed_is_recorded_and_fails():
    notes: Any = Notes()
    error = CallFailed(TOOL, ServerExited("it died"))
    with pytest.raises(CallFailed):
        await RecordedCalls(Outcomes(error), notes).call(CALL)
    assert notes.told == [("failed", "echo", CALL.arguments, error)]


async def test_other_requests_are_not_recorded():
    notes: Any = Notes()
    assert await RecordedCalls(Outcomes(RESULT), notes).call(forwarded("prompts/get")) is RESULT
    assert notes.told == []


async def test_a_result_that_is_nested_too_deep_is_recorded_all_the_same():
    notes: Any = Notes()
    deep = Raw(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}")
    assert await RecordedCalls(Outcomes(deep), notes).call(CALL) is deep
    assert notes.told[0][0] == "ended"
