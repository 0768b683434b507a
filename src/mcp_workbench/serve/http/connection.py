"""Client connections: uvicorn's h11 protocol with limits, admission control and a fast path for responses.

Guarantees: a client that sends its head too slowly or too large is disconnected. The number of connections is limited,
and clients with a valid token are kept over those without: a new connection replaces the one that has been without a
token for longest, and is refused if all others showed a token. So a flood of anonymous connections can't lock out a
client that has a token.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import sys
from http import HTTPStatus
from typing import Any, Final, cast

import h11
from starlette.types import Message
from uvicorn.config import Config as ServerConfig
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from mcp_workbench import logger
from mcp_workbench.limits import Limits
from mcp_workbench.logger import LOG_REPEAT_SECONDS

HTTP_READ_BYTES = 16 * 1024
"""The most read from a connection in one turn of the event loop. If each chunk has one byte, parsing thousands of them
blocks the loop."""

CONNECTION: Final = "connection"
"""The key in the state of an ASGI scope under which a request finds its connection."""
_TOO_LARGE: Final = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
_CLOSE: Final = (b"connection", b"close")
_HEAD_END: Final = re.compile(rb"\n\r?\n")


class ConnectionLimiter:
    """Decides which connections stay open. Logs at most once a second how many were refused."""

    def __init__(self) -> None:
        self._anonymous: dict[ClientConnection, None] = {}
        self._authenticated: set[ClientConnection] = set()
        self._unlogged = 0
        self._logged_at = -math.inf

    def __len__(self) -> int:
        return len(self._anonymous) + len(self._authenticated)

    def enter(self, newcomer: ClientConnection, most: int) -> ClientConnection | None:
        """Admit a connection. Returns the one to close to keep the limit, if any: another one or the newcomer."""
        self._anonymous[newcomer] = None
        if len(self) <= most:
            return None
        is_full = len(self._anonymous) == 1
        evicted = newcomer if is_full else next(iter(self._anonymous))
        self.leave(evicted)
        return evicted

    def authenticated(self, connection: ClientConnection) -> None:
        """Note that a connection showed a valid token."""
        if connection in self._anonymous:
            del self._anonymous[connection]
            self._authenticated.add(connection)

    def leave(self, connection: ClientConnection) -> None:
        """Forget a closed connection."""
        self._anonymous.pop(connection, None)
        self._authenticated.discard(connection)

    def refused(self, open_now: int, now: float) -> None:
        """Count a refused or replaced connection."""
        self._unlogged += 1
        if now - self._logged_at >= LOG_REPEAT_SECONDS:
            logger.warning("too many connections; refusing some", refused=self._unlogged, open=open_now)
            self._unlogged, self._logged_at = 0, now


class LingeringTransport:
    """A transport that joins the writes of one turn of the event loop, and closes lingeringly.

    If a system closes a connection with unread input, the client loses the part of the response that it has not read.
    So `close` sends the end, keeps reading and discards the input until the client has had time to read.
    """

    def __init__(self, transport: asyncio.Transport, limits: Limits) -> None:
        self._transport = transport
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._give_up_at = 0.0
        self._written: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not data or self._give_up_at:
            return
        if not self._written:
            self._loop.call_soon(self._flush)
        self._written.append(data)
        self._size += len(data)
        if self._size >= HIGH_WATER_LIMIT:  # the writer must see that the client does not read
            self._flush()

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()

    def _flush(self) -> None:
        if not self._written:
            return
        written, self._written, self._size = self._written, [], 0
        if not self._transport.is_closing():
            self._transport.write(b"".join(written))

    def is_closing(self) -> bool:
        return bool(self._give_up_at) or self._transport.is_closing()

    def close(self) -> None:
        """Send the end of the stream; discard further input and close the connection soon after."""
        if self.is_closing():
            return
        self._flush()
        self._give_up_at = self._loop.time() + self._limits.http_write_seconds
        try:
            self._transport.write_eof()
            self._transport.resume_reading()
        except OSError:  # the client has disconnected already
            self._transport.abort()
        else:
            self._poll_end()

    def _poll_end(self) -> None:
        self._loop.call_later(self._limits.http_ending_seconds, self._end)

    def _end(self) -> None:
        if self._transport.get_write_buffer_size() and self._loop.time() < self._give_up_at:
            self._poll_end()
        else:
            self._transport.abort()


class RequestParser(h11.Connection):
    """h11's parser with an exact limit for the head of a request; h11 itself checks only incomplete heads."""

    def __init__(self, head_bytes: int) -> None:
        super().__init__(h11.SERVER, head_bytes)
        self._head_bytes = head_bytes

    def next_event(self) -> Any:
        state, data = self.their_state, self.trailing_data[0]
        if not data and state in (h11.IDLE, h11.DONE):
            return h11.NEED_DATA  # h11 returns the same, but slowly
        is_head = state is h11.IDLE
        if is_head and len(data) > self._head_bytes and not _HEAD_END.search(data, 0, self._head_bytes):
            raise h11.RemoteProtocolError("The head is too large", error_status_hint=_TOO_LARGE)
        return super().next_event()


class ClientConnection(H11Protocol):
    """The connection of one client; see the module for its limits."""

    def __init__(self, config: ServerConfig, state: ServerState, limiter: ConnectionLimiter, limits: Limits) -> None:
        super().__init__(config, state, {})
        self.conn = RequestParser(limits.http_head_bytes)
        self._limits = limits
        self._limiter = limiter
        self._head_timer: asyncio.TimerHandle | None = None
        self._bytes_ahead = 0
        """Bytes received after a request that is still being answered."""
        self.lost: asyncio.Future[None] = self.loop.create_future()
        """Done when either side has closed the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # asyncio sets it only on sockets that name their protocol; without it each response waits 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Everything read in one turn is parsed in one turn: chunks of one byte each must not delay other clients.
        transport.max_size = HTTP_READ_BYTES  # type: ignore[attr-defined]  # asyncio's own
        super().connection_made(cast("asyncio.Transport", LingeringTransport(transport, self._limits)))
        self.app_state = {CONNECTION: self}
        self._start_head_timer()
        evicted = self._limiter.enter(self, self._limits.http_connections)
        if evicted is not None:
            self._limiter.refused(len(self._limiter), self.loop.time())
            evicted.evict()

    # -- for the requests on it

    def abort(self) -> None:
        """Close the connection at once and drop unsent data."""
        self.transport.abort()

    @property
    def is_congested(self) -> bool:
        """Whether a write has to wait for the client to read."""
        return self.flow.write_paused

    @property
    def has_body(self) -> bool:
        """Whether the whole body of the request has arrived."""
        cycle: Any = self.cycle
        return not cycle.more_body

    def authenticated(self) -> None:
        """Note that a request on it showed a valid token."""
        self._limiter.authenticated(self)

    def respond(self, head: Message, body: bytes) -> bool:
        """Fast path: send a whole response in one write, without h11. Returns False if uvicorn and h11 must send it.

        h11 would check each header three times. Since it does not see this response, the next request gets a new
        parser.
        """
        cycle: Any = self.cycle
        is_usual = cycle.keep_alive and cycle.scope["method"] == "POST" and self.conn.their_state is h11.DONE
        if not is_usual or cycle.disconnected or self.flow.write_paused or not _has_length(head["headers"]):
            return False
        cycle.response_started = cycle.response_complete = True
        self.transport.write(_head_bytes(head) + body)
        ahead, self.conn = self.conn.trailing_data[0], RequestParser(self._limits.http_head_bytes)
        cycle.on_response()
        if ahead:
            self.conn.receive_data(ahead)
            self.handle_events()
            self._resume_head_timer()
        return True

    # -- limits

    def evict(self) -> None:
        """Close it because there are too many connections."""
        self._stop_head_timer()
        if len(self.connections) <= self._limits.http_connections * 2:
            self._respond_and_close(HTTPStatus.SERVICE_UNAVAILABLE, "There are too many connections")
        else:
            self.transport.abort()  # lingering refusals are limited too

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._limiter.leave(self)
        super().connection_lost(exc)
        self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_answering:
            self._stop_head_timer()
            self._continue_reading(len(data))
        elif not self.transport.is_closing():
            self._start_head_timer()

    def _continue_reading(self, size: int) -> None:
        """Keep reading while a request is answered, to notice when the client disconnects."""
        cycle: Any = self.cycle
        if cycle.more_body or not self.flow.read_paused:
            return
        self._bytes_ahead += size
        if self._bytes_ahead > self._limits.http_head_bytes:
            logger.info("closing a connection that sent more than a request head before its response")
            self.transport.abort()
        else:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        self._bytes_ahead = 0
        super().on_response_complete()
        self._resume_head_timer()

    def _resume_head_timer(self) -> None:
        """Limit the time for the rest of the next request's head, if a part of it has arrived."""
        if self._is_answering:  # the next request arrived early
            self._stop_head_timer()
        elif self.conn.trailing_data[0]:
            self._start_head_timer()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # the client has not read its response
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP. A missing or repeated Host header counts as another host."""
        self._stop_head_timer()
        problem = sys.exception()
        status, text = HTTPStatus.BAD_REQUEST, msg
        if isinstance(problem, h11.RemoteProtocolError) and "Host" in str(problem):
            status, text = HTTPStatus.MISDIRECTED_REQUEST, "This host is not served here"
        elif isinstance(problem, h11.RemoteProtocolError) and problem.error_status_hint == _TOO_LARGE:
            status, text = _TOO_LARGE, f"The head of the request has more than {self._limits.http_head_bytes} bytes"
        self._respond_and_close(status, text)

    @property
    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.http_head_seconds, self._head_timed_out)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        self._respond_and_close(HTTPStatus.REQUEST_TIMEOUT, "The request did not arrive in time")

    def _respond_and_close(self, status: HTTPStatus, text: str) -> None:
        """Send an error without a request, and close."""
        if self.transport.is_closing():
            return
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-type: text/plain\r\n"
        self.transport.write(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())
        self.transport.close()


def _has_length(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a response has a length and keeps the connection open."""
    return any(name == b"content-length" for name, _ in headers) and _CLOSE not in headers


def _head_bytes(head: Message) -> bytes:
    status = head["status"]
    lines = [b"%b: %b\r\n" % header for header in head["headers"]]
    return b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, STATUS_PHRASES[status], b"".join(lines))
