"""Finds the known tools that a mistaken name stands for, by comparing it with their names. No name is split.

A name is compared with each tool's own name and with its joined forms, in any notation: `dev/fs/read`, `fs.read`,
`mcp__fs__read`. Capitals, underscores and hyphens make no difference unless several tools differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.surfaces.intent import Use, fold, is_same

_SEPARATORS = ("/", ".", ":", "::", "__", "_", "-", " ")
HOST_PREFIXES = ("mcp", "mcpworkbench", "workbench", "functions")
"""What hosts and models put before the names of tools, `mcp__workbench__`, as `fold` leaves it."""
_ENDING = 3
_COMPARED = 200
"""Tools of one name whose spelling is compared: more can't be shown anyway."""


def tools_meant(said: Use, known: Iterable[ToolIdentifier]) -> list[ToolIdentifier]:
    """The tools that a call can mean: those of its name that agree with most of what it says about their place."""
    found = _of_name(said.tool, known)
    if said.toolbox or said.server:
        found = _best(found, lambda tool: _agreement(said, tool))
    return _best(found[:_COMPARED], lambda tool: _exactness(said, tool))


def _of_name(name: str, known: Iterable[ToolIdentifier]) -> list[ToolIdentifier]:
    folded = fold(name)
    return [tool for tool in known if tool.tool == name or _is_form(name, folded, tool)]


def _is_form(name: str, folded: str, tool: ToolIdentifier) -> bool:
    """Whether a name is that of a tool, alone or after the names of its server and toolbox."""
    end = tool.tool[-_ENDING:]
    if end.isalnum() and not folded.endswith(end.casefold()):
        return False  # as nearly always: to fold thousands of names takes long
    own = fold(tool.tool)
    if not own:  # it has no letter, or too many
        return name.endswith(tool.tool) and name in _joined_forms(tool)
    return folded.endswith(own) and folded in {prefix + own for prefix in _prefixes(tool.toolbox, tool.server)}


@lru_cache(maxsize=4096)
def _prefixes(toolbox: str, server: str) -> frozenset[str]:
    places = ("", fold(server), fold(toolbox), fold(toolbox) + fold(server))
    return frozenset(host + place for host in ("", *HOST_PREFIXES) for place in places)


def _agreement(said: Use, tool: ToolIdentifier) -> tuple[int, int]:
    """How well the toolbox and server of a call agree with those of a tool: in any order, and in the right order."""
    exact, folded = (tool.toolbox, tool.server), _folded_places(tool.toolbox, tool.server)
    either = sum(one in exact or (fold(one) or None) in folded for one in (said.toolbox, said.server) if one)
    return either, is_same(said.toolbox, tool.toolbox) + is_same(said.server, tool.server)


@lru_cache(maxsize=4096)
def _folded_places(toolbox: str, server: str) -> frozenset[str]:
    return frozenset((fold(toolbox), fold(server), fold(toolbox + server)))


def _exactness(said: Use, tool: ToolIdentifier) -> tuple[int, int, int]:
    """How well the spelling fits: the tool's own or joined name first, then the names of its place."""
    is_exact = said.tool == tool.tool or said.tool in _joined_forms(tool)
    places = (said.toolbox == tool.toolbox) + (said.server == tool.server)
    return is_exact, said.tool.endswith(tool.tool), places


def _joined_forms(tool: ToolIdentifier) -> set[str]:
    toolbox, server, name = tool.parts()
    plain = {
        separator.join(parts)
        for separator in _SEPARATORS
        for parts in ((toolbox, server, name), (server, name), (toolbox, name))
    }
    return plain | {f"mcp__{form}" for form in plain} | {f"{toolbox}__{server}_{name}"}


def _best(found: list[ToolIdentifier], score: Callable[[ToolIdentifier], tuple[int, ...]]) -> list[ToolIdentifier]:
    scores = [score(tool) for tool in found]
    best = max(scores, default=())
    return [tool for tool, one in zip(found, scores, strict=True) if one == best]
