"""Responses to clients: errors, acknowledgements, and streams of server-sent events.

A stream sends each event as soon as it exists. The response to a modern request is plain JSON if the answer comes
before any event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.responses import Response
from starlette.types import Message, Scope, Send
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from mcp_workbench import logger
from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.connection import CONNECTION, ClientConnection
from mcp_workbench.serve.http.request import one_line
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import Envelope, Id, RpcError
from mcp_workbench.wire.memory_budget import Account

SESSION_ID: Final = "mcp-session-id"
Headers: TypeAlias = Mapping[str, str] | None
_PIECE_BYTES: Final = 64 * 1024


def error_response(error: RpcError, status: int, id_: Id | None = None, headers: Headers = None) -> Response:
    """A JSON-RPC error as the whole response."""
    return Response(Envelope(error, id_).line, status, headers, "application/json")


def not_acceptable(*kinds: str, headers: Headers = None) -> Response:
    """The error for a client whose Accept header lacks a needed type."""
    error = RpcError(jsonrpc.INVALID_REQUEST, f"Not acceptable: the client must accept {' and '.join(kinds)}")
    return error_response(error, HTTPStatus.NOT_ACCEPTABLE, headers=headers)


def unsupported_type(headers: Headers = None) -> Response:
    error = RpcError(jsonrpc.INVALID_REQUEST, "Unsupported media type: Content-Type must be application/json")
    return error_response(error, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, headers=headers)


_PING: Final = b": ping\r\n\r\n"
_HEADERS: Final = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"content-type", b"text/event-stream"),
    (b"x-accel-buffering", b"no"),
)
_JSON_HEADERS: Final = [(b"content-type", b"application/json")]


def stream_head(*headers: tuple[bytes, bytes]) -> Message:
    """The head of a response that is a stream."""
    return {"type": "http.response.start", "status": HTTPStatus.OK.value, "headers": [*_HEADERS, *headers]}


def primer(number: str, retry_ms: int) -> bytes:
    """An empty event that tells the client from where, and how soon, it can resume a broken stream."""
    return f"id: {number}\r\ndata: \r\nretry: {retry_ms}\r\n\r\n".encode()


def event(number: str, line: bytes) -> tuple[bytes, bytes, bytes]:
    """A message as an event with an id, in parts so that a large message is not copied."""
    return b"id: %b\r\nevent: message\r\ndata: " % number.encode(), one_line(line), b"\r\n\r\n"


def plain_event(line: bytes) -> tuple[bytes, bytes, bytes]:
    """A message as an event without an id: its stream can't be resumed."""
    return b"event: message\r\ndata: ", one_line(line), b"\r\n\r\n"


class ResponseSender:
    """The `send` of a request. It closes the connection of a client that stops reading.

    It sends a large body in pieces, each after the client has read most of the previous one. So the bytes exist only
    once, and `send` returns only when the client has read most of them.
    """

    def __init__(self, scope: Scope, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self.connection: ClientConnection = scope["state"][CONNECTION]
        self._head: Message | None = None
        self.status: int | None = None
        self.owner = ""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self._head = message["status"], message
            return  # the body follows at once, so both can be sent in one write
        body: bytes = message.get("body", b"")
        if (head := self._head) is not None:
            self._head = None
            if len(body) <= _PIECE_BYTES and not message.get("more_body") and self.connection.respond(head, body):
                return
            await self._write(head)
        last = 0
        while len(body) - last > _PIECE_BYTES and not self.connection.lost.done():
            piece = body[last : last + _PIECE_BYTES]
            last += _PIECE_BYTES
            await self._write({"type": message["type"], "body": piece, "more_body": True})
        await self._write({**message, "body": body[last:]} if last else message)

    async def _write(self, message: Message) -> None:
        if not self.connection.is_congested:
            await self._send(message)  # does not wait
            return
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            logger.info("closing a connection whose client does not read its response", owner=self.owner)
            self.connection.abort()


class EventStream:
    """The response to one request as a stream of server-sent events.

    Events that exist soon are sent together with the head. A response that is complete by then gets a length.
    """

    def __init__(self, limits: Limits, head: Message, first: Iterable[bytes], on_sent: Callable[[int], None]) -> None:
        """`on_sent` gets the sizes of events, as `put` got them, that the client has read or will never get."""
        self._limits = limits
        self._head = head
        self._on_sent = on_sent
        self._pending: list[bytes] = [*first]
        self._size = self._sending = 0
        self._is_complete = self._has_event = False
        self.is_lost = False
        """Whether the connection is lost."""
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def unread(self) -> int:
        """The bytes that the client has not read."""
        return self._size + self._sending

    def put(self, event: Iterable[bytes], size: int, *, is_last: bool) -> None:
        """Add an event, in parts. `on_sent` gets `size` later."""
        if self._is_complete:
            self._on_sent(size)
            return
        self._pending.extend(event)
        self._size += size
        self._is_complete = is_last
        self._wake()

    def close(self) -> None:
        """End the response after the events that are pending."""
        self._is_complete = True
        self._wake()

    def lose(self) -> None:
        """The connection is lost: drop the pending events."""
        self.is_lost = True
        self._pending.clear()
        size, self._size = self._size, 0
        self._on_sent(size)
        self.close()

    async def run(self, send: Send) -> None:
        """Send events until the end of the stream."""
        await self._wait_for_event(self._limits.http_prime_seconds)
        await self._send_events(send)

    async def _send_events(self, send: Send) -> None:
        if not self.is_lost:
            await send(self._whole_head() if self._is_complete else self._head)
        while not self.is_lost:
            if await self._send_waiting(send):
                return
            if not await self._wait_for_event(self._limits.http_ping_seconds):
                self._pending.append(_PING)

    def _whole_head(self) -> Message:
        """The head of a complete response: with its length it needs no chunked encoding."""
        length = str(sum(map(len, self._pending))).encode()
        return {**self._head, "headers": [*self._head["headers"], (b"content-length", length)]}

    async def _send_waiting(self, send: Send) -> bool:
        """Send the pending events; returns whether the stream is complete."""
        parts, is_last = self._pending, self._is_complete
        self._pending = []
        self._has_event = False
        is_small = sum(map(len, parts)) < HIGH_WATER_LIMIT
        is_whole = is_last and is_small
        self._sending, self._size = self._size, 0
        try:
            for part in (b"".join(parts),) if is_small else _joined(parts):
                await send(_body(part, is_last=is_whole))
            if is_last and not is_whole:
                await send(_body(b"", is_last=True))  # waits for the client to read
        finally:  # the client has read it, or never will
            size, self._sending = self._sending, 0
            self._on_sent(size)
        return is_last

    async def _wait_for_event(self, seconds: float) -> bool:
        """Wait for an event or the end of the stream; False on timeout."""
        if not self._has_event:
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(seconds, _resolve, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
        return self._has_event

    def _wake(self) -> None:
        self._has_event = True
        if self._waiter is not None:
            _resolve(self._waiter)


class OpenStreams:
    """The streams of one client that are being sent, and their connections."""

    def __init__(self) -> None:
        self._connections: dict[EventStream, ClientConnection] = {}

    async def run(
        self, stream: EventStream, connection: ClientConnection, send: Send, hang_up: Callable[[object], None]
    ) -> None:
        """Send a stream until it ends. Calls `hang_up` if its connection is lost."""
        self._connections[stream] = connection
        connection.lost.add_done_callback(hang_up)
        try:
            await stream.run(send)
        finally:
            connection.lost.remove_done_callback(hang_up)
            del self._connections[stream]

    def disconnect(self) -> None:
        """Close the connections on which the client has unread data."""
        for stream, connection in tuple(self._connections.items()):
            if stream.unread:
                connection.abort()


class AnswerStream(EventStream):
    """The response to a modern request: JSON if the answer comes before any notification, else an event stream."""

    def __init__(self, limits: Limits, account: Account) -> None:
        """`account` counts the unread bytes."""
        super().__init__(limits, stream_head(), (), account.was_read)
        self._account = account
        self._is_streaming = False

    def notify(self, line: bytes) -> None:
        """Add a notification."""
        self._account.wrote(len(line))
        self.put(plain_event(line), len(line), is_last=False)

    def answer(self, line: bytes, status: int) -> None:
        """Add the answer and end the stream. The status applies only if the answer is the whole response."""
        self._account.wrote(len(line))
        if self._is_streaming or self._pending:
            self.put(plain_event(line), len(line), is_last=True)
        else:
            self._head = {"type": "http.response.start", "status": status, "headers": _JSON_HEADERS}
            self.put((line,), len(line), is_last=True)

    async def run(self, send: Send) -> None:
        await self._wait_for_event(self._limits.http_ping_seconds)
        self._is_streaming = True
        await self._send_events(send)


def _body(body: bytes, *, is_last: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": not is_last}


def _joined(parts: list[bytes]) -> Iterator[bytes]:
    """Join small parts into one write; pass on large ones, since joining would copy them."""
    small: list[bytes] = []
    for part in parts:
        if len(part) < HIGH_WATER_LIMIT:
            small.append(part)
        else:
            yield b"".join(small)
            yield part
            small = []
    yield b"".join(small)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
