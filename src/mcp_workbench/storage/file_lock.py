"""Locks a file or a folder for this process, waits for it for a bounded time, and says who holds it.

The lock is advisory and ends with the process that holds it. `/proc/locks` says who that is; without that file, or if
the holder is in another namespace, it says "another process".
"""

# ruff: noqa: PTH116, PTH119, PTH123 -- secure_files.py imports it on the way to a first open, without pathlib

from __future__ import annotations

import os
import time

from mcp_workbench.text.sanitize import escape

LOGIN_POLL_SECONDS = 0.05
"""How often it looks whether that is done."""

_OURS = ("mcp-workbench", "workbench-mcp", "mcp_workbench")
_FLOCK, _PID, _FILE = "FLOCK", 4, 5
"""The kind of our locks, and the fields of a line of `/proc/locks` behind its number."""


def take(descriptor: int, seconds: float, poll_seconds: float) -> bool:
    """Take the lock on an open file; False if another process holds it for the whole time. Raises `OSError`."""
    import fcntl  # noqa: PLC0415 -- few need it

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
    """Which process holds the lock on a file: its number and its command, without arguments. Raises `OSError`."""
    pid = _holder(os.stat(file))
    return f"process {pid} ({_command(pid)})" if pid else "another process"


def _holder(status: os.stat_result) -> int:
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            fields = [line.split() for line in locks]
    except OSError:
        return 0
    held = (one for one in fields if len(one) > _FILE and one[1] == _FLOCK)
    return next((int(one[_PID]) for one in held if one[_FILE] == device), 0)


def _command(pid: int) -> str:
    """The name of a program, and for our own the command: further words may hold secrets."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [os.path.basename(word) for word in file.read().decode("utf-8", "replace").split("\0")]
    except OSError:
        return "?"
    ours = next((at for at, word in enumerate(words) if word in _OURS), None)
    return escape(words[0] if ours is None else " ".join([_OURS[0], *words[ours + 1 : ours + 2]]))
