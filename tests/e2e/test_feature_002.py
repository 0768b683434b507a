"""The joined names of dynamic mode: resolved by a table, never taken apart; and what became of old names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.identity import NameTable, ToolIdentifier, joined_name
from tests.peers.rogue_stdio import WEIRD_NAMES
from tests.support.configs import received, rogue, starts, write_config
from tests.support.wire import Era, Wire, error_of, heard, lasting, serving, text_of

LISTS_CHANGED = "notifications/tools/list_changed"
FORMAT = "Expected format: {toolbox}__{server}__{tool} (note: double underscores between all components)"
MOVED = "Tool names changed in 0.5.0: see docs/migration.md"

VALID = [
    ("dev", "filesystem", "read_file", "dev__filesystem__read_file"),
    ("dev", "filesystem", "read_file_async_v2", "dev__filesystem__read_file_async_v2"),
    ("dev", "filesystem", "my__special__tool", "dev__filesystem__my__special__tool"),
    ("dev", "server", "my__special__tool", "dev__server__my__special__tool"),
    ("dev", "server", "tool__with__extras", "dev__server__tool__with__extras"),
    ("prod", "memory", "store_value", "prod__memory__store_value"),
    ("prod", "memory", "store_value_async", "prod__memory__store_value_async"),
    ("test", "server", "my__special__tool", "test__server__my__special__tool"),
    ("test", "server", "tool__with__underscores", "test__server__tool__with__underscores"),
    ("testing", "clickhouse", "run_query", "testing__clickhouse__run_query"),
    ("main", "serena", "find_symbol", "main__serena__find_symbol"),
]
INVALID = [
    "dev__filesystem_read_file",
    "dev_filesystem__read_file",
    "__filesystem__read_file",
    "dev____read_file",
    "dev__filesystem__",
    "dev__only_two_parts",
    "invalid",
    "",
    "__",
    "____",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


@pytest.fixture
def config(tmp_path: Path, log: Path) -> Path:
    return two_toolboxes(tmp_path, log)


def two_toolboxes(folder: Path, log: Path) -> Path:
    dev = {
        "filesystem": rogue("ok", "read_file", "my__special__tool", log=log),
        "memory": rogue("ok", "store_value", "read_file", log=log),
    }
    return write_config(
        folder, {"dev": dev, "prod": {"memory": rogue("ok", "store_value", log=log)}}, toolMode="dynamic"
    )


@pytest.fixture(scope="module")
def calls_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls") / "rogue.log"


@pytest.fixture(scope="module")
def wire(shared_loop: asyncio.Runner, calls_log: Path) -> Iterator[Wire]:
    """A client of the handshake era with one toolbox open, for tests that only call."""
    with lasting(shared_loop, serving(two_toolboxes(calls_log.parent, calls_log))) as running:
        shared_loop.run(running.open("dev"))
        yield running


@pytest.fixture(scope="module")
def odd_wire(shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A modern client, in front of servers with what is unusual."""
    servers = {"rich": rogue("unknown_fields"), "ok": rogue(), "weird": rogue("names")}
    boxes = {name: {name: server} for name, server in servers.items()}
    config = write_config(tmp_path_factory.mktemp("odd"), boxes, toolMode="dynamic")
    with lasting(shared_loop, serving(config, era="modern")) as running:
        yield running


@pytest.fixture
def table() -> NameTable:
    names = NameTable()
    for toolbox, server, tool, _ in VALID:
        names.register(ToolIdentifier(toolbox, server, tool))
    return names


# -- the table


@pytest.mark.requirement("002-FR-001", "002-FR-003", "002-EC-1", "002-API-5", "002-API-4", "002-US1-AS1")
@pytest.mark.parametrize(("toolbox", "server", "tool", "name"), VALID)
def test_a_joined_name_is_the_three_parts_with_double_underscores(toolbox: str, server: str, tool: str, name: str):
    assert joined_name(ToolIdentifier(toolbox, server, tool)) == name


@pytest.mark.requirement(
    "002-FR-002", "002-FR-005", "002-US1-AS3", "002-US3-AS1", "002-US3-AS3", "002-API-5", "002-SC-002"
)
@pytest.mark.parametrize(("toolbox", "server", "tool", "name"), VALID)
def test_a_registered_name_resolves_to_its_three_parts(
    table: NameTable, toolbox: str, server: str, tool: str, name: str
):
    assert table.resolve(name) == ToolIdentifier(toolbox, server, tool)


@pytest.mark.requirement("002-API-5", "002-FR-002", "002-EC-3", "002-OOS-002")
@pytest.mark.parametrize("name", INVALID)
def test_a_name_that_was_never_registered_resolves_to_nothing(table: NameTable, name: str):
    assert table.resolve(name) is None


@pytest.mark.requirement("002-A4", "002-SC-002", "002-FR-005")
def test_parts_that_would_join_to_the_same_string_keep_names_of_their_own():
    rivals = [
        ToolIdentifier("a", "b", "c__d"),
        ToolIdentifier("a", "b__c", "d"),
        ToolIdentifier("a__b", "c", "d"),
        ToolIdentifier("a_", "b", "_c"),
        ToolIdentifier("a", "_b", "_c"),
        ToolIdentifier("a", "b_", "c"),
        ToolIdentifier("a", "b", "_c"),
        ToolIdentifier("a", "b", "__c"),
        ToolIdentifier("a", "b__", "c"),
    ]
    names = NameTable()
    given = [names.register(rival) for rival in rivals]
    assert len(set(given)) == len(rivals)
    assert [names.resolve(name) for name in given if name] == rivals


@pytest.mark.requirement("002-A3")
def test_a_name_has_three_levels_and_no_more():
    assert ToolIdentifier.__struct_fields__ == ("toolbox", "server", "tool")


# -- dynamic mode on the wire


def tools_of(listed: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tools without the two meta-tools, by name."""
    assert [tool["name"] for tool in listed[:2]] == ["open_toolbox", "use_tool"]
    return {tool["name"]: tool for tool in listed[2:]}


DEV_NAMES = [
    "dev__filesystem__read_file",
    "dev__filesystem__my__special__tool",
    "dev__memory__store_value",
    "dev__memory__read_file",
]


@pytest.mark.requirement("002-US1-AS1", "002-FR-001", "002-FR-004", "002-SC-001", "002-EC-1")
async def test_opening_a_toolbox_registers_its_tools_under_joined_names_and_says_so(config: Path, log: Path):
    async with serving(config) as wire:
        assert tools_of(await wire.list_tools()) == {}
        assert starts(log) == []
        await wire.open("dev")
        await wire.notification(LISTS_CHANGED)
        assert list(tools_of(await wire.list_tools())) == DEV_NAMES


@pytest.mark.requirement("002-US1-AS1", "002-FR-004")
async def test_a_modern_client_sees_the_tools_of_every_toolbox_from_the_start(config: Path):
    async with serving(config, era="modern") as wire:
        before = await wire.list_tools()
        assert list(tools_of(before)) == [*DEV_NAMES, "prod__memory__store_value"]
        await wire.open("dev")
        assert await wire.list_tools() == before


@pytest.mark.requirement("002-FR-004", "002-FR-005", "002-SC-002", "002-US3-AS3")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_call_by_joined_name_reaches_the_tool_under_its_own_name(config: Path, era: Era):
    async with serving(config, era=era) as wire:
        await wire.open("dev")
        for name, original in (
            ("dev__filesystem__my__special__tool", "my__special__tool"),
            (DEV_NAMES[3], "read_file"),
        ):
            echo = heard(await wire.call(name, {"x": 1}))
            assert (echo["name"], echo["arguments"]) == (original, {"x": 1})


@pytest.mark.requirement("002-FR-004", "002-API-1", "002-API-2", "002-A5", "002-US1-AS2")
async def test_both_modes_name_the_same_tools_each_in_its_form(config: Path, tmp_path: Path):
    async with serving(config) as wire:
        opened = (await wire.open("dev"))["tools"]
        listed = tools_of(await wire.list_tools())
        assert [joined_name(ToolIdentifier.of(info)) for info in opened] == list(listed)
        by_name = heard(await wire.call("dev__memory__store_value", {}))
        by_parts = heard(await wire.use("dev", "memory", "store_value", {}))
        assert (by_name["pid"], by_name["name"]) == (by_parts["pid"], by_parts["name"])
    (tmp_path / "proxy").mkdir()
    proxy = write_config(tmp_path / "proxy", {"dev": {"memory": rogue("ok", "store_value")}})
    async with serving(proxy) as wire:
        [info] = (await wire.open("dev"))["tools"]
        assert info["name"] == "store_value"
        assert [tool["name"] for tool in await wire.list_tools()] == ["open_toolbox", "use_tool"]


@pytest.mark.requirement("002-FR-004")
async def test_a_registered_tool_is_as_its_server_sent_it_with_its_origin_added(odd_wire: Wire):
    tools = tools_of(await odd_wire.list_tools())
    rich = tools["rich__rich__rich"]
    origin = {"source_server": "rich", "toolbox_name": "rich", "original_name": "rich"}
    assert rich["_meta"] == {"vendor/key": {"nested": [True, 0.5, "x"]}} | origin
    assert (rich["title"], rich["description"]) == ("Rich", "[rich/rich] The tool rich.")
    assert rich["x-vendor"] == {"anything": ["goes", {"here": None}]}
    assert tools["ok__ok__echo"]["title"] == "echo"


@pytest.mark.requirement("002-SC-002", "002-A4")
async def test_names_that_the_protocol_would_refuse_are_made_legal_and_still_resolve(odd_wire: Wire):
    tools = tools_of(await odd_wire.list_tools())
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) for name in tools)
    weird = {name: tool for name, tool in tools.items() if tool["_meta"]["source_server"] == "weird"}
    assert len(weird) == len(WEIRD_NAMES)
    for name, tool in weird.items():
        assert heard(await odd_wire.call(name, {}))["name"] == tool["_meta"]["original_name"]


@pytest.mark.requirement("002-FR-007", "002-US2-AS2", "002-EC-2", "002-EC-3", "002-OOS-002", "002-API-6")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dev__filesystem_read_file", "dev__filesystem__read_file"),
        ("filesystem_read_file", "dev__filesystem__read_file"),
        ("dev__memory_store_value", "dev__memory__store_value"),
    ],
)
async def test_an_old_name_of_a_known_tool_is_refused_with_its_new_name(
    wire: Wire, calls_log: Path, old: str, new: str
):
    called = received(calls_log, "tools/call")
    text = error_of(await wire.call(old, {}))
    assert text.startswith(f"Error: Invalid tool name format '{old}'. {FORMAT}")
    assert new in text
    assert MOVED in text
    assert received(calls_log, "tools/call") == called
    assert not (await wire.call(new, {})).get("isError")


@pytest.mark.requirement("002-FR-007", "002-API-5", "002-API-6")
async def test_a_name_that_has_not_the_form_is_told_the_form(wire: Wire):
    for name in (name for name in INVALID if name):
        text = error_of(await wire.call(name, {}))
        assert text.startswith(f"Error: Invalid tool name format '{name}'. {FORMAT}"), name


@pytest.mark.requirement("002-API-6", "002-FR-007")
async def test_an_unknown_name_of_the_right_form_is_not_found_and_the_nearest_is_offered(wire: Wire):
    text = error_of(await wire.call("dev__filesystem__read_fil", {}))
    assert text.startswith("Error: Tool name 'dev__filesystem__read_fil' not found")
    assert "dev__filesystem__read_file" in text
    assert "prod" in text, "which toolboxes are not open"


@pytest.mark.requirement("002-API-6")
async def test_a_server_that_fails_in_a_call_by_joined_name_is_named_by_its_parts(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("crash")}}, toolMode="dynamic")
    async with serving(config) as wire:
        await wire.open("dev")
        text = error_of(await wire.call("dev__fs__crash", {}))
        assert text.startswith("[dev/fs/crash] Error: Tool 'crash' in server 'fs' (toolbox 'dev') failed: ")


@pytest.mark.requirement("002-OOS-003")
async def test_the_separator_cannot_be_configured(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}}, separator="::")
    async with serving(config, greet=False) as wire:
        assert await wire.ended() == 2
        assert "separator" in wire.stderr


async def test_a_result_by_joined_name_is_untouched(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("is_error")}}, toolMode="dynamic")
    async with serving(config) as wire:
        await wire.open("dev")
        result = await wire.call("dev__fs__echo", {})
        assert (text_of(result), result["isError"], result["_meta"]) == (
            "the tool itself failed",
            True,
            {"vendor/why": 1},
        )
