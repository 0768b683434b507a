"""One server: started when it is needed, once, and again after it died.

One owner task opens, keeps and closes each connection; callers only wait for it and hand it
requests. So a caller that is cancelled ends nothing that another one waits for, and no server's
failure reaches a caller of another server.

    idle → starting → ready → idle (it ended; the next call starts it again) → closed
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.config.model import Launch, ServerConfig
from mcp_workbench.connections.base import Channel
from mcp_workbench.connections.negotiate import Agreement, negotiate
from mcp_workbench.connections.processes import Processes
from mcp_workbench.connections.slots import Slots
from mcp_workbench.connections.stdio import StdioChannel
from mcp_workbench.errors import (
    Fault,
    InputUnavailable,
    ProtocolViolation,
    ServerExited,
    ShuttingDown,
    SpawnFailed,
    StartupTimeout,
    TransportUnavailable,
    VariableMissing,
)
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.eras import LIST_CHANGED
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params
from mcp_workbench.wire.tasks import heard

T = TypeVar("T")
State = Literal["idle", "starting", "ready", "closed"]


class Connection:
    """A channel on which a protocol was agreed."""

    def __init__(self, channel: Channel, agreement: Agreement) -> None:
        self.channel = channel
        self.agreement = agreement

    def request(
        self,
        method: str,
        params: Params,
        exchange: Exchange | None = None,
        *,
        idle_seconds: float = 0,
        hard_seconds: float = 0,
    ) -> Coroutine[Any, Any, Raw]:
        """As `Channel.request`, with what the server's era wants in every request."""
        stamped = self.agreement.stamp(params)
        return self.channel.request(method, stamped, exchange, idle_seconds=idle_seconds, hard_seconds=hard_seconds)


class Supervisor:
    """The connection to one server, whether it is there or not."""

    def __init__(
        self, server: ServerConfig, processes: Processes, limits: Limits, on_list_changed: Callable[[], None]
    ) -> None:
        self._server = server
        self._processes = processes
        self._limits = limits
        self._on_list_changed = on_list_changed
        self._label = f"{server.toolbox}/{server.name}"
        self._slots = Slots(limits.in_flight, limits.queued, limits.queue_wait_seconds)
        self._owners: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Connection] | None = None
        self._modern: bool | None = None
        self._was_ready = False
        self.state: State = "idle"

    async def connection(self) -> Connection:
        """The connection, started if there is none. Raises the `Fault` that prevented it."""
        if self.state == "closed":
            raise ShuttingDown("the workbench is closing")
        if self._ready is None or _is_over(self._ready):
            self._ready = self._start()
        if self._ready.done():
            return self._ready.result()
        return await asyncio.shield(self._ready)

    @property
    def current(self) -> Connection | None:
        """The connection that is there now."""
        ready = self._ready
        if ready is None or not ready.done() or ready.exception() is not None or _is_over(ready):
            return None
        return ready.result()

    async def call(self, params: Params, exchange: Exchange | None) -> Raw:
        """`tools/call` on the server, in one of its slots and within the deadlines of a call."""
        if not self._slots.take():
            await self._slots.wait()
        try:
            # It may have died while a slot was waited for.
            connection = self.current or await self.connection()
            result = await connection.request(
                "tools/call",
                params,
                exchange,
                idle_seconds=self._limits.call_idle_timeout_seconds,
                hard_seconds=self._limits.call_hard_timeout_seconds,
            )
        finally:
            self._slots.release()
        if connection.agreement.modern:
            _refuse_question(result)
        return result

    async def close(self) -> None:
        """End the connection and everything that it started; nothing starts after this."""
        self.state = "closed"
        self._closing.set()
        if self._owners:
            await asyncio.wait(self._owners)

    # -- the owner task

    def _start(self) -> asyncio.Future[Connection]:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Connection] = loop.create_future()
        ready.add_done_callback(heard)
        self.state = "starting"
        owner = loop.create_task(self._own(ready), name=f"owner of {self._label}")
        self._owners.add(owner)
        owner.add_done_callback(self._owners.discard)
        return ready

    async def _own(self, ready: asyncio.Future[Connection]) -> None:
        """Open the connection, keep it until it ends or we close, then clean up after it."""
        try:
            connection = await self._or_closing(self._open())
        except Fault as fault:
            self._failed(ready, fault)
            return
        except Exception as error:  # noqa: BLE001 -- whatever it is, nobody may wait for this start for ever
            self._failed(ready, SpawnFailed(f"it could not be started ({observe.foreign(repr(error))})"))
            return
        if self.state != "closed":
            self.state = "ready"
        ready.set_result(connection)
        if self._was_ready:
            self._on_list_changed()  # A new process may offer other tools than the one that died.
        self._was_ready = True
        observe.info("a server is ready", server=self._label, protocol=connection.agreement.version)
        try:
            fault = await self._or_closing(_ended(connection.channel))
            observe.warning("a server ended", server=self._label, code=fault.code, reason=str(fault))
        except ShuttingDown:
            pass
        self._rest(ready)
        await connection.channel.close()

    def _failed(self, ready: asyncio.Future[Connection], fault: Fault) -> None:
        if self.state != "closed":
            observe.warning("a server could not be started", server=self._label, code=fault.code, reason=str(fault))
        self._rest(ready)
        ready.set_exception(fault)

    def _rest(self, ready: asyncio.Future[Connection]) -> None:
        """From now on the next caller starts a new connection."""
        if self._ready is ready:
            self._ready = None
            self.state = "closed" if self.state == "closed" else "idle"

    async def _open(self) -> Connection:
        try:
            return await self._open_once(modern=self._modern)
        except (ServerExited, ProtocolViolation):
            if self._modern is not None:
                raise
        # It may have ended because of a probe that it does not know: once more, without.
        return await self._open_once(modern=False)

    async def _open_once(self, *, modern: bool | None) -> Connection:
        channel = await StdioChannel.open(self._processes, _launch(self._server), self._label, self._limits)
        try:
            agreement = await self._agree(channel, modern=modern)
        except BaseException:
            await channel.close()
            raise
        self._modern = agreement.modern
        connection = Connection(channel, agreement)
        self._listen(connection)
        return connection

    async def _agree(self, channel: StdioChannel, *, modern: bool | None) -> Agreement:
        seconds = self._limits.startup_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await negotiate(channel, self._limits, modern=modern)
        except TimeoutError:
            tail = channel.stderr_tail()
            words = f"; its last words:\n{tail}" if tail else ""
            raise StartupTimeout(f"it did not answer within {seconds:g} s{words}") from None

    def _listen(self, connection: Connection) -> None:
        """Hear of changes of the list: older servers tell by themselves, modern ones if asked."""
        connection.channel.listen(self._notified)
        if connection.agreement.modern and connection.agreement.declares("tools", "listChanged"):
            subscription = asyncio.ensure_future(_subscribe(connection))
            self._owners.add(subscription)
            subscription.add_done_callback(self._owners.discard)

    def _notified(self, method: str, params: Raw) -> None:
        del params
        if method == LIST_CHANGED and self.state != "closed":
            self._on_list_changed()

    async def _or_closing(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled when we close. Then: raises `ShuttingDown`."""
        task = asyncio.ensure_future(work)
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((task, closing), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            task.cancel()
            await asyncio.wait((task,))
            raise ShuttingDown("the workbench is closing")
        finally:
            closing.cancel()


def _launch(server: ServerConfig) -> Launch:
    """How to start it. Raises the reason why it can't be started."""
    if server.missing:
        names = ", ".join(f"{missing.variable} (for {missing.path})" for missing in server.missing)
        raise VariableMissing(f"not set in the environment: {names}", hint="Set it, or give a default: ${NAME:-value}")
    if isinstance(server.target, Launch):
        return server.target
    raise TransportUnavailable(
        "servers with a url are not supported by this version", hint="Use a server with a command."
    )


def _is_over(ready: asyncio.Future[Connection]) -> bool:
    """Whether the connection has ended, though its owner may not have noticed yet."""
    return ready.done() and ready.exception() is None and ready.result().channel.ended.done()


def _refuse_question(result: Raw) -> None:
    """A modern server may answer with a question, though we declared that nobody can be asked."""
    if jsonrpc.is_object(result) and bytes(jsonrpc.fields(result).get("resultType", b"")) == b'"input_required"':
        raise InputUnavailable("it asks for input, which can't be given through the workbench")


async def _ended(channel: Channel) -> Fault:
    return await asyncio.shield(channel.ended)


async def _subscribe(connection: Connection) -> None:
    """Keep a subscription open as long as the connection lasts; a refusal is no harm."""
    with contextlib.suppress(Fault):
        await connection.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
