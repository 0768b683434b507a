"""Native tools beside the two meta-tools: what is listed when, and what a joined name calls."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from mcp_workbench.catalog.snapshot import ServerTools
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.surfaces.dynamic import DynamicSurface
from mcp_workbench.wire.caller import Caller
from tests.support.configs import rogue, starts
from tests.support.library import handle_of
from tests.support.procs import wait_until
from tests.surfaces.benches import HANDSHAKE, MODERN, Watching, call, error_of, knowing, listed, running

META = ["open_toolbox", "use_tool"]
KNOWN = {"dev": {"fs": ["read", "my__tool"], "a_b": ["c"]}, "ops": {"fs": ["read"]}}
FORMAT = (
    "Error: Invalid tool name format '{}'. Expected format: {{toolbox}}__{{server}}__{{tool}} "
    "(note: double underscores between all components)"
)


def opened(*toolboxes: str) -> DynamicSurface:
    """A surface of known tools on which these toolboxes are open."""
    surface = DynamicSurface(knowing(KNOWN))
    for toolbox in toolboxes:
        surface.note_opened(HANDSHAKE, toolbox)
    return surface


async def names(surface: DynamicSurface) -> list[str]:
    return [tool["name"] for tool in await listed(surface)]


# -- what is listed


async def test_before_anything_is_open_there_are_the_two_meta_tools():
    assert await names(opened()) == META


async def test_opening_adds_the_tools_of_that_toolbox_after_the_meta_tools_and_tells_it_once():
    surface = opened()
    watching = Watching(surface.workbench, surface)
    surface.note_opened(HANDSHAKE, "dev")
    assert await names(surface) == [*META, "dev__fs__read", "dev__fs__my__tool", "dev__a_b__c"]
    surface.note_opened(HANDSHAKE, "dev")
    assert watching.kinds == ["tools"]
    surface.note_opened(HANDSHAKE, "ops")
    assert (await names(surface))[-1] == "ops__fs__read"


async def test_a_real_open_adds_and_tells_and_a_call_by_name_is_untouched(tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue("unknown_fields")}, "other": {"two": rogue()}}) as workbench:
        surface = DynamicSurface(workbench)
        watching = Watching(workbench, surface)
        await call(surface, "open_toolbox", {"toolbox": "dev"})
        assert watching.kinds == ["tools"]
        tools = await listed(surface)
        assert [tool["name"] for tool in tools] == [*META, "dev__one__rich"]
        rich = tools[2]
        assert rich["title"] == "Rich"
        assert rich["description"] == "[dev/one] The tool rich."
        assert rich["_meta"] == {
            "vendor/key": {"nested": [True, 0.5, "x"]},
            "source_server": "one",
            "toolbox_name": "dev",
            "original_name": "rich",
        }
        assert rich["x-vendor"] == {"anything": ["goes", {"here": None}]}
        result = await call(surface, "dev__one__rich", {})
        assert result["x-unknown"] == {"kept": True}


async def test_a_modern_client_has_every_tool_from_the_start(tmp_path: Path):
    toolboxes = {"dev": {"one": rogue("ok", "a"), "bad": rogue("exit_at_start")}, "ops": {"two": rogue("ok", "b")}}
    async with running(tmp_path, toolboxes) as workbench:
        surface = DynamicSurface(workbench)
        expected = [*META, "dev__one__a", "ops__two__b"]
        assert [tool["name"] for tool in await listed(surface, MODERN)] == expected
        await call(surface, "open_toolbox", {"toolbox": "dev"}, MODERN)
        assert [tool["name"] for tool in await listed(surface, MODERN)] == expected


async def test_an_unknown_name_of_a_modern_client_starts_what_is_broken_no_more_than_once(tmp_path: Path):
    log = tmp_path / "log"
    toolboxes = {"dev": {"good": rogue(), "bad": rogue("exit_at_start", log=log)}}
    async with running(tmp_path, toolboxes) as workbench:
        surface = DynamicSurface(workbench)
        error_of(await call(surface, "dev__good__nothing", {}, MODERN))
        attempts = len(starts(log))
        assert attempts > 0
        for name in ("dev__good__nothing", "dev__bad__echo", "nothing"):
            error_of(await call(surface, name, {}, MODERN))
        assert len(starts(log)) == attempts


@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN], ids=["handshake", "modern"])
async def test_the_tools_of_a_server_that_cannot_be_started_are_absent_until_it_heals(caller: Caller, tmp_path: Path):
    log, needed = tmp_path / "log", tmp_path / "needed"
    needed.touch()
    entry = rogue("needs", needed, log=log)
    toolboxes = {"dev": {"good": rogue("ok", "a"), "ill": entry}}
    async with running(tmp_path, toolboxes, backoff_first_seconds=0.01) as workbench:
        surface = DynamicSurface(workbench)
        watching = Watching(workbench, surface)
        healthy = [*META, "dev__good__a", "dev__ill__echo", "dev__ill__nonce"]
        await call(surface, "open_toolbox", {"toolbox": "dev"}, caller)
        assert [tool["name"] for tool in await listed(surface, caller)] == healthy
        needed.unlink()
        os.kill(starts(log)[-1], signal.SIGKILL)
        await wait_until(lambda: handle_of(workbench, "dev", "ill", caller).supervisor.current is None)
        watching.kinds.clear()
        assert error_of(await call(surface, "dev__ill__echo", {}, caller)).startswith("[dev/ill/echo] Error: ")
        assert watching.kinds == ["tools"]
        assert [tool["name"] for tool in await listed(surface, caller)] == [*META, "dev__good__a"]
        needed.touch()
        watching.kinds.clear()
        await call(surface, "open_toolbox", {"toolbox": "dev"}, caller)
        assert watching.kinds == ["tools"]
        assert [tool["name"] for tool in await listed(surface, caller)] == healthy


@pytest.mark.parametrize("first", ["list", "open"])
async def test_an_open_by_a_modern_client_changes_no_list_and_tells_nobody(first: str, tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue()}, "ops": {"two": rogue()}}) as workbench:
        surface = DynamicSurface(workbench)
        if first == "list":
            await listed(surface, MODERN)
        watching = Watching(workbench, surface)
        for toolbox in ("dev", "ops", "dev"):
            await call(surface, "open_toolbox", {"toolbox": toolbox}, MODERN)
        assert watching.kinds == []


async def test_a_handshake_list_starts_nothing(tmp_path: Path):
    log = tmp_path / "log"
    async with running(tmp_path, {"dev": {"one": rogue(log=log)}}) as workbench:
        await listed(DynamicSurface(workbench))
    assert starts(log) == []


async def test_a_modern_client_may_call_what_it_knows_from_an_earlier_connection(tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue()}}) as workbench:
        result = await call(DynamicSurface(workbench), "dev__one__nonce", {"nonce": "7"}, MODERN)
        assert result["content"][0]["text"] == "7"


async def test_a_tool_of_a_server_cannot_take_the_place_of_a_meta_tool(tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue("ok", "open_toolbox", "use_tool")}}) as workbench:
        surface = DynamicSurface(workbench)
        await call(surface, "open_toolbox", {"toolbox": "dev"})
        assert await names(surface) == [*META, "dev__one__open_toolbox", "dev__one__use_tool"]


async def test_use_tool_works_here_too(tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue()}}) as workbench:
        tool = {"toolbox": "dev", "server": "one", "tool": "nonce"}
        result = await call(DynamicSurface(workbench), "use_tool", {"tool": tool, "arguments": {"nonce": "7"}})
        assert result["content"][0]["text"] == "7"


async def test_a_client_that_left_hears_of_no_more_changes():
    surface = opened("dev")
    workbench = surface.workbench
    router = workbench.at(HANDSHAKE)
    watching = Watching(workbench, surface)
    router.catalog.snapshot("dev", "fs").put(ServerTools(tools={}))
    router.pool.client_ref.changed("dev", "tools")
    assert watching.kinds == ["tools"]
    await workbench.leave(HANDSHAKE.audience)
    router.catalog.snapshot("dev", "a_b").put(ServerTools(tools={}))
    router.pool.client_ref.changed("dev", "tools")
    assert watching.kinds == ["tools"]


async def test_a_change_in_a_toolbox_that_is_not_open_is_not_told():
    """The client's list is the same: it need not fetch it again."""
    surface = opened("dev")
    watching = Watching(surface.workbench, surface)
    before = await names(surface)
    router = surface.workbench.at(HANDSHAKE)
    router.catalog.snapshot("ops", "fs").put(ServerTools(tools={}))
    router.pool.client_ref.changed("ops", "tools")
    assert await names(surface) == before
    assert watching.kinds == []


# -- what a name calls


def test_a_registered_name_resolves_and_nothing_else_does():
    surface = opened("dev")
    assert surface.resolve("dev__fs__my__tool") == ToolIdentifier("dev", "fs", "my__tool")
    assert surface.resolve("ops__fs__read") is None
    assert surface.resolve("fs_read") is None


@pytest.mark.parametrize("name", ["fs_read", "dev__fs_read", "a_b_c", "nothing", "dev__fs", "", "__", "a\nb"])
async def test_a_name_that_has_not_the_form_is_told_the_form(name: str):
    text = error_of(await call(opened("dev"), name, {}))
    shown = name.replace("\n", "\\n")
    assert text.splitlines()[0] == FORMAT.format(shown)
    is_old = name in {"fs_read", "dev__fs_read", "a_b_c"}
    assert ("Tool names changed in 0.5.0: see docs/migration.md" in text.splitlines()) == is_old


@pytest.mark.parametrize(
    ("old", "new"), [("a_b_c", "dev__a_b__c"), ("dev__a_b_c", "dev__a_b__c"), ("fs_my__tool", "dev__fs__my__tool")]
)
async def test_an_old_name_of_a_known_tool_is_told_the_new_one(old: str, new: str):
    text = error_of(await call(opened("dev"), old, {}))
    assert text.startswith(FORMAT.format(old))
    assert f"Call: {new}" in text.splitlines()


async def test_a_registered_name_wins_over_any_historical_reading():
    surface = DynamicSurface(knowing({"t": {"s": ["x__y__z"], "x": ["y"]}, "s_x": {"y": ["z"]}}))
    for toolbox in ("t", "s_x"):
        surface.note_opened(HANDSHAKE, toolbox)
    assert surface.resolve("s_x__y__z") == ToolIdentifier("s_x", "y", "z")  # also `{server}_{tool}` of t/s/x__y__z
    text = error_of(await call(surface, "s_x__y__z", {}))
    await surface.workbench.close()
    assert text.startswith("[s_x/y/z] Error: ")


async def test_an_unknown_name_of_the_right_form_is_not_found_with_the_nearest_and_what_is_not_open():
    text = error_of(await call(opened("dev"), "dev__fs__raed", {}))
    assert text.startswith("Error: Tool name 'dev__fs__raed' not found")
    assert "Did you mean 'dev__fs__read' or 'dev__fs__my__tool'?" in text
    assert "Not open: ops" in text


async def test_a_failure_of_the_server_says_which_tool_it_was(tmp_path: Path):
    async with running(tmp_path, {"dev": {"fs": rogue("rpc_error")}}) as workbench:
        surface = DynamicSurface(workbench)
        await call(surface, "open_toolbox", {"toolbox": "dev"})
        result = await call(surface, "dev__fs__echo", {})
        assert error_of(result).startswith(
            "[dev/fs/echo] Error: Tool 'echo' in server 'fs' (toolbox 'dev') failed: not on a Sunday"
        )
        assert result["_meta"]["mcp-workbench/error"]["tool"] == "echo"


async def test_a_tool_that_its_server_no_longer_lists_is_not_listed_and_its_call_is_told():
    surface = opened("dev")
    surface.workbench.at(HANDSHAKE).catalog.snapshot("dev", "fs").put(ServerTools(tools={}))
    assert await names(surface) == [*META, "dev__a_b__c"]
    text = error_of(await call(surface, "dev__fs__read", {}))
    assert text.startswith("Error: Tool 'read' not found in server 'fs' (toolbox 'dev')")


@pytest.mark.parametrize("arguments", [{}, 5], ids=["connect", "arguments"])
async def test_the_parts_of_the_tool_are_told_to_programs_whatever_goes_wrong(arguments: object):
    surface = opened("dev")
    result = await call(surface, "dev__fs__read", arguments)
    await surface.workbench.close()
    where = result["_meta"]["mcp-workbench/error"]
    assert where.pop("code") in {"spawn_failed", "invalid_parameters"}
    assert where == {"toolbox": "dev", "server": "fs", "tool": "read"}


@pytest.mark.parametrize("arguments", [5, "x", [1]])
async def test_arguments_that_are_no_object_never_reach_a_server(arguments: object):
    text = error_of(await call(opened("dev"), "dev__fs__read", arguments))
    assert text.startswith("Error: Invalid parameters: arguments must be an object")


async def test_a_name_that_the_protocol_would_refuse_is_made_legal_and_resolves(tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue("names")}}) as workbench:
        surface = DynamicSurface(workbench)
        await call(surface, "open_toolbox", {"toolbox": "dev"})
        tools = (await listed(surface))[2:]
        assert len({tool["name"] for tool in tools}) == len(tools) == 15
        for tool in tools:
            identifier = surface.resolve(tool["name"])
            assert identifier is not None
            assert identifier.tool == tool["_meta"]["original_name"]
        weird = next(tool for tool in tools if tool["_meta"]["original_name"] == "line\nbreak")
        assert json.loads((await call(surface, weird["name"], {}))["content"][0]["text"])["name"] == "line\nbreak"
