"""Deadlines of a peer's requests, with one timer that is set to the earliest.

A request has an idle deadline, which progress restarts, and a hard deadline. The idle deadline is paused while the
other side waits for somebody else, such as a client that answers its question.
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


class Delivery(msgspec.Struct):
    """Tells the maker of a request whether it may make the request again."""

    was_sent: bool = True
    """False once it is certain that the other side never got the request, or refused to look at it."""


class Pending(msgspec.Struct, eq=False):
    """A request that waits for its answer."""

    future: asyncio.Future[Raw]
    delivery: Delivery
    on_progress: OnProgress | None
    owner: object
    lenient: bool
    quiet_since: float
    idle_seconds: float
    hard_seconds: float
    hard_at: float


class Deadlines:
    """The deadlines of the requests in `pending`, which the peer maintains."""

    def __init__(self, pending: Collection[Pending]) -> None:
        self._pending = pending
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.due = NEVER
        """When the timer fires next."""
        self._pauses: Counter[object] = Counter()
        self._is_closed = False

    @property
    def is_paused(self) -> bool:
        """Whether an idle deadline is paused now."""
        return bool(self._pauses)

    @contextlib.contextmanager
    def pause(self, owner: object = None) -> Generator[None]:
        """Pause the idle deadlines of `owner`'s requests, or of all if it is None.

        They restart at the end of the block. Hard deadlines keep running.
        """
        self._pauses[owner] += 1
        try:
            yield
        finally:
            now = self._loop.time()
            for pending in self._pending:
                if self._is_request_paused(pending):
                    pending.quiet_since = now
            self._pauses[owner] -= 1
            self._pauses = +self._pauses
            self._expire()

    def close(self) -> None:
        """Stop the timer for good."""
        self._is_closed = True
        self.arm(NEVER)

    def _is_request_paused(self, pending: Pending) -> bool:
        return None in self._pauses or pending.owner in self._pauses

    def arm(self, due: float) -> None:
        """Set the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self.due = due
        self._timer = self._loop.call_at(due, self._expire) if due < NEVER else None

    def _expire(self) -> None:
        if self._is_closed:
            return
        now = self._loop.time()
        next_due = NEVER
        for pending in self._pending:
            due = pending.hard_at
            if not (self._pauses and self._is_request_paused(pending)):
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
        hint="The call was cancelled. Ask for less, or set a longer callTimeout for the server.",
    )


def call_too_long(seconds: float) -> CallTimeout:
    """The error after the hard deadline passed."""
    return CallTimeout(
        f"not finished within {seconds:g} s, the time limit for a call",
        hint="The call was cancelled. Ask for less, or set a longer maxCallTime for the server.",
    )
