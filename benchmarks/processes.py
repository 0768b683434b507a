"""Which processes a program consists of and how much memory they hold, on Linux and macOS."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MEGABYTE = 1e6
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    memory_bytes: int
    command: str


def tree(pid: int) -> list[Process]:
    """The process and all that descend from it, itself first."""
    everyone = running()
    found = [process for process in everyone if process.pid == pid]
    for ancestor in found:  # grows while it is read: children, then theirs
        found += [process for process in everyone if process.parent == ancestor.pid]
    return found


def memory_mb(processes: list[Process], *, without: str = "\0") -> float:
    """Resident memory in 10^6 bytes, leaving out the processes whose command holds `without`."""
    return sum(process.memory_bytes for process in processes if without not in process.command) / MEGABYTE


def end_survivors(processes: list[Process], patience_seconds: float) -> int:
    """How many of them still run after `patience_seconds`. Those are killed."""
    deadline = time.monotonic() + patience_seconds
    while (left := _still_running(processes)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    for process in left:
        os.kill(process.pid, signal.SIGKILL)
    return len(left)


def running() -> list[Process]:
    return _from_proc() if (PROC / "self").exists() else _from_ps()


def _still_running(processes: list[Process]) -> list[Process]:
    now = {process.pid: process.command for process in running()}
    return [process for process in processes if now.get(process.pid) == process.command]


def _from_proc() -> list[Process]:
    found: list[Process] = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                found.append(_read_proc(entry))
            except OSError:
                continue  # it ended while we looked
    return found


def _read_proc(entry: Path) -> Process:
    # The name of the program may hold anything, so fields are counted from behind it.
    fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(int(entry.name), int(fields[1]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), command)


def _from_ps() -> list[Process]:
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,rss=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split(maxsplit=3) for line in listing.splitlines())
    return [Process(int(row[0]), int(row[1]), int(row[2]) * 1024, row[3]) for row in rows if len(row) == 4]
