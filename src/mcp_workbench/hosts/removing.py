"""The workbench is taken out of the file of a host.

Guarantees: no value is lost. Where one stood in the entry of the workbench alone, the file with it is kept beside, for
its owner; a copy that was made when the workbench came stays where there is no note of what to take from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts import files, record
from mcp_workbench.hosts.entries import flattened, is_workbench
from mcp_workbench.hosts.found import servers_in
from mcp_workbench.hosts.installing import VARIABLES, Change, decoded, is_ours, undone
from mcp_workbench.hosts.places import Place, Surroundings
from mcp_workbench.hosts.record import Record
from mcp_workbench.hosts.values import absent_from

_LAST = ".with-workbench"


def last_of(path: Path) -> Path:
    """The file as it was with the workbench."""
    return path.with_name(path.name + _LAST)


def is_installed(place: Place) -> bool:
    """Whether the workbench is in a file, or was and left a note. Raises `HostFileError`."""
    if record.load(place.path) is not None:
        return True
    return any(is_workbench(entry) for entry in _entries(place, files.read(place.path)).values())


def prepare_removal(place: Place, around: Surroundings) -> Change:
    """What it takes to undo the installation. Raises `HostFileError` where there is none."""
    current = files.read(place.path)
    known = record.load(place.path)
    change = _without_record(place, current) if known is None else undone(place, current, known)
    return change._replace(lost=tuple(_lost(place, change, known, around)))


def undo(change: Change) -> None:
    """Take the workbench out. Raises `HostFileError`."""
    known = record.load(change.path)
    if change.lost and change.before is not None:
        last = last_of(change.path)
        files.replace(last, change.before, files.read(last))
    if change.after is not None:
        files.replace(change.path, change.after, change.before)
    elif change.before is not None:
        files.remove(change.path, change.before)
    if known is None:
        return
    record.forget(change.path)
    if change.after is None:
        files.remove_folders(change.path, known.made_folders)


def _without_record(place: Place, current: bytes | None) -> Change:
    document = decoded(place, current)
    names = [name for name, entry in _entries(place, current).items() if is_workbench(entry)]
    if not names:
        raise HostFileError("the workbench is not installed there", place.path)
    document = document.without_members([(*place.file.servers, name) for name in names])
    return Change(place.path, current, document.text.encode(), exact=False)


def _entries(place: Place, data: bytes | None) -> dict[str, Any]:
    servers: Any = decoded(place, data).at(place.file.servers)
    return cast("dict[str, Any]", servers) if isinstance(servers, dict) else {}


def _lost(place: Place, change: Change, known: Record | None, around: Surroundings) -> Iterator[str]:
    """Variables whose values nobody has any more: a secret that was renewed in the entry, perhaps."""
    document = decoded(place, change.after)
    # Some are written in another way there: a name and a password in an address, perhaps.
    after = [document.tree, *(server.moved.entry for server in servers_in(document, place, around) if server.moved)]
    left = _entries(place, change.after)
    for name, entry in _entries(place, change.before).items():
        variables: Any = flattened(dict(entry)).get(VARIABLES) if is_ours(entry, known) and name not in left else None
        if isinstance(variables, dict):
            values = cast("dict[str, Any]", variables)
            yield from (one for one in absent_from(after, values) if around.environ.get(one) != values[one])
