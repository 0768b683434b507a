"""Installs the workbench in the file of a host, and uninstalls it.

Guarantees: if nothing else changed the file in between, uninstalling restores it to the byte. Otherwise it keeps the
other changes, removes the workbench, and puts the moved servers back. A file that is invalid, or that changes during
the operation, is not touched. Everything that undoing needs is on disk before the file changes and until it is undone.
No value is lost: if only the workbench's entry has it, a copy of that file is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts import files
from mcp_workbench.hosts.conversion import flattened, is_workbench
from mcp_workbench.hosts.discovery import servers_in
from mcp_workbench.hosts.documents import HostDocument
from mcp_workbench.hosts.files import InstallRecord
from mcp_workbench.hosts.registry import HostEnvironment, HostFile
from mcp_workbench.hosts.variables import absent_from
from mcp_workbench.text.sanitize import escape

VARIABLES = "env"
"""The key for the variables of a server in the files of all hosts."""


class Change(NamedTuple):
    """A file before and after."""

    path: Path
    before: bytes | None
    after: bytes | None
    """None if the file is removed."""
    exact: bool = True
    """Whether it is the same as before the installation."""
    left: tuple[str, ...] = ()
    """Entries that can't be restored, because the file now has others with their names."""
    back: tuple[tuple[str, ...], ...] = ()
    """The paths of the servers that are put back."""
    lost: tuple[str, ...] = ()
    """Variables whose values only the workbench's entry had."""

    @property
    def is_one(self) -> bool:
        return self.before != self.after


class Installation(NamedTuple):
    """The changes that `install` will make."""

    change: Change
    base: bytes | None
    """The file without the workbench, of which a copy is kept."""
    record: InstallRecord
    known: InstallRecord | None
    """The record of an earlier installation."""
    entry: Mapping[str, object]
    """The entry of the workbench, which may hold secrets."""
    moved: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Installation({str(self.change.path)!r}, moved={self.moved})"

    def write(self, mode: int) -> None:
        """Make the changes. Raises `HostFileError`."""
        path, before, after = self.change.path, self.change.before, self.change.after
        if after is None or not self.change.is_one:
            return
        copy = files.copy_of(path)
        missing = len(files.missing_folders(path))
        self.record.made_folders = missing or (self.known.made_folders if self.known else 0)
        try:
            files.save(path, self.record, self.base)
            files.replace(path, after, before, mode)
        except HostFileError:
            self._take_back(copy)
            raise

    def _take_back(self, copy: bytes | None) -> None:
        if self.known is not None:
            files.save(self.change.path, self.known, copy)
            return
        files.forget(self.change.path)
        files.remove_folders(self.change.path, self.record.made_folders)


EntryOf = Callable[[HostDocument, Sequence[Sequence[str]], Mapping[str, object]], Mapping[str, object]]
"""Builds the entry for the workbench. Its arguments: the file without the workbench, the paths of the servers to take
out, and the current entry, which is empty if there is none."""


def prepare(place: HostFile, name: str, entry_of: EntryOf, leaving: Iterable[Sequence[str]]) -> Installation:
    """Prepare to put the workbench into a file and to take the servers at the paths `leaving` out of it.

    If the workbench is already there, the change starts from the file without it, and the copy is of that.
    """
    path = place.path
    current, known = files.read(path), files.load(path)
    where, gone = (*place.file.servers, name), [tuple(one) for one in leaving]
    document = decoded(place, current)
    _check_free(document, place, name, known)
    before = Change(path, current, current) if known is None else undone(place, current, known)
    base = decoded(place, before.after)
    out = [*before.back, *(one for one in gone if one not in before.back)]
    entry = dict(entry_of(base, out, _held(document, place, name, known)))
    if document.at(where) == entry and not gone and (known is None or known.name == name):
        made = known or _recorded(name, entry, digest="")
        return Installation(Change(path, current, current), None, made, known, entry)
    if known is None:
        _check_copy(place, current)
    changed = base.with_member(where, entry).without_members(out)
    after = changed.text.encode()
    absent = [where[:end] for end in range(1, len(where)) if base.at(where[:end]) is None]
    made = _recorded(name, entry, digest=files.digest(after))
    made.made_file = before.after is None
    made.made_path = list(absent[0]) if absent else []
    made.moved = [list(one) for one in out]
    moved = tuple(one[-1] for one in gone)
    return Installation(Change(path, current, after), before.after, made, known, entry, moved)


def _recorded(name: str, entry: Mapping[str, object], *, digest: str) -> InstallRecord:
    """A record without variables, since their values may be secrets."""
    return InstallRecord(
        name=name, entry={key: value for key, value in entry.items() if key != VARIABLES}, digest=digest
    )


def held_by(place: HostFile, name: str) -> Mapping[str, object]:
    """The entry of the workbench in a file; empty if there is none. Raises `HostFileError`."""
    return _held(decoded(place, files.read(place.path)), place, name, files.load(place.path))


def _held(document: HostDocument, place: HostFile, name: str, known: InstallRecord | None) -> Mapping[str, object]:
    """The current entry of the workbench, perhaps under another name."""
    entry = document.at((*place.file.servers, known.name if known else name))
    return cast("dict[str, object]", entry) if is_ours(entry, known) else {}


def _check_copy(place: HostFile, current: bytes | None) -> None:
    """Raise `HostFileError` if a copy would be lost."""
    if files.copy_of(place.path) not in (None, current):
        hint = f"Move it away: it has the servers that an earlier installation took out of {place.path.name}."
        raise HostFileError("there is a copy already", files.backup_of(place.path), hint=hint)


def decoded(place: HostFile, data: bytes | None) -> HostDocument:
    return HostDocument.decoded(data or b"", place.file.syntax, str(place.path))


def _check_free(document: HostDocument, place: HostFile, name: str, known: InstallRecord | None) -> None:
    """Raise `HostFileError` if another server has this name."""
    servers = document.at(place.file.servers)
    if servers is not None and not isinstance(servers, dict):
        raise HostFileError(f"'{'.'.join(place.file.servers)}' is not an object", place.path)
    entry = document.at((*place.file.servers, name))
    if entry is not None and not is_ours(entry, known):
        hint = "Choose another name for the workbench with --name."
        raise HostFileError(f"has another server named '{escape(name)}'", place.path, hint=hint)


def is_ours(entry: Any, known: InstallRecord | None) -> bool:
    """Whether an entry starts the workbench, by its command or by the record."""
    return is_workbench(entry) or (known is not None and known.is_of(entry))


def undone(place: HostFile, current: bytes | None, known: InstallRecord) -> Change:
    """The original file, if nothing else changed it. Otherwise the file without our entry and with the moved servers.

    A host that only reformats its file, as Claude Code does, has not changed it.
    """
    copy = files.copy_of(place.path)
    moved = tuple(tuple(path) for path in known.moved)
    untouched = current is not None and files.digest(current) == known.digest
    if untouched and (known.made_file or copy is not None):
        return Change(place.path, current, None if known.made_file else copy, back=moved)
    if current is None and not moved:
        return Change(place.path, None, None, exact=False)
    original = decoded(place, copy)
    mended = _mended(place, current, known, original)
    if copy and mended.after and _is_plain(current) and _same(decoded(place, mended.after), original):
        return mended._replace(after=copy, exact=True)
    return mended


def _same(one: HostDocument, other: HostDocument) -> bool:
    """Whether two documents hold the same values. Compares JSON, since 1 == True in Python."""
    first, second = (msgspec.json.encode(document.tree, order="deterministic") for document in (one, other))
    return first == second


def _is_plain(data: bytes | None) -> bool:
    """Whether a text is plain JSON, without comments that would be lost."""
    try:
        msgspec.json.decode(data or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _mended(place: HostFile, current: bytes | None, known: InstallRecord, original: HostDocument) -> Change:
    document = decoded(place, current)
    where = (*place.file.servers, known.name)
    left: list[str] = []
    if is_ours(document.at(where), known):
        document = document.without_member(where)
    elif document.at(where) is not None:
        left.append(known.name)
    moved = [tuple(path) for path in known.moved]
    back = [path for path in moved if document.at(path) is None and original.at(path) is not None]
    left += [path[-1] for path in moved if path not in back and document.at(path) != original.at(path)]
    document = document.with_members_of(back, original)
    if known.made_path and document.at(known.made_path) == {}:
        document = document.without_member(known.made_path)
    after = None if known.made_file and not document.tree else document.text.encode()
    return Change(place.path, current, after, exact=False, left=tuple(left), back=tuple(back))


_LAST = ".with-workbench"


def last_of(path: Path) -> Path:
    """The path of the copy with the workbench's entry."""
    return path.with_name(path.name + _LAST)


def is_installed(place: HostFile) -> bool:
    """Whether a file has the workbench, or a record of it. Raises `HostFileError`."""
    if files.load(place.path) is not None:
        return True
    return any(is_workbench(entry) for entry in _entries(place, files.read(place.path)).values())


def prepare_removal(place: HostFile, around: HostEnvironment) -> Change:
    """Prepare to undo the installation. Raises `HostFileError` if there is none."""
    current = files.read(place.path)
    known = files.load(place.path)
    change = _without_record(place, current) if known is None else undone(place, current, known)
    return change._replace(lost=tuple(_lost(place, change, known, around)))


def undo(change: Change) -> None:
    """Remove the workbench. Raises `HostFileError`."""
    known = files.load(change.path)
    if change.lost and change.before is not None:
        last = last_of(change.path)
        files.replace(last, change.before, files.read(last))
    if change.after is not None:
        files.replace(change.path, change.after, change.before)
    elif change.before is not None:
        files.remove(change.path, change.before)
    if known is None:
        return
    files.forget(change.path)
    if change.after is None:
        files.remove_folders(change.path, known.made_folders)


def _without_record(place: HostFile, current: bytes | None) -> Change:
    document = decoded(place, current)
    names = [name for name, entry in _entries(place, current).items() if is_workbench(entry)]
    if not names:
        raise HostFileError("the workbench is not installed there", place.path)
    document = document.without_members([(*place.file.servers, name) for name in names])
    return Change(place.path, current, document.text.encode(), exact=False)


def _entries(place: HostFile, data: bytes | None) -> dict[str, Any]:
    servers: Any = decoded(place, data).at(place.file.servers)
    return cast("dict[str, Any]", servers) if isinstance(servers, dict) else {}


def _lost(place: HostFile, change: Change, known: InstallRecord | None, around: HostEnvironment) -> Iterator[str]:
    """Variables whose values would be lost, such as a secret that the user renewed in the entry."""
    document = decoded(place, change.after)
    # The conversion finds values that hosts write differently, such as a user and a password in an address.
    after = [document.tree, *(server.moved.entry for server in servers_in(document, place, around) if server.moved)]
    left = _entries(place, change.after)
    for name, entry in _entries(place, change.before).items():
        variables: Any = flattened(dict(entry)).get(VARIABLES) if is_ours(entry, known) and name not in left else None
        if isinstance(variables, dict):
            values = cast("dict[str, Any]", variables)
            yield from (one for one in absent_from(after, values) if around.environ.get(one) != values[one])
