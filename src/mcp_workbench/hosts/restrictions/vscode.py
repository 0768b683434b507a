"""VS Code: tools that were turned off in the tool picker, which it keeps in a database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts.known import NAME
from mcp_workbench.hosts.places import Surroundings, config_home
from mcp_workbench.hosts.restrictions.patterns import EVERYTHING
from mcp_workbench.hosts.restrictions.rule import Rule, Subject, excluded, not_carried, turned_off

_START = "mcp_"
"""How the entries of MCP tools begin."""
_LABEL_LENGTH = 13
"""How much of a server's label an entry keeps."""
_ENTRY_LENGTH = 64
_QUERY = "SELECT value FROM ItemTable WHERE key = 'chat/selectedTools'"


class _Selection(NamedTuple):
    """Tools, and the sets of tools that servers have."""

    on: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    sets_off: frozenset[str] = frozenset()


def load(around: Surroundings, servers: list[str]) -> Callable[[Subject], Iterator[Rule]]:
    """Read the database; `servers` are the names of all servers. Raises `HostFileError`."""
    folder = around.home / "Library/Application Support" if around.is_mac else config_home(around)
    path = folder / "Code/User/globalStorage/state.vscdb"
    selection = _selection(path)
    off = sorted(tool for tool in selection.off if tool.startswith(_START) and not _tools(tool, NAME))
    unknown = [tool for tool in off if not any(_tools(tool, server) for server in servers)]

    def rules(subject: Subject) -> Iterator[Rule]:
        if any(one.endswith(f".{subject.name}") for one in selection.sets_off) and not any(
            _tools(tool, subject.name) for tool in selection.on
        ):
            yield turned_off(f"turned off: {subject.name}", path)
        for tool in off:
            names = _tools(tool, subject.name)
            if names:
                yield excluded(f"turned off: {tool}", path, [f"!{name}" for name in names])
        for tool in unknown:
            yield not_carried(f"turned off: {tool}", path, "it is not clear which server it belongs to")

    return rules


def _tools(entry: str, server: str) -> list[str]:
    """What the tool of an entry in the tool picker may be called, if it is this server's.

    An entry begins with the label of the server, or with a longer title that the server gave itself; both are cut.
    """
    label = re.sub(r"[^a-z0-9_.-]+", "_", server.lower())[:_LABEL_LENGTH]
    rest = entry[len(_START) :]
    if not entry.startswith(_START) or not rest.startswith(label):
        return []
    ends = [at for at in range(len(label), min(_LABEL_LENGTH, len(rest) - 2) + 1) if rest[at] == "_"]
    cut = EVERYTHING if len(entry) >= _ENTRY_LENGTH else ""
    names = [f"{rest[at + 1 :]}{cut}" for at in ends]
    # A dot in a name is an underscore in the entry.
    return list(dict.fromkeys(form for name in names for form in (name, name.replace("_", "[._]"))))


def _selection(path: Path) -> _Selection:
    if not path.exists():
        return _Selection()
    import sqlite3  # noqa: PLC0415 -- only one host has a database

    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as database:
            row = database.execute(_QUERY).fetchone()
        return _read(json.loads(row[0])) if row else _Selection()
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as error:
        problem = "can't be read for the tools that are turned off"
        raise HostFileError(problem, path, hint="Close VS Code, and try again.") from error


def _read(state: Any) -> _Selection:
    """The state as VS Code writes it today, or as it did before it had sets of tools."""
    tools = {str(name): bool(is_on) for name, is_on in state.get("toolEntries", [])}
    sets = {str(name): bool(is_on) for name, is_on in state.get("toolSetEntries", [])}
    return _Selection(
        frozenset(name for name, is_on in tools.items() if is_on),
        frozenset((*(name for name, is_on in tools.items() if not is_on), *map(str, state.get("disabledTools", [])))),
        frozenset(name for name, is_on in sets.items() if not is_on),
    )
