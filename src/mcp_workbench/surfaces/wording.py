"""What the two meta-tools and the instructions say.

It depends on the configuration alone, so it is the same bytes after every restart and in both protocol
eras: a host's prompt cache holds. It needs no event loop, so it is there before one is loaded.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Raw

from mcp_workbench.config.model import Config, ToolboxConfig
from mcp_workbench.identity import EVERY_TOOLBOX, ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown
from mcp_workbench.wire import jsonrpc

OPEN_TOOLBOX = "open_toolbox"
USE_TOOL = "use_tool"
Detail: TypeAlias = Literal["auto", "full", "signature"]
DETAILS: tuple[Detail, ...] = ("auto", "full", "signature")
_OPENING = "List a toolbox's tools; query: those that fit (toolbox *: in all); tools: these in full."


def definitions(config: Config) -> tuple[Raw, Raw]:
    """The two tools."""
    return (Raw(jsonrpc.encode(_open_toolbox(config))), Raw(jsonrpc.encode(_use_tool(config))))


def instructions(config: Config) -> str:
    """What a model is told at the start: the toolboxes, and one call as an example."""
    if not config.toolboxes:
        return f"No toolboxes are configured. Add them to {config.file}."
    lines = [
        "open_toolbox lists tools, use_tool calls one. Toolboxes (servers):",
        *(_toolbox_line(toolbox, counted=True) for toolbox in config.toolboxes.values()),
    ]
    return "\n".join(lines) + "\n" + _example(config)


def toolbox_instructions(toolbox: ToolboxConfig) -> str:
    """What a model is told of one toolbox whose tools it sees as they are."""
    servers = ", ".join(shown(server) for server in toolbox.servers)
    return f"{shown(toolbox.description, DEFAULTS.log_value_length)}\nServers: {servers}"


def _open_toolbox(config: Config) -> dict[str, Any]:
    toolbox: dict[str, Any] = {"type": "string", "enum": [*config.toolboxes, EVERY_TOOLBOX]}
    if not config.toolboxes:
        toolbox = {"type": "string", "minLength": 1}
    listed = "; ".join(_toolbox_line(one) for one in config.toolboxes.values())
    return {
        "name": OPEN_TOOLBOX,
        "description": f"{_OPENING} {listed or instructions(config)}",
        "inputSchema": {
            "type": "object",
            "properties": {
                "toolbox": toolbox,
                "query": {"type": "string"},
                "tools": {"type": "array", "items": {"type": "string"}},
                "detail": {"type": "string", "enum": list(DETAILS)},
            },
            "required": ["toolbox"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    }


def _use_tool(config: Config) -> dict[str, Any]:
    part = {"type": "string", "minLength": 1}
    return {
        "name": USE_TOOL,
        "description": (
            "Call a tool; toolbox, server, tool = toolbox_name, source_server, name of its open_toolbox entry."
            f" {_example(config)}"
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
    servers = f" ({len(toolbox.servers)})" if counted else ""
    description = shown(" ".join(toolbox.description.split()), DEFAULTS.log_value_length)
    return f"{shown(toolbox.name)}{servers}: {description}"


def _example(config: Config) -> str:
    """A line with a structured call whose toolbox and server are real; empty if there is no server."""
    if (server := next(config.servers(), None)) is None:
        return ""
    tool = ToolIdentifier(server.toolbox, server.name, "TOOL").params()
    return f"Example: {jsonrpc.encode({'tool': tool, 'arguments': {}}).decode()}"
