"""What is written to a client of a handshake session: whom it goes to, in which order, and how much of it waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http import sdk
from mcp_workbench.wire.jsonrpc import Id


class StreamWriter:
    """Carries messages to the SDK's transport, in order and within bounds.

    What belongs to no request waits while the client has no stream open for it.
    """

    def __init__(
        self,
        limits: Limits,
        transport: sdk.Transport,
        on_answer: Callable[[Id], None],
        on_dropped: Callable[[bytes], None],
    ) -> None:
        self._limits = limits
        self._transport = transport
        self._on_answer = on_answer
        self._on_dropped = on_dropped
        self._queue: deque[tuple[bytes, Id | None]] = deque()
        self._held: deque[bytes] = deque()
        self._bytes = self._held_bytes = 0
        self._ready = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self.is_closed = False

    @property
    def congested(self) -> bool:
        return not self._drained.is_set()

    async def drained(self) -> None:
        await self._drained.wait()

    def write(self, line: bytes, about: Id | None = None) -> None:
        if self.is_closed:
            return
        is_answer = sdk.is_answer(line, about)
        if about is not None and is_answer:
            self._on_answer(about)
        self._bytes += len(line)
        if self._bytes > self._limits.write_buffer_bytes:
            self._drained.clear()
        if about is None or not self._transport.carry(line, about, is_last=is_answer):
            self._queue.append((line, about))
            self._ready.set()

    def sent(self, size: int) -> None:
        """So many bytes of what was written wait no longer."""
        self._bytes -= size
        if self._bytes <= self._limits.write_buffer_bytes:
            self._drained.set()

    async def pump(self, writing: sdk.Writing) -> None:
        """Hand over what no reply carries, as fast as the client reads."""
        while True:
            await self._ready.wait()
            if self._held and self._transport.is_listening:
                self._release()
            while self._queue:
                line, about = self._queue.popleft()
                if about is None and not self._transport.is_listening:
                    self._hold(line)
                else:
                    await writing.send(sdk.outgoing(line, about))
                self.sent(len(line))
            self._ready.clear()

    def listening(self) -> None:
        """The client opened the stream for what belongs to no request."""
        self._ready.set()

    def close(self) -> None:
        self.is_closed = True
        self._drained.set()

    @property
    def is_empty(self) -> bool:
        """Whether all that was written for a request was handed over."""
        return not self._queue

    def _hold(self, line: bytes) -> None:
        self._held.append(line)
        self._held_bytes += len(line)
        while len(self._held) > self._limits.http_held or self._held_bytes > self._limits.http_event_bytes:
            dropped = self._held.popleft()
            self._held_bytes -= len(dropped)
            self._on_dropped(dropped)

    def _release(self) -> None:
        self._queue.extendleft((line, None) for line in reversed(self._held))
        self._bytes += self._held_bytes
        self._held.clear()
        self._held_bytes = 0
