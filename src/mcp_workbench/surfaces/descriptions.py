"""Definitions of the two meta-tools, and the instructions that clients get at the start.

They depend only on the configuration, so they are the same bytes after every restart and in both protocol eras, and a
host's prompt cache stays valid. This module needs no event loop: the first answer is sent before one is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Raw

from mcp_workbench.config.model import Config, ToolboxConfig
from mcp_workbench.identity import EVERY_TOOLBOX, ToolIdentifier
from mcp_workbench.logger import LOG_VALUE_LENGTH
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import jsonrpc

TOOLBOXES_LISTED_WHOLE = 6
"""With up to this many toolboxes, the description of `open_toolbox` has their descriptions in full. More would exceed
the token bound: 400 tokens plus twice their names and descriptions. The instructions always have them in full."""
TOOLBOX_LISTED_COST = 36
"""For each toolbox beyond that, the descriptions are shortened by this many characters in total. A toolbox costs about
seven tokens more than its name and description: its entry in the schema, the number of its servers and separators."""
TOOLBOX_LISTED_LEAST = 16
"""Characters that every description keeps: two or three words. Fewer would be useless."""

OPEN_TOOLBOX = "open_toolbox"
USE_TOOL = "use_tool"
Detail: TypeAlias = Literal["auto", "full", "signature"]
DETAILS: tuple[Detail, ...] = ("auto", "full", "signature")
_OPEN_DESCRIPTION = "List the tools in a toolbox."
_USE_DESCRIPTION = "Call a tool by the toolbox_name, source_server and name in its open_toolbox entry."


def definitions(config: Config) -> tuple[Raw, Raw]:
    """The definitions of `open_toolbox` and `use_tool`."""
    return (Raw(jsonrpc.encode(_open_toolbox(config))), Raw(jsonrpc.encode(_use_tool(config))))


def instructions(config: Config) -> str:
    """Instructions for the model: the toolboxes, and an example of a call."""
    if not config.toolboxes:
        return f"No toolboxes are configured. Add them to {config.file}."
    lines = [
        f"Toolboxes for {OPEN_TOOLBOX} (number of servers):",
        *(f"{escape(one.name)} ({len(one.servers)}): {_description(one)}" for one in config.toolboxes.values()),
    ]
    if call := _example(config):
        lines.append(f"Example: {USE_TOOL} {jsonrpc.encode(call).decode()}")
    return "\n".join(lines)


def toolbox_instructions(toolbox: ToolboxConfig, known: Mapping[str, Any]) -> str:
    """Instructions for a toolbox that is served alone; `known` has its servers' instructions."""
    servers = ", ".join(escape(server) for server in toolbox.servers)
    parts = [f"{escape(toolbox.description, LOG_VALUE_LENGTH)}\nServers: {servers}"]
    parts += [f"# {escape(server)}\n{text}" for server, text in known.get("instructions", {}).items()]
    return "\n\n".join(parts)


def _open_toolbox(config: Config) -> dict[str, Any]:
    names: dict[str, Any] = {"enum": [*config.toolboxes, EVERY_TOOLBOX]} if config.toolboxes else {"minLength": 1}
    return {
        "name": OPEN_TOOLBOX,
        "description": f"{_OPEN_DESCRIPTION} {_toolbox_list(config)}",
        "inputSchema": {
            "type": "object",
            "properties": {
                "toolbox": {"type": "string", **names, "description": f"{EVERY_TOOLBOX} searches all toolboxes"},
                "query": _parameter("string", "Return matching tools, best first"),
                "tools": _parameter("array", "Return only these tools, in full", items={"type": "string"}),
                "detail": _parameter("string", "auto (default) shortens long lists", enum=list(DETAILS)),
                "limit": _parameter("integer", "Maximum matches"),
            },
            "required": ["toolbox"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    }


def _use_tool(config: Config) -> dict[str, Any]:
    call = _example(config)
    example = f" Example: {jsonrpc.encode(call | {'arguments': {}}).decode()}" if call else ""
    parts = {"toolbox": "toolbox_name", "server": "source_server", "tool": "name"}
    return {
        "name": USE_TOOL,
        "description": f"{_USE_DESCRIPTION}{example}",
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool": {
                    "type": "object",
                    "description": "The tool to call",
                    "properties": {part: _parameter("string", field, minLength=1) for part, field in parts.items()},
                    "required": [*parts],
                    "additionalProperties": False,
                },
                "arguments": _parameter("object", "As its inputSchema says"),
            },
            "required": ["tool"],
            "additionalProperties": False,
        },
    }


def _parameter(type_name: str, description: str, **constraints: Any) -> dict[str, Any]:
    return {"type": type_name, "description": description, **constraints}


def _toolbox_list(config: Config) -> str:
    """The toolboxes, for hosts that drop the instructions. Long descriptions are cut if there are many toolboxes."""
    if not config.toolboxes:
        return instructions(config)
    descriptions = [_description(toolbox) for toolbox in config.toolboxes.values()]
    beyond = max(0, len(descriptions) - TOOLBOXES_LISTED_WHOLE)
    length = _length_limit(descriptions, beyond * TOOLBOX_LISTED_COST)
    return "; ".join(
        f"{escape(name)}: {_cut(description, length)}"
        for name, description in zip(config.toolboxes, descriptions, strict=True)
    )


def _length_limit(texts: list[str], saved: int) -> int:
    """The length to which texts must be cut to save `saved` characters in total, or as many as possible."""
    length = max(map(len, texts), default=0)
    while length > TOOLBOX_LISTED_LEAST and sum(max(0, len(text) - length) for text in texts) < saved:
        length -= 1
    return length


def _cut(text: str, length: int) -> str:
    """Cut a text to at most `length` characters, between two words if it has several."""
    return text if len(text) <= length else text[:length].rpartition(" ")[0].rstrip(",.;: ") + "…"


def _description(toolbox: ToolboxConfig) -> str:
    return escape(" ".join(toolbox.description.split()), LOG_VALUE_LENGTH)


def _example(config: Config) -> dict[str, Any] | None:
    """A structured call with a real toolbox and server; None if no server is configured."""
    if (server := next(config.servers(), None)) is None:
        return None
    return {"tool": ToolIdentifier(server.toolbox, server.name, "TOOL").params()}
