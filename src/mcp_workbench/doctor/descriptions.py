"""Finds descriptions of toolboxes that do not help an agent choose: lists of names, empty phrases and duplicates.

It judges by words, so every finding is only a note.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mcp_workbench.config.load import DEFAULT_DESCRIPTION
from mcp_workbench.config.model import ToolboxConfig
from mcp_workbench.doctor.findings import Finding
from mcp_workbench.doctor.recognition import Traits, recognize, summary
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.sanitize import escape

Tools = Mapping[ServerIdentifier, Sequence[str]]
"""The names of the tools of each server, if they are known."""

_EMPTY_WORDS: Final = frozenset(
    (  # noqa: SIM905 -- a text is easier to read
        "a all also an and any are at by configured default description every everything for from general get good "
        "here i imported in is it its many mcp me misc more my new of on one or other our several some stuff that the "
        "their them these thing things this those to todo tool toolbox toolboxes tools use used useful uses various "
        "via with you your server servers service services "
        "claude code desktop cursor vs vscode windsurf codex gemini cli zed"
    ).split()
)
"""Words that say nothing about what a toolbox does, including the names of hosts."""
_SHORT: Final = 2
"""Words of at most this many letters say nothing."""


def description_findings(toolboxes: Iterable[ToolboxConfig], tools: Tools | None = None) -> Iterator[Finding]:
    """A finding for each description that does not help an agent, with the command that changes it."""
    known, by_text = tools or {}, dict[str, list[str]]()
    for toolbox in toolboxes:
        if toolbox.description == DEFAULT_DESCRIPTION:  # the file has no toolboxes, and nothing to describe
            continue
        by_text.setdefault(" ".join(toolbox.description.casefold().split()), []).append(toolbox.name)
        if problem := weakness(toolbox, known):
            yield Finding(
                code="weak_description",
                severity="note",
                message=problem,
                advice=f"Say what an agent can do with it: {_command(toolbox.name, _proposal(toolbox, known))}",
            )
    for names in by_text.values():
        if len(names) > 1:
            yield _duplicate_finding(names)


def weakness(toolbox: ToolboxConfig, tools: Tools | None = None) -> str:
    """Why the description of a toolbox does not help an agent; empty if it does."""
    description = toolbox.description
    tool_names = {
        name for server in toolbox.servers for name in (tools or {}).get(ServerIdentifier(toolbox.name, server), ())
    }
    items = re.split(r"[\s,;|/()]+", description)
    other_items = [item for item in items if item not in tool_names]
    words = [word for word in _words(" ".join(other_items)) if _is_telling(word)]
    names = {word for name in (toolbox.name, *toolbox.servers, *toolbox.disabled) for word in _words(name)}
    if any(word not in names for word in words):
        return ""
    fault = "only lists names" if words or len(other_items) < len(items) else "says next to nothing"
    name, text = escape(toolbox.name), escape(description)
    return f"the description of toolbox '{name}' {fault}, and agents choose by it: '{text}'"


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _is_telling(word: str) -> bool:
    return word not in _EMPTY_WORDS and (len(word) > _SHORT or not word.isascii())


def _proposal(toolbox: ToolboxConfig, tools: Tools) -> str:
    """A better description; empty if none of its servers is recognized."""
    traits = [
        Traits.of_server(server, tools.get(ServerIdentifier(toolbox.name, server.name), ())).on_this_machine(os.environ)
        for server in toolbox.servers.values()
    ]
    servers = [(server.name, recognize(server)) for server in traits]
    return summary(servers) if any(service is not None for _, service in servers) else ""


def _duplicate_finding(names: Sequence[str]) -> Finding:
    listed = ", ".join(f"'{escape(name)}'" for name in names)
    return Finding(
        code="same_description",
        severity="note",
        message=f"toolboxes {listed} have the same description, so an agent can't choose between them",
        advice=f"Say what is different about each: {_command(names[-1])}",
    )


def _command(toolbox: str, text: str = "") -> str:
    return f"mcp-workbench describe {shlex.quote(escape(toolbox))} {shlex.quote(text) if text else 'TEXT'}"
