"""The heart: toolboxes that open when they are needed, and tools that are called by their identifier.

It owns what is configured, every process, and a router for each client, with connections of its own. It
knows no front, no surface and no tool names but identifiers.
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
    """Toolboxes of MCP servers, as a library.

        async with Workbench(load_config("workbench-config.json")) as workbench:
            opened = await workbench.open("dev")
            result = await workbench.use(ToolIdentifier.of(opened.tools[0]), {"path": "README.md"})

    Nothing is started by constructing it. Closing it ends every process that it started.
    """

    def __init__(
        self, config: Config, *, limits: Limits = DEFAULTS, transport: str = "", served: tuple[str, str] = ("", "")
    ) -> None:
        """`transport`: what it does is recorded for people, as that of a process that serves in this way.

        `served`: the toolbox, and the server in it, of which people are told; empty where it is all of them.
        """
        self.config = config
        self._served = served
        self._refused = ""
        self._transport = transport
        self._is_process = bool(transport)
        """Whether this process does nothing but serve."""
        self._recorder: Recorder | None = None
        self.limits = limits.bounded(config.bounds)
        self.budget = MemoryBudget(self.limits, self._pressed)
        """The bytes that wait for clients and servers."""
        self._accounts: dict[str, Account] = {}
        self.turns = Turns()
        """In which long answers are rendered."""
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
        """What a toolbox has: servers of which nothing is remembered are started; those that fail are reported.

        Answers within the open deadline with what is ready; what is still starting goes on. Raises
        `ToolboxNotFound`, or `ToolboxFailed` if every server failed.
        """
        return await self.at(LIBRARY).open(toolbox)

    async def use(self, identifier: ToolIdentifier, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool and return its result as its server gave it, as Python objects.

        Raises `RequestError` where there is no such tool, `ConnectFailed` where its server can't be
        reached and `CallFailed` where it failed. A result with `isError` is a result.
        """
        encoded = Raw(jsonrpc.encode(dict(arguments or {})))
        result = await self.relay(identifier, encoded)
        try:
            return msgspec.json.decode(result)
        except (msgspec.DecodeError, RecursionError) as error:
            # Raw JSON can hold what Python can't, such as a number of 5000 digits.
            raise CallFailed(identifier, ProtocolViolation(f"its result can't be read ({error})")) from None

    # -- for clients

    def at(self, caller: Caller) -> Router:
        """The caller's router. Raises `ShuttingDown`, or `Overloaded` for a client that takes too many."""
        router = self._routers.get(caller.key)
        if router is None or self._closing is not None or self._killed:
            self._check_open()
            router = self._routers[caller.key] = self._new_router(caller)
        return router

    def find(self, caller: Caller) -> Router | None:
        """The caller's router, if there is one and it can still be used."""
        return self._routers.get(caller.key) if self._closing is None else None

    async def relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None = None) -> Raw:
        """`use` in raw JSON, on behalf of a client: what the server says goes to `exchange`."""
        caller = exchange.caller if exchange is not None else LIBRARY
        return await self.at(caller).calls.call(ToolCall(identifier, arguments, exchange))

    def expected(self) -> list[Caller]:
        """The clients to expect: recent ones, newest first, and a handshake client that declares nothing."""
        declared = {(modern, bytes(raw)): raw for raw, modern in self._remembering().declared()}
        declared.setdefault((LIBRARY.modern, bytes(LIBRARY.capabilities)), LIBRARY.capabilities)
        return [
            msgspec.structs.replace(LIBRARY, modern=modern, capabilities=raw, key=("", modern, written))
            for (modern, written), raw in declared.items()
        ]

    def unremembering(self) -> str | None:
        """Why nothing can be remembered; None if it can."""
        return self._remembering().problem

    def prepare(self) -> None:
        """Do beforehand what the first open would wait for and nobody can see: open the store, if there is one."""
        if self._closing is None and not self._killed:
            self._remembering().prepare()

    def join(self, audience: str, client: Client) -> None:
        """From now on `client` hears what servers say to this audience."""
        self._clients[audience] = client

    def introduce(self, audience: str, client: ClientInfo) -> None:
        """People are told which programs are clients."""
        known = self._introduced.setdefault(audience, set())
        if client in known or len(known) >= RECORD_CLIENTS:
            return
        known.add(client)
        if self._recorder is not None:
            self._recorder.sessions_changed(client, 1)

    def account(self, audience: str) -> Account:
        """The memory that is held for one client."""
        if (account := self._accounts.get(audience)) is None:
            account = self._accounts[audience] = self.budget.open(audience)
        return account

    @contextlib.asynccontextmanager
    async def rendering(self, caller: Caller) -> AsyncGenerator[Renderer]:
        """Render an answer that may be large. See `Account.making` for when that may begin."""
        async with self.account(caller.audience).making() as count:
            yield Renderer(self.turns, count)

    async def leave(self, audience: str) -> None:
        """The client is gone: nobody is told or asked any more, and its servers end."""
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
        """Go by another configuration from now on; what is otherwise in it.

        Servers that it has as before keep running. Others end when the calls have ended that they work on, and clients
        are told that lists changed. Settings of the whole file stay as they are until the next start.
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
        """Another configuration can't be used: nothing changes, and who looks for what is not there is told why."""
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
        """End every server, all at once, within the shutdown limit. Nothing starts after this.

        Whoever calls it, and however often, waits for the same end; cancelling one caller stops nothing.
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
        """End every server at once, without waiting: for a second signal."""
        self._killed = True
        if self._processes is not None:
            self._processes.kill_all()

    def _check_open(self) -> None:
        if self._closing is not None or self._killed:
            raise ShuttingDown("The workbench is closing")

    def _new_router(self, caller: Caller) -> Router:
        # What only a call needs is imported by the first call: a client's first answer does not wait for it.
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

        memory = self._remembering()
        if audience:
            memory.saw(caller.capabilities, modern=caller.modern)
        return Router(
            client_ref,
            self.config,
            self.limits,
            self._all_processes,
            memory=memory,
            health=self._health_of,
            siblings=siblings,
            recorder=self.record(),
            refused=lambda: self._refused,
        )

    def _remembering(self) -> ServerCache:
        if self._memory is None:
            from mcp_workbench.catalog.cache.server_cache import ServerCache  # noqa: PLC0415 -- as above

            self._memory = ServerCache(self.config, self.limits)
        return self._memory

    def _health_of(self, server: ServerIdentifier) -> Health:
        """How a server has been doing, for whichever client."""
        if (health := self._health.get(server)) is None:
            from mcp_workbench.servers.health import Health  # noqa: PLC0415 -- as above

            health = self._health[server] = Health(self.limits)
            if (recorder := self.record()) is not None:
                health.changed = partial(recorder.changed, server)
        return health

    def record(self) -> Recorder | None:
        """Begin to record what it does, unless that is done already. None where nobody wants to know."""
        if self._transport and self._closing is None:
            from mcp_workbench.activity.recorder import recorder_of  # noqa: PLC0415 -- as above

            self._recorder = recorder_of(self.config, self._transport, self.limits)
            self._transport = ""
            if self._recorder is not None:
                self._recorder.begin(self._standings, lambda: (self.budget.state, self.budget.held))
                there = (ServerIdentifier(server.toolbox, server.name) for server in self.config.servers())
                self._recorder.configured(added=filter(self._is_served, there))
                for client in (client for clients in self._introduced.values() for client in clients):
                    self._recorder.sessions_changed(client, 1)
        return self._recorder

    def _pressed(self) -> None:
        if self._recorder is not None:
            self._recorder.pressed()

    def _standings(self, server: ServerIdentifier) -> list[ConnectionState]:
        """How each client's connection to a server is doing."""
        found = (router.standing(server) for router in self._routers.values())
        return [one for one in found if one is not None]

    def _all_processes(self) -> Processes:
        if self._processes is None:
            from mcp_workbench.servers.processes import Processes  # noqa: PLC0415 -- as above

            self._processes = Processes(self.limits, adopts=self._is_process)
        return self._processes
