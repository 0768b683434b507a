"""Messages on pipes: one JSON text per line, bounded in size, written in batches.

`LineBuffer` takes linear time and never holds more than one message. `LineReader` and
`LineWriter` put it on an asyncio transport; a file descriptor that asyncio can't watch (a regular
file, /dev/null) is read by one thread. None of them knows what a line means.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import Callable
from typing import cast

from mcp_workbench.errors import Fault, MessageTooLarge
from mcp_workbench.limits import DEFAULTS, Limits


class LineBuffer:
    """Cuts a stream of chunks into lines of at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self.overflowed = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes. After an overflow there are no more."""
        if self.overflowed:
            return []
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = self._take(lines[0])
        self._parts.append(rest)
        self._size += len(rest)
        return self._checked(lines)

    def rest(self) -> bytes:
        """What came after the last line break."""
        return b"".join(self._parts)

    def _take(self, end: bytes) -> bytes:
        if not self._size:
            self._parts.clear()
            return end
        self._parts.append(end)
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line

    def _checked(self, lines: list[bytes]) -> list[bytes]:
        for index, line in enumerate(lines):
            if len(line) > self._max_bytes:
                self._overflow()
                return lines[:index]
        if self._size > self._max_bytes:
            self._overflow()
        return lines

    def _overflow(self) -> None:
        self.overflowed = True
        self._parts.clear()
        self._size = 0


class LineReader(asyncio.Protocol):
    """Hands each line to `on_line`, in order, then calls `on_end` once.

    With `last_line`, input that ends without a line break ends in a line all the same: people type
    that. From a server it is the message in which it died.
    """

    def __init__(
        self,
        on_line: Callable[[bytes], None],
        on_end: Callable[[Fault | None], None],
        max_bytes: int,
        *,
        last_line: bool = False,
    ) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._max_bytes = max_bytes
        self._last_line = last_line
        self._buffer = LineBuffer(max_bytes)
        self._transport: asyncio.ReadTransport | None = None
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        for line in self._buffer.feed(data):
            if self._ended:
                return
            if line and not line.isspace():
                self._on_line(line)
        if self._buffer.overflowed:
            self._end(MessageTooLarge(f"a message was larger than {self._max_bytes} bytes"))

    def eof_received(self) -> None:
        if self._last_line and not self._ended and (rest := self._buffer.rest().strip()):
            self._on_line(rest)
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        self._end(None)

    def close(self) -> None:
        """Stop reading; nothing is called after this."""
        self._ended = True
        if self._transport is not None:
            self._transport.close()

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def _end(self, fault: Fault | None) -> None:
        if self._ended:
            return
        self.close()
        self._on_end(fault)


class LineWriter(asyncio.BaseProtocol):
    """Writes lines: the first of a turn of the event loop at once, the others in one system call."""

    def __init__(self, on_lost: Callable[[], None], *, on_congestion: Callable[[bool], None] | None = None) -> None:
        self._on_lost = on_lost
        self._on_congestion = on_congestion
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._lines: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._waiting_bytes = 0
        self._is_full = False
        self._batching = False
        self._closed = False
        self.most_bytes = DEFAULTS.write_buffer_bytes
        self.congested = False
        """The peer reads slower than we write, by more than `write_buffer_bytes`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    @property
    def is_closed(self) -> bool:
        """What is written now reaches nobody."""
        return self._closed

    def write(self, line: bytes, about: object = None) -> None:  # noqa: ARG002 -- one stream carries all
        if self._closed:
            return
        self._lines.append(line)
        self._waiting_bytes += len(line)
        if self._waiting_bytes > self.most_bytes and not self.congested:
            self._is_full = True  # the transport will know at the end of this turn; others must not add to it
            self.pause_writing()
        if not self._batching:
            # The first line of a turn leaves at once, for latency; the others follow together.
            self._batching = True
            self.flush()
            self._loop.call_soon(self._turn_over)

    def _turn_over(self) -> None:
        self._batching = False
        self.flush()

    def flush(self) -> None:
        """Hand everything to the transport now."""
        if self._closed or not self._lines or self._transport is None:
            return
        self._lines.append(b"")
        data = b"\n".join(self._lines)
        self._lines.clear()
        self._waiting_bytes = 0
        self._transport.write(data)
        if self._is_full:
            self._is_full = False
            if self._transport.get_write_buffer_size() <= self.most_bytes:
                self.resume_writing()

    async def drained(self) -> None:
        """Return when the peer has read enough to be written to."""
        if self._closed or not self.congested:
            return
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def pause_writing(self) -> None:
        if self.congested:
            return
        self.congested = True
        if self._on_congestion is not None:
            self._on_congestion(True)  # noqa: FBT003 -- a state, not an option

    def resume_writing(self) -> None:
        self.congested = False
        self._release()
        if self._on_congestion is not None:
            self._on_congestion(False)  # noqa: FBT003

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        was_closed, self._closed = self._closed, True
        self._transport = None
        self.congested = False
        self._release()
        if not was_closed:
            self._on_lost()

    async def finish(self, seconds: float) -> None:
        """Give the peer this long to read what is buffered, then close."""
        self.flush()
        if self._transport is not None and not self._closed and self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)  # drained() now means: empty
            await asyncio.wait((asyncio.ensure_future(self.drained()),), timeout=seconds)
        self.close()

    def close(self) -> None:
        """Write what the peer takes at once, then close."""
        self.flush()
        self._closed = True
        self._release()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is still buffered."""
        self._closed = True
        self._release()
        if self._transport is not None:
            self._transport.abort()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


async def read_lines(descriptor: int, reader: LineReader, limits: Limits) -> None:
    """Attach `reader` to a file descriptor, which it owns from now on."""
    loop = asyncio.get_running_loop()
    if _is_watchable(descriptor):
        await loop.connect_read_pipe(lambda: reader, os.fdopen(descriptor, "rb", buffering=0))
    else:
        _read_in_thread(loop, descriptor, reader, limits.read_chunk_bytes)


async def write_lines(descriptor: int, writer: LineWriter, limits: Limits) -> None:
    """Attach `writer` to a file descriptor, which it owns from now on."""
    loop = asyncio.get_running_loop()
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        writer.connection_made(_FileTransport(descriptor))
        return
    transport, _ = await loop.connect_write_pipe(lambda: writer, os.fdopen(descriptor, "wb", buffering=0))
    transport.set_write_buffer_limits(high=limits.write_buffer_bytes)
    writer.most_bytes = limits.write_buffer_bytes


def _is_watchable(descriptor: int) -> bool:
    """Whether the event loop can wait for it: pipes, sockets and terminals, but not /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(descriptor))


def _read_in_thread(loop: asyncio.AbstractEventLoop, descriptor: int, reader: LineReader, size: int) -> None:
    taken = threading.Event()

    def take(data: bytes) -> None:
        reader.data_received(data) if data else reader.eof_received()
        taken.set()

    def pump() -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as file, contextlib.suppress(RuntimeError):
            more = True
            while more:  # RuntimeError: the loop was closed, so nobody waits for more
                data = file.read(size)
                taken.clear()
                loop.call_soon_threadsafe(take, data)
                taken.wait()
                more = bool(data)

    threading.Thread(target=pump, name="stdin", daemon=True).start()


class _FileTransport(asyncio.WriteTransport):
    """A regular file: it takes every write at once."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._file = os.fdopen(descriptor, "wb")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._file.write(data)
        self._file.flush()

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self._file.close()

    abort = close
