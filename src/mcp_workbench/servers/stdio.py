"""Channel to a server process over its stdin and stdout; its stderr goes to errors and to the log.

Guarantees: a line that is not a message fails the call it belongs to, is tolerated as noise within bounds, or ends the
connection, so no call waits on garbage. When the process ends, every call on it fails within a second with its exit
status and the end of its stderr.

The end of stderr is kept for errors. Reading never stops, so a server never blocks on it, however much it writes. The
log has stderr at level debug, a bounded number of lines per second; the rest is counted.
"""

from __future__ import annotations

import asyncio
import os

from mcp_workbench import logger
from mcp_workbench.config.model import Launch
from mcp_workbench.errors import Fault, ServerExited, ShuttingDown
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.peer_channel import Inbox, PeeredChannel
from mcp_workbench.servers.processes import Child, Processes, exit_text
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.fairness import FairShare
from mcp_workbench.wire.framing import LineReader, LineWriter, read_lines, write_lines
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.peer import Peer

STDERR_LINES_PER_SECOND = 50
"""How many lines of stderr go to the log; the rest is counted."""

_BYTES = 4
"""The most bytes of a character in UTF-8."""


def _resolve(event: asyncio.Future[None]) -> None:
    if not event.done():
        event.set_result(None)


class Stderr(asyncio.Protocol):
    """Reads a server's stderr and keeps the end of it."""

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._size = limits.stderr_ring_bytes
        self._tail_size = limits.stderr_tail_bytes
        self._ring = bytearray()
        self._was_cut = False
        self._lines = _StderrLines(label, limits)
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
        _resolve(self.over)

    def tail(self) -> str:
        """The last lines, redacted and escaped, without a first line that was cut."""
        # Redact more than is shown, by the length of the longest secret: the redactor can't recognise half of one.
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


class _StderrLines:
    """Logs lines of stderr, up to a rate limit."""

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
        """The bytes of a line to keep: what is logged, and the longest secret that may begin in it."""
        return _BYTES * self._length + logger.log.redact.longest

    def feed(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[: self._most_bytes]
        now = self._loop.time()
        if now - self._second >= 1:
            self._log_left_out()
            self._second, self._taken = now, 0
        free = self._most - self._taken
        for line in lines[:free]:
            self._log_line(line)
        self._taken += len(lines[:free])
        self._left_out += len(lines[free:])

    def end(self) -> None:
        """Log the rest at the end of the stream."""
        if self._rest:
            self._log_line(self._rest)
        self._log_left_out()

    def _log_line(self, line: bytes) -> None:
        whole = line[: self._most_bytes].decode("utf-8", "replace")
        if text := logger.redacted(whole, self._length).strip():
            logger.debug("a server wrote to stderr", server=self._label, text=text)

    def _log_left_out(self) -> None:
        if self._left_out:
            logger.debug("a server writes too much to stderr", server=self._label, lines_left_out=self._left_out)
            self._left_out = 0


class StdioChannel(PeeredChannel):
    """A running server process. `open` it, use it, `close` it."""

    def __init__(
        self, processes: Processes, child: Child, label: ServerIdentifier, limits: Limits, account: Account
    ) -> None:
        self._processes = processes
        self._child = child
        self._label = label
        self._limits = limits
        self._tasks = BackgroundTasks()
        self._stderr = Stderr(label, limits)
        share = FairShare()
        self._writer = LineWriter(self._input_ended, limits, account=account)
        inbox = Inbox(label, limits, self.end, account)
        peer = Peer(
            self._writer,
            inbox,
            answers_always=False,
            admit=inbox.admit,
            passes=inbox.notices.admits,
            share=share,
            account=account,
        )
        self._reader = LineReader(peer.receive, self._output_ended, limits.message_bytes, share=share, account=account)
        super().__init__(peer, inbox, account)
        self._output_over, self._input_over = self._loop.create_future(), self._loop.create_future()

    @classmethod
    async def open(
        cls,
        processes: Processes,
        launch: Launch,
        label: ServerIdentifier,
        limits: Limits,
        client: Account | None = None,
    ) -> StdioChannel:
        """Start the server. `client` is the memory account of its client. Raises `SpawnFailed`."""
        child = processes.spawn(launch)
        channel = cls(processes, child, label, limits, (client or Account()).open(f"server {label}"))
        try:
            await channel._attach()
        except BaseException:
            await channel.close()
            raise
        return channel

    async def _attach(self) -> None:
        await write_lines(self._child.descriptor("stdin"), self._writer)
        await read_lines(self._child.descriptor("stdout"), self._reader)
        stderr = os.fdopen(self._child.descriptor("stderr"), "rb", buffering=0)
        await self._loop.connect_read_pipe(lambda: self._stderr, stderr)
        self._tasks.start(self._watch())
        self._account.watch(self._throttle)

    def _throttle(self, paused: bool) -> None:  # noqa: FBT001 -- a callback's state
        super()._throttle(paused)
        self._reader.pause() if paused else self._reader.resume()

    async def _close(self) -> None:
        self.end(ShuttingDown("the connection was closed"))
        self._inbox.report_noise()
        self._writer.abort() if self._writer.congested else self._writer.close()
        await self._processes.end(self._child)
        self._reader.close()
        self._stderr.close()
        self._tasks.cancel()

    def _close_for_memory(self) -> None:
        super()._close_for_memory()
        self._reader.close()

    # -- how it ends

    def _output_ended(self, fault: Fault | None) -> None:
        _resolve(self._output_over)
        if fault is not None:
            self.end(fault)

    def _input_ended(self) -> None:
        _resolve(self._input_over)

    async def _watch(self) -> None:
        """Wait for the first sign of the end, then for what follows quickly: last answers, exit status, stderr."""
        exited, output = self._child.exited, self._output_over
        await asyncio.wait((exited, output, self._input_over), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((exited, output, self._stderr.over), timeout=self._limits.obituary_seconds)
        how = exit_text(exited.result()) if exited.done() else "closed its output"
        tail = self.stderr_tail()
        self.end(ServerExited(f"it {how}; its last words:\n{tail}" if tail else f"it {how}"))

    def stderr_tail(self) -> str:
        return self._stderr.tail()
