"""Mistakes that models make: each is answered with the reason and, where it determines a call, with that call."""

# ruff: noqa: E501 -- a row is a line

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.configs import read_log, rogue, write_config
from tests.support.wire import Wire, error_of, heard, lasting, serving

SHAPE = "Invalid tool identifier: expected an object with toolbox, server and tool"
MISSING = "Invalid tool identifier: {} is missing"
UNKNOWN_KEY = "Invalid parameters: Unrecognized key '{}'"
NATIVE = "Tool '{}' not found: the tools here are open_toolbox and use_tool"
NO_TOOLBOX = "Invalid parameters: toolbox is missing"
RENAMED = "Tool names changed in 0.11.0: see docs/migration.md"
BOXES = "Available toolboxes: 'dev', 'data', 'ops'"
HIDDEN = "format_disk"
WITH = {"nonce": "7"}

READ = {"toolbox": "dev", "server": "filesystem", "tool": "read_file"}
QUERY = {"toolbox": "data", "server": "sqlite", "tool": "read_query"}
NODES = {"toolbox": "data", "server": "knowledge-graph", "tool": "searchNodes"}
ECHOES = [
    {"toolbox": "data", "server": "knowledge-graph", "tool": "echo"},
    {"toolbox": "ops", "server": "kube", "tool": "echo"},
]


class Mistake(NamedTuple):
    name: str
    """Of the tool that is called."""
    given: Any
    """Its arguments."""
    reason: str
    """How the answer starts."""
    lines: tuple[str, ...] = ()
    """What else stands in the answer, a line each."""


def line(metatool: str, arguments: dict[str, Any]) -> str:
    return f"Send: {metatool} {json.dumps(arguments, separators=(',', ':'))}"


def use(tool: dict[str, str], arguments: Any = WITH) -> str:
    return line("use_tool", {"tool": tool, "arguments": arguments})


def opening(**arguments: Any) -> str:
    return line("open_toolbox", arguments)


def wrong_use(given: Any, reason: str, *lines: str) -> Mistake:
    return Mistake("use_tool", given, reason, lines)


def wrong_open(given: Any, reason: str, *lines: str) -> Mistake:
    return Mistake("open_toolbox", given, reason, lines)


def native(name: str, given: Any, *lines: str) -> Mistake:
    return Mistake(name, given, NATIVE.format(name), lines)


SHAPES = [
    wrong_use({**READ, "arguments": WITH}, SHAPE, use(READ)),
    wrong_use({**READ, **WITH}, SHAPE, use(READ)),
    wrong_use(READ, SHAPE, use(READ, {})),
    wrong_use({"tool": json.dumps(READ), "arguments": WITH}, SHAPE, use(READ)),
    wrong_use({"tool": json.dumps({"tool": READ, "arguments": WITH})}, SHAPE, use(READ)),
    wrong_use(json.dumps({"tool": READ, "arguments": WITH}), SHAPE, use(READ)),
    wrong_use({"tool": [READ], "arguments": WITH}, SHAPE, use(READ)),
    wrong_use({"toolbox_name": "dev", "source_server": "filesystem", "name": "read_file"}, SHAPE, use(READ, {})),
    wrong_use({"name": "read_file", "arguments": WITH}, SHAPE, use(READ)),
    wrong_use({"name": READ, "arguments": WITH}, SHAPE, use(READ)),
    wrong_use({"tool_name": "read_file", "server_name": "filesystem", "input": WITH}, SHAPE, use(READ)),
    wrong_use({"function": {"name": "read_file", "arguments": json.dumps(WITH)}}, SHAPE, use(READ)),
    wrong_use({"tool": {**READ, "arguments": WITH}}, UNKNOWN_KEY.format("arguments"), use(READ)),
    wrong_use({"tool": {**READ, **WITH}}, UNKNOWN_KEY.format("nonce"), use(READ)),
    wrong_use({"tool": READ, **WITH}, UNKNOWN_KEY.format("nonce"), use(READ)),
    wrong_use({"tool": READ, "args": WITH}, UNKNOWN_KEY.format("args"), use(READ)),
    wrong_use({"tool": READ, "input": WITH}, UNKNOWN_KEY.format("input"), use(READ)),
    wrong_use({"tool": READ, "parameters": WITH}, UNKNOWN_KEY.format("parameters"), use(READ)),
    wrong_use({"tool": READ, "argumnets": WITH}, UNKNOWN_KEY.format("argumnets"), "Did you mean 'arguments'?", use(READ)),
    wrong_use({"tool": READ, "tool_input": json.dumps(WITH)}, UNKNOWN_KEY.format("tool_input"), use(READ)),
    wrong_use({"tool": READ, "arguments": None}, "Invalid parameters: arguments must be an object", use(READ, {})),
    wrong_use({"tool": READ, "arguments": [WITH]}, "Invalid parameters: arguments must be an object", use(READ)),
    wrong_use({"tool": {**READ, "description": "Reads.", "inputSchema": {}}}, UNKNOWN_KEY.format("description"), use(READ, {})),
    wrong_use({"tool": READ, "arguments": json.dumps(json.dumps(WITH))}, "Invalid parameters: arguments must be an object", use(READ)),
    wrong_use({"tool": ["dev", "filesystem", "read_file"], "arguments": WITH}, SHAPE, use(READ)),
    wrong_use({"tools": [READ], "arguments": WITH}, SHAPE, use(READ)),
    wrong_use({"identifier": READ, "arguments": WITH}, SHAPE, use(READ)),
    wrong_use("read_file", SHAPE, use(READ, {})),
]  # fmt: skip
WRAPPED = [
    wrong_use({"arguments": {"tool": READ, "arguments": WITH}}, SHAPE, use(READ)),
    wrong_use({"input": {"tool": READ, "arguments": WITH}}, SHAPE, use(READ)),
    wrong_use({"params": {"name": "read_file", "arguments": WITH}}, SHAPE, use(READ)),
    wrong_use({"tool_call": {"name": "read_file", "arguments": WITH}}, SHAPE, use(READ)),
    wrong_use({"name": "use_tool", "arguments": {"tool": READ, "arguments": WITH}}, SHAPE, use(READ)),
    wrong_use({"params": {"name": "use_tool", "arguments": {"tool": READ, "arguments": WITH}}}, SHAPE, use(READ)),
    wrong_use({"tool": "open_toolbox", "arguments": {"toolbox": "dev"}}, SHAPE, opening(toolbox="dev")),
    wrong_use({"tool": {"toolbox": "dev", "server": "workbench", "tool": "open_toolbox"}, "arguments": {"toolbox": "dev"}}, "Server 'workbench' not found in toolbox 'dev'", opening(toolbox="dev")),
    wrong_open({"arguments": {"toolbox": "dev"}}, NO_TOOLBOX, opening(toolbox="dev")),
    wrong_open({"params": {"name": "open_toolbox", "arguments": {"query": "read"}}}, NO_TOOLBOX, opening(toolbox="*", query="read")),
]  # fmt: skip
PARTS = [
    wrong_use({"tool": {"toolbox": "dev", "server": "filesystem", "name": "read_file"}}, MISSING.format("tool"), use(READ, {})),
    wrong_use({"tool": {"toolbox_name": "dev", "source_server": "filesystem", "name": "read_file"}}, MISSING.format("toolbox"), use(READ, {})),
    wrong_use({"tool": {"toolbox": "dev", "source_server": "filesystem", "tool": "read_file"}}, MISSING.format("server"), use(READ, {})),
    wrong_use({"tool": {"toolbox": "dev", "tool": "read_file"}, "arguments": WITH}, MISSING.format("server"), use(READ)),
    wrong_use({"tool": {"server": "filesystem", "tool": "read_file"}}, MISSING.format("toolbox"), use(READ, {})),
    wrong_use({"tool": {"tool": "read_query"}}, MISSING.format("toolbox"), use(QUERY, {})),
    wrong_use({"tool": {"toolbox": "data", "server": "", "tool": "read_query"}}, "Invalid tool identifier: server cannot be empty", use(QUERY, {})),
    wrong_use({"tool": {"toolbox": "data", "server": None, "tool": "read_query"}}, "Invalid tool identifier: server must be a string", use(QUERY, {})),
    wrong_use({"tool": {"toolbox": "dev", "server": "filesystem"}}, MISSING.format("tool"), "Available tools: 'read_file', 'write_file', 'edit_file', 'mark-dev'", opening(toolbox="dev")),
    wrong_use({"tool": {"tool": "echo"}}, MISSING.format("toolbox"), "2 calls match:", *(use(one, {}) for one in ECHOES)),
    wrong_use({"toolbox": "dev"}, SHAPE, opening(toolbox="dev")),
    wrong_use({"query": "read a file"}, SHAPE, opening(toolbox="*", query="read a file")),
    wrong_use({"tool": "send_mail"}, SHAPE, BOXES),
    wrong_use({"tool": "raed_file"}, SHAPE, "Did you mean 'read_file' in server 'filesystem' (toolbox 'dev')?", BOXES),
]  # fmt: skip
PLACES = [
    wrong_use({"tool": {**READ, "server": "git"}}, "Tool 'read_file' not found in server 'git' (toolbox 'dev')", "'read_file' is in server 'filesystem' (toolbox 'dev').", use(READ, {})),
    wrong_use({"tool": {**READ, "server": "files"}}, "Server 'files' not found in toolbox 'dev'", "Did you mean 'filesystem'? Available servers: 'filesystem', 'git'", use(READ, {})),
    wrong_use({"tool": {**READ, "toolbox": "production"}}, "Toolbox 'production' not found", BOXES, use(READ, {})),
    wrong_use({"tool": {**QUERY, "toolbox": "dev"}, "arguments": WITH}, "Server 'sqlite' not found in toolbox 'dev'", "'read_query' is in server 'sqlite' (toolbox 'data').", use(QUERY)),
    wrong_use({"tool": {**QUERY, "server": "knowledge-graph"}}, "Tool 'read_query' not found in server 'knowledge-graph' (toolbox 'data')", "'read_query' is in server 'sqlite' (toolbox 'data').", use(QUERY, {})),
    wrong_use({"tool": {"toolbox": "sqlite", "server": "data", "tool": "read_query"}}, "Toolbox 'sqlite' not found", use(QUERY, {})),
    wrong_use({"tool": {**READ, "toolbox": "Dev"}}, "Toolbox 'Dev' not found", f"Did you mean 'dev'? {BOXES}", use(READ, {})),
    wrong_use({"tool": {**READ, "server": "FileSystem"}}, "Server 'FileSystem' not found in toolbox 'dev'", use(READ, {})),
    wrong_use({"tool": {**READ, "tool": "readFile"}}, "Tool 'readFile' not found in server 'filesystem' (toolbox 'dev')", use(READ, {})),
    wrong_use({"tool": {**READ, "tool": "read-file"}}, "Tool 'read-file' not found in server 'filesystem' (toolbox 'dev')", use(READ, {})),
    wrong_use({"tool": {"toolbox": "data", "server": "knowledge_graph", "tool": "search_nodes"}}, "Server 'knowledge_graph' not found in toolbox 'data'", use(NODES, {})),
    wrong_use({"tool": {**READ, "tool": "echo"}}, "Tool 'echo' not found in server 'filesystem' (toolbox 'dev')", *(use(one, {}) for one in ECHOES)),
    wrong_use({"tool": {**READ, "tool": "raed_file"}}, "Tool 'raed_file' not found in server 'filesystem' (toolbox 'dev')", "Did you mean 'read_file'? Available tools: 'read_file', 'write_file', 'edit_file', 'mark-dev'"),
    wrong_use({"tool": {**READ, "tool": "delete_file"}}, "Tool 'delete_file' not found in server 'filesystem' (toolbox 'dev')", "Available tools: 'read_file', 'write_file', 'edit_file', 'mark-dev'"),
    wrong_use({"tool": {**QUERY, "tool": "drop_table"}}, "Tool 'drop_table' not found in server 'sqlite' (toolbox 'data')", "Available tools: 'read_query', 'describe_table', 'mark-data'"),
    wrong_use({"tool": {"toolbox": "ops", "server": "kube", "tool": "run"}}, "Tool 'run' not found in server 'kube' (toolbox 'ops')", "Available tools: 'rollout', 'echo', 'mark-ops'"),
    wrong_use({"tool": {**READ, "tool": "filesystem/read_file"}}, "Tool 'filesystem/read_file' not found in server 'filesystem' (toolbox 'dev')", use(READ, {})),
    wrong_use({"tool": {**READ, "tool": "dev__filesystem__read_file"}}, "Tool 'dev__filesystem__read_file' not found in server 'filesystem' (toolbox 'dev')", RENAMED, use(READ, {})),
]  # fmt: skip
JOINED = [
    wrong_use({"tool": name, "arguments": WITH}, SHAPE, use(READ))
    for name in (
        *("dev/filesystem/read_file", "dev.filesystem.read_file", "dev:filesystem:read_file", "filesystem/read_file"),
        *("filesystem.read_file", "filesystem:read_file", "dev/read_file", "mcp__filesystem__read_file"),
        *("mcp__workbench__dev__filesystem__read_file", "filesystem__read_file", "dev_filesystem_read_file"),
        *("dev::filesystem::read_file", "filesystem-read-file", "Dev/Filesystem/readFile", "read_file"),
        *("functions.read_file", "dev|filesystem|read_file", "filesystem > read_file", "read_file()"),
    )
]
OLD = [
    wrong_use({"tool": name, "arguments": WITH}, SHAPE, RENAMED, use(READ))
    for name in ("filesystem_read_file", "dev__filesystem_read_file", "dev__filesystem__read_file")
] + [
    wrong_use({"toolbox_name": "dev", "tool_name": "dev__filesystem__read_file", "arguments": WITH}, SHAPE, RENAMED, use(READ)),
    native("dev__filesystem__read_file", WITH, RENAMED, use(READ)),
    Mistake("workbench_use_tool", {"tool": READ}, "Tool 'workbench_use_tool' not found: it is called use_tool", (RENAMED, use(READ, {}))),
    Mistake("workbench_open_toolbox", {"toolbox_name": "dev"}, "Tool 'workbench_open_toolbox' not found: it is called open_toolbox", (RENAMED, opening(toolbox="dev"))),
]  # fmt: skip
NATIVES = [
    native("read_file", WITH, use(READ)),
    native("read_query", None, use(QUERY, {})),
    native("searchNodes", WITH, use(NODES)),
    native("search_nodes", WITH, use(NODES)),
    native("sqlite.read_query", WITH, use(QUERY)),
    native("mcp__sqlite__read_query", WITH, use(QUERY)),
    native("echo", WITH, *(use(one) for one in ECHOES)),
    native("call_tool", {"name": "read_file", "arguments": WITH}, use(READ)),
    native("call_tool", {"tool": READ, "arguments": WITH}, use(READ)),
    native("execute_tool", {"server": "sqlite", "tool": "read_query", "params": WITH}, use(QUERY)),
    native("useTool", {"tool": READ, "arguments": WITH}, use(READ)),
    native("search_tools", {"query": "read a file"}, opening(toolbox="*", query="read a file")),
    native("search_tools", {"query": "read", "toolbox": "dev"}, opening(toolbox="dev", query="read")),
    native("list_tools", {"toolbox": "data"}, opening(toolbox="data")),
    native("list_tools", {"server": "sqlite"}, opening(toolbox="data")),
    native("list_tools", {}, BOXES),
    native("list_toolboxes", {}, BOXES),
    native("describe_tool", {"name": "read_query"}, opening(toolbox="data", tools=["read_query"])),
    native("get_tool_schema", {"toolbox": "dev", "tool": "read_file"}, opening(toolbox="dev", tools=["read_file"])),
    native("mcp__workbench__use_tool", {"tool": READ, "arguments": WITH}, use(READ)),
    native("functions.use_tool", {"tool": READ, "arguments": WITH}, use(READ)),
    native("workbench.open_toolbox", {"toolbox": "dev"}, opening(toolbox="dev")),
    native("dev", {}, opening(toolbox="dev")),
    native("sqlite", {}, opening(toolbox="data")),
    native("sqlite", {"tool": "read_query", "arguments": WITH}, use(QUERY)),
    native("data", {"query": "read a table"}, opening(toolbox="data", query="read a table")),
    native("read_file", [WITH], use(READ)),
    native("read_file", [1], BOXES),
    native("nonsense", {}, BOXES),
    native("raed_file", {}, "Did you mean 'read_file' in server 'filesystem' (toolbox 'dev')?", BOXES),
]  # fmt: skip
OPENS = [
    wrong_open({"query": "read a file"}, NO_TOOLBOX, opening(toolbox="*", query="read a file")),
    wrong_open({"toolbox_name": "dev"}, NO_TOOLBOX, "The parameter is called 'toolbox'.", opening(toolbox="dev")),
    wrong_open({"name": "dev"}, NO_TOOLBOX, opening(toolbox="dev")),
    wrong_open({"server": "sqlite"}, NO_TOOLBOX, opening(toolbox="data")),
    wrong_open({"tools": ["read_query"]}, NO_TOOLBOX, opening(toolbox="data", tools=["read_query"])),
    wrong_open({}, NO_TOOLBOX, BOXES),
    wrong_open({"toolbox": ["dev"]}, "Invalid parameters: toolbox must be a string", opening(toolbox="dev")),
    wrong_open({"toolbox": {"name": "dev"}}, "Invalid parameters: toolbox must be a string", opening(toolbox="dev")),
    wrong_open({"toolboxes": ["dev", "data"]}, NO_TOOLBOX, "2 calls match:", opening(toolbox="dev"), opening(toolbox="data")),
    wrong_open({"toolbox": "dev", "tools": [READ]}, "Invalid parameters: tools must be a list of strings", opening(toolbox="dev", tools=["read_file"])),
    wrong_open("dev", NO_TOOLBOX, opening(toolbox="dev")),
    wrong_open({"toolbox": "DEV"}, "Toolbox 'DEV' not found", opening(toolbox="dev")),
    wrong_open({"toolbox": "sqlite"}, "Toolbox 'sqlite' not found", opening(toolbox="data")),
    wrong_open({"toolbox": "dev/filesystem"}, "Toolbox 'dev/filesystem' not found", opening(toolbox="dev")),
    wrong_open({"toolbox": "read_query"}, "Toolbox 'read_query' not found", opening(toolbox="data", tools=["read_query"])),
    wrong_open({"toolbox": "all", "query": "read"}, "Toolbox 'all' not found", opening(toolbox="*", query="read")),
    wrong_open({"toolbox": "nothing"}, "Toolbox 'nothing' not found", BOXES),
    wrong_open({"toolbox": "dev", "search": "read"}, UNKNOWN_KEY.format("search"), opening(toolbox="dev", query="read")),
    wrong_open({"toolbox": "dev", "server": "filesystem"}, UNKNOWN_KEY.format("server"), opening(toolbox="dev")),
    wrong_open({"toolbox": "dev", "tool": "read_file"}, UNKNOWN_KEY.format("tool"), opening(toolbox="dev", tools=["read_file"])),
    wrong_open({"toolbox": "dev", "tools": "read_file"}, "Invalid parameters: tools must be a list of strings", opening(toolbox="dev", tools=["read_file"])),
    wrong_open({"toolbox": "dev", "tools": ["readFile"]}, "Tool 'readFile' not found in toolbox 'dev'", opening(toolbox="dev", tools=["read_file"])),
    wrong_open({"toolbox": "dev", "tools": ["read_query"]}, "Tool 'read_query' not found in toolbox 'dev'", opening(toolbox="data", tools=["read_query"])),
    wrong_open({"toolbox": "dev", "detail": "Signatures"}, "Invalid parameters: detail must be one of auto, full, signature", opening(toolbox="dev", detail="signature")),
    wrong_open({"toolbox": "*"}, "Invalid parameters: query is missing", BOXES),
    wrong_open({"tool": READ, "arguments": WITH}, NO_TOOLBOX, use(READ)),
]  # fmt: skip
MISTAKES = [*SHAPES, *WRAPPED, *PARTS, *PLACES, *JOINED, *OLD, *NATIVES, *OPENS]


def toolboxes(log: Path | None = None) -> dict[str, dict[str, Any]]:
    files = rogue("ok", "read_file", "write_file", "edit_file", HIDDEN, "mark-dev", log=log, toolFilters=["!" + HIDDEN])
    return {
        "dev": {"filesystem": files, "git": rogue("ok", "git_commit", "mark-git", log=log)},
        "data": {
            "sqlite": rogue("ok", "read_query", "describe_table", "mark-data", log=log),
            "knowledge-graph": rogue("ok", "searchNodes", "echo", "mark-graph", log=log),
        },
        "ops": {"kube": rogue("ok", "rollout", "echo", "mark-ops", log=log)},
    }


MARKS = {
    "filesystem": "mark-dev",
    "git": "mark-git",
    "sqlite": "mark-data",
    "knowledge-graph": "mark-graph",
    "kube": "mark-ops",
}


@pytest.fixture(scope="module", params=["handshake", "modern"])
def wire(
    request: pytest.FixtureRequest, shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Wire]:
    config = write_config(tmp_path_factory.mktemp("mistakes"), toolboxes())
    with lasting(shared_loop, serving(config, era=request.param)) as running:
        for toolbox in toolboxes():
            shared_loop.run(running.open(toolbox))
        yield running


def shown(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that an answer shows, as they stand there."""
    sends = [one.removeprefix("Send: ").partition(" ") for one in text.splitlines() if one.startswith("Send: ")]
    return [(name, json.loads(arguments)) for name, _, arguments in sends]


async def test_every_mistake_is_answered_with_the_reason_and_the_call_to_send(wire: Wire):
    assert len(MISTAKES) >= 60
    for mistake in MISTAKES:
        text = error_of(await wire.call(mistake.name, mistake.given))
        found = text.splitlines()
        assert text.startswith(mistake.reason), mistake
        assert set(mistake.lines) <= set(found), (mistake, text)
        wanted = [one for one in mistake.lines if one.startswith("Send: ")]
        assert [one for one in found if one.startswith("Send: ")] == wanted, mistake
        assert (RENAMED in found) == (RENAMED in mistake.lines), mistake
        assert HIDDEN not in text, mistake


async def test_every_call_that_is_shown_works(wire: Wire):
    for mistake in MISTAKES:
        for name, arguments in shown(error_of(await wire.call(mistake.name, mistake.given))):
            result = await wire.call(name, arguments)
            assert not result.get("isError"), (mistake, result)
            if name == "use_tool":
                echo, tool = heard(result), arguments["tool"]
                assert (echo["name"], echo["arguments"]) == (tool["tool"], arguments["arguments"]), mistake
                assert wire.era == "modern" or echo["argv"][-1] == MARKS[tool["server"]], mistake


# -- in dynamic mode

FORMAT = "Error: Invalid tool name format '{}'. Expected format: {{toolbox}}__{{server}}__{{tool}} (note: double underscores between all components)"
DYNAMIC = [
    ("read_file", WITH, FORMAT, ["Call: dev__filesystem__read_file"]),
    ("dev/filesystem/read_file", WITH, FORMAT, ["Call: dev__filesystem__read_file"]),
    ("dev__Filesystem__readFile", WITH, "Error: Tool name '{}' not found", ["Call: dev__filesystem__read_file"]),
    ("filesystem_read_file", WITH, FORMAT, ["Call: dev__filesystem__read_file", "Tool names changed in 0.5.0: see docs/migration.md"]),
    ("read_query", WITH, FORMAT, [use(QUERY)]),
    ("data__sqlite__read_query", WITH, "Error: Tool name '{}' not found", [use(QUERY)]),
    ("search_tools", {"query": "read"}, FORMAT, [opening(toolbox="*", query="read")]),
    ("call_tool", {"name": "read_query", "arguments": WITH}, FORMAT, [use(QUERY)]),
    ("list_toolboxes", {}, FORMAT, [BOXES]),
    ("dev__filesystem__delete_file", {}, "Error: Tool name '{}' not found", ["Not open: data, ops. Call open_toolbox first."]),
    ("dev__filesystem__raed_file", {}, "Error: Tool name '{}' not found", ["Did you mean 'dev__filesystem__read_file'? Not open: data, ops. Call open_toolbox first."]),
]  # fmt: skip


async def test_in_dynamic_mode_a_mistake_gets_the_joined_name_or_the_call_where_the_toolbox_is_not_open(tmp_path: Path):
    """The catalog on disk knows all tools: another client opened every toolbox before."""
    config = write_config(tmp_path, toolboxes(), toolMode="dynamic")
    async with serving(config) as before:
        for toolbox in toolboxes():
            await before.open(toolbox)
    async with serving(config) as wire:
        await wire.open("dev")
        for name, given, reason, lines in DYNAMIC:
            text = error_of(await wire.call(name, given))
            assert text.splitlines() == [reason.format(name), *lines], name
            for called, arguments in shown(text):
                assert not (await wire.call(called, arguments)).get("isError"), name
            for joined in (one.removeprefix("Call: ") for one in lines if one.startswith("Call: ")):
                assert heard(await wire.call(joined, given))["arguments"] == given


# -- what is known, and what is not said


async def test_what_the_catalog_on_disk_knows_is_enough_and_nothing_is_started_for_the_help(tmp_path: Path):
    log = tmp_path / "rogue.log"
    config = write_config(tmp_path, toolboxes(log))
    async with serving(config) as before:
        for toolbox in toolboxes():
            await before.open(toolbox)
    log.unlink()
    async with serving(config) as wire:
        for mistake in (*SHAPES, *WRAPPED, *JOINED, *OLD, *NATIVES):
            text = error_of(await wire.call(mistake.name, mistake.given))
            assert set(mistake.lines) <= set(text.splitlines()), (mistake, text)
        assert read_log(log) == []


async def test_a_call_to_a_server_that_never_listed_is_corrected_by_the_configured_names(tmp_path: Path):
    async with serving(write_config(tmp_path, toolboxes())) as wire:
        for given in (
            READ,
            {"tool": {**READ, "toolbox": "Dev"}},
            {"tool": {"toolbox_name": "dev", "server": "filesystem", "name": "read_file"}},
        ):
            assert error_of(await wire.call("use_tool", given)).splitlines()[-1] == use(READ, {})
        text = error_of(await wire.call("use_tool", {"tool": "dev/filesystem/read_file"}))
        assert shown(text) == []


async def test_a_tool_that_a_filter_hides_is_named_by_no_answer(wire: Wire):
    """Not even to who knows its name: the answer is that of any name that does not exist."""
    for name, given in (
        ("use_tool", {"tool": {**READ, "tool": HIDDEN}}),
        ("use_tool", {"tool": "dev/filesystem/" + HIDDEN}),
        ("use_tool", {"tool": {"tool": HIDDEN}}),
        (HIDDEN, {}),
        ("open_toolbox", {"toolbox": "dev", "tools": [HIDDEN]}),
        ("open_toolbox", {"toolbox": HIDDEN}),
    ):
        text = error_of(await wire.call(name, given))
        assert shown(text) == [], text
        assert HIDDEN not in "".join(text.splitlines()[1:]), text
    for near in ("format_dsik", "formatDisk", "FORMAT_DISK"):
        assert HIDDEN not in error_of(await wire.call("use_tool", {"tool": {**READ, "tool": near}}))


async def test_long_arguments_are_not_repeated(wire: Wire):
    given = {"nonce": "n" * 3000}
    text = error_of(await wire.call("use_tool", {**READ, "arguments": given}))
    expected = (
        f'Send: use_tool {{"tool":{json.dumps(READ, separators=(",", ":"))},"arguments":<your arguments, unchanged>}}'
    )
    assert text.splitlines()[-1] == expected
    assert len(text) < 400


@pytest.mark.parametrize(
    "given",
    [
        {**READ, "arguments": WITH, "reason": "to see"},
        {"tool": READ, "payload": WITH},
        {"tool": READ, "arguments": "text"},
        {"tool": READ, "arguments": WITH, "nonce": "8"},
        {"tool": {**READ, "nonce": "7"}, "nonce": "8"},
        {"tool": {**READ, "server": 5}},
        {"tool": {**READ, "tool": "nothing_of_the_kind"}},
    ],
)
async def test_no_call_is_shown_that_would_leave_out_what_was_given(wire: Wire, given: dict[str, Any]):
    assert shown(error_of(await wire.call("use_tool", given))) == []
