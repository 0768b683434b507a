"""The workbench on stdin and stdout.

Guarantees: the end of stdin, a signal or a broken pipe ends everything that was started; a client that
does not read is not read from. It exits 0 at the end of input, 128 + n by signal n; a second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import stat
from functools import partial

from mcp_workbench import logger
from mcp_workbench.config.locate import Origin
from mcp_workbench.config.model import Config
from mcp_workbench.errors import Fault, ShuttingDown
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.config_watcher import ConfigWatcher
from mcp_workbench.serve.early_initialize import Greeting
from mcp_workbench.serve.endpoint import PeerEndpoint
from mcp_workbench.serve.signals import SIGNALS, ignore_signals, on_signal, report, report_threads
from mcp_workbench.surfaces.server_info import EVERYTHING, View
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.framing import LineReader, LineWriter, read_lines, write_lines
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench

LAST_WRITE_SECONDS = 1.0
"""How long a client that left may still read its last answers."""


def serve(
    config: Config,
    source: int,
    sink: int,
    greeting: Greeting,
    limits: Limits = DEFAULTS,
    *,
    view: View = EVERYTHING,
    origin: Origin | None = None,
) -> int:
    """Serve one client on two file descriptors until it is gone; the exit status.

    Where `origin` says where the configuration comes from, what changes there is followed.
    """
    # What was imported stays: collections of garbage need not look at it again and again.
    gc.freeze()
    report_threads()
    terminals = [os.dup(descriptor) for descriptor in (source, sink) if os.isatty(descriptor)]
    try:
        return asyncio.run(_serve((source, sink), config, view, greeting, limits=limits, origin=origin))
    finally:
        ignore_signals()
        for terminal in terminals:  # the shell shares it, and does not expect what asyncio made of it
            os.set_blocking(terminal, True)


async def _serve(
    streams: tuple[int, int], config: Config, view: View, greeting: Greeting, *, limits: Limits, origin: Origin | None
) -> int:
    source, sink = streams
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report)
    async with Workbench(config, limits=limits, transport="stdio", served=(view.toolbox, view.server)) as workbench:
        front = StdioEndpoint(workbench, greeting, view, drain=stat.S_ISREG(os.fstat(source).st_mode))
        for number in SIGNALS:
            on_signal(number, front.signalled)
        loading = loop.run_in_executor(None, _load_the_rest)
        loading.add_done_callback(partial(_prepare, workbench))
        try:
            with ConfigWatcher(workbench, origin, limits):
                return await front.run(source, sink)
        finally:
            # The end of the process waits for the thread anyway; so the shortest run is recorded too.
            await asyncio.wait((loading,), timeout=limits.record_end_seconds)
            await asyncio.gather(front.close(), workbench.close())


def _load_the_rest() -> None:
    """Load what the first call will need, while the client reads its first answer and its model thinks."""
    from importlib import import_module  # noqa: PLC0415

    for name in (
        "mcp_workbench.routing.router",
        "mcp_workbench.catalog.cache.server_cache",
        "mcp_workbench.catalog.cache.tables",
        "mcp_workbench.activity.tables",
        "mcp_workbench.servers.health",
        "mcp_workbench.surfaces.open_response",
        "ctypes",
    ):
        with contextlib.suppress(ImportError):  # a Python without SQLite; who needs the module is told
            import_module(name)


def _prepare(workbench: Workbench, _loaded: asyncio.Future[None]) -> None:
    """All that is needed for long is loaded: it is looked at no more, and what happens from now on is recorded."""
    workbench.prepare()
    gc.freeze()
    workbench.record()


class StdioEndpoint(PeerEndpoint):
    """Reads a client's messages, hands them to its session, writes the answers."""

    def __init__(
        self, workbench: Workbench, greeting: Greeting, view: View = EVERYTHING, *, drain: bool = False
    ) -> None:
        limits = workbench.limits
        self._drain = drain
        account = workbench.account(greeting.callers.audience)
        self._writer = LineWriter(self._output_lost, limits, on_congestion=self._congested, account=account)
        self._unread = greeting.unread
        super().__init__(workbench, greeting.callers, view, self._writer)
        self._reader = LineReader(self._peer.receive, self._input_ended, limits.message_bytes, last_line=True)
        self._signals = 0
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, source: int, sink: int) -> int:
        """Until the client is gone or a signal comes; the exit status."""
        await write_lines(sink, self._writer, source=source)
        self._reader.data_received(self._unread)
        await read_lines(source, self._reader)
        return await self._over

    async def close(self) -> None:
        """Stop reading. Calls under way get a moment to end, and their answers are written if the client reads them."""
        self._reader.close()
        self._session.end_subscriptions()
        if not self._writer.is_hung_up and (serving := self._peer.serving):
            await asyncio.wait(serving, timeout=self._workbench.limits.drain_seconds)
        self._peer.close(ShuttingDown("The workbench is closing"))
        self._session.close()
        await self._workbench.leave(self._callers.audience)
        await self._writer.finish(LAST_WRITE_SECONDS)

    def signalled(self, number: int) -> None:
        """The first signal ends the session and cleans up; the second one ends the process."""
        self._signals += 1
        if self._signals > 1:
            self._workbench.kill()
            os._exit(128 + number)
        logger.info("ending", signal=signal.Signals(number).name)
        self._end(128 + number)

    # -- how it ends

    def _congested(self, congested: bool) -> None:  # noqa: FBT001 -- a callback's state
        self._reader.pause() if congested else self._reader.resume()

    def _input_ended(self, fault: Fault | None) -> None:
        if fault is not None:
            logger.error("the client's input can't be read", code=fault.code, reason=str(fault))
            self._peer.refuse(b"", RpcError(jsonrpc.INVALID_REQUEST, str(fault)))
        self._session.end_subscriptions()
        self._peer.give_up(ShuttingDown("the client's input ended"))
        if self._drain and (open_requests := self._peer.serving):
            # Requests from a file: whoever wrote it wants the answers.
            task = asyncio.ensure_future(asyncio.wait(open_requests))
            task.add_done_callback(lambda _: self._end(0))
        else:
            self._end(0)

    def _output_lost(self) -> None:
        self._end(0)

    def _end(self, status: int) -> None:
        if not self._over.done():
            self._over.set_result(status)
