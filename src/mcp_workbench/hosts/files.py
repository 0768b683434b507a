"""A file that another program owns is read, and replaced whole.

Guarantees: a reader sees the old file or the new one and nothing between; a symbolic link stays one, and what it leads
to is replaced; owner and permissions stay; a file that is read-only, or changed since it was read, is not replaced.
A file with hard links, or that is a mount point, is written in place instead: a reader may see it half written.
What a process that was killed leaves behind is never the file itself, and goes with the next change.
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
from typing import Any, cast

import msgspec

from mcp_workbench.command_errors import FileBusy, HostFileError
from mcp_workbench.storage import secure_files

HOST_FILE_BYTES = 32 * 1024 * 1024
"""A configuration of a host: some keep the history of every project in it."""
HOST_LOCK_SECONDS = 10.0
"""How long one command waits while others change files of the same folder. Each takes milliseconds, unless it asks
its user something."""
HOST_LOCK_POLL_SECONDS = 0.02
"""How often it tries to get the lock."""

PRIVATE = stat.S_IRUSR | stat.S_IWUSR
SHARED = PRIVATE | stat.S_IRGRP | stat.S_IROTH


def read(path: Path) -> bytes | None:
    """What is in the file; None where there is none. Raises `HostFileError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():
            raise HostFileError("is a link that leads nowhere", path) from None
        return None
    except (OSError, ValueError) as error:
        raise unusable(path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise HostFileError("is no regular file", path)
        data = _read(descriptor, HOST_FILE_BYTES + 1)
    except OSError as error:
        raise unusable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > HOST_FILE_BYTES:
        raise HostFileError(f"is larger than {HOST_FILE_BYTES} bytes", path)
    return data


def _read(descriptor: int, most: int) -> bytes:
    chunks: list[bytes] = []
    while most > 0 and (chunk := os.read(descriptor, most)):
        chunks.append(chunk)
        most -= len(chunk)
    return b"".join(chunks)


@contextlib.contextmanager
def alone(path: Path, *, makes_folder: bool = False, seconds: float = HOST_LOCK_SECONDS) -> Generator[None]:
    """No other workbench changes files of this folder meanwhile. Raises `FileBusy` where one does for too long.

    `makes_folder`: a missing folder is made, and removed if it is left empty.
    """
    path = Path(os.path.realpath(path))
    missing = missing_folders(path) if makes_folder else []
    descriptor = _folder_of(path, makes_folder=makes_folder)
    try:
        # Some file systems have no locks; what changed meanwhile is noticed anyway.
        with contextlib.suppress(OSError):
            if not secure_files.acquire(descriptor, seconds, HOST_LOCK_POLL_SECONDS):
                raise FileBusy(path, secure_files.holder(descriptor))
        yield
    finally:
        os.close(descriptor)
        remove_folders(path, len(missing))


def _folder_of(path: Path, *, makes_folder: bool) -> int:
    """The folder of a file, or the nearest one above it that exists."""
    try:
        if makes_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        folder = next(one for one in path.parents if one.is_dir())
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unusable(path.parent, error) from None


def replace(path: Path, data: bytes, known: bytes | None, mode: int = PRIVATE) -> None:
    """Write the file, in the place of one that holds `known`; its folders are made. Raises `HostFileError`."""
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(target.parent, error) from None
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        _sweep(target)
        _write(new, data, mode, None if known is None else target)
        _check_unchanged(path, known)
        _put(new, target, data)
    except OSError as error:
        raise unusable(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            new.unlink()


def _put(new: Path, target: Path, data: bytes) -> None:
    """Rename `new` to `target`; a file with several names, or that is a mount of its own, is written in place."""
    if target.exists() and target.stat().st_nlink > 1:
        secure_files.overwrite(str(target), data)
        return
    try:
        new.replace(target)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        secure_files.overwrite(str(target), data)


def remove(path: Path, known: bytes) -> None:
    """Remove a file that holds `known`. Raises `HostFileError`."""
    _check_unchanged(path, known)
    discard(path)


def discard(path: Path) -> None:
    """Remove a file of our own, if it is there. Raises `HostFileError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unusable(path, error) from None


def missing_folders(path: Path) -> list[Path]:
    """The folders that it takes to make a file, from the outermost."""
    return [one for one in reversed(path.parents) if not one.exists()]


def remove_folders(path: Path, number: int) -> None:
    """Remove so many of the folders above a file that is gone, as long as they are empty."""
    for folder in path.parents[:number]:
        with contextlib.suppress(OSError):
            folder.rmdir()


def unusable(path: Path, error: OSError | ValueError) -> HostFileError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "this is no file name"
    return HostFileError(f"can't be used: {reason[0].lower()}{reason[1:]}", path)


def _check_unchanged(path: Path, known: bytes | None) -> None:
    if read(path) != known:
        raise HostFileError("changed while it was being edited", path, hint="Close the host, and try again.")


def _sweep(target: Path) -> None:
    """Remove what processes that were killed left here."""
    for one in target.parent.iterdir():
        named = re.fullmatch(rf"\.{re.escape(target.name)}\.([0-9]+)\.new", one.name)
        if named and not _is_running(int(named[1])):
            one.unlink(missing_ok=True)


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
    with open(descriptor, "wb") as file:  # noqa: PTH123 -- it is open already
        file.write(data)
        file.flush()
        if like is None:
            os.fchmod(descriptor, mode)
        else:
            _liken(descriptor, like)
        os.fsync(descriptor)


def _liken(descriptor: int, old: Path) -> None:
    """Give a new file the owner, the attributes and the permissions of the one whose place it takes."""
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


def load(path: Path) -> InstallRecord | None:
    """The record beside a file; None where there is none. Raises `HostFileError`."""
    data = read(record_of(path))
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=InstallRecord)
    except msgspec.DecodeError:
        hint = f"Take the workbench out by hand; the file as it was is {backup_of(path).name}, beside it."
        raise HostFileError("is no record of an installation", record_of(path), hint=hint) from None


def copy_of(path: Path) -> bytes | None:
    """The file as it was; None where there is no copy. Raises `HostFileError`."""
    return read(backup_of(path))


def save(path: Path, record: InstallRecord, before: bytes | None) -> None:
    """Keep a record, and a copy of the file as it was, if there was one. Raises `HostFileError`."""
    note = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    replace(record_of(path), note, read(record_of(path)))
    if before is not None:
        replace(backup_of(path), before, copy_of(path))


def forget(path: Path) -> None:
    """Remove both. Raises `HostFileError`."""
    discard(backup_of(path))
    discard(record_of(path))
