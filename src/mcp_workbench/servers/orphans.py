"""Processes that servers leave behind: adopted, reaped when they end, killed when no server can own them any more.

Linux gives a process whose parent ended to the nearest subreaper above it, or to PID 1. A process that serves makes
itself a subreaper, so it finds daemons that hide their environment and left their group: they are its children. Those
are killed once every server that ran when they were started has ended, and at the end of the run. As PID 1, this
process gets orphans of others too: it reaps them but does not kill them. Outside of Linux, nothing is adopted.
"""

# ruff: noqa: PTH123, PTH208 -- in a process that serves, where importing pathlib is noticeable

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from mcp_workbench import logger
from mcp_workbench.limits import Limits

GROUP_POLL_SECONDS = 0.02
"""How often to check whether a process group is empty: there is no event for it."""
ORPHAN_LOOK_SECONDS = 1.0
"""The delay after the start of a server or the end of a child until the workbench looks for orphans."""

_SET_CHILD_SUBREAPER: Final = 36
_STATE, _SESSION, _START = 0, 3, 19
"""Fields of /proc/PID/stat behind the name of the program."""
_INIT: Final = 1


class ProcessStat(NamedTuple):
    """A child of this process."""

    pid: int
    start: int
    """When it was started, in clock ticks since boot."""
    session: int
    is_over: bool


def start_of(pid: int) -> int:
    """When a process was started, in ticks since boot; -1 if unknown."""
    found = _read_stat(pid)
    return found.start if found is not None else -1


def become_subreaper() -> bool:
    """Make orphans of our servers our children from now on. Returns whether it worked; a failure does no harm."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes  # noqa: PLC0415 -- importing it takes a few milliseconds

        return ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (ImportError, OSError, AttributeError):  # a Python without ctypes, another C library
        return False


class Orphans:
    """The orphans that this process adopted. It belongs to the event loop in which it was made."""

    def __init__(
        self,
        own: Callable[[], Collection[int]],
        adopted: Callable[[ProcessStat], None],
        limits: Limits,
        *,
        adopts: bool,
    ) -> None:
        """`own`: the children that others wait for. `adopted` is called once for each orphan."""
        self._own = own
        self._adopted = adopted
        self._limits = limits
        self._adopts = adopts and become_subreaper()
        self._timer: asyncio.TimerHandle | None = None
        self.known: set[ProcessStat] = set()
        if self._adopts:
            self._watch()

    def look_later(self) -> None:
        """Look for orphans soon: an orphan that is known is ended even if we are killed."""
        if self._adopts and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ORPHAN_LOOK_SECONDS, self._look)

    def kill_older_than(self, starts: Iterable[int]) -> None:
        """Kill the orphans that no running server can have started."""
        if not self._adopts or os.getpid() == _INIT:
            return
        oldest = min(starts, default=None)
        for orphan in self._living():
            if oldest is None or orphan.start < oldest:
                _kill(orphan)
        self.look_later()

    async def close(self) -> None:
        """Kill all of them, and what they leave behind, for as long as a sweep may take."""
        if not self._adopts:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.sweep_seconds
        while (left := self._living()) and os.getpid() != _INIT and loop.time() < deadline:
            for orphan in left:
                _kill(orphan)
            await asyncio.sleep(GROUP_POLL_SECONDS)
        if self._timer is not None:
            self._timer.cancel()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _watch(self) -> None:
        """Reap soon after a child ended. Servers are waited for elsewhere, each by its own descriptor."""
        loop = asyncio.get_running_loop()

        def ended(number: int, frame: object) -> None:
            del number, frame
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.look_later)

        try:
            signal.signal(signal.SIGCHLD, ended)
        except ValueError:  # not the main thread, which alone may; orphans are looked for at other times
            return

    def _look(self) -> None:
        self._timer = None
        found = set(self._living())
        for orphan in found - self.known:
            logger.debug("a server left a process behind", pid=orphan.pid)
            self._adopted(orphan)
        self.known = found

    def _living(self) -> list[ProcessStat]:
        """The orphans that run; those that ended are reaped."""
        own, session = self._own(), os.getsid(0)
        # Processes that a library starts are in our session; servers and their descendants are not.
        orphans = [one for one in _children() if one.pid not in own and one.session != session]
        for one in orphans:
            if one.is_over:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(one.pid, os.WNOHANG)
        return [one for one in orphans if not one.is_over]


def _children() -> list[ProcessStat]:
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", "rb") as file:
                pids += map(int, file.read().split())
    return [one for one in map(_read_stat, pids) if one is not None]


def _read_stat(pid: int) -> ProcessStat | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return ProcessStat(pid, int(fields[_START]), int(fields[_SESSION]), fields[_STATE] in "ZX")


def _kill(orphan: ProcessStat) -> None:
    with contextlib.suppress(OSError):  # it changed to another user, or has ended
        os.kill(orphan.pid, signal.SIGKILL)
