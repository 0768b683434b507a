"""Serves one client over stdin and stdout.

Guarantees: the end of stdin, a signal or a broken pipe ends everything that was started. While the client does not read
its output, its input is not read either. The exit status is 0 at the end of input and 128 + n after signal n; a second
signal ends the process at once.
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
"""How long a client that closed its input may still read its last responses."""


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
    """Serve one client on two file descriptors until it disconnects. Returns the exit status.

    With an `origin`, changes of the configuration's files are applied.
    """
    # Imported modules stay in memory: exclude them from garbage collection.
    gc.freeze()
    report_threads()
    terminals = [os.dup(descriptor) for descriptor in (source, sink) if os.isatty(descriptor)]
    try:
        return asyncio.run(_serve((source, sink), config, view, greeting, limits=limits, origin=origin))
    finally:
        ignore_signals()
        for terminal in terminals:  # the shell shares the terminal and expects it to block
            os.set_blocking(terminal, True)


async def _serve(
    streams: tuple[int, int], config: Config, view: View, greeting: Greeting, *, limits: Limits, origin: Origin | None
) -> int:
    source, sink = streams
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report)
    async with Workbench(config, limits=limits, transport="stdio", served=(view.toolbox, view.server)) as workbench:
        endpoint = StdioEndpoint(workbench, greeting, view, drain=stat.S_ISREG(os.fstat(source).st_mode))
        for number in SIGNALS:
            on_signal(number, endpoint.signalled)
        loading = loop.run_in_executor(None, _preload)
        loading.add_done_callback(partial(_prepare, workbench))
        try:
            with ConfigWatcher(workbench, origin, limits):
                return await endpoint.run(source, sink)
        finally:
            # The process waits for the thread anyway. Waiting here lets it record even the shortest run.
            await asyncio.wait((loading,), timeout=limits.record_end_seconds)
            await asyncio.gather(endpoint.close(), workbench.close())


def _preload() -> None:
    """Import the modules that the first call needs while the client processes its first response."""
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
        with contextlib.suppress(ImportError):  # Python may lack SQLite; the code that needs it reports that
            import_module(name)


def _prepare(workbench: Workbench, _loaded: asyncio.Future[None]) -> None:
    """Exclude the preloaded modules from garbage collection, and start recording."""
    workbench.prepare()
    gc.freeze()
    workbench.record()


class StdioEndpoint(PeerEndpoint):
    """The endpoint of one client on two file descriptors."""

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
        self._exit_status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, source: int, sink: int) -> int:
        """Serve until the client disconnects or a signal arrives. Returns the exit status."""
        await write_lines(sink, self._writer, source=source)
        self._reader.data_received(self._unread)
        await read_lines(source, self._reader)
        return await self._exit_status

    async def close(self) -> None:
        """Stop reading. Calls in progress get a moment to finish, and their responses are written."""
        self._reader.close()
        self._session.end_subscriptions()
        if not self._writer.is_hung_up and (serving := self._peer.serving):
            await asyncio.wait(serving, timeout=self._workbench.limits.drain_seconds)
        self._peer.close(ShuttingDown("The workbench is closing"))
        self._session.close()
        await self._workbench.leave(self._callers.audience)
        await self._writer.finish(LAST_WRITE_SECONDS)

    def signalled(self, number: int) -> None:
        """Handle a signal: the first one ends the session gracefully, the second one ends the process."""
        self._signals += 1
        if self._signals > 1:
            self._workbench.kill()
            os._exit(128 + number)
        logger.info("ending", signal=signal.Signals(number).name)
        self._end(128 + number)

    # -- flow control and the end

    def _congested(self, congested: bool) -> None:  # noqa: FBT001 -- a callback's state
        self._reader.pause() if congested else self._reader.resume()

    def _input_ended(self, fault: Fault | None) -> None:
        if fault is not None:
            logger.error("the client's input can't be read", code=fault.code, reason=str(fault))
            self._peer.refuse(b"", RpcError(jsonrpc.INVALID_REQUEST, str(fault)))
        self._session.end_subscriptions()
        self._peer.give_up(ShuttingDown("the client's input ended"))
        if self._drain and (open_requests := self._peer.serving):
            # The requests come from a file: answer all of them first.
            task = asyncio.ensure_future(asyncio.wait(open_requests))
            task.add_done_callback(lambda _: self._end(0))
        else:
            self._end(0)

    def _output_lost(self) -> None:
        self._end(0)

    def _end(self, status: int) -> None:
        if not self._exit_status.done():
            self._exit_status.set_result(status)
