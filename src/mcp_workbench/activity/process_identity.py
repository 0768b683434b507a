"""Identifies a process safely despite PID reuse, by its PID and the time of its birth."""

# ruff: noqa: PTH123 -- in a process that serves, where importing pathlib is noticeable

from __future__ import annotations

import os
import sys

RECORD_PS_SECONDS = 2.0
"""How long `ps` may take to report when a process started, on systems without `/proc`."""

_STARTED = 19
"""The field of /proc/PID/stat after the program's name with the start time, in ticks since boot."""
_STATE = 0
_BOOT = "/proc/sys/kernel/random/boot_id"


def birth(pid: int) -> str:
    """Identifies one process among all with the same PID; empty if there is no such process."""
    return _in_proc(pid) if sys.platform == "linux" else _of_ps(pid)


def _in_proc(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        with open(_BOOT, encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        return ""
    return "" if fields[_STATE] in "ZX" else f"{boot}:{fields[_STARTED]}"


def _of_ps(pid: int) -> str:
    import subprocess  # noqa: PLC0415 -- only on systems without /proc

    try:
        done = subprocess.run(  # noqa: S603 -- a number of ours
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            capture_output=True,
            check=False,
            timeout=RECORD_PS_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return " ".join(done.stdout.decode("ascii", "replace").split())
