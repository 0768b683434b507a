"""The one module that touches what is provisional or private in the official SDK.

Handshake era: its transport, with our own messages on its streams: they are JSON already, and are sent as they are.
Modern era: its entry for one request, which checks headers and envelope and chooses the HTTP status; whatever it lets
through is answered by us, in a middleware that never calls the next one. tests/serve/http/test_sdk_contract.py holds
what is assumed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp import MCPError
from mcp.server._streamable_http_modern import handle_modern_request
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import (
    GET_STREAM_KEY,
    EventCallback,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
)
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from msgspec import UNSET
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.bodies import BODY, one_line
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import Id, RpcError

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
    """Whether a message of ours answers the request that it is about."""
    if about is None:
        return False
    head = jsonrpc.encode({"jsonrpc": "2.0", "id": about})[:-1]
    return line.startswith((head + b',"result"', head + b',"error"'))


def outgoing(line: bytes, about: Id | None) -> SessionMessage:
    """A message for the transport; `about` tells it on which stream it goes."""
    metadata = ServerMessageMetadata(related_request_id=about)
    if is_answer(line, about):
        return SessionMessage(_Answer.model_construct(id=about, line=line), metadata)
    return SessionMessage(_Message.model_construct(line=line), metadata)


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

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._last += 1
        self._kept.append((self._last, stream_id, message))
        self._bytes += _size(message)
        while len(self._kept) > self._limits.http_events or (
            self._bytes > self._limits.http_event_bytes and len(self._kept) > 1
        ):
            self._bytes -= _size(self._kept.popleft()[2])
        return str(self._last)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """The stream, if it goes on: one that was answered ends after its answer."""
        if not (last_event_id.isascii() and last_event_id.isdigit()):
            return None
        after = int(last_event_id)
        stream = next((stream for number, stream, _ in self._kept if number == after), None)
        if stream is None:
            return None
        for number, of, message in tuple(self._kept):
            if number > after and of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    return None
        return stream


def _size(message: JSONRPCMessage | None) -> int:
    return len(message.line) if isinstance(message, _Answer | _Message) else 0


class Transport(StreamableHTTPServerTransport):
    """The SDK's transport for one handshake session."""

    def __init__(self, session: str, limits: Limits) -> None:
        super().__init__(session, event_store=Events(limits), retry_interval=limits.http_retry_ms)

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[tuple[Reading, Writing]]:
        async with self.connect() as (reading, writing):
            yield reading, writing

    @property
    def is_listening(self) -> bool:
        """Whether the client has the stream open that carries what belongs to no request."""
        return GET_STREAM_KEY in self._request_streams

    def is_taken(self, request: Id) -> bool:
        """Whether a request with this id, or one that the transport takes for the same, is being answered."""
        return str(request) in self._request_streams or str(request) == GET_STREAM_KEY


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
