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
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.config.model import Config
from mcp_workbench.errors import Fault, Overloaded, ShuttingDown, WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.greeting import Greeting
from mcp_workbench.serve.session import Session
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.forwarding import as_rpc_error
from mcp_workbench.surfaces.hello import EVERYTHING, View
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Line
from mcp_workbench.wire.framing import LineReader, LineWriter, read_lines, write_lines
from mcp_workbench.wire.jsonrpc import ErrorBody, RpcError, Unreadable
from mcp_workbench.wire.peer import Peer, PeerLine
from mcp_workbench.workbench import Workbench

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(
    config: Config,
    source: int,
    sink: int,
    greeting: Greeting,
    limits: Limits = DEFAULTS,
    *,
    view: View = EVERYTHING,
) -> int:
    """Serve one client on two file descriptors until it is gone; the exit status."""
    # What was imported stays: collections of garbage need not look at it again and again.
    gc.freeze()
    threading.excepthook = lambda it: sys.excepthook(it.exc_type, it.exc_value or it.exc_type(), it.exc_traceback)
    terminals = [os.dup(descriptor) for descriptor in (source, sink) if os.isatty(descriptor)]
    try:
        return asyncio.run(_serve((source, sink), config, view, greeting, limits))
    finally:
        for number in SIGNALS:
            # All is done. While Python ends, the system's own handlers are back, unless a signal is ignored.
            signal.signal(number, signal.SIG_IGN)
        for terminal in terminals:  # the shell shares it, and does not expect what asyncio made of it
            os.set_blocking(terminal, True)


async def _serve(streams: tuple[int, int], config: Config, view: View, greeting: Greeting, limits: Limits) -> int:
    source, sink = streams
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    async with Workbench(config, limits=limits) as workbench:
        front = StdioFront(workbench, greeting, view, drain=stat.S_ISREG(os.fstat(source).st_mode))
        for number in SIGNALS:
            _on_signal(number, front.signalled)
        loop.run_in_executor(None, _load_the_rest).add_done_callback(lambda _: gc.freeze())
        try:
            return await front.run(source, sink)
        finally:
            await asyncio.gather(front.close(), workbench.close())


def _load_the_rest() -> None:
    """Load what the first call will need, while the client reads its first answer and its model thinks."""
    from importlib import import_module  # noqa: PLC0415

    for name in ("place", "catalog.memory.records", "catalog.memory.tables", "connections.health", "surfaces.answers"):
        with contextlib.suppress(ImportError):  # a Python without SQLite; who needs the module is told
            import_module(f"mcp_workbench.{name}")


def _on_signal(number: int, handle: Callable[[int], None]) -> None:
    """Have a signal handled by the loop, and exit at once where that has ended already.

    A handler that asyncio installs is gone while the loop closes, and a signal then would change the exit status.
    """
    loop = asyncio.get_running_loop()

    def received(number: int, frame: object) -> None:
        del frame
        if loop.is_closed():
            os._exit(128 + number)
        loop.call_soon_threadsafe(handle, number)

    signal.signal(number, received)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught is one line in the log, not a traceback on the terminal."""
    del loop
    observe.error("unexpected", what=context.get("message"), error=repr(context.get("exception")))


class StdioFront:
    """Reads a client's messages, hands them to its session, writes the answers."""

    def __init__(
        self, workbench: Workbench, greeting: Greeting, view: View = EVERYTHING, *, drain: bool = False
    ) -> None:
        limits = workbench.limits
        self._workbench = workbench
        self._drain = drain
        self._reader = LineReader(self._receive, self._input_ended, limits.message_bytes, last_line=True)
        self._writer = LineWriter(self._output_lost, on_congestion=self._congested)
        self._peer = Peer(self._writer, self, admit=self._admit)
        self._callers = greeting.callers
        self._unread = greeting.unread
        self._session = Session(
            workbench, surface_for(workbench, view), PeerLine(self._peer, None), self._callers.audience, limits
        )
        self._signals = 0
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, source: int, sink: int) -> int:
        """Until the client is gone or a signal comes; the exit status."""
        await write_lines(sink, self._writer, self._workbench.limits)
        self._reader.data_received(self._unread)
        await read_lines(source, self._reader, self._workbench.limits)
        return await self._over

    async def close(self) -> None:
        """No more is read or answered; what was answered is still written, if the client reads it.

        After a signal the client may still be there: what is under way may end by itself, for a moment.
        """
        self._reader.close()
        self._session.end_subscriptions()
        if self._signals and (serving := self._peer.serving):
            await asyncio.wait(serving, timeout=self._workbench.limits.drain_seconds)
        self._peer.close(ShuttingDown("The workbench is closing"))
        self._session.close()
        await self._workbench.leave(self._callers.audience)
        await self._writer.finish(self._workbench.limits.last_write_seconds)

    def signalled(self, number: int) -> None:
        """The first signal ends the session and cleans up; the second one ends the process."""
        self._signals += 1
        if self._signals > 1:
            self._workbench.kill()
            os._exit(128 + number)
        observe.info("ending", signal=signal.Signals(number).name)
        self._end(128 + number)

    # -- Handler of the client's Peer

    def request(self, method: str, params: Raw, line: Line) -> Awaitable[Raw]:
        given = _members(params)
        caller = self._callers.of(method, given)
        work = self._session.handle(caller, line, method, given)
        return self._greeted(work) if method == "initialize" else work

    def _admit(self, load: int) -> RpcError | None:
        """One client can't take all the memory that there is."""
        if load < self._workbench.limits.client_requests:
            return None
        hint = "Try again in a few seconds, with fewer requests at once."
        return as_rpc_error(Overloaded(f"{load} requests are being answered already", hint=hint))

    async def _greeted(self, work: Awaitable[Raw]) -> Raw:
        """A greeting that failed, because a server did, may be tried again."""
        try:
            return await work
        except BaseException:
            self._callers.forget()
            raise

    def notification(self, method: str, params: Raw) -> None:
        try:
            self._session.notice(method, _members(params))
        except (RpcError, WorkbenchError) as error:  # nobody waits for an answer
            observe.warning("a client's notification was not passed on", method=method, reason=str(error))

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        code = jsonrpc.PARSE_ERROR if problem.syntax else jsonrpc.INVALID_REQUEST
        what = "Parse error" if problem.syntax else "Invalid request"
        self._peer.refuse(line, RpcError(code, f"{what}: {problem}"))

    def complaint(self, error: ErrorBody) -> None:
        observe.warning("the client could not read a message", code=error.code, reason=error.message)

    # -- how it ends

    def _receive(self, line: bytes) -> None:
        self._peer.receive(line)

    def _congested(self, congested: bool) -> None:  # noqa: FBT001 -- a callback's state
        self._reader.pause() if congested else self._reader.resume()

    def _input_ended(self, fault: Fault | None) -> None:
        if fault is not None:
            observe.error("the client's input can't be read", code=fault.code, reason=str(fault))
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


def surface_for(workbench: Workbench, view: View = EVERYTHING) -> Surface:
    """What a client sees, by what it was started for and what the configuration says."""
    if view.server:
        from mcp_workbench.surfaces.server import ServerSurface  # noqa: PLC0415 -- only what is used is loaded

        return ServerSurface(workbench, ServerIdentifier(view.toolbox, view.server))
    if view.toolbox:
        from mcp_workbench.surfaces.toolbox import ToolboxSurface  # noqa: PLC0415

        return ToolboxSurface(workbench, view.toolbox)
    if workbench.config.tool_mode == "dynamic":
        from mcp_workbench.surfaces.dynamic import DynamicSurface  # noqa: PLC0415

        return DynamicSurface(workbench)
    from mcp_workbench.surfaces.proxy import ProxySurface  # noqa: PLC0415

    return ProxySurface(workbench)


def _members(params: Raw) -> dict[str, Raw]:
    if not jsonrpc.is_present(params) or jsonrpc.is_null(params):
        return {}
    if not jsonrpc.is_object(params):
        raise RpcError(jsonrpc.INVALID_PARAMS, "params must be an object")
    return jsonrpc.fields(params)
