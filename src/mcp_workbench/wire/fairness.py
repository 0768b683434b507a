"""Fairness between peers: limits each peer's share of the event loop and the rate of its notifications.

`FairShare` charges a peer for the work that its unsolicited messages cause, and says how long to pause reading from it.
Answers are free, since our requests bound them. `RateLimit` is a token bucket. `Turns` spreads long work over turns of
the event loop. None of them interprets messages.
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
"""How long one peer may work before others get a turn. A call takes three turns of the event loop."""
_REST_RATIO: Final = 3.0
"""Rest per unit of work. A flooding peer gets a quarter of the event loop, so most calls find it at rest."""
_LEAST_REST_SECONDS: Final = _REST_RATIO * TURN_SECONDS
"""A shorter rest is not worth a timer."""


class FairShare:
    """The share of the event loop that one peer's unsolicited messages may take."""

    def __init__(self) -> None:
        self._paid_at = 0.0
        self.is_charged = False
        """Whether the peer was ever charged."""

    def charge(self, work_seconds: float) -> None:
        """Count work that the peer caused."""
        self.is_charged = True
        self._paid_at = max(self._paid_at, _now()) + work_seconds * _REST_RATIO

    def rest_seconds(self) -> float:
        """How long to pause reading from the peer; 0 if it has not used up its share."""
        left = self._paid_at - _now()
        return left if left > _LEAST_REST_SECONDS else 0.0

    async def turn(self) -> None:
        """Wait until the peer may be read again. Several streams of one peer may wait, and wake at the same time."""
        while rest := self.rest_seconds():  # noqa: ASYNC110 -- the rest grows when others are charged meanwhile
            await asyncio.sleep(rest)


def _now() -> float:
    """The time of the event loop, whose timers end a rest."""
    return asyncio.get_running_loop().time()


class Turns:
    """Lets tasks with long work share the event loop: together they work for one turn at a time."""

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
        """Wait for a turn of the event loop that no other task has taken."""
        async with self._lock:
            await asyncio.sleep(0)

    async def _next(self) -> None:
        """Wait for the next turn, in order of arrival. It begins at once if nobody worked recently."""
        if monotonic() - self._worked_at < TURN_SECONDS:
            await self.take()
        self._ends_at = monotonic() + TURN_SECONDS


class Renderer:
    """Renders the parts of a client's answer in shared turns, and counts their bytes."""

    def __init__(self, turns: Turns | None = None, count: Callable[[int], None] | None = None) -> None:
        self._turns = turns or Turns()
        self._count: Callable[[int], None] = count or (lambda _size: None)

    def each(self, items: Iterable[T], render: Callable[[T], Raw]) -> AsyncIterator[Raw]:
        """The rendered items, in order."""

        def counted(item: T) -> Raw:
            part = render(item)
            self._count(len(part))
            return part

        return self._turns.each(items, counted)


class RateLimit:
    """A token bucket: a number of units per second, and a burst after a pause."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._at = monotonic()

    def admits(self, cost: float = 1.0) -> bool:
        """Take `cost` from the bucket if there is room. A cost above the burst passes when the bucket is full."""
        now = monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < min(cost, self._burst):
            return False
        self._tokens -= cost
        return True
