"""One client's place at the workbench: its own connections, and what servers list on them.

Servers list other tools to clients that can be asked, and a question must reach the client whose call
caused it. So a place belongs to one client with one set of declared capabilities; clients that can't be
told apart, because nothing is ever said to them, may share one. It checks that a toolbox, a server and
a tool exist before anything is started or contacted, and names whatever goes wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.catalog import links
from mcp_workbench.catalog.items import Item
from mcp_workbench.catalog.memory.records import Memory
from mcp_workbench.catalog.opened import Found, Matches, Opened
from mcp_workbench.catalog.snapshot import Catalog, ServerTools
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig
from mcp_workbench.connections.base import explained
from mcp_workbench.connections.connection import Connection
from mcp_workbench.connections.health import Health
from mcp_workbench.connections.processes import Processes
from mcp_workbench.errors import (
    CallFailed,
    ConnectFailed,
    Fault,
    ProtocolViolation,
    ServerNotFound,
    ServerRefused,
    StillStarting,
    ToolboxFailed,
    ToolboxNotFound,
    ToolNotFound,
)
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.nearest import nearest_or_known
from mcp_workbench.provider import Kind, Provider
from mcp_workbench.shown import shown
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.client import Seat
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params

if TYPE_CHECKING:
    from mcp_workbench.catalog.search.finder import Finder

T = TypeVar("T")
_MAY_BE_GONE = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS)
"""How servers refuse a call of a tool that they do not have."""


class Place:
    """What one client sees of the servers, and how it reaches them."""

    def __init__(
        self,
        seat: Seat,
        config: Config,
        limits: Limits,
        processes: Callable[[], Processes],
        *,
        memory: Memory,
        health: Callable[[ServerIdentifier], Health],
        siblings: Callable[[], Iterable[Place]],
    ) -> None:
        """`siblings` are the places of the same client that declares other capabilities there."""
        self._seat = seat
        self._siblings = siblings
        self._config = config
        self._limits = limits
        self._processes = processes
        self._memory = memory
        self._health = health
        self._level: str | None = None
        self._providers: dict[str, dict[str, Provider]] = {}
        self.catalog = Catalog({name: tuple(toolbox.servers) for name, toolbox in config.toolboxes.items()})
        self._finder: Finder | None = None
        self.links = links.Links(limits)
        """Resources that servers named in results."""

    # -- tools

    async def open(self, toolbox: str, exchange: Exchange | None = None) -> Opened:
        """What a toolbox has: servers of which nothing is remembered are started; those that fail are reported.

        Answers within the open deadline with what is ready; what is still starting goes on. Raises
        `ToolboxNotFound`, or `ToolboxFailed` if every server failed.
        """
        chosen = self.toolbox(toolbox)
        outcomes = await self._meanwhile(exchange, chosen.servers.values(), self._list(chosen.servers.values()))
        failed = tuple(
            ConnectFailed(toolbox, name, outcome) for name, outcome in outcomes.items() if isinstance(outcome, Fault)
        )
        given_up = [one for one in failed if not isinstance(one.fault, StillStarting)]
        if given_up and len(given_up) == len(outcomes):
            raise ToolboxFailed(toolbox, failed)
        listings = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, Fault)}
        return self._opened(chosen, listings, failed)

    async def search(self, query: str, toolbox: str | None = None) -> list[Found]:
        """The tools that fit a query, best first, of what is known; of one toolbox, or of all."""
        if self._finder is None:
            from mcp_workbench.catalog.search.finder import Finder  # noqa: PLC0415 -- only a search needs it

            self._finder = Finder(self._config, self.catalog, self._limits)
        hits = await self._finder.search(query, toolbox)
        return [(hit, tool) for hit in hits if (tool := self.catalog.tool(hit)) is not None]

    async def search_all(self, query: str) -> Matches:
        """The tools of every toolbox that fit a query, as far as they are known. Nothing is started."""
        servers = self.servers_of(self._config.toolboxes)
        self._all_of(self._config.servers())
        unknown = [server for server in servers if await self.provider(server).known_tools() is None]
        return Matches(found=tuple(await self.search(query)), never_listed=tuple(unknown))

    async def refresh(self, server: ServerIdentifier) -> ServerTools:
        """Have a server list everything anew, and remember it. Raises `ConnectFailed`."""
        try:
            return await self.provider(server).refresh()
        except Fault as fault:
            raise ConnectFailed(server.toolbox, server.server, fault) from None

    async def known_of(self, toolbox: str) -> Opened | None:
        """What is known of a toolbox without asking a server; None where something is missing."""
        chosen = self.toolbox(toolbox)
        listings: dict[str, ServerTools] = {}
        for server in chosen.servers.values():
            if (listing := await self._provider(server).known_tools()) is None:
                return None
            listings[server.name] = listing
        return self._opened(chosen, listings)

    async def list_tools(self, toolboxes: Iterable[str], exchange: Exchange | None = None) -> None:
        """Have every server of these toolboxes list, as far as the open deadline allows."""
        boxes = [self.toolbox(name).servers.values() for name in toolboxes]
        servers = [server for box in boxes for server in box]
        await self._meanwhile(exchange, servers, _all_done(self._list(box) for box in boxes))

    async def relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None) -> Raw:
        """Call a tool, on behalf of a client: what the server says meanwhile goes to `exchange`."""
        config = self._find(identifier.toolbox, identifier.server)
        provider = self._provider(config)
        if self.catalog.tool(identifier) is None:
            await self._meanwhile(exchange, (config,), self._check_tool(identifier, provider))
        params: dict[str, Any] = {"name": identifier.tool, "arguments": arguments}
        if exchange is not None:
            params |= exchange.members
            if exchange.meta:
                params["_meta"] = exchange.meta
        if provider.supervisor.current is None:
            await self._meanwhile(exchange, (config,), self._reach(identifier, provider))
        result = await self._call(identifier, provider, params, exchange)
        if provider.offers("resources"):
            self.links.remember(ServerIdentifier(identifier.toolbox, identifier.server), result)
        return result

    async def _call(
        self, identifier: ToolIdentifier, provider: Provider, params: Params, exchange: Exchange | None
    ) -> Raw:
        """The result as the server gave it. Raises `CallFailed`, or `ToolNotFound` where the tool is gone."""
        try:
            result = await provider.supervisor.forward("tools/call", params, exchange)
        except ServerRefused as refusal:
            if refusal.rpc_code in _MAY_BE_GONE:
                await self._check_gone(identifier, provider)
            raise CallFailed(identifier, explained(refusal), refusal) from None
        except Fault as fault:
            raise CallFailed(identifier, fault) from None
        if not jsonrpc.is_object(result):
            raise CallFailed(identifier, ProtocolViolation("its result is not an object"))
        is_doubtful = not provider.is_live or self.catalog.tool(identifier) is None
        if is_doubtful and jsonrpc.is_true(jsonrpc.fields(result).get("isError")):
            await self._check_gone(identifier, provider)
        return result

    def _opened(
        self, toolbox: ToolboxConfig, listings: Mapping[str, ServerTools], failed: tuple[ConnectFailed, ...] = ()
    ) -> Opened:
        live = tuple(name for name in listings if self._provider(toolbox.servers[name]).is_live)
        return Opened(
            toolbox=toolbox.name,
            description=toolbox.description,
            found=tuple(
                (ToolIdentifier(toolbox.name, server, tool.name), tool)
                for server, listing in listings.items()
                for tool in listing.tools.values()
            ),
            live=live,
            stored=tuple(name for name in listings if name not in live),
            failed=failed,
            withheld=tuple((server, tool) for server, listing in listings.items() for tool in listing.withheld),
        )

    # -- everything else

    async def forward(self, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
        """Any request of a client to one server. Raises `ConnectFailed`, or the `Fault` that it ended in."""
        provider = self.provider(server)
        if exchange.meta:
            params = {**params, "_meta": exchange.meta}
        if provider.supervisor.current is None:
            config = self._find(server.toolbox, server.server)
            await self._meanwhile(exchange, (config,), self.connect(server))
        result = await provider.forward(method, params, exchange)
        if not jsonrpc.is_object(result):
            raise ProtocolViolation("its result is not an object")
        return result

    async def connect(self, server: ServerIdentifier) -> Connection:
        """See that a server runs. Raises `ConnectFailed`."""
        try:
            return await self.provider(server).reach()
        except Fault as fault:
            raise ConnectFailed(server.toolbox, server.server, fault) from None

    async def items(self, kind: Kind, toolboxes: Iterable[str]) -> dict[ServerIdentifier, tuple[Item, ...]]:
        """Prompts, resources or templates of these toolboxes, within the open deadline.

        A server that fails or is still starting has none until it heals.
        """
        seconds = self._limits.open_timeout_seconds
        servers = self.servers_of(toolboxes)
        found = await asyncio.gather(*(self._items(kind, server, seconds) for server in servers))
        return dict(zip(servers, found, strict=True))

    async def learn(self, kind: Kind, servers: Iterable[ServerIdentifier]) -> None:
        """Have servers list that were not asked yet; those that do not run are started.

        One that runs and does not answer is waited for once, and not for long.
        """
        short, long = self._limits.refresh_wait_seconds, self._limits.open_timeout_seconds
        new = {server: self.provider(server) for server in servers}
        await asyncio.gather(
            *(
                self._items(kind, server, short if provider.supervisor.current is not None else long)
                for server, provider in new.items()
                if not provider.has_tried(kind)
            )
        )

    def servers_of(self, toolboxes: Iterable[str]) -> list[ServerIdentifier]:
        """Every server of these toolboxes, in order."""
        return [ServerIdentifier(toolbox, name) for toolbox in toolboxes for name in self.toolbox(toolbox).servers]

    def known_items(self, kind: Kind) -> Iterator[tuple[ServerIdentifier, Item]]:
        """What servers have listed so far."""
        for toolbox, providers in self._providers.items():
            for server, provider in providers.items():
                for item in provider.known(kind):
                    yield ServerIdentifier(toolbox, server), item

    def offering(self, capability: str) -> list[ServerIdentifier]:
        """The servers that run and declared a capability."""
        return self._where(lambda provider: provider.runs_with(capability))

    def declaring(self, capability: str) -> list[ServerIdentifier]:
        """The servers that declared a capability when they ran last."""
        return self._where(lambda provider: provider.offers(capability))

    def _where(self, is_meant: Callable[[Provider], bool]) -> list[ServerIdentifier]:
        return [
            ServerIdentifier(toolbox, server)
            for toolbox, providers in self._providers.items()
            for server, provider in providers.items()
            if is_meant(provider)
        ]

    def hosting(self, server: ServerIdentifier) -> Provider | None:
        """A modern server's provider: it takes what was declared with each request, so one connection is enough."""
        provider = self._providers.get(server.toolbox, {}).get(server.server)
        return provider if provider is not None and provider.supervisor.is_modern else None

    def tell(self, method: str, params: Params) -> None:
        """A client's notification, to every server that runs."""
        for provider in self._all():
            provider.tell(method, params)

    def set_level(self, level: str) -> None:
        """Which log messages the client wants of servers, also of those that start later."""
        self._level = level
        for provider in self._all():
            provider.set_level(level)

    def provider(self, server: ServerIdentifier) -> Provider:
        """Raises `ToolboxNotFound` or `ServerNotFound`."""
        return self._provider(self._find(server.toolbox, server.server))

    async def close(self) -> None:
        """End every server of this place."""
        await asyncio.gather(*(provider.close() for provider in self._all()))

    # -- finding

    def known(self) -> Iterator[ToolIdentifier]:
        """Every tool that some server has listed so far."""
        return self.catalog.known()

    def toolbox(self, name: str) -> ToolboxConfig:
        """Raises `ToolboxNotFound`."""
        if (toolbox := self._config.toolboxes.get(name)) is None:
            raise ToolboxNotFound(name, hint=nearest_or_known(name, self._config.toolboxes, "toolboxes"))
        return toolbox

    def _find(self, toolbox_name: str, name: str) -> ServerConfig:
        toolbox = self.toolbox(toolbox_name)
        if (server := toolbox.servers.get(name)) is None:
            raise ServerNotFound(toolbox_name, name, hint=nearest_or_known(name, toolbox.servers, "servers"))
        return server

    async def _check_tool(self, identifier: ToolIdentifier, provider: Provider) -> None:
        """The catalog does not have it: it does not exist, or its server has not listed yet."""
        listing = self.catalog.listing(identifier.toolbox, identifier.server)
        if listing is None or not provider.is_settled:
            try:
                listing = await provider.tools()
            except Fault as fault:
                raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
        if identifier.tool not in listing.tools and provider.may_be_asked:
            with contextlib.suppress(Fault):
                listing = await provider.tools_now()
        if identifier.tool not in listing.tools:
            raise ToolNotFound(identifier, hint=nearest_or_known(identifier.tool, listing.tools, "tools"))

    async def _check_gone(self, identifier: ToolIdentifier, provider: Provider) -> None:
        """A call failed. If that is because its server no longer has the tool: raises `ToolNotFound`."""
        try:
            async with asyncio.timeout(self._limits.refresh_wait_seconds):
                listing = await provider.tools_now()
        except (Fault, TimeoutError):
            return
        if identifier.tool not in listing.tools:
            near = nearest_or_known(identifier.tool, listing.tools, "tools")
            raise ToolNotFound(identifier, hint=f"Its server no longer has it. {near}")

    async def _reach(self, identifier: ToolIdentifier, provider: Provider) -> None:
        """See that the server runs, before a slot of it is taken."""
        try:
            await provider.reach()
        except Fault as fault:
            raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None

    async def _meanwhile(
        self, exchange: Exchange | None, servers: Iterable[ServerConfig], work: Coroutine[Any, Any, T]
    ) -> T:
        """Wait for servers; a client that asked for progress is told now and then which are still starting."""
        if exchange is None or exchange.progress_token is None:
            return await work
        chosen = tuple(servers)
        task = asyncio.ensure_future(work)
        began = asyncio.get_running_loop().time()
        try:
            while not (await asyncio.wait((task,), timeout=self._limits.start_progress_seconds))[0]:
                names = [shown(one.name) for one in chosen if self._provider(one).supervisor.state == "starting"]
                seconds = asyncio.get_running_loop().time() - began
                doing = f"starting {', '.join(names[: self._limits.names_shown])}" if names else "waiting"
                exchange.say(f"{doing} ({seconds:.0f} s)")
            return task.result()
        finally:
            task.cancel()

    def _all(self) -> list[Provider]:
        return [provider for toolbox in self._providers.values() for provider in toolbox.values()]

    def _provider(self, config: ServerConfig) -> Provider:
        provider = self._providers.get(config.toolbox, {}).get(config.name)
        return provider if provider is not None else self._make((config,))[0]

    def _all_of(self, servers: Iterable[ServerConfig]) -> list[Provider]:
        """The providers of servers; those that are not there yet are made together."""
        chosen = tuple(servers)
        self._make([one for one in chosen if one.name not in self._providers.get(one.toolbox, {})])
        return [self._provider(one) for one in chosen]

    def _make(self, servers: Sequence[ServerConfig]) -> list[Provider]:
        made: list[Provider] = []
        for config, record in zip(servers, self._memory.of(servers, self._seat.caller.capabilities), strict=True):
            server = ServerIdentifier(config.toolbox, config.name)
            provider = Provider(
                config,
                self._seat,
                self._processes(),
                self.catalog,
                self._limits,
                record=record,
                turn=self._memory.turn,
                health=self._health(server),
                host=self._host(server),
            )
            self._providers.setdefault(config.toolbox, {})[config.name] = provider
            if self._level is not None:
                provider.set_level(self._level)
            made.append(provider)
        return made

    def _host(self, server: ServerIdentifier) -> Provider | None:
        return next((host for place in self._siblings() if (host := place.hosting(server))), None)

    async def _items(self, kind: Kind, server: ServerIdentifier, seconds: float) -> tuple[Item, ...]:
        try:
            return await self.provider(server).items(kind, seconds)
        except Fault as fault:
            label = f"{server.toolbox}/{server.server}"
            observe.debug("a server's list is missing", server=label, list=kind, code=fault.code)
            return ()

    async def _list(self, servers: Collection[ServerConfig]) -> dict[str, ServerTools | Fault]:
        """What each server offers, or why it offers nothing now, within the open deadline."""
        seconds = self._limits.open_timeout_seconds
        providers = dict(zip((server.name for server in servers), self._all_of(servers), strict=True))
        listed: dict[str, ServerTools | Fault] = {
            name: tools for name, one in providers.items() if (tools := one.tools_at_hand()) is not None
        }
        asked = [name for name in providers if name not in listed]
        outcomes = await asyncio.gather(*(providers[name].tools(seconds) for name in asked), return_exceptions=True)
        for name, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Fault):
                raise outcome
            listed[name] = outcome
        return {name: listed[name] for name in providers}


async def _all_done(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    await asyncio.gather(*work)
