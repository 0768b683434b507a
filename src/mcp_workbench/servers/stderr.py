"""What a server says on its stderr: the last of it is kept for errors, and the log gets some of it.

Reading never stops, so a server never blocks on it, however much it writes. The log has it at level debug,
a bounded number of lines a second; the rest is counted.
"""

from __future__ import annotations

import asyncio

from mcp_workbench import logger
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.text.sanitize import escape

STDERR_LINES_PER_SECOND = 50
"""How many lines of it the log takes (at level debug); the rest is counted."""

_BYTES = 4
"""Of a character, at most."""


class Stderr(asyncio.Protocol):
    """The reading end of a server's stderr."""

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._size = limits.stderr_ring_bytes
        self._tail_size = limits.stderr_tail_bytes
        self._ring = bytearray()
        self._was_cut = False
        self._lines = _Lines(label, limits)
        self._transport: asyncio.BaseTransport | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._ring += data
        if len(self._ring) > self._size:
            del self._ring[: -self._size]
            self._was_cut = True
        if logger.log.shows("debug"):
            self._lines.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        self._lines.end()
        if not self.over.done():
            self.over.set_result(None)

    def tail(self) -> str:
        """Its last lines, redacted and escaped; a line that was cut is left out."""
        # What is read begins before what is shown, by as much as a secret may have: half of one is not recognised.
        size, reach = self._tail_size, logger.log.redact.longest
        read = self._ring[-(_BYTES * size + reach) :]
        text = read.decode("utf-8", "replace").rstrip()
        was_cut = self._was_cut or len(read) < len(self._ring)
        start = max(len(text) - size, reach if was_cut else 0)
        lines = [escape(line, size) for line in logger.log.redact(text, start).strip().splitlines()]
        return "\n".join(lines[1:] if start > 0 and len(lines) > 1 else lines)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Lines:
    """Lines for the log, at most so many in a second."""

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._label = label
        self._most = STDERR_LINES_PER_SECOND
        self._length = limits.stderr_line_length
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._second = 0.0
        self._taken = 0
        self._left_out = 0

    @property
    def _most_bytes(self) -> int:
        """Of a line: what is shown, and as much as a secret that begins there may have."""
        return _BYTES * self._length + logger.log.redact.longest

    def feed(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[: self._most_bytes]
        now = self._loop.time()
        if now - self._second >= 1:
            self._tell_left_out()
            self._second, self._taken = now, 0
        free = self._most - self._taken
        for line in lines[:free]:
            self._tell(line)
        self._taken += len(lines[:free])
        self._left_out += len(lines[free:])

    def end(self) -> None:
        """There will be no more."""
        if self._rest:
            self._tell(self._rest)
        self._tell_left_out()

    def _tell(self, line: bytes) -> None:
        whole = line[: self._most_bytes].decode("utf-8", "replace")
        if text := logger.redacted(whole, self._length).strip():
            logger.debug("a server says", server=self._label, text=text)

    def _tell_left_out(self) -> None:
        if self._left_out:
            logger.debug("a server says too much", server=self._label, lines_left_out=self._left_out)
            self._left_out = 0
