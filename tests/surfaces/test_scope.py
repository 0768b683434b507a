"""Which toolboxes a client sees, may see, and is told of."""

from __future__ import annotations

import pytest

from mcp_workbench.surfaces.base import Scope
from mcp_workbench.surfaces.proxy import ProxySurface
from tests.support.memory import MemoryServer, serving
from tests.surfaces.benches import HANDSHAKE, MODERN, answer, knowing


def test_a_handshake_client_sees_what_it_opened_in_the_order_of_the_configuration():
    scope = Scope(lambda: ["a", "b", "c"])
    assert scope.of(HANDSHAKE) == ()
    assert [scope.open("c"), scope.open("a"), scope.open("c")] == [True, True, False]
    assert scope.of(HANDSHAKE) == ("a", "c")


def test_a_modern_client_sees_all_whatever_is_open():
    scope = Scope(lambda: ["a", "b"])
    assert scope.of(MODERN) == ("a", "b")
    scope.open("b")
    assert scope.of(MODERN) == ("a", "b")


def test_it_follows_a_configuration_that_changes():
    toolboxes = ["a", "b"]
    scope = Scope(lambda: toolboxes)
    scope.open("a")
    toolboxes = ["c", "b"]
    assert (scope.of(HANDSHAKE), scope.of(MODERN), scope.allows("a")) == ((), ("c", "b"), False)


def test_where_all_is_open_both_see_all():
    scope = Scope(lambda: ["a", "b"], all_open=True)
    assert scope.of(HANDSHAKE) == scope.of(MODERN) == ("a", "b")


def test_what_is_not_served_is_not_allowed_open_or_not():
    scope = Scope(lambda: ["a"])
    assert (scope.allows("a"), scope.allows("b")) == (True, False)
    scope.open("b")
    assert not scope.allows("b")
    assert scope.of(MODERN) == ("a",)


def test_a_handshake_client_is_told_of_what_it_opened():
    scope = Scope(lambda: ["a", "b"])
    scope.of(HANDSHAKE)
    scope.open("a")
    assert (scope.has_shown("a"), scope.has_shown("b")) == (True, False)


def test_a_modern_client_is_told_of_all_once_it_has_looked():
    scope = Scope(lambda: ["a"])
    assert not scope.has_shown("a")
    scope.of(MODERN)
    assert scope.has_shown("a")


@pytest.mark.parametrize("kind", ["prompts", "resources"])
async def test_a_modern_client_of_the_default_surface_is_told_of_changes_in_toolboxes_that_nobody_opened(kind: str):
    async with serving({"dev": {"a": MemoryServer()}}) as workbench:
        surface = ProxySurface(workbench)
        assert not surface.note_change("dev", kind)
        await answer(surface, f"{kind}/list", MODERN)
        assert surface.note_change("dev", kind)
        assert not surface.note_change("dev", "tools")  # the two tools stay


def test_a_handshake_client_of_the_default_surface_is_not_told_of_what_it_did_not_open():
    surface = ProxySurface(knowing({"dev": {"a": ["t"]}}))
    assert not surface.note_change("dev", "prompts")
