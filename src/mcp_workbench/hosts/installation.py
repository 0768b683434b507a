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
from mcp_workbench.hosts.registry import HostEnvironment, HostFile, object_of
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
    unrestored: tuple[str, ...] = ()
    """Entries that can't be restored, because the file now has others with their names."""
    restored: tuple[tuple[str, ...], ...] = ()
    """The paths of the servers that are put back."""
    lost: tuple[str, ...] = ()
    """Variables whose values only the workbench's entry had."""

    @property
    def has_effect(self) -> bool:
        return self.before != self.after


class Installation(NamedTuple):
    """The changes that `install` will make."""

    change: Change
    base: bytes | None
    """The file without the workbench, of which a copy is kept."""
    record: InstallRecord
    previous_record: InstallRecord | None
    """The record of an earlier installation."""
    entry: Mapping[str, object]
    """The entry of the workbench, which may hold secrets."""
    moved: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Installation({str(self.change.path)!r}, moved={self.moved})"

    def write(self, mode: int) -> None:
        """Make the changes. Raises `HostFileError`."""
        path, before, after = self.change.path, self.change.before, self.change.after
        if after is None or not self.change.has_effect:
            return
        copy = files.copy_of(path)
        missing = len(files.missing_folders(path))
        self.record.made_folders = missing or (self.previous_record.made_folders if self.previous_record else 0)
        try:
            files.save(path, self.record, self.base)
            files.replace(path, after, before, mode)
        except HostFileError:
            self._take_back(copy)
            raise

    def _take_back(self, copy: bytes | None) -> None:
        if self.previous_record is not None:
            files.save(self.change.path, self.previous_record, copy)
            return
        files.forget(self.change.path)
        files.remove_folders(self.change.path, self.record.made_folders)


EntryOf = Callable[[HostDocument, Sequence[Sequence[str]], Mapping[str, object]], Mapping[str, object]]
"""Builds the entry for the workbench. Its arguments: the file without the workbench, the paths of the servers to take
out, and the current entry, which is empty if there is none."""


def prepare(host_file: HostFile, name: str, entry_of: EntryOf, leaving: Iterable[Sequence[str]]) -> Installation:
    """Prepare to put the workbench into a file and to take the servers at the paths `leaving` out of it.

    If the workbench is already there, the change starts from the file without it, and the copy is of that.
    """
    path = host_file.path
    current, record = files.read(path), files.load(path)
    entry_path, leaving_paths = (*host_file.file.servers, name), [tuple(path) for path in leaving]
    document = decode(host_file, current)
    _check_free(document, host_file, name, record)
    before = Change(path, current, current) if record is None else restored_file(host_file, current, record)
    base = decode(host_file, before.after)
    removed_paths = [*before.restored, *(path for path in leaving_paths if path not in before.restored)]
    entry = dict(entry_of(base, removed_paths, _entry_in(document, host_file, name, record)))
    if document.at(entry_path) == entry and not leaving_paths and (record is None or record.name == name):
        new_record = record or _new_record(name, entry, digest="")
        return Installation(Change(path, current, current), None, new_record, record, entry)
    if record is None:
        _check_copy(host_file, current)
    changed = base.with_member(entry_path, entry).without_members(removed_paths)
    after = changed.text.encode()
    absent = [entry_path[:end] for end in range(1, len(entry_path)) if base.at(entry_path[:end]) is None]
    new_record = _new_record(name, entry, digest=files.digest(after))
    new_record.made_file = before.after is None
    new_record.made_path = list(absent[0]) if absent else []
    new_record.moved = [list(path) for path in removed_paths]
    moved = tuple(path[-1] for path in leaving_paths)
    return Installation(Change(path, current, after), before.after, new_record, record, entry, moved)


def _new_record(name: str, entry: Mapping[str, object], *, digest: str) -> InstallRecord:
    """A record without variables, since their values may be secrets."""
    return InstallRecord(
        name=name, entry={key: value for key, value in entry.items() if key != VARIABLES}, digest=digest
    )


def current_entry(host_file: HostFile, name: str) -> Mapping[str, object]:
    """The entry of the workbench in a file; empty if there is none. Raises `HostFileError`."""
    return _entry_in(decode(host_file, files.read(host_file.path)), host_file, name, files.load(host_file.path))


def _entry_in(
    document: HostDocument, host_file: HostFile, name: str, record: InstallRecord | None
) -> Mapping[str, object]:
    """The current entry of the workbench, perhaps under another name."""
    entry = document.at((*host_file.file.servers, record.name if record else name))
    return cast("dict[str, object]", entry) if is_ours(entry, record) else {}


def _check_copy(host_file: HostFile, current: bytes | None) -> None:
    """Raise `HostFileError` if a copy would be lost."""
    if files.copy_of(host_file.path) not in (None, current):
        hint = f"Move it away: it has the servers that an earlier installation took out of {host_file.path.name}."
        raise HostFileError("there is a copy already", files.backup_of(host_file.path), hint=hint)


def decode(host_file: HostFile, data: bytes | None) -> HostDocument:
    return HostDocument.decoded(data or b"", host_file.file.syntax, str(host_file.path))


def _check_free(document: HostDocument, host_file: HostFile, name: str, record: InstallRecord | None) -> None:
    """Raise `HostFileError` if another server has this name."""
    servers = document.at(host_file.file.servers)
    if servers is not None and not isinstance(servers, dict):
        raise HostFileError(f"'{'.'.join(host_file.file.servers)}' is not an object", host_file.path)
    entry = document.at((*host_file.file.servers, name))
    if entry is not None and not is_ours(entry, record):
        hint = "Choose another name for the workbench with --name."
        raise HostFileError(f"has another server named '{escape(name)}'", host_file.path, hint=hint)


def is_ours(entry: Any, record: InstallRecord | None) -> bool:
    """Whether an entry starts the workbench, by its command or by the record."""
    return is_workbench(entry) or (record is not None and record.matches(entry))


def restored_file(host_file: HostFile, current: bytes | None, record: InstallRecord) -> Change:
    """The original file, if nothing else changed it. Otherwise the file without our entry and with the moved servers.

    A host that only reformats its file, as Claude Code does, has not changed it.
    """
    copy = files.copy_of(host_file.path)
    moved = tuple(tuple(path) for path in record.moved)
    untouched = current is not None and files.digest(current) == record.digest
    if untouched and (record.made_file or copy is not None):
        return Change(host_file.path, current, None if record.made_file else copy, restored=moved)
    if current is None and not moved:
        return Change(host_file.path, None, None, exact=False)
    original = decode(host_file, copy)
    merged = _merged(host_file, current, record, original)
    if copy and merged.after and _is_plain(current) and _have_equal_values(decode(host_file, merged.after), original):
        return merged._replace(after=copy, exact=True)
    return merged


def _have_equal_values(document: HostDocument, other: HostDocument) -> bool:
    """Whether two documents hold the same values. Compares JSON, since 1 == True in Python."""
    first, second = (msgspec.json.encode(document.tree, order="deterministic") for document in (document, other))
    return first == second


def _is_plain(data: bytes | None) -> bool:
    """Whether a text is plain JSON, without comments that would be lost."""
    try:
        msgspec.json.decode(data or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _merged(host_file: HostFile, current: bytes | None, record: InstallRecord, original: HostDocument) -> Change:
    document = decode(host_file, current)
    entry_path = (*host_file.file.servers, record.name)
    unrestored: list[str] = []
    if is_ours(document.at(entry_path), record):
        document = document.without_member(entry_path)
    elif document.at(entry_path) is not None:
        unrestored.append(record.name)
    moved = [tuple(path) for path in record.moved]
    restored = [path for path in moved if document.at(path) is None and original.at(path) is not None]
    unrestored += [path[-1] for path in moved if path not in restored and document.at(path) != original.at(path)]
    document = document.with_members_of(restored, original)
    if record.made_path and document.at(record.made_path) == {}:
        document = document.without_member(record.made_path)
    after = None if record.made_file and not document.tree else document.text.encode()
    return Change(host_file.path, current, after, exact=False, unrestored=tuple(unrestored), restored=tuple(restored))


_LAST = ".with-workbench"


def last_copy_of(path: Path) -> Path:
    """The path of the copy with the workbench's entry."""
    return path.with_name(path.name + _LAST)


def is_installed(host_file: HostFile) -> bool:
    """Whether a file has the workbench, or a record of it. Raises `HostFileError`."""
    if files.load(host_file.path) is not None:
        return True
    return any(is_workbench(entry) for entry in _entries(host_file, files.read(host_file.path)).values())


def prepare_removal(host_file: HostFile, environment: HostEnvironment) -> Change:
    """Prepare to undo the installation. Raises `HostFileError` if there is none."""
    current = files.read(host_file.path)
    record = files.load(host_file.path)
    change = _without_record(host_file, current) if record is None else restored_file(host_file, current, record)
    return change._replace(lost=tuple(_lost_variables(host_file, change, record, environment)))


def undo(change: Change) -> None:
    """Remove the workbench. Raises `HostFileError`."""
    record = files.load(change.path)
    if change.lost and change.before is not None:
        last = last_copy_of(change.path)
        files.replace(last, change.before, files.read(last))
    if change.after is not None:
        files.replace(change.path, change.after, change.before)
    elif change.before is not None:
        files.remove(change.path, change.before)
    if record is None:
        return
    files.forget(change.path)
    if change.after is None:
        files.remove_folders(change.path, record.made_folders)


def _without_record(host_file: HostFile, current: bytes | None) -> Change:
    document = decode(host_file, current)
    names = [name for name, entry in _entries(host_file, current).items() if is_workbench(entry)]
    if not names:
        raise HostFileError("the workbench is not installed there", host_file.path)
    document = document.without_members([(*host_file.file.servers, name) for name in names])
    return Change(host_file.path, current, document.text.encode(), exact=False)


def _entries(host_file: HostFile, data: bytes | None) -> dict[str, Any]:
    return object_of(decode(host_file, data).at(host_file.file.servers))


def _lost_variables(
    host_file: HostFile, change: Change, record: InstallRecord | None, environment: HostEnvironment
) -> Iterator[str]:
    """Variables whose values would be lost, such as a secret that the user renewed in the entry."""
    document = decode(host_file, change.after)
    # The conversion finds values that hosts write differently, such as a user and a password in an address.
    after = [
        document.tree,
        *(server.converted.entry for server in servers_in(document, host_file, environment) if server.converted),
    ]
    remaining = _entries(host_file, change.after)
    for name, entry in _entries(host_file, change.before).items():
        variables: Any = (
            flattened(dict(entry)).get(VARIABLES) if is_ours(entry, record) and name not in remaining else None
        )
        if isinstance(variables, dict):
            values = cast("dict[str, Any]", variables)
            yield from (
                variable
                for variable in absent_from(after, values)
                if environment.environ.get(variable) != values[variable]
            )
