"""One connection of a client: uvicorn's protocol, with bounds that it does not have."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any, Final, cast

import h11
from uvicorn.config import Config as ServerConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from mcp_workbench import observe
from mcp_workbench.limits import Limits

_BUSY: Final = 503
_LATE: Final = 408
_MISDIRECTED: Final = 421
_BAD: Final = 400
_REASONS: Final = {
    _BUSY: "Service Unavailable",
    _LATE: "Request Timeout",
    _MISDIRECTED: "Misdirected Request",
    _BAD: "Bad Request",
}


class Lingering:
    """A transport whose other side can read what it was told last, though it has not sent everything.

    A system that closes a connection with something unread makes the other side forget what it has not read either.
    """

    def __init__(self, transport: asyncio.Transport, limits: Limits) -> None:
        self._transport = transport
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._given_up = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return bool(self._given_up) or self._transport.is_closing()

    def close(self) -> None:
        """Say that nothing more comes; whatever the other side still sends is not looked at."""
        if self.is_closing():
            return
        self._given_up = self._loop.time() + self._limits.http_write_seconds
        try:
            self._transport.write_eof()
            self._transport.resume_reading()
        except OSError:  # the other side is gone already
            self._transport.abort()
        else:
            self._wait()

    def _wait(self) -> None:
        self._loop.call_later(self._limits.http_ending_seconds, self._end)

    def _end(self) -> None:
        if self._transport.get_write_buffer_size() and self._loop.time() < self._given_up:
            self._wait()
        else:
            self._transport.abort()


class Connection(H11Protocol):
    """It closes what sends its head too slowly, or comes when there are too many."""

    def __init__(self, config: ServerConfig, state: ServerState, limits: Limits) -> None:
        super().__init__(config, state, {})
        self._limits = limits
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # asyncio does it only for sockets that name their protocol; without it each answer waits for 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_one_too_many = len(self.connections) >= self._limits.http_connections
        super().connection_made(cast("asyncio.Transport", Lingering(transport, self._limits)))
        self.app_state = {"abort": transport.abort}
        if is_one_too_many:
            observe.warning("a connection was refused: there are too many", open=len(self.connections) - 1)
            self._say_last(_BUSY, "There are too many connections")
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_answering:
            self._head_is_there()
        elif not self.transport.is_closing():
            self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_answering:  # the next request had come already
            self._head_is_there()
        elif self.conn.trailing_data[0]:
            self._expect_head()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # it was answered, and did not read it
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP. A host that is missing, or there twice, is another one's."""
        problem = sys.exception()
        wrong_host = isinstance(problem, h11.RemoteProtocolError) and "Host" in str(problem)
        self._head_is_there()
        self._say_last(_MISDIRECTED if wrong_host else _BAD, "This host is not served here" if wrong_host else msg)

    @property
    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _expect_head(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self._limits.http_head_seconds, self._head_is_late)

    def _head_is_there(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _head_is_late(self) -> None:
        self._late = None
        self._say_last(_LATE, "The request did not come in time")

    def _say_last(self, status: int, text: str) -> None:
        """Answer without having read a request, and close."""
        if self.transport.is_closing():
            return
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nconnection: close\r\ncontent-type: text/plain\r\n"
        self.transport.write(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())
        self.transport.close()
