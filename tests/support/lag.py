"""How long the event loop was kept from running: a task that wants to wake often and notes how late it did."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

INTERVAL_SECONDS = 0.005


def elapsed(since: float) -> float:
    """Seconds since a moment of the monotonic clock."""
    return time.monotonic() - since


class LagProbe:
    """`async with LagProbe() as lag: ...; assert lag.worst_seconds < 0.05`

    `worst_cpu_seconds` is what the loop's own thread computed between two wake-ups: what a busy machine adds
    to the other figure is not in it.
    """

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.worst_seconds = 0.0
        self.worst_cpu_seconds = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.began = time.monotonic()
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        await asyncio.sleep(2 * INTERVAL_SECONDS)  # so that what was held up at the very end is noted too
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def is_on_time(self, deadline: float) -> bool:
        """Whether a deadline of that many seconds, set when this began, has passed just now, within a tenth of it.

        What the machine kept from this process, it kept from the deadline too.
        """
        return 0.9 * deadline <= elapsed(self.began) <= 1.1 * deadline + 2 * self.worst_seconds

    async def _watch(self) -> None:
        while True:
            before, computed = time.monotonic(), time.thread_time()
            await asyncio.sleep(INTERVAL_SECONDS)
            self.worst_cpu_seconds = max(self.worst_cpu_seconds, time.thread_time() - computed)
            self.worst_seconds = max(self.worst_seconds, time.monotonic() - before - INTERVAL_SECONDS)
