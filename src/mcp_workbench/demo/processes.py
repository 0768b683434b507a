"""Which demo servers are running right now, as the operating system tells it.

Looks at the descendants of this process in /proc, so it says what is there and not what the
workbench says is there. Where there is no /proc, the answer is None: not known.
"""

from __future__ import annotations

import os
from pathlib import Path

from mcp_workbench.demo.toolboxes import PACKAGE

_PROC = Path("/proc")


def running_servers() -> list[str] | None:
    """The names of the demo servers below this process, sorted."""
    if not (_PROC / "self" / "stat").is_file():
        return None
    names = (server_name(pid) for pid in _descendants(os.getpid()))
    return sorted(name for name in names if name)


def server_pids() -> list[int]:
    """The demo servers below this process, to be looked for later when they may be nobody's."""
    return [pid for pid in _descendants(os.getpid()) if server_name(pid)]


def server_name(pid: int) -> str | None:
    """The demo server that this process is, None for any other or none."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return None
    prefix = f"{PACKAGE}."
    return next((word.removeprefix(prefix) for word in words if word.startswith(prefix)), None)


def _descendants(pid: int) -> list[int]:
    parents = _parents()
    found = [pid]
    for ancestor in found:  # grows while it is read: each generation adds the next
        found.extend(child for child, parent in parents.items() if parent == ancestor)
    return found[1:]


def _parents() -> dict[int, int]:
    if not _PROC.is_dir():
        return {}
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return {pid: parent for pid in pids if (parent := _parent(pid)) is not None}


def _parent(pid: int) -> int | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold anything, brackets too.
    return int(stat[stat.rindex(")") + 1 :].split()[1])
