"""Reads the restrictions that hosts put on their servers, and translates them to `toolFilters`.

Guarantees: a server never counts as unrestricted because a file can't be read or a rule is not understood. Other
modules import `Restrictions`, `Rule` and `Subject` from here, and functions on filters from `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts.documents import HostDocument
from mcp_workbench.hosts.registry import HostEnvironment, HostFile
from mcp_workbench.hosts.restrictions import claude_code, editors, gemini
from mcp_workbench.hosts.restrictions.rules import Rule, Settings, Subject, lists_of_entry, not_carried, rules_of_entry

__all__ = ["Restrictions", "Rule", "Subject"]

_Rules = Callable[[Subject], Iterator[Rule]]


class Restrictions:
    """The restrictions of one host, read once for all of its servers."""

    def __init__(self, document: HostDocument, place: HostFile, around: HostEnvironment, servers: list[str]) -> None:
        self._path = place.path
        project = around.project if place.file.level == "project" else None
        given = Settings(place.path, document.tree, project)
        loaders: Mapping[str, Callable[[], _Rules]] = {
            "claude-code": lambda: claude_code.load(around),
            "gemini": lambda: gemini.load(around, given),
            "codex": lambda: editors.load_codex(around, given),
            "zed": lambda: editors.load_zed(around, given),
            "cursor": lambda: editors.load_cursor(around),
            "vscode": lambda: editors.load_vscode(around, servers),
        }
        self._load = loaders.get(place.host.key, lambda: _none)

    def of(self, subject: Subject) -> tuple[Rule, ...]:
        """The rules that concern a server, without duplicates."""
        try:
            own = [*lists_of_entry(subject, self._path), *rules_of_entry(subject, self._path)]
            found = [*own, *self._rules(subject)]
        except HostFileError as error:
            return (not_carried("settings", Path(error.file), error.problem),)
        return tuple(dict.fromkeys(found))

    @cached_property
    def _rules(self) -> _Rules:
        return self._load()


def _none(_: Subject) -> Iterator[Rule]:
    return iter(())
