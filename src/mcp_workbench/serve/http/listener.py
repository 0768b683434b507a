"""`serve --http`: opens the socket, accepts connections and shuts down cleanly.

Guarantees, as on stdio: signal n ends everything that was started, within five seconds and with status 128 + n. A
second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable

from uvicorn.config import Config as ServerConfig
from uvicorn.server import ServerState

from mcp_workbench import logger
from mcp_workbench.command_errors import ListenFailed
from mcp_workbench.config.locate import Origin
from mcp_workbench.config.model import Config
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.config_watcher import ConfigWatcher
from mcp_workbench.serve.http.address import Address
from mcp_workbench.serve.http.app import App
from mcp_workbench.serve.http.connection import ClientConnection, ConnectionLimiter
from mcp_workbench.serve.http.guard import Guard
from mcp_workbench.serve.http.tokens import Tokens
from mcp_workbench.serve.signals import SIGNALS, ignore_signals, on_signal, report, report_threads
from mcp_workbench.workbench import Workbench

_BACKLOG = 128
"""Connections that the system queues until they are accepted."""
_TURNS_TO_AUTHENTICATE = 32
"""How many turns of the event loop a new connection has to show its token during a burst of connections.

asyncio accepts up to `backlog` connections in one turn. If that exceeded the connection limit, a burst would evict
clients whose requests have arrived but are not read yet.
"""
_SERVER = "uvicorn.error"


def listen(address: Address) -> tuple[socket.socket, Address]:
    """Open a listening socket; returns it with its actual address. Raises `ListenFailed`."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        opened = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise _failed(address, error) from None
    return opened, address._replace(port=opened.getsockname()[1])


def _failed(address: Address, error: OSError) -> ListenFailed:
    if isinstance(error, socket.gaierror) or (error.errno or 0) < 0:  # a code of getaddrinfo
        return ListenFailed(address.shown, "the host is unknown", hint="Use an address of this machine.")
    return ListenFailed(address.shown, os.strerror(error.errno) if error.errno else str(error))


def serve(
    config: Config,
    opened: socket.socket,
    address: Address,
    tokens: Tokens,
    *,
    limits: Limits = DEFAULTS,
    ready: Callable[[], None] = lambda: None,
    origin: Origin | None = None,
) -> int:
    """Serve clients until a signal arrives. Returns the exit status."""
    logger.log.redact.hide(tokens.by_name.values())
    _redirect_library_logs()
    gc.freeze()
    report_threads()
    try:
        guard = Guard(address, tokens.by_name)
        return asyncio.run(_serve(config, opened, guard, limits=limits, ready=ready, origin=origin))
    finally:
        ignore_signals()


async def _serve(
    config: Config,
    opened: socket.socket,
    guard: Guard,
    *,
    limits: Limits,
    ready: Callable[[], None],
    origin: Origin | None,
) -> int:
    asyncio.get_running_loop().set_exception_handler(report)
    async with Workbench(config, limits=limits, transport="http") as workbench:
        workbench.record()
        listener = Listener(workbench, guard)
        for number in SIGNALS:
            on_signal(number, listener.signalled)
        await listener.start(opened)
        ready()
        try:
            with ConfigWatcher(workbench, origin, limits):
                return await listener.ended
        finally:
            await listener.close()


class Listener:
    """Accepts connections until a signal arrives."""

    def __init__(self, workbench: Workbench, guard: Guard) -> None:
        self._workbench = workbench
        self._limits = workbench.limits
        self._app = App(workbench, guard)
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._signals = 0
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self, opened: socket.socket) -> None:
        config = ServerConfig(
            self._app,
            http=ClientConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # no decision depends on the claimed address
            server_header=False,
            timeout_keep_alive=self._limits.http_keep_alive_seconds,  # type: ignore[arg-type]  # uvicorn declares an int
        )
        config.load()
        limiter = ConnectionLimiter()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(config, self._state, limiter, self._limits),
            sock=opened,
            backlog=max(1, self._limits.http_connections // _TURNS_TO_AUTHENTICATE),  # accepted per turn
        )
        opened.listen(_BACKLOG)

    def signalled(self, number: int) -> None:
        """The first signal ends all sessions and cleans up; a second one kills everything at once."""
        self._signals += 1
        if self._signals > 1:
            self._workbench.kill()
            os._exit(128 + number)
        logger.info("ending", signal=signal.Signals(number).name)
        if not self.ended.done():
            self.ended.set_result(128 + number)

    async def close(self) -> None:
        """Stop accepting, give running requests a short time to finish, then end all servers."""
        await self._stop_accepting()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        await asyncio.gather(self._app.close(), self._workbench.close())
        await self._wait_for_requests()
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        await self._wait_for_requests()  # each notices the disconnect; uvicorn logs cancelled ones as errors
        for task in tuple(self._state.tasks):
            task.cancel()

    async def _stop_accepting(self) -> None:
        """Close the listening socket once every accepted connection has its transport.

        asyncio creates the transport one turn later, but not on a closed server: the connection would stay open.
        """
        if self._server is not None:
            for accepting in self._server.sockets:
                asyncio.get_running_loop().remove_reader(accepting)
            await asyncio.sleep(0)
            self._server.close()

    async def _wait_for_requests(self) -> None:
        if tasks := tuple(self._state.tasks):
            await asyncio.wait(tasks, timeout=self._limits.http_ending_seconds)


class _LibraryLogHandler(logging.Handler):
    """Writes the log records of libraries to our log: one redacted line each."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):  # a malformed record must not fail the caller
            error = repr(record.exc_info[1]) if record.exc_info else None
            # uvicorn logs uncaught exceptions of requests as errors: our defects.
            log = logger.error if record.name == _SERVER and record.levelno >= logging.ERROR else logger.debug
            log("library", name=record.name, level=record.levelname, said=record.getMessage(), error=error)


def _redirect_library_logs() -> None:
    root = logging.getLogger()
    root.handlers[:] = [_LibraryLogHandler()]
    root.setLevel(logging.WARNING if logger.log.shows("debug") else logging.CRITICAL)
    logging.getLogger(_SERVER).setLevel(logging.WARNING if logger.log.shows("debug") else logging.ERROR)
