"""Opens connections to a configured server: opens a channel, negotiates the protocol and attaches listeners.

If a server exits on a greeting that it does not know, it is restarted once with the other greeting. The connector
remembers the era that the server spoke. A new start waits until the previous process has ended: it may hold a port or a
lock that the next one needs. The HTTP library is imported only for a remote server.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Raw

from mcp_workbench.config.model import Launch, ServerConfig
from mcp_workbench.errors import (
    Fault,
    NegotiationFailed,
    ProtocolViolation,
    ServerExited,
    StartupTimeout,
    VariableMissing,
)
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import (
    HANDSHAKE_FIRST,
    HANDSHAKE_ONLY,
    MODERN_FIRST,
    Agreement,
    Order,
    has_no_handshake,
    negotiate,
)
from mcp_workbench.servers.processes import Processes
from mcp_workbench.servers.stdio import StdioChannel
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.wire.memory_budget import Account

if TYPE_CHECKING:
    from types import ModuleType


OpenChannel: TypeAlias = Callable[[], Awaitable[Channel]]
"""Opens a channel to the server. Raises the `Fault` that prevents it."""
Era: TypeAlias = Callable[[], bool | None]
"""Whether the server speaks the modern era with clients of this era; None if unknown."""


class Events(Protocol):
    """Listener for a server's connections and messages. For `owner` see `Inbound`."""

    def connected(self, connection: Connection, *, again: bool) -> None:
        """A connection was opened; `again` if there was one before."""
        ...

    def notified(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> None:
        """The server sent a notification. Called in order."""
        ...

    async def asked(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> Raw:
        """Answer a request of the server. Raises `RpcError` to refuse."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether the listener still waits for a notification, for example of a subscription."""
        ...


class Connector:
    """Opens the connections of one server, one after the other."""

    def __init__(
        self,
        open_channel: OpenChannel,
        caller: Caller,
        slots: Slots,
        limits: Limits,
        events: list[Events],
        *,
        era: Era = lambda: None,
        is_remote: bool = False,
    ) -> None:
        """For the parameters see `Supervisor`. Listeners may be added to `events` later."""
        self._recall_era = era
        self._is_remote = is_remote
        self._open_channel = open_channel
        self._caller = caller
        self._slots = slots
        self._limits = limits
        self._events = events
        self._tried_both_ways = False
        self._was_tried = False
        self.modern: bool | None = None
        """Whether the server last spoke the modern era; None if unknown."""
        self.closings = BackgroundTasks()
        """Channels that are being closed."""

    @property
    def remembered_era(self) -> bool | None:
        """The remembered era, until the first start."""
        return None if self._was_tried else self._recall_era()

    def forget(self) -> None:
        """Probe the era again at the next start."""
        self._was_tried = True
        self.modern = None

    async def open(self) -> Connection:
        """Open a connection. Raises the `Fault` that prevents it."""
        remembered_era, self._was_tried = self.remembered_era, True
        if remembered_era is not None:
            return await self._open_remembered(modern=remembered_era)
        if self.modern is not None or self._tried_both_ways:
            self._tried_both_ways = False
            return await self._open_once(self._order(self.modern))
        try:
            return await self._open_once(self._order(None))
        except (ServerExited, ProtocolViolation) as fault:
            why = fault
        except NegotiationFailed as fault:
            if self._caller.modern or self._is_remote or not has_no_handshake(fault):
                raise
            why = fault  # servers on the official SDK stay in the era of the first request, even if they refused it
        # It may have exited on a greeting that it does not know: retry once with the other one.
        try:
            return await self._open_once(self._other_way())
        except Fault as fault:
            self._tried_both_ways = True
            raise (why if isinstance(fault, NegotiationFailed) else fault) from None

    async def _open_remembered(self, *, modern: bool) -> Connection:
        try:
            return await self._open_once(self._order(modern))
        except (NegotiationFailed, ServerExited, ProtocolViolation):
            # It may be a new version of the server that speaks the other era.
            return await self._open_once(HANDSHAKE_ONLY if self._caller.modern and modern else self._order(None))

    def _other_way(self) -> Order:
        """The order for a server that failed with the client's era first."""
        has_handshake = self.modern is False  # it agreed to the handshake, then exited on the probe that followed
        return HANDSHAKE_ONLY if self._caller.modern or has_handshake else MODERN_FIRST

    def _order(self, modern: bool | None) -> Order:  # noqa: FBT001 -- an era, or unknown
        """Which eras to try: the one that the server is known to speak, else the client's own first."""
        if modern is None:
            return MODERN_FIRST if self._caller.modern else HANDSHAKE_FIRST
        return MODERN_FIRST if modern else HANDSHAKE_ONLY

    async def _open_once(self, order: Order) -> Connection:
        while self.closings:
            await asyncio.wait(tuple(self.closings))  # it may hold a port, or a lock
        channel = await self._open_channel()
        listener = _Listener(self._events, self._limits)
        channel.listen(listener)
        try:
            agreement = await self._agree(channel, order)
            self.modern = agreement.modern
            _check_open(channel)
        except BaseException:
            # Close it in the background: a server that does not exit takes seconds, and callers wait for the fault.
            self.close(channel)
            raise
        takes_turns = self._caller.modern and self._caller.answers_differ and not agreement.modern
        connection = Connection(channel, agreement, self._slots, self._limits, takes_turns=takes_turns)
        listener.begin(connection)
        return connection

    async def _agree(self, channel: Channel, order: Order) -> Agreement:
        seconds = self._limits.startup_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await negotiate(channel, self._limits, self._caller, order, is_remote=self._is_remote)
        except TimeoutError:
            noise = f", and writes log lines to stdout: '{channel.noise}'" if channel.noise else ""
            tail = channel.stderr_tail()
            words = f"; its last words:\n{tail}" if tail else ""
            raise StartupTimeout(f"it did not answer within {seconds:g} s{noise}{words}") from None

    def close(self, channel: Channel) -> None:
        """Close a channel in the background. The next start waits for it."""
        self.closings.start(channel.close())


def _check_open(channel: Channel) -> None:
    if channel.ended.done():
        raise channel.ended.result()


class _Listener:
    """Passes a server's messages to the listeners. A few requests may arrive and wait before the negotiation ends."""

    def __init__(self, events: list[Events], limits: Limits) -> None:
        self._events = events
        self._patience = limits.questions
        self._connection: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    def begin(self, connection: Connection) -> None:
        self._connection.set_result(connection)

    def notification(self, method: str, params: dict[str, Raw], owner: object = None) -> None:
        if self._connection.done():
            for events in self._events:
                events.notified(self._connection.result(), method, params, owner)

    async def request(self, method: str, params: dict[str, Raw], owner: object = None) -> Raw:
        if not self._connection.done():
            if not self._patience:
                raise RpcError(jsonrpc.INVALID_REQUEST, "Nothing is agreed on yet")
            self._patience -= 1
            await asyncio.shield(self._connection)
        return await self._events[0].asked(self._connection.result(), method, params, owner)


async def open_channel(
    server: ServerConfig, processes: Processes, limits: Limits, account: Account | None = None
) -> Channel:
    """Open a channel to the server. Raises the `Fault` that prevents it.

    `account` is the memory account of the client: nothing is read from the server while the account is paused.
    """
    account = account or Account()
    if server.missing:
        names = ", ".join(f"{missing.variable} (for {missing.path})" for missing in server.missing)
        raise VariableMissing(f"not set in the environment: {names}", hint="Set it, or give a default: ${NAME:-value}")
    if isinstance(server.target, Launch):
        return await StdioChannel.open(processes, server.target, server.identifier, limits, account)
    # Importing the HTTP library takes a fifth of a second: only when it is needed, and in a thread.
    http: ModuleType = await asyncio.to_thread(importlib.import_module, "mcp_workbench.servers.http.channel")
    return await http.open_remote(server, server.target, limits, account)
