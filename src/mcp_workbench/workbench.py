"""The core of the program: opens toolboxes on demand and calls tools by their identifier.

It owns the configuration, all processes, and one router for each client, with its own connections. It does not know
how clients connect or which surface they see.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.config.diff import FIXED, Changes, changes
from mcp_workbench.config.model import Config
from mcp_workbench.errors import CallFailed, Overloaded, ProtocolViolation, ShuttingDown
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.routing.requests import ToolCall
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import LIBRARY, RECORD_CLIENTS, Caller, ClientInfo, Key
from mcp_workbench.wire.fairness import Renderer, Turns
from mcp_workbench.wire.memory_budget import Account, MemoryBudget

if TYPE_CHECKING:
    from mcp_workbench.activity.recorder import ConnectionState, Recorder
    from mcp_workbench.catalog.cache.server_cache import ServerCache
    from mcp_workbench.catalog.snapshot import Opened
    from mcp_workbench.routing.router import Router
    from mcp_workbench.servers.health import Health
    from mcp_workbench.servers.processes import Processes
    from mcp_workbench.wire.exchange import Client, Exchange


class Workbench:
    """Toolboxes of MCP servers.

        async with Workbench(load_config("workbench-config.json")) as workbench:
            opened = await workbench.open("dev")
            result = await workbench.use(ToolIdentifier.of(opened.tools[0]), {"path": "README.md"})

    The constructor starts nothing. Closing the workbench ends every process that it started.
    """

    def __init__(
        self, config: Config, *, limits: Limits = DEFAULTS, transport: str = "", served: tuple[str, str] = ("", "")
    ) -> None:
        """`transport` names how this process serves; its activity is then recorded for `status` and `logs`.

        `served` is the toolbox, and the server in it, to record; an empty name means all of them.
        """
        self.config = config
        self._served = served
        self._refused = ""
        self._transport = transport
        self._is_process = bool(transport)
        """Whether this process only serves."""
        self._recorder: Recorder | None = None
        self.limits = limits.bounded(config.bounds)
        self.budget = MemoryBudget(self.limits, self._pressure_changed)
        """The bytes that wait for clients and servers."""
        self._accounts: dict[str, Account] = {}
        self.turns = Turns()
        """Long answers are rendered in these turns."""
        self._processes: Processes | None = None
        self._memory: ServerCache | None = None
        self._health: dict[ServerIdentifier, Health] = {}
        self._routers: dict[Key, Router] = {}
        self._clients: dict[str, Client] = {}
        self._introduced: dict[str, set[ClientInfo]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._killed = False
        logger.log.redact.hide_later(lambda: config.secrets)

    async def __aenter__(self) -> Workbench:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for Python code

    async def open(self, toolbox: str) -> Opened:
        """The tools of a toolbox. Starts the servers without a cached list, and reports those that fail.

        Returns within the open deadline with the servers that are ready; the others go on starting. Raises
        `ToolboxNotFound`, or `ToolboxFailed` if every server failed.
        """
        return await self.at(LIBRARY).open(toolbox)

    async def use(self, identifier: ToolIdentifier, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool and return its server's result as Python objects.

        Raises `RequestError` if there is no such tool, `ConnectFailed` if its server can't be reached, and `CallFailed`
        if the call failed. A result with `isError` is returned.
        """
        encoded = Raw(jsonrpc.encode(dict(arguments or {})))
        result = await self.relay(identifier, encoded)
        try:
            return msgspec.json.decode(result)
        except (msgspec.DecodeError, RecursionError) as error:
            # Some JSON has no Python value, such as a number of 5000 digits.
            raise CallFailed(identifier, ProtocolViolation(f"its result can't be read ({error})")) from None

    # -- for clients

    def at(self, caller: Caller) -> Router:
        """The caller's router. Raises `ShuttingDown`, or `Overloaded` if the client has too many."""
        router = self._routers.get(caller.key)
        if router is None or self._closing is not None or self._killed:
            self._check_open()
            router = self._routers[caller.key] = self._new_router(caller)
        return router

    def find(self, caller: Caller) -> Router | None:
        """The caller's router, if there is one and the workbench is open."""
        return self._routers.get(caller.key) if self._closing is None else None

    async def relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None = None) -> Raw:
        """Like `use`, in raw JSON and for a client. The server's messages go to `exchange`."""
        caller = exchange.caller if exchange is not None else LIBRARY
        return await self.at(caller).calls.call(ToolCall(identifier, arguments, exchange))

    def expected(self) -> list[Caller]:
        """Callers to expect: recent ones, newest first, and a handshake client without capabilities."""
        declared = {(modern, bytes(raw)): raw for raw, modern in self._stored_lists().recent_clients()}
        declared.setdefault((LIBRARY.modern, bytes(LIBRARY.capabilities)), LIBRARY.capabilities)
        return [
            msgspec.structs.replace(LIBRARY, modern=modern, capabilities=raw, key=("", modern, written))
            for (modern, written), raw in declared.items()
        ]

    def cache_problem(self) -> str | None:
        """Why lists can't be cached; None if they can."""
        return self._stored_lists().problem

    def prepare(self) -> None:
        """Open the catalog file, if there is one, so that the first open need not wait for that."""
        if self._closing is None and not self._killed:
            self._stored_lists().prepare()

    def join(self, audience: str, client: Client) -> None:
        """Send messages of this audience's servers to `client`."""
        self._clients[audience] = client

    def introduce(self, audience: str, client: ClientInfo) -> None:
        """Record which program a client is."""
        known = self._introduced.setdefault(audience, set())
        if client in known or len(known) >= RECORD_CLIENTS:
            return
        known.add(client)
        if self._recorder is not None:
            self._recorder.sessions_changed(client, 1)

    def account(self, audience: str) -> Account:
        """The memory account of one client."""
        if (account := self._accounts.get(audience)) is None:
            account = self._accounts[audience] = self.budget.open(audience)
        return account

    @contextlib.asynccontextmanager
    async def rendering(self, caller: Caller) -> AsyncGenerator[Renderer]:
        """Render an answer that may be large. `Account.building` says when that may begin."""
        async with self.account(caller.audience).building() as count:
            yield Renderer(self.turns, count)

    async def leave(self, audience: str) -> None:
        """Forget a client that disconnected, and end its servers."""
        self._clients.pop(audience, None)
        for left in self._introduced.pop(audience, ()):
            if self._recorder is not None:
                self._recorder.sessions_changed(left, -1)
        await asyncio.gather(*(router.pool.close() for router in self.routers(audience)))
        if (account := self._accounts.pop(audience, None)) is not None:
            account.end()
        for key in tuple(self._routers):
            if key[0] == audience:
                del self._routers[key]

    def apply(self, config: Config) -> Changes:
        """Use a new configuration; returns its differences.

        Unchanged servers keep running. Changed and removed ones end when their calls have ended, and clients are
        notified
        of changed lists. Settings of the whole file apply at the next start.
        """
        if self._closing is not None or self._killed:
            return Changes()
        found = changes(self.config, config)
        logger.log.redact.hide_later(lambda: config.secrets)
        kept = {name: getattr(self.config, name) for name in FIXED}
        self.config = msgspec.structs.replace(config, **kept)
        self._refused = ""
        for server in found.replaced:
            self._health.pop(server, None)
        for router in self._routers.values():
            router.apply(self.config, found.replaced)
        if self._recorder is not None:
            added, changed = (filter(self._is_served, servers) for servers in (found.added, found.changed))
            self._recorder.configured(added=added, changed=changed, removed=found.removed)
        for client in tuple(self._clients.values()):
            for toolbox in found.toolboxes:
                for kind in ("tools", "prompts", "resources"):
                    client.changed(toolbox, kind)
        return found

    def refuse(self, reason: str) -> None:
        """Keep the configuration, because the changed file can't be used. Errors about missing names say why."""
        self._refused = reason
        if (recorder := self.record()) is not None:
            recorder.refused(reason)

    def _is_served(self, server: ServerIdentifier) -> bool:
        toolbox, name = self._served
        return toolbox in ("", server.toolbox) and name in ("", server.server)

    def routers(self, audience: str | None = None) -> list[Router]:
        """Every router of one client, or of all."""
        return [router for key, router in self._routers.items() if audience in (None, key[0])]

    # -- the end

    async def close(self) -> None:
        """End all servers at once, within the shutdown limit. Nothing starts after this.

        All callers wait for the same shutdown. Cancelling a caller does not stop it.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await asyncio.gather(*(router.pool.close() for router in self._routers.values()))
        if self._processes is not None:
            await self._processes.close()
        if self._memory is not None:
            self._memory.close()
        if self._recorder is not None:
            await self._recorder.close()

    def kill(self) -> None:
        """End every server at once, without waiting, as a second signal demands."""
        self._killed = True
        if self._processes is not None:
            self._processes.kill_all()

    def _check_open(self) -> None:
        if self._closing is not None or self._killed:
            raise ShuttingDown("The workbench is closing")

    def _new_router(self, caller: Caller) -> Router:
        # The first call imports what only calls need, so that a client's first answer does not wait for it.
        from mcp_workbench.routing.router import Router  # noqa: PLC0415
        from mcp_workbench.wire.exchange import ClientRef  # noqa: PLC0415

        audience = caller.audience
        if len(self.routers(audience)) >= self.limits.places:
            raise Overloaded(
                f"the client declared {self.limits.places} different sets of capabilities already",
                hint="Declare the same capabilities in every request.",
            ).copy_with(retry_after=None)  # waiting does not help

        client_ref = ClientRef(caller, lambda: self._clients.get(audience), self.account(audience))

        def siblings() -> list[Router]:
            return [router for key, router in self._routers.items() if key[:2] == caller.key[:2]]

        memory = self._stored_lists()
        if audience:
            memory.record_client(caller.capabilities, modern=caller.modern)
        return Router(
            client_ref,
            self.config,
            self.limits,
            self._get_processes,
            memory=memory,
            health=self._health_of,
            siblings=siblings,
            recorder=self.record(),
            refused=lambda: self._refused,
        )

    def _stored_lists(self) -> ServerCache:
        if self._memory is None:
            from mcp_workbench.catalog.cache.server_cache import ServerCache  # noqa: PLC0415 -- as above

            self._memory = ServerCache(self.config, self.limits)
        return self._memory

    def _health_of(self, server: ServerIdentifier) -> Health:
        """The health of a server, over all clients."""
        if (health := self._health.get(server)) is None:
            from mcp_workbench.servers.health import Health  # noqa: PLC0415 -- as above

            health = self._health[server] = Health(self.limits)
            if (recorder := self.record()) is not None:
                health.changed = partial(recorder.changed, server)
        return health

    def record(self) -> Recorder | None:
        """The recorder, begun at the first use; None if nothing is recorded."""
        if self._transport and self._closing is None:
            from mcp_workbench.activity.recorder import recorder_of  # noqa: PLC0415 -- as above

            self._recorder = recorder_of(self.config, self._transport, self.limits)
            self._transport = ""
            if self._recorder is not None:
                self._recorder.begin(self._connection_states, lambda: (self.budget.state, self.budget.held))
                there = (ServerIdentifier(server.toolbox, server.name) for server in self.config.servers())
                self._recorder.configured(added=filter(self._is_served, there))
                for client in (client for clients in self._introduced.values() for client in clients):
                    self._recorder.sessions_changed(client, 1)
        return self._recorder

    def _pressure_changed(self) -> None:
        if self._recorder is not None:
            self._recorder.pressed()

    def _connection_states(self, server: ServerIdentifier) -> list[ConnectionState]:
        """The state of each client's connection to a server."""
        found = (router.connection_state(server) for router in self._routers.values())
        return [one for one in found if one is not None]

    def _get_processes(self) -> Processes:
        if self._processes is None:
            from mcp_workbench.servers.processes import Processes  # noqa: PLC0415 -- as above

            self._processes = Processes(self.limits, adopts=self._is_process)
        return self._processes
