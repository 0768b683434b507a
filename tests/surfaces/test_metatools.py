"""The two tools that every client sees: their definitions, the instructions, and names from before 0.11.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.config.model import Config
from mcp_workbench.errors import Overloaded, ServerRefused
from mcp_workbench.serve.session import Session
from mcp_workbench.surfaces.descriptions import definitions, instructions
from mcp_workbench.surfaces.dynamic import DynamicSurface
from mcp_workbench.surfaces.failures import REFUSAL_DATA_BYTES
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.workbench import Workbench
from tests.support.configs import read_log, rogue
from tests.support.library import DeafLine
from tests.support.memory import MemoryServer, serving
from tests.surfaces.benches import (
    AUDIENCE,
    HANDSHAKE,
    MODERN,
    answer,
    call,
    config_of,
    error_of,
    knowing,
    listed,
    running,
)

KNOWN = {"dev": {"fs": ["read", "write"], "db": ["query"]}, "ops": {"fs": ["read"]}}
READ = {"toolbox": "dev", "server": "fs", "tool": "read"}
SEND_READ = 'Send: use_tool {"tool":{"toolbox":"dev","server":"fs","tool":"read"},"arguments":{}}'
MEANT_FS = "Did you mean 'fs'? Available servers: 'fs', 'db'\n'read' is in server 'fs' (toolbox 'dev')."
MEANT_READ = "Did you mean 'read'? Available tools: 'read', 'write'"
MIGRATION = "Tool names changed in 0.11.0: see docs/migration.md"


def schema_of(config: Config, index: int) -> dict[str, Any]:
    return json.loads(bytes(definitions(config)[index]))["inputSchema"]


# -- definitions


async def test_the_list_is_the_same_bytes_every_time_and_in_both_eras():
    async with knowing(KNOWN) as workbench:
        first, second = ProxySurface(workbench), ProxySurface(knowing(KNOWN))
        lists = {await answer(one, "tools/list", caller) for one in (first, second) for caller in (HANDSHAKE, MODERN)}
        assert len(lists) == 1
        await call(first, "open_toolbox", {"toolbox": "dev"})
        assert await answer(first, "tools/list") == await answer(second, "tools/list")


async def test_there_are_two_tools_and_opening_is_read_only():
    opener, user = await listed(ProxySurface(knowing(KNOWN)))
    assert (opener["name"], user["name"]) == ("open_toolbox", "use_tool")
    assert opener["annotations"] == {"readOnlyHint": True}
    assert "readOnlyHint" not in user.get("annotations", {})


@pytest.mark.parametrize("known", [KNOWN, {}, {"o": {"s": []}}])
def test_the_schemas_are_valid_json_schema(known: Any):
    for raw in definitions(config_of(known)):
        jsonschema.Draft202012Validator.check_schema(json.loads(bytes(raw))["inputSchema"])


def test_the_schema_of_open_toolbox_names_the_toolboxes_and_takes_nothing_else():
    schema = schema_of(config_of(KNOWN), 0)
    assert schema["properties"]["toolbox"]["enum"] == ["dev", "ops", "*"]
    check = jsonschema.Draft202012Validator(schema).is_valid
    assert check({"toolbox": "dev"})
    assert not any(map(check, [{}, {"toolbox": "x"}, {"toolbox": 5}, {"toolbox": "dev", "extra": 1}]))


def test_without_toolboxes_the_schema_is_still_one_that_can_be_met():
    schema = schema_of(config_of({}), 0)
    assert "enum" not in schema["properties"]["toolbox"]  # an empty enum is refused by many hosts


def test_the_schema_of_use_tool_takes_what_the_workbench_takes():
    check = jsonschema.Draft202012Validator(schema_of(config_of(KNOWN), 1)).is_valid
    tool = {"toolbox": "dev", "server": "fs", "tool": "read"}
    assert check({"tool": tool})
    assert check({"tool": tool, "arguments": {"a": 1}})
    for wrong in (
        {},
        {"tool": "dev__fs__read"},
        {"tool": tool | {"x": 1}},
        {"tool": tool, "x": 1},
        {"tool": tool | {"server": ""}},
    ):
        assert not check(wrong)
    assert not check({"tool": {"toolbox": "dev", "server": "fs"}})


def test_use_tool_says_where_its_parts_come_from_with_an_example():
    description = json.loads(bytes(definitions(config_of(KNOWN))[1]))["description"]
    for field in ("toolbox_name", "source_server", "name"):
        assert field in description
    example = json.loads(description[description.index("{") :])
    assert (example["tool"]["toolbox"], example["tool"]["server"]) == ("dev", "fs")


# -- instructions


def test_the_instructions_name_each_toolbox_its_servers_and_a_call():
    text = instructions(config_of(KNOWN))
    assert "dev (2): The toolbox dev" in text
    assert "ops (1): The toolbox ops" in text
    assert json.loads(text[text.index("{") :])["tool"]["server"] == "fs"


def test_the_toolboxes_stand_in_the_description_of_open_toolbox_too():
    assert "dev: The toolbox dev" in json.loads(bytes(definitions(config_of(KNOWN))[0]))["description"]


def test_without_toolboxes_the_file_to_edit_is_named():
    assert "/etc/workbench-config.json" in instructions(config_of({}))
    assert "/etc/workbench-config.json" in json.loads(bytes(definitions(config_of({}))[0]))["description"]


@pytest.mark.parametrize("known", [{}, {"dev": {}}])
def test_without_a_server_no_call_is_shown_as_an_example(known: Any):
    config = config_of(known)
    for text in (instructions(config), *(json.loads(bytes(raw))["description"] for raw in definitions(config))):
        assert "Example" not in text
        assert "{" not in text


def test_a_description_of_several_lines_is_one_line_of_the_list():
    config = config_of({"dev": {"fs": []}})
    toolbox = msgspec.structs.replace(config.toolboxes["dev"], description="one\n  two\x1b\n- evil (9 servers)")
    text = instructions(msgspec.structs.replace(config, toolboxes={"dev": toolbox}))
    assert "dev (1): one two\\x1b - evil (9 servers)" in text


# -- names from before 0.11.0


def sends(text: str) -> list[dict[str, Any]]:
    """The structured calls that an error shows."""
    return [json.loads(line.removeprefix("Send: use_tool ")) for line in text.splitlines() if line.startswith("Send: ")]


@pytest.mark.parametrize("name", ["db_query", "dev__db_query", "dev__db__query"])
@pytest.mark.parametrize("way", ["tools/call", "tool", "tool_name", "workbench_use_tool"])
async def test_a_historical_name_of_a_known_tool_gets_the_structured_call(name: str, way: str):
    surface = ProxySurface(knowing(KNOWN))
    match way:
        case "tools/call":
            result = await call(surface, name, {"sql": "x"})
        case "workbench_use_tool":
            result = await call(surface, way, {"toolbox_name": "dev", "tool_name": name, "arguments": {"sql": "x"}})
        case _:
            result = await call(surface, "use_tool", {way: name, "arguments": {"sql": "x"}})
    text = error_of(result)
    assert MIGRATION in text
    assert sends(text) == [{"tool": {"toolbox": "dev", "server": "db", "tool": "query"}, "arguments": {"sql": "x"}}]


STRUCTURED = {"toolbox": "dev", "server": "db", "tool": "query"}
USE = 'use_tool {"tool":{"toolbox":"dev","server":"db","tool":"query"},"arguments":{"sql":"x"}}'


@pytest.mark.parametrize("kind", [ProxySurface, DynamicSurface])
@pytest.mark.parametrize(
    ("name", "arguments", "send"),
    [
        ("workbench_use_tool", {"toolbox_name": "dev", "tool_name": "dev__db__query", "arguments": {"sql": "x"}}, USE),
        ("workbench_use_tool", {"tool": "dev__db_query", "arguments": {"sql": "x"}}, USE),
        ("workbench_use_tool", {"tool": STRUCTURED, "arguments": {"sql": "x"}}, USE),
        (
            "workbench_use_tool",
            {"tool": {"toolbox": "dev", "server": "db", "name": "query"}, "arguments": {"sql": "x"}},
            USE,
        ),
        ("workbench_open_toolbox", {"toolbox_name": "dev"}, 'open_toolbox {"toolbox":"dev"}'),
        ("workbench_open_toolbox", {"toolbox": "ops"}, 'open_toolbox {"toolbox":"ops"}'),
    ],
)
async def test_the_old_names_of_the_meta_tools_get_the_call_to_send_in_both_modes(
    kind: type[ProxySurface], name: str, arguments: dict[str, Any], send: str
):
    result = await call(kind(knowing(KNOWN)), name, arguments)
    now = name.removeprefix("workbench_")
    assert error_of(result).splitlines() == [f"Tool '{name}' not found: it is called {now}", MIGRATION, f"Send: {send}"]
    assert result["_meta"]["mcp-workbench/error"]["code"] == "unknown_tool_name"


@pytest.mark.parametrize("kind", [ProxySurface, DynamicSurface])
@pytest.mark.parametrize(
    "arguments", [{}, {"toolbox_name": "none"}, {"toolbox_name": 5}, {"tool": 5}, {"tool_name": "x"}]
)
@pytest.mark.parametrize("name", ["workbench_use_tool", "workbench_open_toolbox"])
async def test_no_call_is_shown_where_the_arguments_determine_none(
    kind: type[ProxySurface], name: str, arguments: dict[str, Any]
):
    text = error_of(await call(kind(knowing(KNOWN)), name, arguments))
    assert text.splitlines()[1] == MIGRATION
    assert "Send:" not in text


@pytest.mark.parametrize("name", ["fs_remove", "nothing", "dev__fs__", "", "🙂\n", "search_tools", "a__b__c"])
async def test_a_name_that_no_known_tool_ever_had_is_not_told_that_names_changed(name: str):
    text = error_of(await call(ProxySurface(knowing(KNOWN)), name, {}))
    assert MIGRATION not in text
    assert sends(text) == []
    assert text.splitlines()[-1] == "Available toolboxes: 'dev', 'ops'"


@pytest.mark.parametrize("name", ["db_query", "dev__db_query", "dev__db__query"])
async def test_a_historical_name_as_the_last_part_of_an_identifier_gets_the_structured_call(name: str):
    given = {"tool": {"toolbox": "dev", "server": "db", "tool": name}, "arguments": {"sql": "x"}}
    text = error_of(await call(ProxySurface(knowing(KNOWN)), "use_tool", given))
    assert MIGRATION in text.splitlines()
    assert sends(text) == [{"tool": {"toolbox": "dev", "server": "db", "tool": "query"}, "arguments": {"sql": "x"}}]


async def test_if_several_tools_had_a_name_all_are_shown_and_none_is_chosen():
    surface = ProxySurface(knowing(KNOWN))
    result = await call(surface, "fs_read", {})
    assert [sent["tool"]["toolbox"] for sent in sends(error_of(result))] == ["dev", "ops"]
    assert "toolbox" not in result["_meta"]["mcp-workbench/error"]


async def test_at_most_five_are_shown():
    surface = ProxySurface(knowing({f"box{number}": {"fs": ["read"]} for number in range(8)}))
    assert len(sends(error_of(await call(surface, "fs_read", {})))) == 5


async def test_a_tool_of_a_server_cannot_take_the_place_of_a_meta_tool():
    surface = ProxySurface(knowing({"dev": {"open": ["toolbox"], "use": ["tool"]}}))
    assert error_of(await call(surface, "use_tool", {})).startswith("Invalid tool identifier: expected an object")


# -- errors


@pytest.mark.parametrize(
    ("tool", "text", "where"),
    [
        (
            ("Dev", "fs", "read"),
            f"Toolbox 'Dev' not found\nDid you mean 'dev'? Available toolboxes: 'dev', 'ops'\n{SEND_READ}",
            {"toolbox": "Dev", "server": "fs", "tool": "read"},
        ),
        (
            ("dev", "fss", "read"),
            f"Server 'fss' not found in toolbox 'dev'\n{MEANT_FS}\n{SEND_READ}",
            {"toolbox": "dev", "server": "fss", "tool": "read"},
        ),
        (
            ("dev", "fs", "raed"),
            f"Tool 'raed' not found in server 'fs' (toolbox 'dev')\n{MEANT_READ}",
            {"toolbox": "dev", "server": "fs", "tool": "raed"},
        ),
        (("dev", "db", "zzz"), "Tool 'zzz' not found in server 'db' (toolbox 'dev')\nAvailable tools: 'query'", None),
    ],
)
async def test_what_does_not_exist_is_named_with_help_and_for_programs(
    tool: tuple[str, str, str], text: str, where: Any
):
    given = dict(zip(("toolbox", "server", "tool"), tool, strict=True))
    result = await call(ProxySurface(knowing(KNOWN)), "use_tool", {"tool": given})
    assert error_of(result) == text
    meta = result["_meta"]["mcp-workbench/error"]
    code = meta.pop("code")
    assert code in {"toolbox_not_found", "server_not_found", "tool_not_found"}
    assert where is None or meta == where


TOOL = {"toolbox": "dev", "server": "fs", "tool": "read"}


@pytest.mark.parametrize(
    ("given", "code", "where"),
    [
        ({"tool": {"toolbox": "dev", "server": "fs"}}, "invalid_tool_identifier", ["toolbox", "server"]),
        ({"tool": TOOL | {"server": 5}}, "invalid_tool_identifier", ["toolbox", "tool"]),
        ({"tool": TOOL | {"server": ""}}, "invalid_tool_identifier", ["toolbox", "tool"]),
        ({"tool": TOOL | {"x": 1}}, "invalid_parameters", ["toolbox", "server", "tool"]),
        ({"tool": TOOL, "x": 1}, "invalid_parameters", ["toolbox", "server", "tool"]),
        ({"tool": TOOL, "arguments": [1]}, "invalid_parameters", ["toolbox", "server", "tool"]),
        ({"tool": TOOL}, "spawn_failed", ["toolbox", "server", "tool"]),
        ({"tool": "dev__fs__read"}, "invalid_tool_identifier", []),
        ({}, "invalid_tool_identifier", []),
    ],
)
async def test_every_part_that_a_call_gave_is_told_to_programs_whatever_is_wrong_with_it(
    given: Any, code: str, where: list[str]
):
    async with knowing(KNOWN) as workbench:
        result = await call(ProxySurface(workbench), "use_tool", given)
    assert result["_meta"]["mcp-workbench/error"] == {"code": code, **{part: TOOL[part] for part in where}}


@pytest.mark.parametrize(
    ("given", "where"),
    [({"toolbox": "zzz"}, {"toolbox": "zzz"}), ({"toolbox": "dev", "x": 1}, {"toolbox": "dev"}), ({"toolbox": 5}, {})],
)
async def test_the_toolbox_that_an_open_gave_is_told_to_programs(given: Any, where: dict[str, str]):
    result = await call(ProxySurface(knowing(KNOWN)), "open_toolbox", given)
    error = result["_meta"]["mcp-workbench/error"]
    assert {key: value for key, value in error.items() if key != "code"} == where


@pytest.mark.parametrize("given", [{}, {"toolbox": 5}, {"toolbox": ""}, None])
async def test_an_open_without_a_toolbox_is_told_which_there_are(given: Any):
    text = error_of(await call(ProxySurface(knowing(KNOWN)), "open_toolbox", given))
    assert text.splitlines()[-1] == "Available toolboxes: 'dev', 'ops'"


async def test_arguments_that_are_no_object_are_told_what_to_send():
    text = error_of(await call(ProxySurface(knowing(KNOWN)), "use_tool", {"tool": TOOL, "arguments": "x"}))
    assert text.splitlines() == [
        "Invalid parameters: arguments must be an object",
        'Send them as an object: {"name": "value"}.',
    ]


async def test_a_toolbox_that_does_not_exist_cannot_be_opened():
    text = error_of(await call(ProxySurface(knowing(KNOWN)), "open_toolbox", {"toolbox": "zzz"}))
    assert text == "Toolbox 'zzz' not found\nAvailable toolboxes: 'dev', 'ops'"


async def test_a_toolbox_of_which_every_server_fails_says_why_server_by_server():
    async with knowing(KNOWN) as workbench:
        text = error_of(await call(ProxySurface(workbench), "open_toolbox", {"toolbox": "dev"}))
    lines = text.splitlines()
    assert lines[0] == "Toolbox 'dev' could not be opened"
    assert [line.split(":")[0] for line in lines[1:3]] == ["- fs", "- db"]
    assert "ENOENT" in lines[1]


async def test_a_toolbox_that_could_not_be_opened_has_one_line_for_each_server(tmp_path: Path):
    """Whatever its last words are: those have several lines."""
    entry = {"command": "/bin/sh", "args": ["-c", "printf 'one\\ntwo\\nthree\\n' >&2; exit 3"]}
    async with running(tmp_path, {"dev": {"a": entry, "b": entry}}, "proxy") as workbench:
        lines = error_of(await call(ProxySurface(workbench), "open_toolbox", {"toolbox": "dev"})).splitlines()
    advice = "Start its command in a terminal to see why it ends."
    assert [line.split(":")[0] for line in lines] == ["Toolbox 'dev' could not be opened", "- a", "- b", advice]
    assert all(word in lines[1] for word in ("one", "two", "three"))


async def test_a_server_that_cannot_be_started_is_named():
    async with Workbench(config_of({"dev": {"fs": []}})) as workbench:
        tool = {"toolbox": "dev", "server": "fs", "tool": "read"}
        text = error_of(await call(ProxySurface(workbench), "use_tool", {"tool": tool}))
    assert text.startswith(
        "Failed to connect to server 'fs' in toolbox 'dev': command '/no/such/program' was not found"
    )


async def test_a_hostile_name_is_shown_on_one_line():
    given = {"toolbox": "x\n\x1b[31m\u202e" + "y" * 1000, "server": "s", "tool": "t"}
    text = error_of(await call(ProxySurface(knowing(KNOWN)), "use_tool", {"tool": given}))
    assert text.splitlines()[0].startswith("Toolbox 'x\\n\\x1b[31m\\u202eyyy")
    assert len(text) < 500


async def test_a_name_of_the_configuration_is_shown_even_where_a_variable_has_the_same_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`"env": {"NODE_ENV": "production"}` in a toolbox `production`: the text of an error starts with exactly that."""
    monkeypatch.setattr(logger.log, "redact", logger.Redactor())
    entry = rogue(env={"NODE_ENV": "production", "DB": "database"})
    async with running(tmp_path, {"production": {"database": entry}}, "proxy") as workbench:
        surface = ProxySurface(workbench)
        tool = {"toolbox": "production", "server": "database", "tool": "nothing"}
        text = error_of(await call(surface, "use_tool", {"tool": tool}))
        assert text.startswith("Tool 'nothing' not found in server 'database' (toolbox 'production')")
        sent = sends(error_of(await call(surface, "use_tool", {"tool": "production__database__echo"})))
        assert sent == [{"tool": {"toolbox": "production", "server": "database", "tool": "echo"}, "arguments": {}}]


# -- with a real server


async def test_opening_lists_and_using_calls(tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue(), "two": rogue("exit_at_start")}}, "proxy") as workbench:
        surface = ProxySurface(workbench)
        opened = json.loads((await call(surface, "open_toolbox", {"toolbox": "dev"}))["content"][0]["text"])
        assert list(opened)[:3] == ["toolbox", "description", "servers_connected"]
        assert opened["servers_connected"] == 1
        assert [failed["server"] for failed in opened["servers_failed"]] == ["two"]
        assert [tool["name"] for tool in opened["tools"]] == ["echo", "nonce"]
        tool = {"toolbox": "dev", "server": "one", "tool": "nonce"}
        result = await call(surface, "use_tool", {"tool": tool, "arguments": '{"nonce":\n"7"}'})
        assert result["content"] == [{"type": "text", "text": "7"}]


async def test_nothing_is_started_for_a_call_that_is_wrong(tmp_path: Path):
    log = tmp_path / "log"
    async with running(tmp_path, {"dev": {"one": rogue(log=log)}}, "proxy") as workbench:
        surface = ProxySurface(workbench)
        good = {"toolbox": "dev", "server": "one", "tool": "echo"}
        for wrong in (
            {"tool": good, "x": 1},
            {"tool": good, "arguments": 5},
            {"tool": good | {"server": "two"}},
            {"tool": "one_echo"},
        ):
            error_of(await call(surface, "use_tool", wrong))
        assert read_log(log) == []


@pytest.mark.parametrize("surface_of", [ProxySurface, DynamicSurface])
async def test_arguments_that_a_server_refuses_are_answered_with_its_error_and_the_signature(
    tmp_path: Path, surface_of: type[ProxySurface]
):
    toolboxes = {"dev": {"one": rogue("bad_arguments"), "two": rogue("is_error")}}
    async with running(tmp_path, toolboxes, "dynamic") as workbench:
        surface = surface_of(workbench)
        tool = {"toolbox": "dev", "server": "one", "tool": "echo"}
        expected = "Tool 'echo' in server 'one' (toolbox 'dev') failed: nonce must be a string (code -32602)\n"
        expected += "Its parameters: (nonce?: string)"
        assert error_of(await call(surface, "use_tool", {"tool": tool})) == expected
        if surface_of is DynamicSurface:
            await call(surface, "open_toolbox", {"toolbox": "dev"})
            assert error_of(await call(surface, "dev__one__echo", {})) == f"[dev/one/echo] Error: {expected}"
        own = await call(surface, "use_tool", {"tool": tool | {"server": "two"}})
        assert own["content"] == [{"type": "text", "text": "the tool itself failed"}]


async def test_what_a_server_refused_is_a_failure_and_its_code_is_told(tmp_path: Path):
    async with running(tmp_path, {"dev": {"one": rogue("rpc_error")}}, "proxy") as workbench:
        tool = {"toolbox": "dev", "server": "one", "tool": "echo"}
        result = await call(ProxySurface(workbench), "use_tool", {"tool": tool})
        assert error_of(result) == "Tool 'echo' in server 'one' (toolbox 'dev') failed: not on a Sunday (code -32050)"
        told = {"code": "server_refused", **tool, "rpc_code": -32050, "data": {"day": 7}}
        assert result["_meta"]["mcp-workbench/error"] == told


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"day":"Sunday","n":1.00}', b'"data":{"day":"Sunday","n":1.00}'),
        (b"null", b'"data":null'),
        (b"", None),
        (b'{"token":"s3cr3t-t0ken"}', None),
        (b'"%b"' % (b"x" * REFUSAL_DATA_BYTES), None),
    ],
    ids=["object", "null", "absent", "secret", "large"],
)
@pytest.mark.parametrize("surface_of", [ProxySurface, DynamicSurface])
async def test_the_data_of_a_servers_error_is_kept_word_for_word_unless_it_is_secret_or_large(
    surface_of: type[ProxySurface], data: bytes, told: bytes | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logger, "log", logger.Log(2))
    logger.log.redact.hide(["s3cr3t-t0ken"])
    server = MemoryServer("a")
    server.methods["tools/call"] = ServerRefused("not today", rpc_code=-32050, data=data)
    async with serving({"dev": {"a": server}}) as workbench:
        surface = surface_of(workbench)
        tool = {"toolbox": "dev", "server": "a", "tool": "t"}
        results = [await answer(surface, "tools/call", name="use_tool", arguments={"tool": tool})]
        if surface_of is DynamicSurface:
            await call(surface, "open_toolbox", {"toolbox": "dev"})
            results.append(await answer(surface, "tools/call", name="dev__a__t", arguments={}))
        for result in results:
            assert b'"rpc_code":-32050' in result
            assert (b'"data"' in result) == (told is not None)
            assert told is None or told in result


@pytest.mark.parametrize(
    ("name", "arguments", "text", "named"),
    [
        ("use_tool", {"tool": READ}, "Tool 'read' in server 'fs' (toolbox 'dev') failed: busy", READ),
        ("use_tool", {"tool": {"toolbox": "dev"}}, "busy", {"toolbox": "dev"}),
        ("use_tool", None, "busy", {}),
        ("open_toolbox", {"toolbox": "dev"}, "busy", {"toolbox": "dev"}),
        ("no_such", {}, "busy", {}),
        ("dev__fs__read", {}, "[dev/fs/read] Error: Tool 'read' in server 'fs' (toolbox 'dev') failed: busy", READ),
    ],
)
async def test_a_call_that_no_server_got_is_a_result_that_names_it(name: str, arguments: Any, text: str, named: Any):
    params = {"name": Raw(json.dumps(name).encode())}
    params |= {} if arguments is None else {"arguments": Raw(json.dumps(arguments).encode())}
    async with serving({"dev": {"fs": MemoryServer(tools=["read"])}}) as workbench:
        surface = DynamicSurface(workbench)
        await call(surface, "open_toolbox", {"toolbox": "dev"})
        await answer(surface, "tools/list", HANDSHAKE)
        result = json.loads(bytes(surface.refuse_call(params, Overloaded("busy"))))
    assert error_of(result).splitlines()[0] == text
    assert result["_meta"]["mcp-workbench/error"] == {"code": "overloaded", **named, "retry_after": 5}


async def test_a_client_that_declares_too_much_hears_which_call_failed():
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}, places=1) as workbench:
        workbench.at(HANDSHAKE)
        session = Session(workbench, DynamicSurface(workbench), DeafLine(), AUDIENCE)
        tool = {"toolbox": "dev", "server": "a", "tool": "t"}
        for name, arguments in (("use_tool", {"tool": tool}), ("dev__a__t", {}), ("open_toolbox", {"toolbox": "dev"})):
            params = {"name": Raw(json.dumps(name).encode()), "arguments": Raw(json.dumps(arguments).encode())}
            result = json.loads(bytes(await session.handle(MODERN, DeafLine(), "tools/call", params, {})))
            assert "different sets of capabilities already" in error_of(result)
            assert result["_meta"]["mcp-workbench/error"]["code"] == "overloaded"
            assert result["resultType"] == "complete"
            if name == "use_tool":
                assert error_of(result).startswith("Tool 't' in server 'a' (toolbox 'dev') failed: ")


def test_raw_is_what_definitions_are():
    assert all(isinstance(raw, Raw) for raw in definitions(config_of(KNOWN)))
