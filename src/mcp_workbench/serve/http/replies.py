"""The answer to one request of the handshake era: a stream of events, as directly as they come to the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import Message, Send
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.bodies import one_line

_PING: Final = b": ping\r\n\r\n"


def primer(number: str, retry_ms: int) -> bytes:
    """The event that says nothing but from where on a broken stream is resumed, and how soon."""
    return f"id: {number}\r\ndata: \r\nretry: {retry_ms}\r\n\r\n".encode()


def event(number: str, line: bytes) -> bytes:
    """A message as an event."""
    return b"id: %b\r\nevent: message\r\ndata: %b\r\n\r\n" % (number.encode(), one_line(line))


class Reply:
    """Events for the connection on which a client waits for them.

    What comes soon goes out together with the head of the response.
    """

    def __init__(self, limits: Limits, start: Message, first: bytes, on_sent: Callable[[int], None]) -> None:
        """`on_sent` is told how much of what was put waits no longer."""
        self._limits = limits
        self._start = start
        self._on_sent = on_sent
        self._waiting: list[bytes] = [first]
        self._size = 0
        self._is_over = self._is_lost = self._has_news = False
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Future[None] | None = None

    def put(self, event: bytes, size: int, *, is_last: bool) -> None:
        """One more event; `size` is what `on_sent` is told of it."""
        if self._is_over:
            self._on_sent(size)
            return
        self._waiting.append(event)
        self._size += size
        self._is_over = is_last
        self._wake()

    def close(self) -> None:
        """Nothing more comes on this connection."""
        self._is_over = True
        self._wake()

    def lose(self) -> None:
        """Nobody is there to read it any more."""
        self._is_lost = True
        self._waiting.clear()
        size, self._size = self._size, 0
        self._on_sent(size)
        self.close()

    async def run(self, send: Send) -> None:
        """Send all of it, until its end."""
        await self._until_news(self._limits.http_prime_seconds)
        if not self._is_lost:
            await send(self._start)
        while not self._is_lost:
            if await self._send_waiting(send):
                return
            if not await self._until_news(self._limits.http_ping_seconds):
                self._waiting.append(_PING)

    async def _send_waiting(self, send: Send) -> bool:
        """Whether that was the end."""
        body, size, is_last = b"".join(self._waiting), self._size, self._is_over
        self._waiting.clear()
        self._size = 0
        self._has_news = False
        is_whole = is_last and len(body) < HIGH_WATER_LIMIT
        try:
            await send(_body(body, is_last=is_whole))
        finally:
            self._on_sent(size)
        if is_last and not is_whole:
            await send(_body(b"", is_last=True))  # which waits for the client to read
        return is_last

    async def _until_news(self, seconds: float) -> bool:
        """Until there is an event, or the end; False if some time passed before that."""
        if not self._has_news:
            self._heard = self._loop.create_future()
            timer = self._loop.call_later(seconds, _resolve, self._heard)
            try:
                await self._heard
            finally:
                timer.cancel()
        return self._has_news

    def _wake(self) -> None:
        self._has_news = True
        if self._heard is not None:
            _resolve(self._heard)


def _body(body: bytes, *, is_last: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": not is_last}


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
