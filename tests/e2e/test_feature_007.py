"""Structured tool names: a tool is three strings, on the wire, in errors and in the code."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mcp_workbench
from mcp_workbench import ToolIdentifier
from tests.peers.rogue_stdio import RICH_TOOL, STDERR_TEXT, WEIRD_NAMES
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.documents import calls_in, objects_in
from tests.support.wire import Wire, environment, error_of, heard, lasting, serving

SHAPE = "Invalid tool identifier: expected an object with toolbox, server and tool"
MOVED = "Tool names changed in 0.11.0: see docs/migration.md"
GOOD = {"toolbox": "dev", "server": "filesystem", "tool": "read_file"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


@pytest.fixture
def config(tmp_path: Path, log: Path) -> Path:
    return three_servers(tmp_path, log)


def three_servers(folder: Path, log: Path) -> Path:
    """Three servers that all have a `read_file`; the name of the second tool tells them apart."""
    dev = {
        "filesystem": rogue("ok", "read_file", "dev-filesystem", log=log),
        "memory": rogue("ok", "read_file", "dev-memory", log=log),
    }
    return write_config(folder, {"dev": dev, "prod": {"filesystem": rogue("ok", "read_file", "prod-fs", log=log)}})


@pytest.fixture(scope="module")
def wire(shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """The three servers, for tests to which it does not matter what runs already."""
    folder = tmp_path_factory.mktemp("wire")
    with lasting(shared_loop, serving(three_servers(folder, folder / "rogue.log"))) as running:
        yield running


@pytest.fixture(scope="module")
def idle_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idle") / "rogue.log"


@pytest.fixture(scope="module")
def idle(shared_loop: asyncio.Runner, idle_log: Path) -> Iterator[Wire]:
    """The three servers, for tests that start none of them."""
    with lasting(shared_loop, serving(three_servers(idle_log.parent, idle_log))) as running:
        yield running


@pytest.fixture(scope="module")
def old_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("old") / "rogue.log"


@pytest.fixture(scope="module")
def with_old_names(shared_loop: asyncio.Runner, old_log: Path) -> Iterator[Wire]:
    """A tool whose names of earlier versions are known, in an open toolbox."""
    dev = {"filesystem": rogue("ok", "write", log=old_log), "other": rogue("ok", "read")}
    with lasting(shared_loop, serving(write_config(old_log.parent, {"dev": dev}))) as running:
        shared_loop.run(running.open("dev"))
        yield running


def mark(echo: dict[str, Any]) -> str:
    return echo["argv"][-1]


# -- calling (user story 1)


@pytest.mark.requirement("007-US1-AS1", "007-FR-001", "007-SC-001", "002-API-3")
async def test_a_structured_name_runs_the_tool_and_returns_its_result(wire: Wire):
    await wire.open("dev")
    result = await wire.use("dev", "filesystem", "read_file", {"path": "a.txt", "deep": {"n": [1, None]}})
    echo = heard(result)
    assert (echo["name"], echo["arguments"]) == ("read_file", {"path": "a.txt", "deep": {"n": [1, None]}})
    assert result["structuredContent"] == echo


@pytest.mark.requirement("007-US1-AS2")
async def test_equal_tool_names_in_two_toolboxes_are_routed_by_the_toolbox(wire: Wire):
    await wire.open("dev")
    await wire.open("prod")
    assert mark(heard(await wire.use("dev", "filesystem", "read_file"))) == "dev-filesystem"
    assert mark(heard(await wire.use("prod", "filesystem", "read_file"))) == "prod-fs"


@pytest.mark.requirement("007-US1-AS3", "007-FR-005")
async def test_equal_tool_names_on_two_servers_are_routed_by_the_server(wire: Wire):
    await wire.open("dev")
    assert mark(heard(await wire.use("dev", "memory", "read_file"))) == "dev-memory"
    assert mark(heard(await wire.use("dev", "filesystem", "read_file"))) == "dev-filesystem"


@pytest.mark.requirement("007-FR-001", "007-FR-004")
async def test_the_schema_of_use_tool_asks_for_three_non_empty_strings_and_nothing_else(wire: Wire):
    schema = (await wire.list_tools())[1]["inputSchema"]
    identifier = schema["properties"]["tool"]
    assert set(schema["properties"]) == {"tool", "arguments"}
    assert schema["required"] == ["tool"]
    assert schema["additionalProperties"] is False
    assert set(identifier["required"]) == {"toolbox", "server", "tool"}
    assert identifier["additionalProperties"] is False
    assert all(part["type"] == "string" and part["minLength"] == 1 for part in identifier["properties"].values())


# -- discovering (user story 2)


@pytest.mark.requirement("007-US2-AS1", "007-FR-002", "002-US1-AS2", "002-API-1", "002-A5")
async def test_every_listed_tool_has_its_toolbox_its_server_and_its_own_name(wire: Wire):
    answer = await wire.open("dev")
    named = [(tool["toolbox_name"], tool["source_server"], tool["name"]) for tool in answer["tools"]]
    assert named == [
        ("dev", "filesystem", "read_file"),
        ("dev", "filesystem", "dev-filesystem"),
        ("dev", "memory", "read_file"),
        ("dev", "memory", "dev-memory"),
    ]
    assert (answer["toolbox"], answer["description"], answer["servers_connected"]) == ("dev", "The toolbox dev", 2)
    assert "servers_failed" not in answer


@pytest.mark.requirement("007-FR-002")
async def test_a_listed_tool_keeps_every_field_that_its_server_sent_but_our_two_names_win(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"rich": rogue("unknown_fields")}})
    async with serving(config) as wire:
        answer = await wire.open("dev")
        assert answer["tools"] == [RICH_TOOL | {"toolbox_name": "dev", "source_server": "rich"}]


@pytest.mark.requirement("007-US2-AS2")
async def test_equal_tool_names_are_told_apart_by_their_server(wire: Wire):
    tools = (await wire.open("dev"))["tools"]
    servers = [tool["source_server"] for tool in tools if tool["name"] == "read_file"]
    assert servers == ["filesystem", "memory"]


@pytest.mark.requirement("007-US2-AS3", "007-SC-002", "007-SC-001")
async def test_the_fields_of_a_listed_tool_are_the_parameters_of_its_call(wire: Wire):
    for info in (await wire.open("dev"))["tools"]:
        by_hand = {"toolbox": info["toolbox_name"], "server": info["source_server"], "tool": info["name"]}
        assert ToolIdentifier.of(info).params() == by_hand
        echo = heard(await wire.call("use_tool", {"tool": by_hand}))
        assert (echo["name"], mark(echo)) == (info["name"], f"dev-{info['source_server']}")


@pytest.mark.requirement("007-US2-AS3", "007-SC-002")
async def test_the_description_of_use_tool_says_where_the_three_parts_come_from(wire: Wire):
    description = (await wire.list_tools())[1]["description"]
    assert all(field in description for field in ("toolbox_name", "source_server", "name", "open_toolbox"))
    assert [name for example in objects_in(description) for name, _ in calls_in(example)] == ["use_tool"]


# -- errors (user story 3)

NOT_FOUND = [
    pytest.param(("box", "filesystem", "read_file"), "Toolbox 'box' not found", "toolbox_not_found", id="toolbox"),
    pytest.param(
        ("dev", "database", "read_file"),
        "Server 'database' not found in toolbox 'dev'",
        "server_not_found",
        id="server",
    ),
    pytest.param(
        ("dev", "filesystem", "delete_all"),
        "Tool 'delete_all' not found in server 'filesystem' (toolbox 'dev')",
        "tool_not_found",
        id="tool",
    ),
]


@pytest.mark.requirement("007-US3-AS1", "007-US3-AS2", "007-US3-AS3", "007-FR-006", "007-SC-004")
@pytest.mark.parametrize(("parts", "text", "code"), NOT_FOUND)
async def test_what_does_not_exist_is_named_with_where_it_was_looked_for(
    wire: Wire, parts: tuple[str, str, str], text: str, code: str
):
    result = await wire.use(*parts)
    assert error_of(result).startswith(text)
    about = result["_meta"]["mcp-workbench/error"]
    assert about.pop("code") == code
    assert about.items() <= dict(zip(("toolbox", "server", "tool"), parts, strict=True)).items()
    assert code.partition("_")[0] in about


@pytest.mark.requirement("007-US3-AS1")
async def test_opening_an_unknown_toolbox_names_it(wire: Wire):
    assert error_of(await wire.call("open_toolbox", {"toolbox": "box"})).startswith("Toolbox 'box' not found")


@pytest.mark.requirement("007-US3-AS3", "007-SC-004")
@pytest.mark.parametrize(
    ("parts", "help_text"),
    [
        (("dve", "filesystem", "read_file"), "Did you mean 'dev'?"),
        (("dev", "filesytem", "read_file"), "Did you mean 'filesystem'?"),
        (("dev", "filesystem", "read_fil"), "Did you mean 'read_file'?"),
    ],
)
async def test_the_nearest_existing_name_is_offered(wire: Wire, parts: tuple[str, str, str], help_text: str):
    assert help_text in error_of(await wire.use(*parts))


@pytest.mark.requirement("007-SC-004")
async def test_what_exists_is_listed_when_no_name_is_near_and_never_more_than_twenty(tmp_path: Path):
    names = [f"tool-{number:02}" for number in range(30)]
    config = write_config(tmp_path, {"dev": {"many": rogue("ok", *names)}})
    async with serving(config) as wire:
        text = error_of(await wire.use("dev", "many", "zzzzzzzz"))
        assert len(set(re.findall(r"tool-\d\d", text))) == 20


@pytest.mark.requirement("007-SC-004", "007-FR-006")
async def test_a_server_that_cannot_be_started_is_named_with_its_toolbox(tmp_path: Path):
    broken = {"command": str(tmp_path / "no-such-program")}
    config = write_config(
        tmp_path, {"dev": {"filesystem": broken, "ok": rogue()}, "all": {"one": broken, "two": broken}}
    )
    async with serving(config) as wire:
        used = await wire.use("dev", "filesystem", "read_file")
        assert error_of(used).startswith("Failed to connect to server 'filesystem' in toolbox 'dev': ")
        about = used["_meta"]["mcp-workbench/error"]
        assert (about["toolbox"], about["server"]) == ("dev", "filesystem")
        opened = error_of(await wire.call("open_toolbox", {"toolbox": "all"}))
        assert opened.startswith("Toolbox 'all' could not be opened\n")
        assert [line for line in opened.splitlines() if "one" in line]
        assert [line for line in opened.splitlines() if "two" in line]
        answer = await wire.open("dev")
        assert answer["servers_connected"] == 1
        assert [failed["server"] for failed in answer["servers_failed"]] == ["filesystem"]


@pytest.mark.requirement("007-SC-004", "007-FR-006")
async def test_a_server_that_fails_during_a_call_is_named_with_tool_and_toolbox(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("crash")}})
    async with serving(config) as wire:
        result = await wire.use("dev", "fs", "crash")
        assert error_of(result).startswith("Tool 'crash' in server 'fs' (toolbox 'dev') failed: ")
        assert STDERR_TEXT in error_of(result)
        expected = {"code": "server_exited", "toolbox": "dev", "server": "fs", "tool": "crash"}
        assert result["_meta"]["mcp-workbench/error"] == expected


# -- what is refused before anything starts

NO_OBJECT = [
    {},
    {"tool": None},
    {"tool": "x"},
    {"tool": 5},
    {"tool": True},
    {"tool": ["dev", "filesystem", "read_file"]},
]
OLD_SHAPES = [
    {"toolbox_name": "dev", "tool_name": "dev__filesystem__read_file"},
    {"tool_name": "dev__filesystem__read_file", "arguments": {}},
    {"toolbox_name": "dev", "tool": "read_file"},
    {"tool": "dev__filesystem__read_file"},
    {"tool": "dev__filesystem_read_file"},
]
MISSING = object()
BAD_VALUES = [
    (MISSING, "is missing"),
    (None, "must be a string"),
    (5, "must be a string"),
    (["a"], "must be a string"),
    ({}, "must be a string"),
    (False, "must be a string"),
    ("", "cannot be empty"),
]
REFUSED: list[tuple[str, Any, str]] = [
    *(("use_tool", arguments, SHAPE) for arguments in [*NO_OBJECT, *OLD_SHAPES]),
    ("use_tool", {"tool": {}}, "Invalid tool identifier: toolbox is missing"),
    ("use_tool", {"tool": GOOD | {"extra": 1}}, "Invalid parameters: Unrecognized key 'extra'"),
    ("use_tool", {"tool": GOOD, "extra": 1}, "Invalid parameters: Unrecognized key 'extra'"),
    *(
        ("use_tool", {"tool": GOOD, "arguments": bad}, "Invalid parameters: arguments must be an object")
        for bad in ([], 5, True, "text", "[1]", "5", "{", "null")
    ),
    ("open_toolbox", {}, "Invalid parameters: toolbox is missing"),
    ("open_toolbox", {"toolbox": None}, "Invalid parameters: toolbox must be a string"),
    ("open_toolbox", {"toolbox": 5}, "Invalid parameters: toolbox must be a string"),
    ("open_toolbox", {"toolbox": ""}, "Invalid parameters: toolbox cannot be empty"),
    ("open_toolbox", {"toolbox": "dev", "extra": 1}, "Invalid parameters: Unrecognized key 'extra'"),
]
PARTS = ("toolbox", "server", "tool")


@pytest.mark.requirement("007-FR-004", "007-EC-3", "007-EC-4", "007-A-002", "007-FR-001")
async def test_a_wrong_shape_is_refused_with_its_own_text_and_nothing_is_started(idle: Wire, idle_log: Path):
    for name, arguments, text in REFUSED:
        answer = error_of(await idle.call(name, arguments))
        assert answer.startswith(text), (name, arguments)
    assert read_log(idle_log) == []


@pytest.mark.requirement("007-FR-004", "007-EC-2", "007-EC-3")
async def test_a_part_that_is_missing_empty_or_no_string_is_named_and_nothing_is_started(idle: Wire, idle_log: Path):
    for part, (value, problem) in itertools.product(PARTS, BAD_VALUES):
        identifier = {name: GOOD[name] for name in PARTS if name != part}
        if value is not MISSING:
            identifier[part] = value
        answer = error_of(await idle.call("use_tool", {"tool": identifier}))
        assert answer.startswith(f"Invalid tool identifier: {part} {problem}"), identifier
    assert read_log(idle_log) == []


ORDER = [
    ({"tool": 5, "extra": 1, "arguments": 5}, SHAPE),
    ({"tool": {"tool": ""}}, "Invalid tool identifier: toolbox is missing"),
    ({"tool": {"toolbox": "dev", "tool": ""}}, "Invalid tool identifier: server is missing"),
    ({"tool": {"toolbox": "", "server": 5}}, "Invalid tool identifier: toolbox cannot be empty"),
    ({"tool": {"toolbox": "dev", "server": 5, "x": 1}}, "Invalid tool identifier: server must be a string"),
    ({"tool": GOOD | {"x": 1}, "arguments": 5}, "Invalid parameters: Unrecognized key 'x'"),
    ({"tool": GOOD, "arguments": 5, "x": 1}, "Invalid parameters: Unrecognized key 'x'"),
    ({"tool": GOOD | {"toolbox": "box"}, "arguments": 5}, "Invalid parameters: arguments must be an object"),
    ({"tool": GOOD | {"toolbox": "box", "server": "nope"}}, "Toolbox 'box' not found"),
]


@pytest.mark.requirement("007-FR-004", "007-EC-3")
async def test_checks_come_in_the_order_shape_parts_extra_keys_arguments_existence(wire: Wire):
    for arguments, text in ORDER:
        assert error_of(await wire.call("use_tool", arguments)).startswith(text), arguments


@pytest.mark.requirement("007-EC-3", "007-FR-004")
@pytest.mark.parametrize(
    "wrong",
    [
        {"toolbox_name": "dev", "source_server": "filesystem", "name": "read_file"},
        {"toolbox": "dev", "source_server": "filesystem", "tool": "read_file"},
        {"toolbox": "dev", "server": "filesystem", "name": "read_file"},
    ],
)
async def test_the_field_names_of_a_listing_get_the_corrected_call(wire: Wire, wrong: dict[str, str]):
    text = error_of(await wire.call("use_tool", {"tool": wrong}))
    assert [call["tool"] for example in objects_in(text) for _, call in calls_in(example)] == [GOOD]


@pytest.mark.requirement("007-EC-3")
async def test_toolbox_name_in_an_open_leads_to_toolbox(wire: Wire):
    lines = error_of(await wire.call("open_toolbox", {"toolbox_name": "dev"})).splitlines()
    assert lines[0].startswith("Invalid parameters: ")
    assert "toolbox" in lines[-1]
    assert "'toolbox'" in lines[-1] or '"toolbox"' in lines[-1]


@pytest.mark.requirement("007-FR-001")
async def test_arguments_as_a_json_string_that_holds_an_object_are_accepted(wire: Wire):
    result = await wire.use("dev", "filesystem", "read_file", '{"path": "a.txt"}')
    assert heard(result)["arguments"] == {"path": "a.txt"}


# -- old names (no compatibility)

OLD_NAMES = ["filesystem_write", "dev__filesystem_write", "dev__filesystem__write"]


@pytest.mark.requirement("007-EC-4", "007-A-002", "002-FR-007", "002-US2-AS2", "002-US2-AS3", "002-EC-2")
@pytest.mark.parametrize("old", OLD_NAMES)
@pytest.mark.parametrize("way", ["tool", "tool_name", "tools/call"])
async def test_an_old_name_is_not_served_but_gets_the_call_to_send_instead(
    with_old_names: Wire, old_log: Path, old: str, way: str
):
    wire, called = with_old_names, received(old_log, "tools/call")
    result = await (wire.call(old, {}) if way == "tools/call" else wire.call("use_tool", {way: old}))
    text = error_of(result)
    assert MOVED in text
    assert received(old_log, "tools/call") == called
    [call] = [call for example in objects_in(text) for _, call in calls_in(example)]
    assert call["tool"] == {"toolbox": "dev", "server": "filesystem", "tool": "write"}
    assert heard(await wire.call("use_tool", call))["name"] == "write"


@pytest.mark.requirement("007-EC-4", "007-A-002", "002-OOS-002", "002-API-3")
@pytest.mark.parametrize("name", ["workbench_use_tool", "workbench_open_toolbox", "read_file", "nonsense", "a__b__c"])
async def test_any_other_tool_name_is_a_result_and_only_an_old_one_says_that_names_changed(
    idle: Wire, idle_log: Path, name: str
):
    text = error_of(await idle.call(name, {"toolbox_name": "dev", "tool_name": "x"}))
    assert (MOVED in text) == name.startswith("workbench_")
    assert read_log(idle_log) == []


@pytest.mark.requirement("007-EC-4", "002-FR-007")
async def test_when_several_tools_had_an_old_name_all_are_shown_and_none_is_chosen(tmp_path: Path, log: Path):
    box = {"a": rogue("ok", "b_c", log=log), "a_b": rogue("ok", "c", log=log)}
    config = write_config(tmp_path, {"dev": box, "prod": box})
    async with serving(config) as wire:
        await wire.open("dev")
        await wire.open("prod")
        text = error_of(await wire.call("a_b_c", {}))
        calls = [call["tool"] for example in objects_in(text) for _, call in calls_in(example)]
        expected = [
            {"toolbox": box, "server": server, "tool": tool}
            for box, (server, tool) in itertools.product(("dev", "prod"), (("a", "b_c"), ("a_b", "c")))
        ]
        assert sorted(calls, key=json.dumps) == sorted(expected, key=json.dumps)
        assert received(log, "tools/call") == []


@pytest.mark.requirement("007-EC-4")
async def test_at_most_five_tools_are_shown_for_one_old_name(tmp_path: Path):
    config = write_config(tmp_path, {f"box{number}": {"fs": rogue("ok", "read")} for number in range(7)})
    async with serving(config) as wire:
        for number in range(7):
            await wire.open(f"box{number}")
        text = error_of(await wire.call("fs_read", {}))
        assert len([call for example in objects_in(text) for _, call in calls_in(example)]) == 5


# -- any characters


@pytest.mark.requirement("007-EC-1", "007-FR-008", "007-SC-003", "007-A-004")
async def test_every_tool_name_is_listed_and_routed_byte_for_byte(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"weird": rogue("names")}})
    async with serving(config) as wire:
        listed = [tool["name"] for tool in (await wire.open("dev"))["tools"]]
        assert listed == list(WEIRD_NAMES)
        for name in listed:
            assert heard(await wire.use("dev", "weird", name))["name"] == name


WEIRD_PAIRS = [("a__b", "c"), ("a", "b__c"), ("a/b", "c.d"), ("ünï", "日本"), ("_", "__"), (" a", "'"), ("*a", "{x}")]


@pytest.mark.requirement("007-FR-008", "007-A-004", "007-SC-003", "002-A4")
async def test_toolbox_and_server_names_route_byte_for_byte(tmp_path: Path):
    boxes: dict[str, Any] = {}
    for toolbox, server in WEIRD_PAIRS:
        boxes.setdefault(toolbox, {})[server] = rogue("ok", "d", f"{toolbox}|{server}")
    async with serving(write_config(tmp_path, boxes)) as wire:
        for toolbox, server in WEIRD_PAIRS:
            assert mark(heard(await wire.use(toolbox, server, "d"))) == f"{toolbox}|{server}"


@pytest.mark.requirement("007-SC-003", "007-FR-006")
async def test_a_hostile_name_is_shown_escaped_and_on_one_line(wire: Wire):
    text = error_of(await wire.use("dev", "filesystem", "evil\n\x1b[31m\u202ename"))
    assert re.match(r"Tool 'evil\\(n|x0a)\\x1b\[31m\\u202ename' not found in server 'filesystem' ", text)
    assert not set("\x1b\u202e") & set(text)


@pytest.mark.requirement("007-FR-005", "007-FR-001")
async def test_a_call_without_an_open_starts_only_the_server_that_it_needs(config: Path, log: Path):
    async with serving(config) as wire:
        echo = heard(await wire.use("dev", "memory", "read_file"))
        assert starts(log) == [echo["pid"]]


# -- the version and the instructions


@pytest.mark.requirement("007-A-001", "002-FR-008", "002-SC-005")
async def test_the_version_is_the_same_in_the_package_the_command_and_the_handshake(config: Path):
    command = [sys.executable, "-m", "mcp_workbench", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(config.parent)).stdout  # noqa: ASYNC221
    assert mcp_workbench.__version__ == "0.11.0"
    assert "0.11.0" in shown
    async with serving(config) as wire:
        assert wire.hello["serverInfo"]["version"] == "0.11.0"


@pytest.mark.requirement("007-FR-009")
async def test_the_instructions_show_one_structured_call_with_names_from_the_configuration(wire: Wire):
    instructions = wire.hello["instructions"]
    [call] = [call for example in objects_in(instructions) for _, call in calls_in(example)]
    assert (call["tool"]["toolbox"], call["tool"]["server"]) == ("dev", "filesystem")
    assert "The toolbox prod" in instructions
    assert "__" not in instructions
