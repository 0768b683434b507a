"""A bounded number of calls at once, and a bounded queue in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque

from mcp_workbench.errors import Overloaded


class Slots:
    """`take` or `wait` for a slot, then `release` it. Raises `Overloaded` instead of waiting for ever."""

    def __init__(self, count: int, queued: int, wait_seconds: float) -> None:
        self._free = count
        self._queued = queued
        self._wait_seconds = wait_seconds
        self._queue: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """A slot, if one is free."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """A slot, in turn."""
        if len(self._queue) >= self._queued:
            raise Overloaded(f"{self._queued} calls wait for it already")
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        timer = loop.call_later(self._wait_seconds, self._give_up, turn)
        self._queue.append(turn)
        try:
            await turn
        except BaseException:
            if turn in self._queue:
                self._queue.remove(turn)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()  # Cancelled in the moment its turn came: pass the slot on.
            raise
        finally:
            timer.cancel()

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_exception(Overloaded(f"no slot became free within {self._wait_seconds:g} s"))

    def reclaim(self) -> None:
        """Take a slot that was lent, though it may be in use: for a while there is one more than there should be."""
        self._free -= 1

    def release(self) -> None:
        """Hand the slot to the next that still waits, else keep it."""
        while self._queue and self._free >= 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
