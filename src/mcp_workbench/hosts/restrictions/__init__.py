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

    def __init__(
        self, document: HostDocument, host_file: HostFile, environment: HostEnvironment, servers: list[str]
    ) -> None:
        self._path = host_file.path
        project = environment.project if host_file.file.level == "project" else None
        given = Settings(host_file.path, document.tree, project)
        loaders: Mapping[str, Callable[[], _Rules]] = {
            "claude-code": lambda: claude_code.load(environment),
            "gemini": lambda: gemini.load(environment, given),
            "codex": lambda: editors.load_codex(environment, given),
            "zed": lambda: editors.load_zed(environment, given),
            "cursor": lambda: editors.load_cursor(environment),
            "vscode": lambda: editors.load_vscode(environment, servers),
        }
        self._load = loaders.get(host_file.host.key, lambda: _none)

    def of(self, subject: Subject) -> tuple[Rule, ...]:
        """The rules that concern a server, without duplicates."""
        try:
            own = [*lists_of_entry(subject, self._path), *rules_of_entry(subject, self._path)]
            rules = [*own, *self._rules(subject)]
        except HostFileError as error:
            return (not_carried("settings", Path(error.file), error.problem),)
        return tuple(dict.fromkeys(rules))

    @cached_property
    def _rules(self) -> _Rules:
        return self._load()


def _none(_: Subject) -> Iterator[Rule]:
    return iter(())
