"""Concurrency limits for the calls of one server.

`Slots` bounds how many calls run at once and how many wait. `CallTurns` runs calls one at a time, for a handshake
server that serves a modern client: such a server does not say which call a question belongs to, and a modern client
gets the question as the answer to that very call. A call that waits for its client for a while lets others pass, since
its server waits too. It takes its turn again before the answer goes to the server.
"""

from __future__ import annotations

import asyncio
from collections import deque

from mcp_workbench.errors import Overloaded
from mcp_workbench.limits import Limits
from mcp_workbench.wire.exchange import Exchange


class Slots:
    """A bounded number of slots with a bounded queue: `take` or `wait` for a slot, then `release` it."""

    def __init__(self, count: int, queued: int, wait_seconds: float) -> None:
        self._free = count
        self._queued = queued
        self._wait_seconds = wait_seconds
        self._queue: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a free slot. Returns False if there is none."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """Wait in the queue for a slot. Raises `Overloaded` if the queue is full or the wait takes too long."""
        if len(self._queue) >= self._queued:
            raise Overloaded(f"{self._queued} calls are already waiting for it")
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
                self.release()  # It was cancelled just as it got the slot: pass the slot on.
            raise
        finally:
            timer.cancel()

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_exception(Overloaded(f"no slot became free within {self._wait_seconds:g} s"))

    def reclaim(self) -> None:
        """Take back a slot that was released for a while. If it is in use, one call too many runs until a call ends."""
        self._free -= 1

    def release(self) -> None:
        """Pass the slot to the next waiting call, or keep it free."""
        while self._queue and self._free >= 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class CallTurns:
    """Lets one call run at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[tuple[Exchange, asyncio.Future[None]]] = deque()
        self.holder: Exchange | None = None

    async def take(self, call: Exchange, *, again: bool = False) -> None:
        """Wait for the turn. With `again`, a call that had it before goes first and waits without a limit.

        Raises `Overloaded`.
        """
        if self.holder is None or self.holder is call:
            self.holder = call
            return
        if not again and len(self._queue) >= self._limits.queued:
            raise Overloaded(f"{self._limits.queued} calls are already waiting for it")
        turn = asyncio.get_running_loop().create_future()
        self._queue.appendleft((call, turn)) if again else self._queue.append((call, turn))
        try:
            async with asyncio.timeout(None if again else self._limits.call_hard_timeout_seconds):
                await turn
        except BaseException as ending:
            self._queue = deque(waiting for waiting in self._queue if waiting[1] is not turn)
            self.release(call)
            if isinstance(ending, TimeoutError):
                seconds = self._limits.call_hard_timeout_seconds
                raise Overloaded(
                    f"another call of this client was running for {seconds:g} s",
                    hint="This server takes one call at a time. Wait until the other call has ended, then try again.",
                ) from None
            raise

    def claim(self, call: Exchange) -> None:
        """Give the turn to a call that asks its client something, if no other call has it."""
        if self.holder is None:
            self.holder = call

    def leave(self, call: Exchange) -> None:
        """Remove a call that ended: it no longer has the turn or waits for it."""
        for waiting, turn in self._queue:
            if waiting is call and not turn.done():
                turn.set_result(None)
        self.release(call)

    def release(self, call: Exchange) -> None:
        """Pass the turn to the next call, if `call` has it."""
        if self.holder is not call:
            return
        self.holder = None
        while self._queue and self.holder is None:
            waiting, turn = self._queue.popleft()
            if not turn.done():
                self.holder = waiting
                turn.set_result(None)
