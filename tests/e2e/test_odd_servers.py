"""Odd definitions among good ones, and output that is not an object: official clients through the workbench."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from tests.support.configs import write_config
from tests.support.definitions import KINDS, oddities
from tests.support.typescript import Play, Player, Scene, play, workbench_environment
from tests.support.wire import environment, serving, use_params

Json = dict[str, Any]
Surface = Literal["proxy", "dynamic", "toolbox", "server"]

SERVER = Path(__file__).parents[1] / "peers" / "odd_server.py"
LISTS = {
    "tools": "listTools",
    "prompts": "listPrompts",
    "resources": "listResources",
    "templates": "listResourceTemplates",
}
TYPESCRIPT = [Player("ts1"), Player("ts2"), Player("ts2", "auto")]
PYTHON = ["legacy", "auto"]
NATIVE: list[Surface] = ["dynamic", "toolbox"]

ITEMS = {"type": "array", "items": {"type": "integer"}}
EITHER = {"anyOf": [{"$ref": "#/$defs/count"}, {"type": "null"}], "$defs": {"count": {"type": "object"}}}
TOOLS: dict[str, tuple[Json | None, Any]] = {
    "numbers": (ITEMS, [1, 2]),
    "either": (EITHER, {"count": 1}),
    "nothing": (EITHER, None),
    "text": (None, "just text"),
    "record": ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}),
    "foreign": ({"anyOf": [{"properties": {"a": {"pattern": "(?P<letter>a)"}}}]}, {"a": "a"}),
}
"""Output schemas, and the structured content that a tool answers."""
WRAPPED = {"numbers", "either", "nothing", "text"}


def entry(folder: Path, era: str, content: Json) -> Json:
    file = folder / "definitions.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return {"command": sys.executable, "args": ["-SE", str(SERVER), era, str(file)]}


def odd_content() -> Json:
    return {kind.method: {kind.member: oddities(kind)} for kind in KINDS}


def output_content() -> Json:
    tools = [
        {"name": name, "inputSchema": {"type": "object"}, **({"outputSchema": schema} if schema else {})}
        for name, (schema, _) in TOOLS.items()
    ]
    text = {"type": "text", "text": "told"}
    results = {name: {"content": [text], "structuredContent": value} for name, (_, value) in TOOLS.items()}
    return {"tools/list": {"tools": tools}, "tools/call": results}


def command(folder: Path, server: Json, surface: Surface) -> list[str]:
    """How the workbench is started in front of a server."""
    mode = "dynamic" if surface == "dynamic" else "proxy"
    config = write_config(folder, {"dev": {"odd": server}}, toolMode=mode)
    chosen = {"toolbox": ["--toolbox", "dev"], "server": ["--toolbox", "dev", "--server", "odd"]}.get(surface, [])
    return [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), *chosen]


@asynccontextmanager
async def python_client(command: list[str], folder: Path, mode: str) -> AsyncIterator[Client]:
    program = StdioServerParameters(command=command[0], args=command[1:], env=environment(folder / "home"))
    async with Client(stdio_client(program), mode=mode) as client:
        yield client


def open_step() -> Json:
    return {"do": "callTool", "params": {"name": "open_toolbox", "arguments": {"toolbox": "dev"}}}


def typescript(player: Player, command: list[str], steps: dict[str, Json], folder: Path) -> Play:
    return play(Scene(player, command, steps, env=workbench_environment(folder)), folder)


# -- odd definitions


def test_a_client_rejects_the_whole_list_of_the_server_itself(tmp_path: Path):
    server = entry(tmp_path, "handshake", odd_content())
    played = typescript(
        Player("ts1"), [server["command"], *server["args"]], {name: {"do": do} for name, do in LISTS.items()}, tmp_path
    )
    assert all("error" in played[name] for name in LISTS)


@pytest.mark.parametrize("surface", NATIVE)
@pytest.mark.parametrize("player", TYPESCRIPT, ids=str)
def test_typescript_clients_accept_every_list_with_odd_definitions_in_it(
    player: Player, surface: Surface, tmp_path: Path
):
    steps = {"open": open_step()} if surface == "dynamic" else {}
    steps |= {name: {"do": do} for name, do in LISTS.items()}
    played = typescript(
        player, command(tmp_path, entry(tmp_path, "handshake", odd_content()), surface), steps, tmp_path
    )
    for name, kind in zip(LISTS, KINDS, strict=True):
        assert len(played.result(name)[kind.member]) > len(oddities(kind)) // 2


@pytest.mark.parametrize("surface", NATIVE)
@pytest.mark.parametrize("mode", PYTHON)
async def test_python_clients_accept_every_list_with_odd_definitions_in_it(mode: str, surface: Surface, tmp_path: Path):
    started = command(tmp_path, entry(tmp_path, "handshake", odd_content()), surface)
    async with python_client(started, tmp_path, mode) as client:
        if surface == "dynamic":
            await client.call_tool("open_toolbox", {"toolbox": "dev"})
        tools, prompts = await client.list_tools(), await client.list_prompts()
        resources, templates = await client.list_resources(), await client.list_resource_templates()
        listed = [tools.tools, prompts.prompts, resources.resources, templates.resource_templates]
        assert all(len(found) > len(oddities(kind)) // 2 for found, kind in zip(listed, KINDS, strict=True))


async def test_what_is_withheld_is_named_with_a_reason(tmp_path: Path):
    content = {"tools/list": {"tools": [{"name": "good"}, {"name": "bad", "inputSchema": {"type": "string"}}]}}
    started = command(tmp_path, entry(tmp_path, "handshake", content), "proxy")
    async with python_client(started, tmp_path, "legacy") as client:
        result = await client.call_tool("open_toolbox", {"toolbox": "dev"})
        opened = json.loads(getattr(result.content[0], "text", ""))
    assert [tool["inputSchema"] for tool in opened["tools"]] == [{"type": "object"}]
    reason = "official clients refuse its inputSchema.type"
    assert opened["tools_withheld"] == [{"server": "odd", "name": "bad", "reason": reason}]


async def test_one_server_as_it_is_keeps_even_what_clients_refuse(tmp_path: Path):
    started = command(tmp_path, entry(tmp_path, "handshake", {"tools/list": {"tools": [{"name": "t"}]}}), "server")
    async with python_client(started, tmp_path, "legacy") as client:
        with pytest.raises((MCPError, ValueError)):
            await client.list_tools()


# -- output that is not an object


def named(surface: Surface, tool: str) -> Json:
    """The params of a call of a tool on a surface."""
    if surface == "proxy":
        return {"name": "use_tool", "arguments": use_params("dev", "odd", tool)}
    return {"name": f"dev__odd__{tool}" if surface == "dynamic" else tool, "arguments": {}}


def seen(tool: str, *, modern: bool) -> Any:
    """The structured content that a client of an era gets."""
    value = TOOLS[tool][1]
    return {"result": value} if tool in WRAPPED and not modern else value


@pytest.mark.parametrize("surface", ["proxy", "dynamic", "toolbox", "server"])
@pytest.mark.parametrize("player", TYPESCRIPT, ids=str)
def test_typescript_clients_accept_output_of_a_modern_server_that_is_not_an_object(
    player: Player, surface: Surface, tmp_path: Path
):
    steps = {"open": open_step()} if surface in ("proxy", "dynamic") else {}
    steps["list"] = {"do": "listTools"}
    steps |= {tool: {"do": "callTool", "params": named(surface, tool)} for tool in TOOLS}
    server = entry(tmp_path, "modern", output_content())
    played = typescript(player, command(tmp_path, server, surface), steps, tmp_path)
    for tool in TOOLS:
        result = played.result(tool)
        assert result["structuredContent"] == seen(tool, modern=player.mode == "auto")
        assert result["content"] == [{"type": "text", "text": "told"}]


@pytest.mark.parametrize("surface", ["proxy", "dynamic", "toolbox", "server"])
@pytest.mark.parametrize("mode", PYTHON)
async def test_python_clients_accept_output_of_a_modern_server_that_is_not_an_object(
    mode: str, surface: Surface, tmp_path: Path
):
    started = command(tmp_path, entry(tmp_path, "modern", output_content()), surface)
    async with python_client(started, tmp_path, mode) as client:
        if surface == "dynamic":
            await client.call_tool("open_toolbox", {"toolbox": "dev"})
        for tool in TOOLS:  # it asks for the list by itself, after the first call
            params = named(surface, tool)
            result = await client.call_tool(params["name"], params["arguments"])
            assert result.structured_content == seen(tool, modern=mode == "auto")


async def test_structured_content_of_a_handshake_server_stays_untouched(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"odd": entry(tmp_path, "handshake", output_content())}})
    async with serving(config) as wire:
        assert (await wire.use("dev", "odd", "text"))["structuredContent"] == "just text"


@pytest.mark.parametrize(("mode", "schema"), [("legacy", "wrapped"), ("auto", "natural")])
async def test_full_entries_have_the_output_schema_that_results_follow(mode: str, schema: str, tmp_path: Path):
    started = command(tmp_path, entry(tmp_path, "modern", output_content()), "proxy")
    async with python_client(started, tmp_path, mode) as client:
        result = await client.call_tool("open_toolbox", {"toolbox": "dev", "tools": ["numbers"]})
        (shown,) = json.loads(getattr(result.content[0], "text", ""))["tools"]
    wrapped = {"type": "object", "properties": {"result": ITEMS}, "required": ["result"]}
    assert shown["outputSchema"] == (wrapped if schema == "wrapped" else ITEMS)
