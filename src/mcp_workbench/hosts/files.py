"""Reads and atomically replaces files that other programs own, and keeps a record next to a changed file.

Guarantees: a reader sees the old file or the new one, never a part. A symbolic link stays, and its target is replaced.
Owner and permissions stay. A file that is read-only, or that changed since it was read, is not replaced. A file with
hard links or on a mount point is written in place, so a reader may see a part of it. A killed process leaves only
temporary files behind, which the next change removes.

Next to a file that the workbench is installed in stand a copy of the original and an `InstallRecord` of the changes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Generator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from mcp_workbench.command_errors import FileBusy, HostFileError
from mcp_workbench.config.jsonc.source import read_bytes, reason_of
from mcp_workbench.hosts.registry import list_of, object_of
from mcp_workbench.storage import secure_files

HOST_FILE_BYTES = 32 * 1024 * 1024
"""The largest file of a host. Some keep the history of every project in it."""
HOST_LOCK_SECONDS = 10.0
"""How long a command waits while another one changes files of the same folder. Each takes milliseconds, unless it
waits for the answer of its user."""
HOST_LOCK_POLL_SECONDS = 0.02
"""The interval between attempts to get the lock."""

PRIVATE = stat.S_IRUSR | stat.S_IWUSR
SHARED = PRIVATE | stat.S_IRGRP | stat.S_IROTH


def read(path: Path) -> bytes | None:
    """The content of the file; None if it does not exist. Raises `HostFileError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():
            raise HostFileError("is a broken link", path) from None
        return None
    except (OSError, ValueError) as error:
        raise unusable(path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise HostFileError("is not a regular file", path)
        data = read_bytes(descriptor, HOST_FILE_BYTES + 1)
    except OSError as error:
        raise unusable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > HOST_FILE_BYTES:
        raise HostFileError(f"is larger than {HOST_FILE_BYTES} bytes", path)
    return data


@contextlib.contextmanager
def locked(path: Path, *, makes_folder: bool = False, seconds: float = HOST_LOCK_SECONDS) -> Generator[None]:
    """Lock the folder of a file against other workbench commands. Raises `FileBusy` if one holds the lock too long.

    `makes_folder` creates a missing folder, and removes it afterwards if it is empty.
    """
    path = Path(os.path.realpath(path))
    missing = missing_folders(path) if makes_folder else []
    descriptor = _open_folder(path, makes_folder=makes_folder)
    try:
        # Some file systems have no locks; `replace` notices changes anyway.
        with contextlib.suppress(OSError):
            if not secure_files.acquire(descriptor, seconds, HOST_LOCK_POLL_SECONDS):
                raise FileBusy(path, secure_files.holder(descriptor))
        yield
    finally:
        os.close(descriptor)
        remove_folders(path, len(missing))


def _open_folder(path: Path, *, makes_folder: bool) -> int:
    """A descriptor of the folder of a file, or of its nearest existing parent."""
    try:
        if makes_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        folder = next(parent for parent in path.parents if parent.is_dir())
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unusable(path.parent, error) from None


def replace(path: Path, data: bytes, expected: bytes | None, mode: int = PRIVATE) -> None:
    """Replace a file that holds `known`, or create it with its folders. Raises `HostFileError`."""
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(target.parent, error) from None
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        _remove_leftovers(target)
        _write(new, data, mode, None if expected is None else target)
        _check_unchanged(path, expected)
        _move_into_place(new, target, data)
    except OSError as error:
        raise unusable(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            new.unlink()


def _move_into_place(new: Path, target: Path, data: bytes) -> None:
    """Rename `new` to `target`. A file with hard links or on a mount point is written in place."""
    if target.exists() and target.stat().st_nlink > 1:
        secure_files.overwrite(str(target), data)
        return
    try:
        new.replace(target)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        secure_files.overwrite(str(target), data)


def remove(path: Path, expected: bytes) -> None:
    """Remove a file that holds `known`. Raises `HostFileError`."""
    _check_unchanged(path, expected)
    discard(path)


def discard(path: Path) -> None:
    """Remove a file of the workbench, if it exists. Raises `HostFileError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unusable(path, error) from None


def missing_folders(path: Path) -> list[Path]:
    """The missing parent folders of a file, outermost first."""
    return [folder for folder in reversed(path.parents) if not folder.exists()]


def remove_folders(path: Path, number: int) -> None:
    """Remove this many parent folders of a removed file, as long as they are empty."""
    for folder in path.parents[:number]:
        with contextlib.suppress(OSError):
            folder.rmdir()


def unusable(path: Path, error: OSError | ValueError) -> HostFileError:
    return HostFileError(f"can't be used: {reason_of(error)}", path)


def _check_unchanged(path: Path, expected: bytes | None) -> None:
    if read(path) != expected:
        raise HostFileError("changed while it was being edited", path, hint="Close the host, and try again.")


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files of killed processes."""
    for file in target.parent.iterdir():
        match = re.fullmatch(rf"\.{re.escape(target.name)}\.([0-9]+)\.new", file.name)
        if match and not _is_running(int(match[1])):
            file.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _write(path: Path, data: bytes, mode: int, like: Path | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    with open(descriptor, "wb") as file:  # noqa: PTH123 -- it is a descriptor
        file.write(data)
        file.flush()
        if like is None:
            os.fchmod(descriptor, mode)
        else:
            _copy_attributes(descriptor, like)
        os.fsync(descriptor)


def _copy_attributes(descriptor: int, old: Path) -> None:
    """Give a new file the owner, the attributes and the permissions of the old one."""
    was, now = old.stat(), os.fstat(descriptor)
    if not was.st_mode & stat.S_IWUSR or not os.access(old, os.W_OK):
        raise HostFileError("is read-only", old, hint="Make it writable, and try again.")
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.fchown(descriptor, was.st_uid, was.st_gid)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # some file systems have none
            for name in os.listxattr(old):
                os.setxattr(descriptor, name, os.getxattr(old, name))
    os.fchmod(descriptor, stat.S_IMODE(was.st_mode))


_BACKUP = ".before-workbench"
_RECORD = ".workbench.json"


class InstallRecord(msgspec.Struct, kw_only=True, rename="camel"):
    """What `uninstall` has to undo."""

    name: str
    """The name of the workbench in the file."""
    entry: dict[str, Any]
    """The entry as written, without variables."""
    digest: str
    """The hash of the file after the installation."""
    made_file: bool = False
    made_folders: int = 0
    """How many parent folders were created."""
    made_path: list[str] = []
    """The path of the outermost object that was created for the entry."""
    moved: list[list[str]] = []
    """The paths of the servers that were taken out."""

    def matches(self, entry: Any) -> bool:
        """Whether an entry still starts the installed program, with the same first arguments."""
        current, installed = _started(entry), _started(self.entry)
        return current[: len(installed)] == installed


def _started(entry: Any) -> list[Any]:
    return [object_of(entry).get("command"), *list_of(object_of(entry).get("args"))]


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + _BACKUP)


def record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{_RECORD}")


def load(path: Path) -> InstallRecord | None:
    """The record next to a file; None if there is none. Raises `HostFileError`."""
    data = read(record_of(path))
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=InstallRecord)
    except msgspec.DecodeError:
        hint = f"Remove the workbench by hand. The original file is next to it: {backup_of(path).name}"
        raise HostFileError("is not a record of an installation", record_of(path), hint=hint) from None


def copy_of(path: Path) -> bytes | None:
    """The copy of the original file; None if there is none. Raises `HostFileError`."""
    return read(backup_of(path))


def save(path: Path, record: InstallRecord, before: bytes | None) -> None:
    """Write a record, and a copy of the original file if it existed. Raises `HostFileError`."""
    note = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    replace(record_of(path), note, read(record_of(path)))
    if before is not None:
        replace(backup_of(path), before, copy_of(path))


def forget(path: Path) -> None:
    """Remove the record and the copy. Raises `HostFileError`."""
    discard(backup_of(path))
    discard(record_of(path))
