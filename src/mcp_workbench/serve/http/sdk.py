"""The one module that touches what is provisional or private in the official SDK.

Handshake era: its transport, with our own messages on its streams: they are JSON already, and are sent as they are.
Modern era: its entry for one request, which checks headers and envelope and chooses the HTTP status; whatever it lets
through is answered by us, in a middleware that never calls the next one. tests/serve/http/test_sdk_contract.py holds
what is assumed here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias, cast

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp import MCPError
from mcp.server._streamable_http_modern import handle_modern_request
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import (
    GET_STREAM_KEY,
    MCP_SESSION_ID_HEADER,
    EventCallback,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
)
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import (
    DEFAULT_NEGOTIATED_VERSION,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.version import is_version_at_least
from msgspec import UNSET
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.asked import Asked
from mcp_workbench.serve.http.bodies import BODY, one_line
from mcp_workbench.serve.http.replies import Reply, event, primer
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.batch import is_batch
from mcp_workbench.wire.jsonrpc import Id, RpcError

_ANSWERS: Final = (JSONRPCResponse, JSONRPCError)
_FIRST_WITH_PRIMERS: Final = "2025-11-25"
_NO_STREAM: Final = (None, None)
_STREAM_HEADERS: Final = {
    "cache-control": "no-cache, no-transform",
    "connection": "keep-alive",
    "content-type": "text/event-stream",
    "x-accel-buffering": "no",
}
Reading: TypeAlias = ReadStream[SessionMessage | Exception]
Writing: TypeAlias = WriteStream[SessionMessage]


class _Answer(JSONRPCResponse):
    """The answer to a request, a result or an error, as the bytes that it is."""

    line: bytes

    def model_dump_json(self, **_: Any) -> str:
        return self.line.decode()


class _Message(JSONRPCNotification):
    """A notification, or a request of ours, as the bytes that it is."""

    line: bytes

    def model_dump_json(self, **_: Any) -> str:
        return self.line.decode()


def is_answer(line: bytes, about: Id | None) -> bool:
    """Whether a message of ours answers the request `about`, or the batch whose first request that is."""
    if about is None:
        return False
    if is_batch(line):
        return True
    head = jsonrpc.encode({"jsonrpc": "2.0", "id": about})[:-1]
    return line.startswith((head + b',"result"', head + b',"error"'))


def outgoing(line: bytes, about: Id | None) -> SessionMessage:
    """A message for the transport; `about` tells it on which stream it goes."""
    message = _message(line, about, is_answer=is_answer(line, about))
    return SessionMessage(message, ServerMessageMetadata(related_request_id=about))


def _message(line: bytes, about: Id | None, *, is_answer: bool) -> _Answer | _Message:
    return _Answer.model_construct(id=about, line=line) if is_answer else _Message.model_construct(line=line)


class Incoming(NamedTuple):
    """A message of a client."""

    line: bytes
    request: Id | None = None
    """The id, if it is a request."""
    cancels: Id | None = None
    """The request that is cancelled by it."""


async def incoming(reading: Reading) -> Incoming | None:
    """The next message; None at the end."""
    while True:
        try:
            received = await reading.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None
        if isinstance(received, SessionMessage):  # else the transport tells of a failure that it answered itself
            return await _read(received)


async def _read(received: SessionMessage) -> Incoming:
    message, metadata = received.message, received.metadata
    request = metadata.request_context if isinstance(metadata, ServerMessageMetadata) else None
    if isinstance(request, Request):
        line = one_line(request.scope.get(BODY) or await request.body())
    else:
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    if isinstance(message, JSONRPCRequest):
        return Incoming(line, request=message.id)
    if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        cancelled = (message.params or {}).get("requestId")
        return Incoming(line, cancels=cancelled if isinstance(cancelled, int | str) else None)
    return Incoming(line)


class Events(EventStore):
    """The last messages of one session, for a client whose connection broke."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: deque[tuple[int, str, JSONRPCMessage | None]] = deque()
        self._bytes = 0
        self._last = 0
        self._tails: set[_Tail] = set()

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        return self.keep(stream_id, message)

    def keep(self, stream: str, message: JSONRPCMessage | None) -> str:
        """Keep a message, or None for what begins a stream; its id."""
        self._last += 1
        self._kept.append((self._last, stream, message))
        self._bytes += _size(message)
        while len(self._kept) > self._limits.http_events or (
            self._bytes > self._limits.http_event_bytes and len(self._kept) > 1
        ):
            self._bytes -= _size(self._kept.popleft()[2])
        for tail in self._tails:
            tail.more.set()
        return str(self._last)

    def adjourn(self, stream: str) -> bool:
        """End a stream that was resumed. Returns whether its client was told how to ask for the rest."""
        for tail in self._tails:
            if tail.stream == stream:
                tail.end()
        return any(of == stream and message is None for _, of, message in self._kept)

    def close(self) -> None:
        """The session is over, and with it whatever goes on."""
        for tail in self._tails:
            tail.end()

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """What came after an event and what comes, to the answer. The stream that no request has is returned.

        A request's stream isn't: the SDK would go on with it, but miss what is said just before that, and never end.
        """
        stream = next((stream for number, stream, _ in self._kept if str(number) == last_event_id), None)
        if stream is None:
            return None
        tail = _Tail(stream)
        self._tails.add(tail)
        try:
            return await self._follow(tail, int(last_event_id), send_callback)
        finally:
            self._tails.discard(tail)

    async def _follow(self, tail: _Tail, seen: int, send_callback: EventCallback) -> str | None:
        while not tail.is_over and self._kept[0][0] <= seen + 1:  # else something that it did not see is gone
            tail.more.clear()
            for number, of, message in tuple(self._kept):
                if number > seen and of == tail.stream and message is not None:
                    await send_callback(EventMessage(message, str(number)))
                    if isinstance(message, JSONRPCResponse | JSONRPCError):
                        return None
                seen = max(seen, number)
            if tail.stream == GET_STREAM_KEY:
                return tail.stream
            await tail.more.wait()
        return None


class _Tail:
    """A stream that was resumed, and goes on."""

    __slots__ = ("is_over", "more", "stream")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.more = asyncio.Event()
        self.is_over = False

    def end(self) -> None:
        self.is_over = True
        self.more.set()


def _size(message: JSONRPCMessage | None) -> int:
    return len(message.line) if isinstance(message, _Answer | _Message) else 0


class _Stream(Reply):
    """A reply in the place of the SDK's own stream for a request: it sends to it, and closes it."""

    async def send(self, message: EventMessage) -> None:
        line = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self.put(event(message.event_id or "", line), 0, is_last=isinstance(message.message, _ANSWERS))

    async def aclose(self) -> None:
        self.close()


class Transport(StreamableHTTPServerTransport):
    """The SDK's transport for one handshake session.

    A request that is as nearly all are gets a `Reply`, without the tasks and queues that the SDK has for each.
    """

    def __init__(self, session: str, limits: Limits) -> None:
        self._limits = limits
        self._events = Events(limits)
        super().__init__(session, event_store=self._events, retry_interval=limits.http_retry_ms)
        headers = {**_STREAM_HEADERS, MCP_SESSION_ID_HEADER: session}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._start: Message = {"type": "http.response.start", "status": HTTPStatus.OK.value, "headers": raw}

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[tuple[Reading, Writing]]:
        try:
            async with self.connect() as (reading, writing):
                yield reading, writing
        finally:
            self._events.close()

    @property
    def is_listening(self) -> bool:
        """Whether the client has the stream open that carries what belongs to no request."""
        return GET_STREAM_KEY in self._request_streams

    def is_taken(self, request: Id) -> bool:
        """Whether a request with this id, or one that the transport takes for the same, is being answered."""
        return str(request) in self._request_streams or str(request) == GET_STREAM_KEY

    def open_reply(self, request: Asked, on_sent: Callable[[int], None]) -> Reply:
        """The stream for what comes of a request, until `close_reply`."""
        key = str(request.id)
        stream = _Stream(self._limits, self._start, self._primer(key, request.version), on_sent)
        self._request_streams[key] = cast("Any", (stream, stream))
        return stream

    def close_reply(self, request: Asked, reply: Reply) -> None:
        """What still comes of the request is kept for a client that asks for it."""
        key = str(request.id)
        if self._reply(key) is reply:
            del self._request_streams[key]
        reply.lose()

    def carry(self, line: bytes, about: Id, *, is_last: bool) -> bool:
        """Put a message onto the reply to the request that it is about; False where there is none."""
        key = str(about)
        reply = self._reply(key)
        if reply is None:
            return False
        number = self._events.keep(key, _message(line, about, is_answer=is_last))
        reply.put(event(number, line), len(line), is_last=is_last)
        return True

    def _reply(self, key: str) -> Reply | None:
        stream: object = self._request_streams.get(key, _NO_STREAM)[0]
        return stream if isinstance(stream, Reply) else None

    def _primer(self, key: str, version: str | None) -> bytes:
        """Nothing for clients that could not read it."""
        if not is_version_at_least(version or DEFAULT_NEGOTIATED_VERSION, _FIRST_WITH_PRIMERS):
            return b""
        return primer(self._events.keep(key, None), self._limits.http_retry_ms)

    def adjourn(self, request: Id) -> None:
        """End the stream of a request, if its client was told how to ask for the rest."""
        if self._events.adjourn(str(request)):
            self.close_sse_stream(str(request))


# -- the modern era

Answer: TypeAlias = Callable[[Request, Any], Awaitable[dict[str, Any]]]
"""Answers a request: the request, and the sink for events on its stream."""
Sink: TypeAlias = MemoryObjectSendStream[bytes]
SINK_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError)


def modern_server(answer: Answer, schema_of: Callable[[str], Any]) -> Server[Any]:
    """A server of the SDK that answers by nothing but `answer`, which raises `RpcError`."""
    server: Server[Any] = Server("mcp-workbench", get_tool_input_schema=schema_of)

    async def middleware(ctx: Any, call_next: Any) -> dict[str, Any]:
        del call_next
        try:
            return await answer(ctx.request, ctx.session._request_outbound.sink)  # noqa: SLF001 -- see above
        except RpcError as error:
            data = None if error.data is UNSET else error.data
            raise MCPError(code=error.code, message=error.message, data=data) from None

    server.middleware[:] = [middleware]
    return server


async def handle_modern(server: Server[Any], scope: Scope, receive: Receive, send: Send) -> None:
    """Check one modern request and have it answered."""
    await handle_modern_request(server, None, False, None, scope, receive, send)  # noqa: FBT003 -- the SDK's signature
