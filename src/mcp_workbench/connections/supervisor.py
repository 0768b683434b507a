"""One server: started when it is needed, once, and again after it died.

One owner task opens, keeps and closes each connection; callers only wait for it and hand it
requests. So a caller that is cancelled ends nothing that another one waits for, and no server's
failure reaches a caller of another server.

    idle → starting → ready → idle (it ended; the next call starts it again) → closed
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.connections.base import Channel
from mcp_workbench.connections.connection import Connection
from mcp_workbench.connections.negotiate import Agreement, negotiate
from mcp_workbench.connections.slots import Slots
from mcp_workbench.errors import Fault, ProtocolViolation, ServerExited, ShuttingDown, SpawnFailed, StartupTimeout
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params, RpcError
from mcp_workbench.wire.tasks import heard

T = TypeVar("T")
State = Literal["idle", "starting", "ready", "closed"]
OpenChannel: TypeAlias = Callable[[], Awaitable[Channel]]
"""Opens a wire to the server. Raises the `Fault` that prevents it."""


class Events(Protocol):
    """Who is told what happens on a server's connections."""

    def connected(self, connection: Connection, *, again: bool) -> None:
        """There is a new connection; `again` if there was one before."""
        ...

    def notified(self, connection: Connection, method: str, params: Raw) -> None:
        """The server says something that belongs to no request. Called in order."""
        ...

    async def asked(self, connection: Connection, method: str, params: Raw) -> Raw:
        """The server asks something. Raises `RpcError` to refuse."""
        ...


class Supervisor:
    """The connection to one server, whether it is there or not."""

    def __init__(self, label: str, open_channel: OpenChannel, caller: Caller, limits: Limits, events: Events) -> None:
        """`caller` stands for all that it works for: they declare the same and speak the same era."""
        self._label = label
        self._open_channel = open_channel
        self._caller = caller
        self._limits = limits
        self._events = [events]
        self._slots = Slots(limits.in_flight, limits.queued, limits.queue_wait_seconds)
        self._owners: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Connection] | None = None
        self._modern: bool | None = None
        self._was_ready = False
        self._live: Connection | None = None
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
    def start(self) -> object:
        """The start that is under way, to tell it from others; None where there is none."""
        return self._ready if self._ready is not None and not self._ready.done() else None

    @property
    def is_modern(self) -> bool:
        """Whether the server is known to be of the modern era, and so takes each request by itself."""
        return self._modern is True

    def join(self, events: Events) -> None:
        """Somebody else uses it too, and hears what it says."""
        self._events.append(events)

    @property
    def current(self) -> Connection | None:
        """The connection that is there now."""
        live = self._live
        return live if live is not None and not live.channel.ended.done() else None

    async def forward(self, method: str, params: Params, exchange: Exchange | None) -> Raw:
        """A client's request to the server, in one of its slots and within the deadlines of a call."""
        if not self._slots.take():
            await self._slots.wait()
        try:
            # It may have died while a slot was waited for.
            connection = self.current or await self.connection()
            return await connection.forward(method, params, exchange)
        finally:
            self._slots.release()

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
        self._live = connection
        for events in self._events:
            events.connected(connection, again=self._was_ready)
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
            self._ready = self._live = None
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
        channel = await self._open_channel()
        listener = _Listener(self._events, self._limits)
        channel.listen(listener)
        try:
            agreement = await self._agree(channel, modern=modern)
        except BaseException:
            await channel.close()
            raise
        self._modern = agreement.modern
        takes_turns = self._caller.modern and self._caller.answers_differ and not agreement.modern
        connection = Connection(channel, agreement, self._slots, self._limits, takes_turns=takes_turns)
        listener.begin(connection)
        return connection

    async def _agree(self, channel: Channel, *, modern: bool | None) -> Agreement:
        seconds = self._limits.startup_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await negotiate(channel, self._limits, declared=self._caller.capabilities, modern=modern)
        except TimeoutError:
            tail = channel.last_words()
            words = f"; its last words:\n{tail}" if tail else ""
            raise StartupTimeout(f"it did not answer within {seconds:g} s{words}") from None

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


class _Listener:
    """What a server starts, from its first word on. A few questions may come before we know of the agreement."""

    def __init__(self, events: list[Events], limits: Limits) -> None:
        self._events = events
        self._patience = limits.questions
        self._connection: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    def begin(self, connection: Connection) -> None:
        self._connection.set_result(connection)

    def notification(self, method: str, params: Raw) -> None:
        if self._connection.done():
            for events in self._events:
                events.notified(self._connection.result(), method, params)

    async def request(self, method: str, params: Raw) -> Raw:
        if not self._connection.done():
            if not self._patience:
                raise RpcError(jsonrpc.INVALID_REQUEST, "Nothing is agreed on yet")
            self._patience -= 1
            await asyncio.shield(self._connection)
        return await self._events[0].asked(self._connection.result(), method, params)


def _is_over(ready: asyncio.Future[Connection]) -> bool:
    """Whether the connection has ended, though its owner may not have noticed yet."""
    return ready.done() and ready.exception() is None and ready.result().channel.ended.done()


async def _ended(channel: Channel) -> Fault:
    return await asyncio.shield(channel.ended)
