"""Supervises one server: starts it once when it is needed, and again after it died.

One owner task opens, keeps and closes each connection; callers only wait for it and send requests through it. So a
cancelled caller ends nothing that another caller waits for, and a server's failure never reaches a caller of another
server.

    idle → starting → ready → idle      not used for longer than idleTimeout, if configured
             ↓          ↓
         needs_auth     ↓               a person must log in first; this is not a failure
             ↓          ↓
          failing ← it ended            the next start comes after a pause (`health.py`)
             ↓
          resting                       too many failures in a row: a longer pause, then one attempt
    any → closed
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator
from typing import Any, Literal, TypeVar
from weakref import WeakSet

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import (
    CallTimeout,
    Fault,
    InsecureTransport,
    NeedsLogin,
    Overloaded,
    ServerExited,
    ServerRefused,
    ServerUnavailable,
    ShuttingDown,
    SpawnFailed,
    Unresponsive,
    VariableMissing,
)
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.connector import Connector, Era, Events, OpenChannel
from mcp_workbench.servers.health import Health, Liveness
from mcp_workbench.servers.orphans import GROUP_POLL_SECONDS
from mcp_workbench.wire.background import BackgroundTasks, consume_exception, in_background
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.deadlines import Delivery
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params
from mcp_workbench.wire.memory_budget import Account

T = TypeVar("T")
State = Literal["idle", "starting", "ready", "needs_auth", "failing", "resting", "closed"]
NOT_TRIED = (VariableMissing, InsecureTransport, NeedsLogin)
"""Faults before anything is started, in the configuration or for want of a login: they need no pause."""


class ServerClosed(ShuttingDown):
    """The supervisor was closed before it sent the request."""

    def __init__(self) -> None:
        super().__init__("it is being closed")


class Supervisor:
    """Keeps the connection to one server, and opens it when it is needed."""

    def __init__(
        self,
        label: ServerIdentifier,
        open_channel: OpenChannel,
        caller: Caller,
        limits: Limits,
        events: Events,
        *,
        health: Health | None = None,
        era: Era = lambda: None,
        is_remote: bool = False,
        account: Account | None = None,
    ) -> None:
        """`caller` stands for all clients of this supervisor: they declare the same and speak the same era.

        All supervisors of one configured server share its `health`. `era` returns the era that the server last spoke
        with clients of this era. `is_remote` means over HTTP. `account` is the client's memory account.
        """
        self._account = account or Account()
        self._label = label
        self._limits = limits
        self._events = [events]
        self._health = health or Health(limits)
        self._slots = Slots(limits.in_flight, limits.queued, limits.queue_wait_seconds)
        self._connector = Connector(
            open_channel, caller, self._slots, limits, self._events, era=era, is_remote=is_remote
        )
        self._owners = BackgroundTasks()
        self._liveness = Liveness(caller, limits)
        self._closing = asyncio.Event()
        self._is_closed = False
        self._ready: asyncio.Future[Connection] | None = None
        self._live: Connection | None = None
        self._last_used: Connection | None = None
        self._stopping: Connection | None = None
        self._was_ready = False
        self._needs_login = False
        self._counted: WeakSet[Fault] = WeakSet()
        self._calls = 0
        self.done = 0
        """Completed client requests: each may have changed what the server offers."""
        self._users = 0
        self._used_at = 0.0
        self._drained: asyncio.Future[None] | None = None

    @property
    def state(self) -> State:
        if self._is_closed:
            return "closed"
        if self.current is not None:
            return "ready"
        if self.start is not None:
            return "starting"
        return "needs_auth" if self._needs_login else self._health.state

    def touch(self) -> None:
        """Restart the idle timeout."""
        self._used_at = asyncio.get_running_loop().time()

    async def connection(self) -> Connection:
        """The connection, opened if there is none. Raises the `Fault` that prevents it."""
        while True:
            if self._is_closed:
                raise ServerClosed
            if self._ready is not None and _is_over(self._ready):
                self._disconnected(self._ready.result())
            if self._ready is not None:
                break
            if (pause := self._health.pause()) <= 0:
                self._ready = self._start()
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause)
        if self._ready.done():
            return self._ready.result()
        return await asyncio.shield(self._ready)

    @property
    def start(self) -> object:
        """An object that identifies the running start; None if there is none."""
        return self._ready if self._ready is not None and not self._ready.done() else None

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks the modern era, as far as known."""
        return self._connector.modern is True or self._connector.remembered_era is True

    def forget_era(self) -> None:
        """Probe the server's era again at the next start."""
        self._connector.forget()

    def join(self, events: Events) -> None:
        """Add a listener."""
        self._events.append(events)

    @property
    def current(self) -> Connection | None:
        """The open connection, if there is one."""
        live = self._live
        return live if live is not None and not live.channel.ended.done() else None

    async def forward(self, method: str, params: Params, exchange: Exchange | None) -> Raw:
        """Make a client's request in one of the server's slots, within the deadlines of a call.

        A request that was not sent because the connection ended is repeated once on a new connection. One that was sent
        is never repeated: the server may have acted on it.
        """
        if not self._slots.take():
            await self._slots.wait()
        if self._is_closed:
            self._slots.release()
            raise ServerClosed
        self._calls += 1
        try:
            if self._account.is_paused:
                await self._wait_for_client()
            delivery = Delivery()
            try:
                return await self._forward(method, params, exchange, delivery)
            except Fault:
                if delivery.was_sent:
                    raise
            return await self._forward(method, params, exchange)
        except ServerUnavailable as fault:
            self._count_failure(fault, was_ready=True)
            raise
        finally:
            self._slots.release()
            self._calls -= 1
            self.done += 1
            self._used_at = asyncio.get_running_loop().time()
            if self._drained is not None and not self._calls and not self._drained.done():
                self._drained.set_result(None)

    async def _wait_for_client(self) -> None:
        """Wait until the client has read enough of its answers. Raises `Overloaded`."""
        try:
            async with asyncio.timeout(self._limits.queue_wait_seconds):
                await self._account.unpaused()
        except TimeoutError:
            raise Overloaded(
                f"the client read too little of its answers for {self._limits.queue_wait_seconds:g} s",
                hint="Read the answers that are waiting, then try again with fewer or smaller calls.",
            ) from None

    async def _forward(
        self, method: str, params: Params, exchange: Exchange | None, delivery: Delivery | None = None
    ) -> Raw:
        current = self.current
        if current is not None and self._health.failures and self._health.state == "resting":
            self._health.pause()  # a remote server may fail every request on an open connection
        connection = self._last_used = current or await self.connection()
        began = asyncio.get_running_loop().time()
        try:
            result = await connection.forward(method, params, exchange, delivery)
        except ServerRefused:
            self._health.succeeded()
            raise
        except (CallTimeout, asyncio.CancelledError) as ending:
            silent_seconds = asyncio.get_running_loop().time() - began
            is_long = isinstance(ending, CallTimeout) or silent_seconds >= self._limits.alive_seconds
            if is_long and connection.channel.peer.received_at < began and not self._is_closed:
                self._liveness.suspect(connection, silent_seconds)
            raise
        if self._health.failures:
            self._health.succeeded()
        return result

    @contextlib.contextmanager
    def in_use(self) -> Generator[None]:
        """Keep the server running during a `with` block, even if it is idle."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._stop_if_idle()

    def stop_when_idle(self) -> None:
        """Stop the server as soon as it is idle, if it has served no client request on this connection."""
        self._stopping = self.current
        self._stop_if_idle()

    async def wait_closed(self) -> None:
        """Wait until stopped processes have ended: they may hold what another process needs."""
        while tasks := tuple(self._connector.closings):
            await asyncio.wait(tasks)

    def _stop_if_idle(self) -> None:
        idle = self._stopping
        if idle is None or idle is not self.current or self._last_used is idle or self._calls or self._users:
            return
        if not any(events.is_waiting for events in self._events):
            logger.info("an idle server is stopped", server=self._label)
            self._disconnected(idle)

    async def close(self, drain_seconds: float | None = None) -> None:
        """Close the connection for good. Running calls get `drain_seconds` to finish, or `Limits.drain_seconds`."""
        self._is_closed = True
        if self._calls and self.current is not None:
            self._drained = self._drained or asyncio.get_running_loop().create_future()
            seconds = self._limits.drain_seconds if drain_seconds is None else drain_seconds
            await asyncio.wait((self._drained,), timeout=seconds)
        self._closing.set()
        self._liveness.close()
        while tasks := (*self._owners, *self._connector.closings):
            await asyncio.wait(tasks)

    # -- the owner task

    def _start(self) -> asyncio.Future[Connection]:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Connection] = loop.create_future()
        self._health.trying()
        self._health.changed(None)
        self._owners.start(self._own(ready), name=f"owner of {self._label}")
        return ready

    async def _own(self, ready: asyncio.Future[Connection]) -> None:
        """Open the connection, keep it until it ends or the supervisor closes, then clean up."""
        try:
            connection = await self._unless_closing(self._connector.open())
        except Fault as fault:
            self._failed(ready, fault)
            return
        except Exception as error:  # noqa: BLE001 -- callers must not wait for this start for ever
            self._failed(ready, SpawnFailed(f"it could not be started ({logger.foreign(repr(error))})"))
            return
        finally:
            self._health.tried()
        ready.set_result(connection)
        self._needs_login = False
        self._live = connection
        self.touch()
        for events in self._events:
            events.connected(connection, again=self._was_ready)
        self._was_ready = True
        self._health.changed(None)
        logger.info("a server is ready", server=self._label, protocol=connection.agreement.version)
        with contextlib.suppress(ShuttingDown):
            await self._unless_closing(self._wait_until_over(connection))
        self._disconnected(connection)

    def _failed(self, ready: asyncio.Future[Connection], fault: Fault) -> None:
        self._ready = None
        self._needs_login = isinstance(fault, NeedsLogin)
        if isinstance(fault, ServerExited):
            fault = fault.copy_with(hint="Start its command in a terminal to see why it ends.")
        self._health.changed(None if isinstance(fault, ShuttingDown) else fault)
        if not isinstance(fault, ShuttingDown):
            logger.warning("a server could not be started", server=self._label, code=fault.code, reason=str(fault))
            if not isinstance(fault, NOT_TRIED):
                self._count_failure(fault, was_ready=False)
        ready.set_exception(fault)
        consume_exception(ready)  # perhaps nobody awaits it any more

    def _count_failure(self, fault: Fault, *, was_ready: bool) -> None:
        """Count a failure once, if it tells against the server's health."""
        if fault.counts and fault not in self._counted:
            self._health.failed(fault, was_ready=was_ready)
        if isinstance(fault, ServerUnavailable):
            self._counted.add(fault)

    def _disconnected(self, connection: Connection) -> None:
        """Drop a connection: the next caller opens a new one."""
        if self._live is not connection:
            return
        self._ready = self._live = None
        self._connector.close(connection.channel)
        ended = connection.channel.ended
        self._health.changed(ended.result() if ended.done() and not self._is_closed else None)
        if ended.done() and not self._is_closed:
            fault = ended.result()
            logger.warning("a server ended", server=self._label, code=fault.code, reason=str(fault))
            lasted = asyncio.get_running_loop().time() - connection.began
            if fault.counts and lasted >= self._limits.steady_seconds and not isinstance(fault, Unresponsive):
                self._health.succeeded()
            self._count_failure(fault, was_ready=True)

    async def _wait_until_over(self, connection: Connection) -> None:
        """Wait until the connection ends, or is idle for longer than configured."""
        loop = asyncio.get_running_loop()
        idle = self._limits.idle_timeout_seconds
        while True:
            seconds = max(GROUP_POLL_SECONDS, self._used_at + idle - loop.time()) if idle else None
            await asyncio.wait((connection.channel.ended,), timeout=seconds)
            if connection.channel.ended.done():
                return
            if self._calls or any(events.is_waiting for events in self._events):
                self._used_at = loop.time()
            if loop.time() >= self._used_at + idle and not self._users:
                logger.info("an idle server is stopped", server=self._label)
                self._disconnected(connection)  # at once, so that the next caller opens a new one
                return

    async def _unless_closing(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Cancels it and raises `ServerClosed` when the supervisor closes."""
        task = self._owners.start(work)
        with in_background(self._closing.wait()) as closing:
            await asyncio.wait((task, closing), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait((task,))
        raise ServerClosed


def _is_over(ready: asyncio.Future[Connection]) -> bool:
    """Whether the connection has ended, even if its owner has not noticed yet."""
    return ready.done() and ready.exception() is None and ready.result().channel.ended.done()
