"""What the two meta-tools and the instructions say.

It depends on the configuration alone, so it is the same bytes after every restart and in both protocol
eras: a host's prompt cache holds. It needs no event loop, so it is there before one is loaded.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from mcp_workbench.config.model import Config, ToolboxConfig
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown
from mcp_workbench.wire import jsonrpc

OPEN_TOOLBOX = "open_toolbox"
USE_TOOL = "use_tool"


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


def toolbox_instructions(toolbox: ToolboxConfig) -> str:
    """What a model is told of one toolbox whose tools it sees as they are."""
    servers = ", ".join(shown(server) for server in toolbox.servers)
    return f"{shown(toolbox.description, DEFAULTS.log_value_length)}\nServers: {servers}"


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
