"""Fairness between peers: the share of the event loop that one peer gets, and how many of its notifications pass.

`FairShare` charges a peer for the work that its unsolicited messages cause, and tells how long reading from it must
pause. Answers to our requests are free: the requests bound them. `RateLimit` is a token bucket. `Turns` spreads long
work for clients over turns of the event loop. None of them interprets messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from time import monotonic
from typing import Final, TypeVar

from msgspec import Raw

T = TypeVar("T")
R = TypeVar("R")

TURN_SECONDS: Final = 0.001
"""Work for one peer before others get a turn: a call passes through three turns of the event loop."""
_REST_RATIO: Final = 3.0
"""Rest per unit of work: a peer that floods us gets a quarter of the event loop, so most calls meet it at rest."""
_LEAST_REST_SECONDS: Final = _REST_RATIO * TURN_SECONDS
"""A shorter rest is not worth a timer."""


class FairShare:
    """The share of the event loop that one peer's unsolicited messages may take."""

    def __init__(self) -> None:
        self._paid_at = 0.0
        self.is_charged = False
        """Whether the peer ever caused work."""

    def charge(self, work_seconds: float) -> None:
        """Count work that the peer caused."""
        self.is_charged = True
        self._paid_at = max(self._paid_at, _now()) + work_seconds * _REST_RATIO

    def rest_seconds(self) -> float:
        """How long reading from the peer must pause now; 0 where it has not used up its share."""
        left = self._paid_at - _now()
        return left if left > _LEAST_REST_SECONDS else 0.0

    async def turn(self) -> None:
        """Return when the peer may be read from: several streams of one peer wait for it, and wake at the same time."""
        while rest := self.rest_seconds():  # noqa: ASYNC110 -- what others charge meanwhile makes it longer
            await asyncio.sleep(rest)


def _now() -> float:
    """The clock of the event loop, whose timers end a rest."""
    return asyncio.get_running_loop().time()


class Turns:
    """Has tasks with long work share turns of the event loop: all of them together work for one turn at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._ends_at = 0.0
        self._worked_at = 0.0

    async def each(self, items: Iterable[T], work: Callable[[T], R]) -> AsyncIterator[R]:
        """The results of `work` for each item, in order."""
        for item in items:
            if monotonic() > self._ends_at:
                await self._next()
            result = work(item)
            self._worked_at = monotonic()
            yield result

    async def take(self) -> None:
        """Wait for a turn of the event loop that no other task took here."""
        async with self._lock:
            await asyncio.sleep(0)

    async def _next(self) -> None:
        """Wait for the next turn, in order of arrival. If nobody worked lately, it begins at once."""
        if monotonic() - self._worked_at < TURN_SECONDS:
            await self.take()
        self._ends_at = monotonic() + TURN_SECONDS


class Renderer:
    """Renders the parts of one client's answer, in turns with everybody else's, and counts their bytes."""

    def __init__(self, turns: Turns | None = None, count: Callable[[int], None] | None = None) -> None:
        self._turns = turns or Turns()
        self._count: Callable[[int], None] = count or (lambda _size: None)

    def each(self, items: Iterable[T], render: Callable[[T], Raw]) -> AsyncIterator[Raw]:
        """What `render` makes of each item, in order."""

        def counted(item: T) -> Raw:
            part = render(item)
            self._count(len(part))
            return part

        return self._turns.each(items, counted)


class RateLimit:
    """A token bucket: so many units a second, and a burst of them after a pause."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._at = monotonic()

    def admits(self, cost: float = 1.0) -> bool:
        """Whether there is room now, which is then used. One that costs more than the burst passes a full bucket."""
        now = monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < min(cost, self._burst):
            return False
        self._tokens -= cost
        return True
