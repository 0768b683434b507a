"""Files that only this user can read, write or replace, and locks on them.

Guarantees: new files have mode 0600 and new folders 0700, whatever the umask; a file that others can read is closed to
them; symbolic links, files of other users and folders that everyone can write to are refused. That includes sticky
folders such as /tmp, since SQLite trusts any file next to its own that has the name of a journal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Generator
from typing import TypeAlias

from mcp_workbench import logger
from mcp_workbench.config.locate import FOLDER_NAME
from mcp_workbench.text.sanitize import escape

# ruff: noqa: PTH100, PTH101, PTH102, PTH105, PTH108, PTH116, PTH117, PTH118, PTH119, PTH120, PTH123, PTH208 -- a first
# open needs this module, and importing pathlib takes longer than all of it

LOGIN_POLL_SECONDS = 0.05
"""How often a waiting process tries to acquire a lock."""

_OURS = ("mcp-workbench", "workbench-mcp", "mcp_workbench")
_FLOCK, _PID, _INODE = "FLOCK", 4, 5
"""The type of our locks, and the positions of the fields in a line of `/proc/locks`."""


def acquire(descriptor: int, seconds: float, poll_seconds: float) -> bool:
    """Lock an open file; False if another process holds the lock for the whole time. Raises `OSError`."""
    import fcntl  # noqa: PLC0415 -- rarely needed

    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(poll_seconds)
        else:
            return True


def holder(file: int | str) -> str:
    """The PID and the command, without arguments, of the process that holds the lock on a file. Raises `OSError`."""
    pid = _holder(os.stat(file))
    return f"process {pid} ({_command(pid)})" if pid else "another process"


def _holder(status: os.stat_result) -> int:
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            fields = [line.split() for line in locks]
    except OSError:
        return 0
    held = (one for one in fields if len(one) > _INODE and one[1] == _FLOCK)
    return next((int(one[_PID]) for one in held if one[_INODE] == device), 0)


def _command(pid: int) -> str:
    """The name of a program, and for our own also the command. Further arguments may hold secrets."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [os.path.basename(word) for word in file.read().decode("utf-8", "replace").split("\0")]
    except OSError:
        return "?"
    ours = next((at for at, word in enumerate(words) if word in _OURS), None)
    return escape(words[0] if ours is None else " ".join([_OURS[0], *words[ours + 1 : ours + 2]]))


Identity: TypeAlias = tuple[int, int]
"""Device and inode: tell whether a path still leads to the same file."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_FILE = stat.S_IRUSR | stat.S_IWUSR
_FOLDER = stat.S_IRWXU
_SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

warned: set[tuple[str, str]] = set()
"""The messages and paths that `warn_once` has logged in this process."""


class Busy(Exception):
    """Another process has locked the file."""


class Damaged(Exception):
    """The content of a file is not ours, or broken; the text says how."""


class Unusable(Exception):
    """A file can't be used; the text says why."""


def located(path: str) -> str:
    """The absolute path, or the path unchanged if there is no home folder or no current one."""
    try:
        return path if path.startswith("~") else os.path.abspath(path)
    except OSError:
        return path


def make_folder(path: str) -> None:
    """Create the folder of `path` if needed and check that it is safe. Raises `Unusable` or `OSError`."""
    if not _is_passable(path):
        raise Unusable("this path can't be used")
    folder = os.path.dirname(path)
    try:
        os.lstat(folder)
    except FileNotFoundError:
        _make_missing(folder)
    check_folder(path)


def check_folder(path: str) -> None:
    """Check that the existing folder of `path` is safe, and close our own to others. Raises `Unusable` or `OSError`."""
    folder = os.path.dirname(path)
    link, status = os.lstat(folder), os.stat(folder)
    if {link.st_uid, status.st_uid} - {0, os.geteuid()}:  # the owner of a link can change its target
        raise Unusable("its folder belongs to another user")
    if status.st_mode & stat.S_IWOTH:
        raise Unusable("everyone can write to its folder")
    if os.path.basename(folder) == FOLDER_NAME and status.st_uid == os.geteuid() and is_open(status):
        os.chmod(folder, _FOLDER)


def inspect(path: str) -> os.stat_result | None:
    """The status of a file; None if there is none. Raises `Unusable` unless it is our regular file, or `OSError`."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise Unusable("it is a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise Unusable("it is not a regular file")
    if status.st_uid != os.geteuid():
        raise Unusable("it belongs to another user")
    return status


def is_open(status: os.stat_result) -> bool:
    """Whether others have any access."""
    return bool(status.st_mode & _OTHERS)


def is_writable_by_others(status: os.stat_result) -> bool:
    """Whether others can write to the file."""
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def check(path: str) -> Identity | None:
    """Close a file to others and return its identity; None, and errors, as for `inspect`."""
    status = inspect(path)
    if status is not None and is_open(status):
        os.chmod(path, _FILE)
    return (status.st_dev, status.st_ino) if status is not None else None


def create(path: str, content: bytes = b"") -> None:
    """Create a file. Raises `FileExistsError` or another `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, _FILE)
    try:
        os.fchmod(descriptor, _FILE)
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def ensure_file(path: str) -> Identity | None:
    """Create a file if there is none, close it to others, and return its identity. Raises `Unusable` or `OSError`."""
    make_folder(path)
    if (known := check(path)) is None:
        with contextlib.suppress(FileExistsError):  # another process was quicker
            create(path)
        known = check(path)
    return known


def replace(path: str, content: bytes) -> None:
    """Replace a file atomically. Raises `OSError`."""
    new = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, _FILE)
    try:
        try:
            os.fchmod(descriptor, _FILE)
            written = 0
            while written < len(content):
                written += os.write(descriptor, content[written:])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _move(new, path, content)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def _move(new: str, path: str, content: bytes) -> None:
    """Rename `new` to `path`. A file that is a mount point can only be written in place."""
    try:
        os.replace(new, path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        overwrite(path, content)
        os.unlink(new)


def overwrite(path: str, content: bytes) -> None:
    """Write a file in place, which keeps its hard links and mounts, and restore it on failure. Raises `OSError`.

    The part beyond the old end is written first, so a full disk is noticed before anything is lost.
    """
    descriptor = os.open(path, os.O_RDWR | _SAFELY)
    try:
        before = _read_at(descriptor, 0, os.fstat(descriptor).st_size)
        try:
            _write_at(descriptor, content[len(before) :], len(before))
            _write_at(descriptor, content[: len(before)], 0)
            os.ftruncate(descriptor, len(content))
            os.fsync(descriptor)
        except BaseException:
            _write_at(descriptor, before, 0)
            os.ftruncate(descriptor, len(before))
            raise
    finally:
        os.close(descriptor)


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.pread(descriptor, size, offset)):
        pieces.append(piece)
        offset, size = offset + len(piece), size - len(piece)
    return b"".join(pieces)


def _write_at(descriptor: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def sweep(path: str) -> None:
    """Remove leftovers of `replace` in killed processes. No process may be writing. Raises `OSError`."""
    folder, name = os.path.split(path)
    for entry in os.listdir(folder):
        if re.fullmatch(rf"{re.escape(name)}\.[0-9]+\.[0-9a-f]{{8}}\.new", entry):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, entry))


def lock(path: str, seconds: float = 0.0, poll_seconds: float = 0.0) -> int | None:
    """Lock a file until the returned descriptor is closed; None if another process has locked it. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, _FILE)
    is_taken = False
    try:
        is_taken = acquire(descriptor, seconds, poll_seconds)
    finally:
        if not is_taken:
            os.close(descriptor)
    return descriptor if is_taken else None


@contextlib.contextmanager
def locked(path: str, seconds: float, poll_seconds: float) -> Generator[None]:
    """Hold the lock of `path` during the block. Raises `Unusable` if another process holds it too long."""
    if (descriptor := lock(f"{path}.lock", seconds, poll_seconds)) is None:
        raise Unusable(f"{holder(f'{path}.lock')} has locked it")
    try:
        yield
    finally:
        os.close(descriptor)


def read(path: str, most: int) -> bytes:
    """The first bytes of a file. Raises `OSError`.

    Never call this for a database in use: closing a file releases all locks that this process has on it.
    """
    descriptor = os.open(path, os.O_RDONLY | _SAFELY)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def identity(path: str) -> Identity | None:
    """The identity of a file; None if there is none or it is inaccessible."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def remove(path: str, known: Identity | None) -> None:
    """Remove a file, unless another process has replaced it. Raises `OSError`."""
    if known is not None and identity(path) == known:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def warn_once(message: str, path: str, reason: object) -> None:
    """Log a warning once per process."""
    if (message, path) not in warned:
        warned.add((message, path))
        logger.warning(message, file=path, reason=reason)


def reason(error: Exception) -> str:
    """Why a file can't be used, without its path."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _is_passable(path: str) -> bool:
    """Whether the path is absolute and can be passed to the system."""
    try:
        return os.path.isabs(path) and b"\x00" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _make_missing(folder: str) -> None:
    missing: list[str] = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was quicker
            os.mkdir(one, _FOLDER)
            os.chmod(one, _FOLDER)
