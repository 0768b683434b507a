"""What the two meta-tools and the instructions say.

It depends on the configuration alone, so it is the same bytes after every restart and in both protocol
eras: a host's prompt cache holds. It needs no event loop, so it is there before one is loaded.
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
"""Toolboxes whose descriptions stand uncut in the words of `open_toolbox`: as many as 340 tokens and twice their
names and descriptions pay for. The instructions have them uncut, however many there are."""
TOOLBOX_LISTED_COST = 36
"""Characters by which the descriptions are cut for each one more: its name in the schema, the number of its
servers and what stands between cost some seven tokens beyond its words."""
TOOLBOX_LISTED_LEAST = 16
"""Characters that a description keeps in any case: two or three words, fewer would say nothing."""

OPEN_TOOLBOX = "open_toolbox"
USE_TOOL = "use_tool"
Detail: TypeAlias = Literal["auto", "full", "signature"]
DETAILS: tuple[Detail, ...] = ("auto", "full", "signature")
_OPENING = "List a toolbox's tools; query: those that fit (*: in all); tools: in full."
_USING = "Call a tool; toolbox, server, tool = toolbox_name, source_server, name of its open_toolbox entry."


def definitions(config: Config) -> tuple[Raw, Raw]:
    """The two tools."""
    return (Raw(jsonrpc.encode(_open_toolbox(config))), Raw(jsonrpc.encode(_use_tool(config))))


def instructions(config: Config) -> str:
    """What a model is told at the start: the toolboxes, and one call as an example."""
    if not config.toolboxes:
        return f"No toolboxes are configured. Add them to {config.file}."
    lines = [
        f"Toolboxes for {OPEN_TOOLBOX} (servers):",
        *(f"{escape(one.name)} ({len(one.servers)}): {_description(one)}" for one in config.toolboxes.values()),
    ]
    if call := _example(config):
        lines.append(f"{USE_TOOL} {jsonrpc.encode(call).decode()}")
    return "\n".join(lines)


def toolbox_instructions(toolbox: ToolboxConfig, known: Mapping[str, Any]) -> str:
    """The instructions for a toolbox that is served on its own; `known` has its servers' instructions."""
    servers = ", ".join(escape(server) for server in toolbox.servers)
    parts = [f"{escape(toolbox.description, LOG_VALUE_LENGTH)}\nServers: {servers}"]
    parts += [f"# {escape(server)}\n{text}" for server, text in known.get("instructions", {}).items()]
    return "\n\n".join(parts)


def _open_toolbox(config: Config) -> dict[str, Any]:
    toolbox: dict[str, Any] = {"type": "string", "enum": [*config.toolboxes, EVERY_TOOLBOX]}
    if not config.toolboxes:
        toolbox = {"type": "string", "minLength": 1}
    return {
        "name": OPEN_TOOLBOX,
        "description": f"{_OPENING} {_listed(config) or instructions(config)}",
        "inputSchema": {
            "type": "object",
            "properties": {
                "toolbox": toolbox,
                "query": {"type": "string"},
                "tools": {"type": "array", "items": {"type": "string"}},
                "detail": {"type": "string", "enum": list(DETAILS)},
                "limit": {"type": "integer"},
            },
            "required": ["toolbox"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    }


def _use_tool(config: Config) -> dict[str, Any]:
    part = {"type": "string", "minLength": 1}
    call = _example(config)
    example = f" Example: {jsonrpc.encode(call | {'arguments': {}}).decode()}" if call else ""
    return {
        "name": USE_TOOL,
        "description": f"{_USING}{example}",
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


def _listed(config: Config) -> str:
    """The toolboxes in the words of the tool itself, for hosts that drop the instructions: whole while they are few."""
    descriptions = [_description(toolbox) for toolbox in config.toolboxes.values()]
    beyond = max(0, len(descriptions) - TOOLBOXES_LISTED_WHOLE)
    length = _longest(descriptions, beyond * TOOLBOX_LISTED_COST)
    return "; ".join(
        f"{escape(name)}: {_cut(description, length)}"
        for name, description in zip(config.toolboxes, descriptions, strict=True)
    )


def _longest(texts: list[str], saved: int) -> int:
    """The length that no text may exceed so that `saved` characters of them all fall away, if they have so many."""
    length = max(map(len, texts), default=0)
    while length > TOOLBOX_LISTED_LEAST and sum(max(0, len(text) - length) for text in texts) < saved:
        length -= 1
    return length


def _cut(text: str, length: int) -> str:
    """At most `length` characters of a text, in whole words where it has several."""
    return text if len(text) <= length else text[:length].rpartition(" ")[0].rstrip(",.;: ") + "…"


def _description(toolbox: ToolboxConfig) -> str:
    return escape(" ".join(toolbox.description.split()), LOG_VALUE_LENGTH)


def _example(config: Config) -> dict[str, Any] | None:
    """A structured call whose toolbox and server are real, if there is a server."""
    if (server := next(config.servers(), None)) is None:
        return None
    return {"tool": ToolIdentifier(server.toolbox, server.name, "TOOL").params()}
