"""The two tools that every client sees, and what they do.

Their definitions depend on the configuration alone, so they are the same bytes after every restart
and in both protocol eras: a host's prompt cache holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from mcp_workbench.config.model import Config, ToolboxConfig
from mcp_workbench.errors import (
    CallFailed,
    InvalidParameters,
    ServerRefused,
    ToolNotFound,
    UnknownToolName,
    WorkbenchError,
)
from mcp_workbench.identity import ToolIdentifier, tools_once_named
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.nearest import known_names
from mcp_workbench.shown import shown
from mcp_workbench.surfaces import results
from mcp_workbench.surfaces.arguments import OldName, corrected_call, named_parts, read_open, read_use
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Caller, Exchange
from mcp_workbench.workbench import Workbench

OPEN_TOOLBOX = "open_toolbox"
USE_TOOL = "use_tool"
MIGRATION = "Tool names changed in 0.11.0: see docs/migration.md"


class MetaTools:
    """`open_toolbox` and `use_tool` on one workbench."""

    def __init__(self, workbench: Workbench, *, on_opened: Callable[[Caller, str], None] | None = None) -> None:
        self._workbench = workbench
        self._on_opened: Callable[[Caller, str], None] = on_opened or (lambda _caller, _toolbox: None)
        self.definitions = definitions(workbench.config)
        self.instructions = instructions(workbench.config)

    async def call(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        """Do what one of the two is for. What is wrong with the call becomes a result."""
        try:
            if name == USE_TOOL:
                return await self.use(exchange, arguments)
            if name == OPEN_TOOLBOX:
                return await self.open(exchange, arguments)
            raise self._unknown(name, arguments)
        except WorkbenchError as error:
            return results.failure(error, named=named_parts(arguments))

    async def use(self, exchange: Exchange, arguments: Raw) -> Raw:
        try:
            identifier, tool_arguments = read_use(arguments)
        except OldName as error:
            error.hint = self.migration_help(error.name, error.arguments)
            raise
        try:
            return await relay(self._workbench, identifier, tool_arguments, exchange)
        except ToolNotFound as error:
            if tools_once_named(identifier.tool, self._workbench.known()):
                error.hint = self.migration_help(identifier.tool, tool_arguments)
            raise

    async def open(self, exchange: Exchange, arguments: Raw) -> Raw:
        try:
            toolbox = read_open(arguments)
        except InvalidParameters as error:
            error.hint = error.hint or known_names(self._workbench.config.toolboxes, "toolboxes")
            raise
        opened = await self._workbench.open(toolbox)
        self._on_opened(exchange.caller, opened.toolbox)
        return results.opened(opened)

    def migration_help(self, name: str, arguments: Raw = jsonrpc.NOTHING) -> str:
        """That names changed, and the call to send for every known tool that once had this name."""
        matches = tools_once_named(name, self._workbench.known())[: DEFAULTS.joined_matches_shown]
        return "\n".join([MIGRATION, *(f"Send: {corrected_call(match, arguments)}" for match in matches)])

    def _unknown(self, name: str, arguments: Raw) -> UnknownToolName:
        """A name from before 0.11.0, of a tool or of a meta-tool."""
        given = jsonrpc.members(arguments)
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
        return f"No toolboxes are configured. Add them to {config.file}."
    lines = [
        "MCP servers grouped into toolboxes. open_toolbox lists the tools of one, use_tool calls a tool.",
        "Toolboxes:",
        *(_toolbox_line(toolbox, counted=True) for toolbox in config.toolboxes.values()),
    ]
    return "\n".join(lines) + _example(config)


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
            f"tool = name; arguments as its inputSchema says.{_example(config)}"
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


def _toolbox_line(toolbox: ToolboxConfig, *, counted: bool = False) -> str:
    count = len(toolbox.servers)
    servers = f" ({count} server{'' if count == 1 else 's'})" if counted else ""
    description = shown(" ".join(toolbox.description.split()), DEFAULTS.log_value_length)
    return f"- {shown(toolbox.name)}{servers}: {description}"


def _example(config: Config) -> str:
    """A line with a structured call whose toolbox and server are real; empty if there is no server."""
    if (server := next(config.servers(), None)) is None:
        return ""
    tool = ToolIdentifier(server.toolbox, server.name, "TOOL").params()
    return f"\nExample: {jsonrpc.encode({'tool': tool, 'arguments': {}}).decode()}"
