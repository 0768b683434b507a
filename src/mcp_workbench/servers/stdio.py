"""A server that we start and talk to over its stdin and stdout.

Guarantees: a line that is no message fails the call it belongs to, is tolerated as noise within
bounds, or ends the connection, so no call waits on garbage; when the process ends, every call on it
fails within a second with its exit status and the last of its stderr.
"""

from __future__ import annotations

import asyncio
import os

from mcp_workbench.config.model import Launch
from mcp_workbench.errors import Fault, ServerExited, ShuttingDown
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.inbox import Inbox
from mcp_workbench.servers.peered import PeeredChannel
from mcp_workbench.servers.processes import Child, Processes, exit_text
from mcp_workbench.servers.stderr import Stderr
from mcp_workbench.wire.fairness import FairShare
from mcp_workbench.wire.framing import LineReader, LineWriter, read_lines, write_lines
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.peer import Peer


class StdioChannel(PeeredChannel):
    """One running server. `open` it, use it, `close` it."""

    def __init__(
        self, processes: Processes, child: Child, label: ServerIdentifier, limits: Limits, account: Account
    ) -> None:
        self._processes = processes
        self._child = child
        self._label = label
        self._limits = limits
        self._obituary: asyncio.Task[None] | None = None
        self._stderr = Stderr(label, limits)
        share = FairShare()
        self._writer = LineWriter(self._input_lost, limits, account=account)
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
        self._output_over = self._loop.create_future()

    @classmethod
    async def open(
        cls,
        processes: Processes,
        launch: Launch,
        label: ServerIdentifier,
        limits: Limits,
        client: Account | None = None,
    ) -> StdioChannel:
        """Start the server. `client` is the memory of the client that it works for. Raises `SpawnFailed`."""
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
        self._child.exited.add_done_callback(self._process_ended)
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

    def _close_for_memory(self) -> None:
        super()._close_for_memory()
        self._reader.close()

    # -- how it ends

    def _output_ended(self, fault: Fault | None) -> None:
        if not self._output_over.done():
            self._output_over.set_result(None)
        self.end(fault) if fault is not None else self._write_obituary()

    def _process_ended(self, _: asyncio.Future[int]) -> None:
        self._write_obituary()

    def _input_lost(self) -> None:
        self._write_obituary()

    def _write_obituary(self) -> None:
        if self._obituary is None and not self.ended.done():
            self._obituary = self._loop.create_task(self._bury())

    async def _bury(self) -> None:
        """Learn as much as comes quickly: the last answers, the exit status, the last words."""
        events = (self._child.exited, self._output_over, self._stderr.over)
        await asyncio.wait(events, timeout=self._limits.obituary_seconds)
        exited = self._child.exited
        how = exit_text(exited.result()) if exited.done() else "closed its output"
        tail = self.last_words()
        self.end(ServerExited(f"it {how}; its last words:\n{tail}" if tail else f"it {how}"))

    def last_words(self) -> str:
        return self._stderr.tail()
