"""Line framing on pipes, sockets and files: one JSON text per line, bounded in size, written in batches.

`LineBuffer` takes linear time and never holds more than one message. `LineReader` and `LineWriter` attach to asyncio
transports; a thread reads descriptors that asyncio can't watch (regular files, /dev/null). None of them interprets
lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, cast

from mcp_workbench.errors import Fault, MessageTooLarge
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.wire.background import in_background
from mcp_workbench.wire.fairness import TURN_SECONDS, FairShare
from mcp_workbench.wire.jsonrpc import Envelope
from mcp_workbench.wire.memory_budget import Account

READ_CHUNK_BYTES = 256 * 1024
"""One read from a pipe: four times the default pipe size of Linux."""

_SMALL_BYTES: Final = 4096
_MOST_WAITING: Final = 256
"""Lines that may wait while reading goes on: more than well-behaved peers send in one turn."""


class LineBuffer:
    """Splits a stream of chunks into lines of at most `max_bytes`, in memory proportional to the line."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes | bytearray] = []
        self.size = 0
        """The bytes of the incomplete line."""
        self.overflowed = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes. After an overflow there are no more."""
        if self.overflowed:
            return []
        *lines, rest = data.split(b"\n")
        if not rest and not self.size and len(data) <= self._max_bytes:
            return lines  # fast path: most chunks hold whole lines
        if lines:
            lines[0] = self._take(lines[0])
        if rest:
            self._keep(rest)
        return self._checked(lines)

    def rest(self) -> bytes:
        """The incomplete line."""
        return b"".join(self._parts)

    def _keep(self, piece: bytes) -> None:
        """Keep part of a line. Small pieces are merged, since an object costs more than a few bytes."""
        self.size += len(piece)
        last = self._parts[-1] if self._parts else None
        if len(piece) >= _SMALL_BYTES:
            self._parts.append(piece)
        elif isinstance(last, bytearray):
            last += piece
        else:
            self._parts.append(bytearray(piece))

    def _take(self, end: bytes) -> bytes:
        if not self.size:
            return end
        self._parts.append(end)
        line = b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        return line

    def _checked(self, lines: list[bytes]) -> list[bytes]:
        for index, line in enumerate(lines):
            if len(line) > self._max_bytes:
                self._overflow()
                return lines[:index]
        if self.size > self._max_bytes:
            self._overflow()
        return lines

    def _overflow(self) -> None:
        self.overflowed = True
        self.discard()

    def discard(self) -> None:
        """Drop the incomplete line."""
        self._parts.clear()
        self.size = 0


class LineReader(asyncio.Protocol):
    """Hands each line to `on_line`, in order, then calls `on_end` once.

    It handles lines for one millisecond per turn of the event loop. Reading pauses until all received lines are
    handled, and as long as the peer's `share` says.

    With `last_line`, input that ends without a line break has a last line, since people type such input. From a server
    it is the message during which it died.
    """

    def __init__(
        self,
        on_line: Callable[[bytes], None],
        on_end: Callable[[Fault | None], None],
        max_bytes: int,
        *,
        last_line: bool = False,
        share: FairShare | None = None,
        account: Account | None = None,
    ) -> None:
        self._account = account or Account()
        self._held = 0
        self._on_line = on_line
        self._on_end = on_end
        self._max_bytes = max_bytes
        self._last_line = last_line
        self._share = share
        self._buffer = LineBuffer(max_bytes)
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes] = deque()
        self._transport: asyncio.ReadTransport | None = None
        self._is_paused = False
        self._is_waiting = False
        """Whether another turn is scheduled."""
        self._is_held_back = False
        """Whether reading pauses until the received lines are handled or the peer has rested."""
        self._is_at_end = False
        """Whether the input has ended."""
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._lines.extend(self._buffer.feed(data))
        if self._held or self._buffer.size:
            self._count()
        if not self._is_waiting:
            self._handle_lines()

    def _count(self) -> None:
        """Count bytes twice: while a message is joined, it exists in pieces and as a whole."""
        if (change := 2 * self._buffer.size - self._held) > 0:
            self._account.reserve(change)
        elif change:  # later, when the message's next holder counts it
            self._loop.call_soon(self._loop.call_soon, self._account.release, -change)
        self._held += change

    def eof_received(self) -> None:
        if self._last_line and (rest := self._buffer.rest().strip()):
            self._lines.append(rest)
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        self._is_at_end = True
        if not self._is_waiting:
            self._handle_lines()

    def close(self) -> None:
        """Stop reading and free the buffer. No callback follows."""
        self._ended = True
        self._lines.clear()
        self._buffer.discard()
        self._account.release(self._held)
        self._held = 0
        if self._transport is not None:
            self._transport.close()

    def pause(self) -> None:
        self._is_paused = True
        self._pause_or_resume()

    def resume(self) -> None:
        self._is_paused = False
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        if self._transport is None:
            return
        if self._is_paused or self._is_held_back:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _handle_lines(self) -> None:
        """Handle lines for one turn. Continue later if there are more, or the peer has used up its share."""
        self._is_waiting = False
        lines, ends_at = self._lines, 0.0
        while lines and not self._ended:
            line = lines.popleft()
            if line and not line.isspace():
                self._on_line(line)
            if lines and not ends_at:
                ends_at = monotonic() + TURN_SECONDS
            elif lines and monotonic() > ends_at:
                break
        rest_seconds = self._share.rest_seconds() if self._share is not None and self._share.is_charged else 0.0
        if self._ended:
            return
        if self._lines or rest_seconds:
            self._is_waiting = True
            self._loop.call_later(rest_seconds, self._handle_lines) if rest_seconds else self._loop.call_soon(
                self._handle_lines
            )
        elif self._buffer.overflowed:
            self._end(MessageTooLarge(f"a message was larger than {self._max_bytes} bytes"))
            return
        elif self._is_at_end:
            self._end(None)
            return
        holds_back = rest_seconds > 0 or len(self._lines) > _MOST_WAITING
        if holds_back != self._is_held_back:
            self._is_held_back = holds_back
            self._pause_or_resume()

    def _end(self, fault: Fault | None) -> None:
        if self._ended:
            return
        self.close()
        self._on_end(fault)


class LineWriter(asyncio.BaseProtocol):
    """Writes lines. The first of each turn of the event loop is written at once, the others in one system call.

    `account` counts the bytes that a congested peer has not read.
    """

    def __init__(
        self,
        on_lost: Callable[[], None],
        limits: Limits = DEFAULTS,
        *,
        on_congestion: Callable[[bool], None] | None = None,
        account: Account | None = None,
    ) -> None:
        self._account = account or Account()
        self._counted = 0
        self._on_lost = on_lost
        self._on_congestion = on_congestion
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._lines: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._waiting_bytes = 0
        self._is_full = False
        self._batching = False
        self.is_closed = False
        """Whether the peer is gone or the writer was closed."""
        self.most_bytes = limits.write_buffer_bytes
        self.most_notice_bytes = limits.unread_notice_bytes
        self._notice_bytes = 0
        """Bytes of droppable messages that were written since the peer had last read everything."""
        self.congested = False
        """Whether more than `write_buffer_bytes` wait for the peer to read them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def write(self, envelope: Envelope) -> None:
        if self.is_closed or (envelope.may_drop and self._has_unread_notices()):
            return
        line = envelope.line
        if envelope.may_drop:
            self._notice_bytes += len(line)
        self._lines.append(line)
        self._waiting_bytes += len(line)
        if self._waiting_bytes > self.most_bytes and not self.congested:
            self._is_full = True  # the transport notices only at the end of this turn
            self.pause_writing()
        if not self._batching:
            # The first line of a turn leaves at once for low latency; the others follow together.
            self._batching = True
            self.flush()
            self._loop.call_soon(self._end_turn)

    def _has_unread_notices(self) -> bool:
        """Whether many notifications are unread, behind which answers would wait."""
        if not self._waiting_bytes and (self._transport is None or not self._transport.get_write_buffer_size()):
            self._notice_bytes = 0
        return self._notice_bytes > self.most_notice_bytes or self.congested

    def _end_turn(self) -> None:
        self._batching = False
        self.flush()

    def flush(self) -> None:
        """Pass all buffered lines to the transport."""
        if self.is_closed or not self._lines or self._transport is None:
            return
        self._lines.append(b"")
        data = b"\n".join(self._lines)
        self._lines.clear()
        self._waiting_bytes = 0
        self._transport.write(data)
        if self.congested:
            self._count(self._transport.get_write_buffer_size())
        if self._is_full:
            self._is_full = False
            if self._transport.get_write_buffer_size() <= self.most_bytes:
                self.resume_writing()

    @property
    def is_hung_up(self) -> bool:
        """Whether nobody can read the output. A TCP peer that left looks like one that only stopped writing."""
        if self.is_closed or self._transport is None:
            return True
        end = self._transport.get_extra_info("socket") or self._transport.get_extra_info("pipe")
        if end is None:
            return False
        poll = select.poll()
        poll.register(end.fileno(), 0)
        return any(state & (select.POLLHUP | select.POLLERR) for _, state in poll.poll(0))

    async def drained(self) -> None:
        """Wait until the peer has read enough that writing may go on."""
        if self.is_closed or not self.congested:
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
        self._count(0)
        self._release()
        if self._on_congestion is not None:
            self._on_congestion(False)  # noqa: FBT003

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        was_closed, self.is_closed = self.is_closed, True
        self._transport = None
        self.congested = False
        self._count(0)
        self._release()
        if not was_closed:
            self._on_lost()

    async def finish(self, seconds: float) -> None:
        """Give the peer this long to read the buffered output, then close."""
        self.flush()
        if self._transport is not None and not self.is_closed and self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)  # now drained() waits until the buffer is empty
            with in_background(self.drained()) as drained:
                await asyncio.wait((drained,), timeout=seconds)
        self.close()

    def close(self) -> None:
        """Write as much as the peer accepts at once, then close."""
        self.flush()
        self.is_closed = True
        self._release()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once and drop buffered output."""
        self.is_closed = True
        self._release()
        if self._transport is not None:
            self._transport.abort()

    def _count(self, unread: int) -> None:
        change, self._counted = unread - self._counted, unread
        if change > 0:
            self._account.wrote(change)
        elif change:
            self._account.was_read(-change)

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


async def read_lines(descriptor: int, reader: LineReader) -> None:
    """Attach `reader` to a file descriptor, which it then owns."""
    loop = asyncio.get_running_loop()
    if _is_watchable(descriptor):
        await loop.connect_read_pipe(lambda: reader, os.fdopen(descriptor, "rb", buffering=0))
    else:
        _read_in_thread(loop, descriptor, reader, READ_CHUNK_BYTES)


async def write_lines(descriptor: int, writer: LineWriter, *, source: int | None = None) -> None:
    """Attach `writer` to a file descriptor, which it then owns. `source` is the one its peer is read from."""
    loop = asyncio.get_running_loop()
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        writer.connection_made(_FileTransport(descriptor))
        return
    if source is not None and _is_one_socket(source, descriptor):
        # The transport for pipes would take input on the socket for a closed reader.
        duplex, _ = await loop.create_connection(lambda: writer, sock=socket.socket(fileno=descriptor))
        duplex.pause_reading()
        transport: asyncio.WriteTransport = duplex
    else:
        transport, _ = await loop.connect_write_pipe(lambda: writer, os.fdopen(descriptor, "wb", buffering=0))
    transport.set_write_buffer_limits(high=writer.most_bytes)


def _is_one_socket(source: int, sink: int) -> bool:
    """Whether both descriptors are the same socket, as inetd and socat pass it."""
    read, written = os.fstat(source), os.fstat(sink)
    return stat.S_ISSOCK(read.st_mode) and os.path.samestat(read, written)


def _is_watchable(descriptor: int) -> bool:
    """Whether the event loop can watch it: pipes, sockets and terminals, but not /dev/null."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(descriptor))


def _read_in_thread(loop: asyncio.AbstractEventLoop, descriptor: int, reader: LineReader, size: int) -> None:
    transport = _ThreadTransport()
    reader.connection_made(transport)
    taken = threading.Event()

    def take(data: bytes) -> None:
        reader.data_received(data) if data else reader.eof_received()
        taken.set()

    def pump() -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as file, contextlib.suppress(RuntimeError):
            more = True
            while more:  # RuntimeError: the loop was closed
                data = file.read(size)
                taken.clear()
                loop.call_soon_threadsafe(take, data)
                taken.wait()
                more = bool(data) and transport.wait()

    threading.Thread(target=pump, name="stdin", daemon=True).start()


class _ThreadTransport(asyncio.ReadTransport):
    """Lets a reader pause the thread that reads its input."""

    def __init__(self) -> None:
        super().__init__()
        self._may_read = threading.Event()
        self._may_read.set()
        self._is_closed = False

    def wait(self) -> bool:
        """Wait until reading may go on; False if the reader was closed."""
        self._may_read.wait()
        return not self._is_closed

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def close(self) -> None:
        self._is_closed = True
        self._may_read.set()


class _FileTransport(asyncio.WriteTransport):
    """Writes to a regular file, which accepts every write at once."""

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
