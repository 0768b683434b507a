"""The two tools that every client sees, and what they do.

Their definitions depend on the configuration alone, so they are the same bytes after every restart
and in both protocol eras: a host's prompt cache holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from mcp_workbench.config.model import Config, ToolboxConfig
from mcp_workbench.errors import CallFailed, ServerRefused, UnknownToolName, WorkbenchError
from mcp_workbench.identity import ToolIdentifier, tools_once_named
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown
from mcp_workbench.surfaces import results
from mcp_workbench.surfaces.arguments import OldName, corrected_call, read_open, read_use
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.workbench import Workbench

OPEN_TOOLBOX = "open_toolbox"
USE_TOOL = "use_tool"
MIGRATION = "Tool names changed in 0.11.0: see docs/migration.md"


class MetaTools:
    """`open_toolbox` and `use_tool` on one workbench."""

    def __init__(self, workbench: Workbench, *, on_opened: Callable[[str], None] = lambda _toolbox: None) -> None:
        self._workbench = workbench
        self._on_opened = on_opened
        self.definitions = definitions(workbench.config)
        self.instructions = instructions(workbench.config)

    async def call(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        """Do what one of the two is for. What is wrong with the call becomes a result."""
        try:
            if name == USE_TOOL:
                return await self.use(exchange, arguments)
            if name == OPEN_TOOLBOX:
                return await self.open(arguments)
            raise self._unknown(name, arguments)
        except WorkbenchError as error:
            return results.failure(error)

    async def use(self, exchange: Exchange, arguments: Raw) -> Raw:
        try:
            identifier, tool_arguments = read_use(arguments)
        except OldName as error:
            error.hint = self.migration_help(error.name, error.arguments)
            raise
        return await relay(self._workbench, identifier, tool_arguments, exchange)

    async def open(self, arguments: Raw) -> Raw:
        opened = await self._workbench.open(read_open(arguments))
        self._on_opened(opened.toolbox)
        return results.opened(opened)

    def migration_help(self, name: str, arguments: Raw = jsonrpc.NOTHING) -> str:
        """That names changed, and the call to send for every known tool that once had this name."""
        matches = tools_once_named(name, self._workbench.known())[: DEFAULTS.joined_matches_shown]
        return "\n".join([MIGRATION, *(f"Send: {corrected_call(match, arguments)}" for match in matches)])

    def _unknown(self, name: str, arguments: Raw) -> UnknownToolName:
        """A name from before 0.11.0, of a tool or of a meta-tool."""
        given = jsonrpc.fields(arguments) if jsonrpc.is_object(arguments) else {}
        old = given.get("tool_name", jsonrpc.NOTHING)
        if name == f"workbench_{USE_TOOL}" and jsonrpc.is_text(old):
            hint = self.migration_help(jsonrpc.text(old), given.get("arguments", jsonrpc.NOTHING))
        else:
            hint = self.migration_help(name, arguments)
        return UnknownToolName(
            f"Tool '{shown(name)}' not found: the tools here are {OPEN_TOOLBOX} and {USE_TOOL}", hint=hint
        )


async def relay(workbench: Workbench, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange) -> Raw:
    """Call a tool for a client. That it lacks a capability is told a modern client as the protocol says."""
    try:
        return await workbench.relay(identifier, arguments, exchange)
    except CallFailed as error:
        fault = error.fault
        if exchange.caller.modern and isinstance(fault, ServerRefused) and _is_missing_capability(fault):
            raise jsonrpc.RpcError(fault.rpc_code, str(fault), Raw(fault.data or b"{}")) from None
        raise


def _is_missing_capability(fault: ServerRefused) -> bool:
    return fault.rpc_code == jsonrpc.MISSING_CLIENT_CAPABILITY


def definitions(config: Config) -> tuple[Raw, Raw]:
    """The two tools."""
    return (Raw(jsonrpc.encode(_open_toolbox(config))), Raw(jsonrpc.encode(_use_tool(config))))


def instructions(config: Config) -> str:
    """What a model is told at the start: the toolboxes, and one call as an example."""
    if not config.toolboxes:
        return f"No toolboxes are configured. Add them to {config.source}."
    lines = [
        "MCP servers grouped into toolboxes. open_toolbox lists the tools of one, use_tool calls a tool.",
        "Toolboxes:",
        *(_toolbox_line(toolbox) for toolbox in config.toolboxes.values()),
        f"Example: {_example(config)}",
    ]
    return "\n".join(lines)


def _open_toolbox(config: Config) -> dict[str, Any]:
    toolbox: dict[str, Any] = {"type": "string", "enum": list(config.toolboxes)}
    if not config.toolboxes:
        toolbox = {"type": "string", "minLength": 1}
    listed = "\n".join(_toolbox_line(one) for one in config.toolboxes.values())
    return {
        "name": OPEN_TOOLBOX,
        "title": "Open toolbox",
        "description": f"List the tools of a toolbox.\n{listed or instructions(config)}",
        "inputSchema": {
            "type": "object",
            "properties": {"toolbox": toolbox},
            "required": ["toolbox"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    }


def _use_tool(config: Config) -> dict[str, Any]:
    part = {"type": "string", "minLength": 1}
    return {
        "name": USE_TOOL,
        "title": "Use tool",
        "description": (
            "Call a tool. From its open_toolbox entry: toolbox = toolbox_name, server = source_server, "
            f"tool = name; arguments as its inputSchema says.\nExample: {_example(config)}"
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool": {
                    "type": "object",
                    "properties": {"toolbox": part, "server": part, "tool": part},
                    "required": ["toolbox", "server", "tool"],
                    "additionalProperties": False,
                },
                "arguments": {"type": "object"},
            },
            "required": ["tool"],
            "additionalProperties": False,
        },
    }


def _toolbox_line(toolbox: ToolboxConfig) -> str:
    count = len(toolbox.servers)
    description = shown(" ".join(toolbox.description.split()), DEFAULTS.log_value_length)
    return f"- {shown(toolbox.name)} ({count} server{'' if count == 1 else 's'}): {description}"


def _example(config: Config) -> str:
    """A structured call whose toolbox and server are real."""
    server = next(config.servers(), None)
    identifier = ToolIdentifier(
        server.toolbox if server is not None else "dev", server.name if server is not None else "filesystem", "TOOL"
    )
    return jsonrpc.encode({"tool": identifier.params(), "arguments": {}}).decode()
