"""Bounds what a remote server sends before its response: the head, and any number of interim responses.

The HTTP library reads interim responses such as `100 Continue` without a limit and without yielding. Here they are read
in small pieces, other tasks run in between, and the request fails if the server sends too many.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any, Final

import httpcore2

from mcp_workbench.errors import ProtocolViolation

RESPONSE_HEAD_BYTES = 64 * 1024
"""The most bytes that a server may send before a response begins: its head, and interim responses such as
`100 Continue`."""

_PIECE_BYTES: Final = 4096
"""Read in one turn before the response begins: most heads, or 150 interim responses, which take 3 ms."""


class _Head:
    """What was read of a response that has not begun."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0

    def add(self, data: bytes) -> None:
        self._bytes += len(data)

    def check(self) -> None:
        """Raise `ProtocolViolation` if more was read than a head may have."""
        if self._bytes >= self._most_bytes:
            raise ProtocolViolation(
                f"it sent {self._bytes} bytes and no response, perhaps interim responses without end",
                hint="Check its url, and any proxy on the way: it may be the one that sends them.",
            )

    def restart(self) -> None:
        """Another request is sent."""
        self._bytes = 0


_head: ContextVar[_Head | None] = ContextVar("_head", default=None)


@contextlib.contextmanager
def expecting_head() -> Generator[None]:
    """Until the response begins, what this task reads from a `BoundedStream` counts as its head."""
    token = _head.set(_Head(RESPONSE_HEAD_BYTES))
    try:
        yield
    finally:
        _head.reset(token)


class BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection to a remote server."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if (head := _head.get()) is None:
            return await self._stream.read(max_bytes, timeout)
        head.check()
        data = await self._stream.read(min(max_bytes, _PIECE_BYTES), timeout)
        head.add(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if (head := _head.get()) is not None:
            head.restart()
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
