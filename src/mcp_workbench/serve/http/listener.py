"""`serve --http`: a socket, connections within bounds, and an end that leaves nothing behind.

Guarantees, as on stdio: a signal ends everything that was started, within five seconds and with status 128 + n; a
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
"""Connections that wait in the system until they are accepted."""
_TURNS_TO_AUTHENTICATE = 32
"""Turns of the event loop that a burst of connections leaves to each newcomer at least, to send and show its token.

asyncio accepts as many connections in one turn as it lets wait. That may be more than the limit of connections, so a
burst would close clients whose requests have come but are not read yet.
"""
_SERVER = "uvicorn.error"


def listen(address: Address) -> tuple[socket.socket, Address]:
    """A socket that listens, and where. Raises `ListenFailed`."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        opened = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise _failed(address, error) from None
    return opened, address._replace(port=opened.getsockname()[1])


def _failed(address: Address, error: OSError) -> ListenFailed:
    if (
        isinstance(error, socket.gaierror) or (error.errno or 0) < 0
    ):  # `create_server` passes on a number of getaddrinfo
        return ListenFailed(address.shown, "this host is not known", hint="Name an address of this machine.")
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
    """Serve clients until a signal comes; the exit status."""
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
    """Takes connections until it is told to end."""

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
            proxy_headers=False,  # nothing is decided by where a request says that it comes from
            server_header=False,
            timeout_keep_alive=self._limits.http_keep_alive_seconds,  # type: ignore[arg-type]  # a number of seconds
        )
        config.load()
        limiter: ConnectionLimiter[ClientConnection] = ConnectionLimiter()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(config, self._state, limiter, self._limits),
            sock=opened,
            backlog=max(1, self._limits.http_connections // _TURNS_TO_AUTHENTICATE),  # asyncio accepts these in a turn
        )
        opened.listen(_BACKLOG)

    def signalled(self, number: int) -> None:
        """The first signal ends all sessions and cleans up; the second one ends the process."""
        self._signals += 1
        if self._signals > 1:
            self._workbench.kill()
            os._exit(128 + number)
        logger.info("ending", signal=signal.Signals(number).name)
        if not self.ended.done():
            self.ended.set_result(128 + number)

    async def close(self) -> None:
        """No more connections; what is under way may end by itself, for a moment; then all servers end."""
        await self._stop_accepting()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        await asyncio.gather(self._app.close(), self._workbench.close())
        await self._wait_for_requests()
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        await self._wait_for_requests()  # each sees that its client is gone; uvicorn logs a cancelled one as an error
        for task in tuple(self._state.tasks):
            task.cancel()

    async def _stop_accepting(self) -> None:
        """Close the listening socket when every connection that was accepted has its transport.

        asyncio makes it one turn later, and fails to once the server is closed: the connection would stay open.
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
    """What libraries log: one line, without secrets, where somebody looks for it."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):  # a message that does not fit its arguments is no reason to fail
            error = repr(record.exc_info[1]) if record.exc_info else None
            # uvicorn's errors are what nobody caught while a request was answered: defects of ours.
            log = logger.error if record.name == _SERVER and record.levelno >= logging.ERROR else logger.debug
            log("library", name=record.name, level=record.levelname, said=record.getMessage(), error=error)


def _redirect_library_logs() -> None:
    root = logging.getLogger()
    root.handlers[:] = [_LibraryLogHandler()]
    root.setLevel(logging.WARNING if logger.log.shows("debug") else logging.CRITICAL)
    logging.getLogger(_SERVER).setLevel(logging.WARNING if logger.log.shows("debug") else logging.ERROR)
