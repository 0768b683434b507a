"""One configured server for one router: joins its supervisor, its lists, its subscriptions and its requests."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain

from msgspec import Raw

from mcp_workbench.catalog.cache.server_cache import CachedServer
from mcp_workbench.catalog.definition import OFFERED, offer_text
from mcp_workbench.catalog.rendering.budget import read_instructions
from mcp_workbench.catalog.snapshot import ServerSnapshot, ServerTools
from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.errors import Fault
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.server_lists import FEATURES, Kind, ServerLists
from mcp_workbench.routing.server_requests import ServerRequests
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.connector import OpenChannel, open_channel
from mcp_workbench.servers.health import Health
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.servers.processes import Processes
from mcp_workbench.servers.subscriptions import Subscriptions
from mcp_workbench.servers.supervisor import Supervisor
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.eras import HANDSHAKE_NOTICES, LIST_CHANGED
from mcp_workbench.wire.exchange import ClientRef
from mcp_workbench.wire.jsonrpc import Params


class ServerHandle:
    """One client's handle of a server."""

    def __init__(
        self,
        config: ServerConfig,
        client_ref: ClientRef,
        processes: Processes,
        kept: ServerSnapshot[ServerTools],
        limits: Limits,
        *,
        record: CachedServer,
        turn: asyncio.Semaphore,
        health: Health | None = None,
        host: ServerHandle | None = None,
        predecessor: ServerHandle | None = None,
    ) -> None:
        """`kept` holds its tools, `record` its stored lists. `turn` limits starts that only revalidate a list.

        `host` is the handle of the same modern server in another router of the client, whose connection it shares.
        `predecessor` is the handle before a configuration change. Its subscriptions move here, and it may hold
        resources that this server needs until it has ended.
        """
        limits = limits.bounded(config.bounds)
        self.config = config
        self._caller = client_ref.caller
        self._account = client_ref.account
        self._limits = limits
        self._level: str | None = None
        self._record = record
        label = config.identifier
        self._requests = ServerRequests(label, client_ref, limits)
        self._host = host
        self.subscriptions = host.subscriptions if host is not None else Subscriptions(limits)
        self._retiring: asyncio.Task[None] | None = None
        self._predecessor = predecessor
        if predecessor is not None:
            self.subscriptions.take_over(predecessor.subscriptions)
        open_it = partial(self._open, partial(open_channel, config, processes, limits, client_ref.account))
        self.supervisor = self._supervised(host, label, open_it, health)
        self.lists = ServerLists(
            config,
            client_ref.caller,
            kept,
            limits,
            self.supervisor,
            record=record,
            turn=turn,
            reach=self.reach,
            changed=client_ref.changed,
        )
        before = self.lists.remembered("tools")
        self.features = before.offers if before is not None else None
        self._was_modern = None if before is None or before.is_fallback else before.modern
        self.instructions = jsonrpc.text_or_none(before.instructions) or "" if before is not None else ""
        """The server's instructions, as of its last run."""
        if (current := self.supervisor.current) is not None:  # the host's connection
            self._adopt(current.agreement)

    def _supervised(
        self, host: ServerHandle | None, label: ServerIdentifier, open_it: OpenChannel, health: Health | None
    ) -> Supervisor:
        if host is not None:
            host.supervisor.join(self)
            return host.supervisor
        return Supervisor(
            label,
            open_it,
            self._caller,
            self._limits,
            self,
            health=health,
            era=self._record.era,
            is_remote=isinstance(self.config.target, Endpoint),
            account=self._account,
        )

    # -- its capabilities

    @property
    def is_running(self) -> bool:
        return self.supervisor.current is not None

    @property
    def speaks_modern(self) -> bool:
        """Whether the present connection is of the modern era."""
        current = self.supervisor.current
        return current is not None and current.agreement.modern

    def runs_with(self, capability: str) -> bool:
        """Whether the server declared a capability on the present connection."""
        current = self.supervisor.current
        return current is not None and capability in current.agreement.offers

    def offers(self, capability: str) -> bool:
        """Whether the server declared a capability in its last run."""
        return self.features is not None and capability in self.features

    def may_have(self, kind: Kind) -> bool:
        """Whether the server declared such a list, or may have one because it never ran."""
        return self.features is None or bool(self.features & FEATURES[kind])

    def may_have_tasks(self, *, modern: bool) -> bool:
        """Whether the server has tasks for clients of this era, or may have them because it never ran for one."""
        if self._was_modern is None:
            return True
        return self._was_modern == modern and self.offers(eras.TASKS if modern else "tasks")

    @property
    def offer(self) -> str:
        """Searchable text besides the tools: the server's instructions, and the names of its prompts and resources."""
        lists = (self.lists.listed(kind) for kind in OFFERED if self.offers(kind))
        return offer_text(self.instructions, chain.from_iterable(lists))

    # -- its connection

    async def reach(self) -> Connection:
        """Start the server if needed. Raises the `Fault` that prevents it."""
        try:
            return await self.supervisor.connection()
        except Fault:
            self.lists.lose()
            raise

    async def refresh(self) -> ServerTools:
        """Have the server list everything, store it, and stop the server again unless it is used.

        A stopped server is also probed for its era. Raises the `Fault` that prevented listing its tools.
        """
        if self.supervisor.current is None:
            self.supervisor.forget_era()
        with self.supervisor.in_use():
            tools = await self.lists.fresh()
        self.supervisor.stop_when_idle()
        await self.supervisor.wait_closed()
        return tools

    def tell(self, method: str, params: Params) -> None:
        """Pass on a client's notification, if the server runs, reads, and its era has the notification."""
        current = self.supervisor.current
        if (
            current is None
            or current.channel.peer.congested
            or (current.agreement.modern and method in HANDSHAKE_NOTICES)
        ):
            return
        current.channel.peer.notify(method, params)

    def set_level(self, level: str) -> None:
        """Set the client's log level, now and after a restart."""
        self._level = level
        if (current := self.supervisor.current) is not None:
            current.set_level(level)

    async def subscribe(self, uri: str) -> None:
        await self.subscriptions.subscribe(await self.reach(), uri)

    def unsubscribe(self, uri: str) -> None:
        self.subscriptions.unsubscribe(self.supervisor.current, uri)

    async def watch_task(self, task: str) -> bool:
        """Watch a task; False if the server can't report it, because it is not modern."""
        connection = await self.reach()
        if connection.agreement.modern:
            self.subscriptions.watch_task(connection, task)
        return connection.agreement.modern

    def unwatch_task(self, task: str) -> None:
        self.subscriptions.unwatch_task(self.supervisor.current, task)

    async def close(self, drain_seconds: float | None = None) -> None:
        """End the server. Calls under way may finish within `drain_seconds`; waiting listings fail."""
        self.subscriptions.close()
        self.lists.close()
        await self.supervisor.close(drain_seconds)

    def retire(self) -> None:
        """End the server when its calls have ended, since the configuration removed or changed it.

        The client is not notified of its lists until then.
        """
        self._predecessor = None
        self.lists.retire()
        self._retiring = asyncio.ensure_future(self.close(self._limits.call_hard_timeout_seconds))

    async def wait_for_end(self, seconds: float | None = None) -> None:
        """Wait until a retired handle has ended, at most this long."""
        if self._retiring is not None:
            await asyncio.wait((self._retiring,), timeout=seconds)

    async def _open(self, open_it: OpenChannel) -> Channel:
        """Open the connection once the predecessor has ended, but do not wait long: its calls may take minutes."""
        predecessor, self._predecessor = self._predecessor, None
        if predecessor is not None:
            await predecessor.wait_for_end(self._limits.predecessor_seconds)
        return await open_it()

    # -- events of the supervisor

    def connected(self, connection: Connection, *, again: bool) -> None:
        self._adopt(connection.agreement)
        if self._host is None:
            self._record.record_era(modern=connection.agreement.modern)
            if self._level is not None:
                connection.set_level(self._level)
            self.subscriptions.connected(connection)
        self.lists.connected(again=again)

    def notified(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> None:
        if self.supervisor.state == "closed":
            return
        self.lists.announced(LIST_CHANGED.get(method))
        if self._host is None and self.subscriptions.accepts(method, params):
            self._requests.notified(connection, method, params, owner)

    async def asked(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> Raw:
        return await self._requests.asked(connection, method, params, owner)

    def _adopt(self, agreement: Agreement) -> None:
        """Take over what the server declared in the handshake."""
        self.features = agreement.features
        self._was_modern = agreement.modern
        self.instructions = read_instructions(agreement.hello)

    @property
    def is_waiting(self) -> bool:
        return self.subscriptions.is_used or self._requests.is_asking
