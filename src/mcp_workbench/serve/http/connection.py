"""One connection of a client: uvicorn's protocol, with bounds that it does not have."""

from __future__ import annotations

import asyncio
import math
import re
import socket
import sys
from typing import Any, Final, Generic, TypeVar, cast

import h11
from starlette.types import Message
from uvicorn.config import Config as ServerConfig
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from mcp_workbench import logger
from mcp_workbench.limits import Limits
from mcp_workbench.logger import LOG_REPEAT_SECONDS

C = TypeVar("C")


class ConnectionLimiter(Generic[C]):
    """The connections that are served. The log says at most once a second how many were refused."""

    def __init__(self) -> None:
        self._strangers: dict[C, None] = {}
        self._known: set[C] = set()
        self._unlogged = 0
        self._logged_at = -math.inf

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def enter(self, newcomer: C, most: int) -> C | None:
        """Who must leave so that the limit holds: nobody, another connection, or the newcomer itself."""
        self._strangers[newcomer] = None
        if len(self) <= most:
            return None
        is_full = len(self._strangers) == 1
        evicted = newcomer if is_full else next(iter(self._strangers))
        self.leave(evicted)
        return evicted

    def authenticated(self, connection: C) -> None:
        """It showed a valid token."""
        if connection in self._strangers:
            del self._strangers[connection]
            self._known.add(connection)

    def leave(self, connection: C) -> None:
        """It is served no longer."""
        self._strangers.pop(connection, None)
        self._known.discard(connection)

    def refused(self, open_now: int, now: float) -> None:
        """One more was refused, or closed for another one."""
        self._unlogged += 1
        if now - self._logged_at >= LOG_REPEAT_SECONDS:
            logger.warning("connections were refused: there are too many", refused=self._unlogged, open=open_now)
            self._unlogged, self._logged_at = 0, now


HTTP_READ_BYTES = 16 * 1024
"""Read from a connection in one turn: its chunks may have a byte each, and thousands of them take long."""

CONNECTION: Final = "connection"
"""Where a request finds its connection, in its scope's state."""
_BUSY: Final = 503
_LATE: Final = 408
_MISDIRECTED: Final = 421
_BAD: Final = 400
_LARGE: Final = 431
_CLOSE: Final = (b"connection", b"close")
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_REASONS: Final = {
    _BUSY: "Service Unavailable",
    _LATE: "Request Timeout",
    _MISDIRECTED: "Misdirected Request",
    _BAD: "Bad Request",
    _LARGE: "Request Header Fields Too Large",
}


class LingeringTransport:
    """A transport that sends in one piece what is written in one turn of the event loop.

    Its other side can read what it was told last, though it has not sent everything: a system that closes a connection
    with something unread makes the other side forget what it has not read either.
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
        if self._size >= HIGH_WATER_LIMIT:  # whoever writes must see that the other side does not read
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
        """Say that nothing more comes; whatever the other side still sends is not looked at."""
        if self.is_closing():
            return
        self._flush()
        self._give_up_at = self._loop.time() + self._limits.http_write_seconds
        try:
            self._transport.write_eof()
            self._transport.resume_reading()
        except OSError:  # the other side is gone already
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
    """h11's parser with an exact bound for the head of a request: h11 itself checks only heads that are incomplete."""

    def __init__(self, head_bytes: int) -> None:
        super().__init__(h11.SERVER, head_bytes)
        self._head_bytes = head_bytes

    def next_event(self) -> Any:
        state, data = self.their_state, self.trailing_data[0]
        if not data and state in (h11.IDLE, h11.DONE):
            return h11.NEED_DATA  # h11 comes to the same result slowly
        is_head = state is h11.IDLE
        if is_head and len(data) > self._head_bytes and not _HEAD_END.search(data, 0, self._head_bytes):
            raise h11.RemoteProtocolError("The head is too large", error_status_hint=_LARGE)
        return super().next_event()


class ClientConnection(H11Protocol):
    """It closes what sends its head too slowly, or too much, or comes when there are too many."""

    def __init__(
        self, config: ServerConfig, state: ServerState, limiter: ConnectionLimiter[ClientConnection], limits: Limits
    ) -> None:
        super().__init__(config, state, {})
        self.conn = RequestParser(limits.http_head_bytes)
        self._limits = limits
        self._limiter = limiter
        self._head_timer: asyncio.TimerHandle | None = None
        self._bytes_ahead = 0
        """Bytes that came after a request that is being answered."""
        self.lost: asyncio.Future[None] = self.loop.create_future()
        """Done when it is closed, by whichever side."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # asyncio does it only for sockets that name their protocol; without it each answer waits for 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # What is read in one turn is taken apart in one turn: chunks of a byte each must not hold others up.
        transport.max_size = HTTP_READ_BYTES  # type: ignore[attr-defined]  # asyncio's own, not declared
        super().connection_made(cast("asyncio.Transport", LingeringTransport(transport, self._limits)))
        self.app_state = {CONNECTION: self}
        self._start_head_timer()
        evicted = self._limiter.enter(self, self._limits.http_connections)
        if evicted is not None:
            self._limiter.refused(len(self._limiter), self.loop.time())
            evicted.evict()

    # -- the connection as requests see it

    def abort(self) -> None:
        """Close it, whatever was not sent yet."""
        self.transport.abort()

    @property
    def is_congested(self) -> bool:
        """Whether what is sent now has to wait."""
        return self.flow.write_paused

    @property
    def has_body(self) -> bool:
        """Whether the whole body of the request is here, so that nobody waits for it."""
        cycle: Any = self.cycle
        return not cycle.more_body

    def authenticated(self) -> None:
        """Note that a request on it showed a valid token."""
        self._limiter.authenticated(self)

    def respond(self, head: Message, body: bytes) -> bool:
        """Send a whole response in one piece; False where only uvicorn and h11 know how to.

        h11 would check each header of ours three times, so it only parses: the next request gets a parser of its own.
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

    # -- its bounds

    def evict(self) -> None:
        """Close it: there are too many connections."""
        self._stop_head_timer()
        if len(self.connections) <= self._limits.http_connections * 2:
            self._respond_and_close(_BUSY, "There are too many connections")
        else:
            self.transport.abort()  # those that are told so wait until they have read it, and may not be without number

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
        """Go on reading behind a request that is being answered: who does not read does not see a client hang up."""
        cycle: Any = self.cycle
        if cycle.more_body or not self.flow.read_paused:
            return
        self._bytes_ahead += size
        if self._bytes_ahead > self._limits.http_head_bytes:
            logger.info("a client sent more than the next request's head before it was answered")
            self.transport.abort()
        else:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        self._bytes_ahead = 0
        super().on_response_complete()
        self._resume_head_timer()

    def _resume_head_timer(self) -> None:
        """Expect the rest of the next request, if some of it came already."""
        if self._is_answering:  # the next request had come already
            self._stop_head_timer()
        elif self.conn.trailing_data[0]:
            self._start_head_timer()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # it was answered, and did not read it
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP. A host that is missing, or there twice, is another one's."""
        problem = sys.exception()
        self._stop_head_timer()
        if isinstance(problem, h11.RemoteProtocolError) and "Host" in str(problem):
            self._respond_and_close(_MISDIRECTED, "This host is not served here")
        elif isinstance(problem, h11.RemoteProtocolError) and problem.error_status_hint == _LARGE:
            self._respond_and_close(
                _LARGE, f"The head of the request has more than {self._limits.http_head_bytes} bytes"
            )
        else:
            self._respond_and_close(_BAD, msg)

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
        self._respond_and_close(_LATE, "The request did not come in time")

    def _respond_and_close(self, status: int, text: str) -> None:
        """Answer without having read a request, and close."""
        if self.transport.is_closing():
            return
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nconnection: close\r\ncontent-type: text/plain\r\n"
        self.transport.write(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())
        self.transport.close()


def _has_length(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a response has a length, and leaves the connection open."""
    return any(name == b"content-length" for name, _ in headers) and _CLOSE not in headers


def _head_bytes(head: Message) -> bytes:
    status = head["status"]
    lines = [b"%b: %b\r\n" % header for header in head["headers"]]
    return b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, STATUS_PHRASES[status], b"".join(lines))
