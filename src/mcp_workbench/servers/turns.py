"""One call at a time, where a server's question could otherwise belong to any of several.

A handshake server does not tell which call a question belongs to, and a modern client is asked by
answering that very call. So its calls take turns. One that has been waiting for its client for a while
lets others pass, since its server waits too, and takes its turn again before the answer is handed on.
"""

from __future__ import annotations

import asyncio
from collections import deque

from mcp_workbench.errors import Overloaded
from mcp_workbench.limits import Limits
from mcp_workbench.wire.exchange import Exchange


class Turns:
    """Whose turn it is."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[tuple[Exchange, asyncio.Future[None]]] = deque()
        self.holder: Exchange | None = None

    async def take(self, call: Exchange, *, again: bool = False) -> None:
        """Wait for the turn; one that had it before comes first, and waits as long as it must.

        Raises `Overloaded`.
        """
        if self.holder is None or self.holder is call:
            self.holder = call
            return
        if not again and len(self._queue) >= self._limits.queued:
            raise Overloaded(f"{self._limits.queued} calls wait for it already")
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
                    f"another call of this client was under way for {seconds:g} s",
                    hint="This server takes one call at a time. Wait until the other call has ended, then try again.",
                ) from None
            raise

    def claim(self, call: Exchange) -> None:
        """A question was put to this call: it has the turn, if nobody else has."""
        if self.holder is None:
            self.holder = call

    def leave(self, call: Exchange) -> None:
        """The call is over: it neither has the turn nor waits for it."""
        for waiting, turn in self._queue:
            if waiting is call and not turn.done():
                turn.set_result(None)
        self.release(call)

    def release(self, call: Exchange) -> None:
        """Pass the turn on, if `call` has it."""
        if self.holder is not call:
            return
        self.holder = None
        while self._queue and self.holder is None:
            waiting, turn = self._queue.popleft()
            if not turn.done():
                self.holder = waiting
                turn.set_result(None)
