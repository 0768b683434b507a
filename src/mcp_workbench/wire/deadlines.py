"""How long requests may wait: one timer for all that a peer has made, set to the earliest deadline.

A request has a deadline for silence, which progress starts again, and a hard one. While the other side
waits for somebody else its silence is not its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Generator

import msgspec
from msgspec import Raw

from mcp_workbench.errors import CallTimeout
from mcp_workbench.wire.exchange import OnProgress

NEVER = float("inf")


class Pending(msgspec.Struct, eq=False):
    """A request of ours that waits for its answer."""

    future: asyncio.Future[Raw]
    on_progress: OnProgress | None
    owner: object
    lenient: bool
    quiet_since: float
    idle_seconds: float
    hard_seconds: float
    hard_at: float


class Deadlines:
    """The deadlines of the requests in `pending`, which others fill and empty."""

    def __init__(self, pending: Collection[Pending]) -> None:
        self._pending = pending
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.due = NEVER
        """When the timer looks for deadlines that passed."""
        self._holds: Counter[object] = Counter()
        self._is_closed = False

    @property
    def is_held(self) -> bool:
        """Whether the other side waits for somebody else now."""
        return bool(self._holds)

    @contextlib.contextmanager
    def held(self, owner: object = None) -> Generator[None]:
        """The other side waits for somebody else meanwhile: its silence is not its own.

        That holds for the requests of `owner`, for all where that is None. Idle deadlines start again
        afterwards; hard ones count on.
        """
        self._holds[owner] += 1
        try:
            yield
        finally:
            now = self._loop.time()
            for pending in self._pending:
                if self._is_held(pending):
                    pending.quiet_since = now
            self._holds[owner] -= 1
            self._holds = +self._holds
            self._look()

    def close(self) -> None:
        """Nothing waits any more."""
        self._is_closed = True
        self.arm(NEVER)

    def _is_held(self, pending: Pending) -> bool:
        return None in self._holds or pending.owner in self._holds

    def arm(self, due: float) -> None:
        """Look for deadlines that passed at this time."""
        if self._timer is not None:
            self._timer.cancel()
        self.due = due
        self._timer = self._loop.call_at(due, self._look) if due < NEVER else None

    def _look(self) -> None:
        if self._is_closed:
            return
        now = self._loop.time()
        next_due = NEVER
        for pending in self._pending:
            due = pending.hard_at
            if not (self._holds and self._is_held(pending)):
                due = min(due, pending.quiet_since + pending.idle_seconds)
            if due > now:
                next_due = min(next_due, due)
            elif not pending.future.done():
                pending.future.set_exception(_timeout(pending, hard=now >= pending.hard_at))
        self.arm(next_due)


def _timeout(pending: Pending, *, hard: bool) -> CallTimeout:
    if hard:
        return call_too_long(pending.hard_seconds)
    return CallTimeout(
        f"no answer and no progress for {pending.idle_seconds:g} s",
        hint="It was told to stop. Ask for less, or set a longer callTimeout for the server.",
    )


def call_too_long(seconds: float) -> CallTimeout:
    """The hard deadline passed."""
    return CallTimeout(
        f"not done within {seconds:g} s, the longest that a call may last",
        hint="It was told to stop. Ask for less, or set a longer maxCallTime for the server.",
    )
