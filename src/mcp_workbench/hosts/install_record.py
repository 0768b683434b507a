"""What was done to a file of a host, kept beside it: a copy of the file as it was, and a note of what changed.

The copy is a plain file that a person can put back by hand. Both are gone once the workbench is taken out. The note
comes before the copy and goes after it, so that a copy without a note is none that a crash left: it is somebody's.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts import files

_BACKUP = ".before-workbench"
_RECORD = ".workbench.json"


class Record(msgspec.Struct, kw_only=True, rename="camel"):
    """What to undo."""

    name: str
    """What the workbench is called in the file."""
    entry: dict[str, Any]
    """What was written of it."""
    digest: str
    """The hash of the file as it was written."""
    made_file: bool = False
    made_folders: int = 0
    """How many of the folders above it were made with it."""
    made_path: list[str] = []
    """The outermost object that was made for the workbench."""
    moved: list[list[str]] = []
    """Where the servers stood that were taken out."""

    def is_of(self, entry: Any) -> bool:
        """Whether an entry starts what was written; somebody may have added arguments, and changed the rest."""
        here, written = _started(entry), _started(self.entry)
        return here[: len(written)] == written


def _started(entry: Any) -> list[Any]:
    held = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    args = held.get("args")
    return [held.get("command"), *(cast("list[Any]", args) if isinstance(args, list) else ())]


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + _BACKUP)


def record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{_RECORD}")


def load(path: Path) -> Record | None:
    """The record beside a file; None where there is none. Raises `HostFileError`."""
    data = files.read(record_of(path))
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Record)
    except msgspec.DecodeError:
        hint = f"Take the workbench out by hand; the file as it was is {backup_of(path).name}, beside it."
        raise HostFileError("is no record of an installation", record_of(path), hint=hint) from None


def copy_of(path: Path) -> bytes | None:
    """The file as it was; None where there is no copy. Raises `HostFileError`."""
    return files.read(backup_of(path))


def save(path: Path, record: Record, before: bytes | None) -> None:
    """Keep a record, and a copy of the file as it was, if there was one. Raises `HostFileError`."""
    note = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    files.replace(record_of(path), note, files.read(record_of(path)))
    if before is not None:
        files.replace(backup_of(path), before, copy_of(path))


def forget(path: Path) -> None:
    """Remove both. Raises `HostFileError`."""
    files.discard(backup_of(path))
    files.discard(record_of(path))
