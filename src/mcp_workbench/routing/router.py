"""The router of one client: its own connections to servers, and their lists.

A server's tools may depend on the client's capabilities, and its questions must reach the client whose call caused
them. So a router belongs to one client with one set of declared capabilities. Clients that get no messages from servers
may share one. The router combines the lists of its servers; `calls.py` makes the calls to each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from mcp_workbench import logger
from mcp_workbench.activity.recorder import ConnectionState, Recorder
from mcp_workbench.catalog import linked_resources
from mcp_workbench.catalog.cache.server_cache import ServerCache
from mcp_workbench.catalog.definition import Item
from mcp_workbench.catalog.snapshot import Catalog, Matches, Opened, ServerTools
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig
from mcp_workbench.errors import (
    ConnectFailed,
    Fault,
    RequestError,
    StillStarting,
    ToolboxFailed,
)
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.calls import Calls, DirectCalls, RecordedCalls, RetriedCalls
from mcp_workbench.routing.pool import ServerPool
from mcp_workbench.routing.server_handle import ServerHandle
from mcp_workbench.routing.server_lists import Kind
from mcp_workbench.servers.health import Health
from mcp_workbench.servers.processes import Processes
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.exchange import ClientRef, Exchange
from mcp_workbench.wire.jsonrpc import Params

if TYPE_CHECKING:
    from mcp_workbench.catalog.search.finder import Finder

T = TypeVar("T")


class Router:
    """One client's view of the servers."""

    def __init__(
        self,
        client_ref: ClientRef,
        config: Config,
        limits: Limits,
        processes: Callable[[], Processes],
        *,
        memory: ServerCache,
        health: Callable[[ServerIdentifier], Health],
        siblings: Callable[[], Iterable[Router]],
        recorder: Recorder | None = None,
        refused: Callable[[], str] = lambda: "",
    ) -> None:
        """`siblings` returns the routers of the same client, of which each has its own set of capabilities.

        `refused` returns why the changed configuration file is not used; empty if it is.
        """
        self._siblings = siblings
        self._reconnecting = BackgroundTasks()
        self._limits = limits
        self.catalog = Catalog(_server_names(config))
        self.pool = ServerPool(
            config,
            client_ref,
            self.catalog,
            limits,
            processes,
            memory=memory,
            health=health,
            host=self._host,
            refused=refused,
        )
        self._finder: Finder | None = None
        self.links = linked_resources.Links(limits)
        """The resources that results named."""
        self.calls: Calls = RetriedCalls(DirectCalls(self.pool, self.links, limits), self.pool)
        if recorder is not None:
            self.calls = RecordedCalls(self.calls, recorder)

    # -- tools

    async def open(self, toolbox: str, exchange: Exchange | None = None) -> Opened:
        """The tools of a toolbox; see `Workbench.open`."""
        until = asyncio.get_running_loop().time() + self._limits.open_timeout_seconds
        chosen, outcomes = await self._list_toolbox(toolbox, exchange, until)
        while chosen is not self.pool.config.toolboxes.get(toolbox):  # the configuration changed meanwhile
            chosen, outcomes = await self._list_toolbox(toolbox, exchange, until)
        failed = tuple(
            ConnectFailed(toolbox, name, outcome) for name, outcome in outcomes.items() if isinstance(outcome, Fault)
        )
        given_up = [one for one in failed if not isinstance(one.fault, StillStarting)]
        if given_up and len(given_up) == len(outcomes):
            raise ToolboxFailed(toolbox, failed)
        listings = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, Fault)}
        return self._opened(chosen, listings, failed)

    async def _list_toolbox(
        self, toolbox: str, exchange: Exchange | None, until: float
    ) -> tuple[ToolboxConfig, dict[str, ServerTools | Fault]]:
        """The tools of each server of a toolbox, or why it has none."""
        chosen = self.pool.toolbox(toolbox)
        servers = chosen.servers.values()
        return chosen, await self.pool.wait_for(exchange, servers, self._list(servers, until))

    async def search(self, query: str, toolbox: str | None = None, most: int = 0) -> Matches:
        """The known tools that match a query, best first, of one toolbox or of all."""
        if self._finder is None:
            from mcp_workbench.catalog.search.finder import Finder  # noqa: PLC0415 -- only a search needs it

            self._finder = Finder(self.pool.config, self.catalog, self._limits, self._offer)
        return await self._finder.search(query, toolbox, most)

    def _offer(self, server: ServerIdentifier) -> str:
        return handle.offer if (handle := self.pool.find(server)) is not None else ""

    async def search_all(self, query: str, most: int = 0) -> Matches:
        """The known tools of all toolboxes that match a query. Starts nothing."""
        servers = self.servers_of(self.pool.config.toolboxes)
        handles = self.pool.handles_of(self.pool.config.servers())
        await asyncio.gather(*(handle.lists.relist() for handle in handles if handle.lists.is_stale))
        unknown = [
            server for server, handle in zip(servers, handles, strict=True) if await handle.lists.known_tools() is None
        ]
        return msgspec.structs.replace(await self.search(query, most=most), never_listed=tuple(unknown))

    async def recall(self) -> None:
        """Load the remembered tools of every server into the catalog. Starts nothing."""
        for handle in self.pool.handles_of(self.pool.config.servers()):
            await handle.lists.known_tools()

    async def refresh(self, server: ServerIdentifier) -> ServerTools:
        """Have a server list everything again and store it. Raises `ConnectFailed`."""
        try:
            return await self.pool.handle(server).refresh()
        except Fault as fault:
            raise ConnectFailed(server.toolbox, server.server, fault) from None

    async def known_toolbox(self, toolbox: str) -> Opened | None:
        """The tools of a toolbox, without asking its servers; None if a list is missing."""
        chosen = self.pool.toolbox(toolbox)
        listings: dict[str, ServerTools] = {}
        for server, handle in zip(chosen.servers, self.pool.handles_of(chosen.servers.values()), strict=True):
            if (listing := await handle.lists.known_tools()) is None:
                return None
            listings[server] = listing
        return self._opened(chosen, listings)

    async def list_tools(self, toolboxes: Iterable[str], exchange: Exchange | None = None) -> None:
        """Have all servers of these toolboxes list their tools, within the open deadline."""
        boxes = [self.pool.toolbox(name) for name in toolboxes]
        while True:
            before = self.pool.config
            servers = [server for box in boxes for server in box.servers.values()]
            await self.pool.wait_for(exchange, servers, _gather(self._list(box.servers.values()) for box in boxes))
            if before is self.pool.config:
                return
            found = (self.pool.config.toolboxes.get(box.name) for box in boxes)
            boxes = [box for box in found if box is not None]

    def _opened(
        self, toolbox: ToolboxConfig, listings: Mapping[str, ServerTools], failed: tuple[ConnectFailed, ...] = ()
    ) -> Opened:
        found = {name: self.pool.find(ServerIdentifier(toolbox.name, name)) for name in listings}
        live = tuple(name for name, handle in found.items() if handle is not None and handle.lists.tools.is_live)
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
            instructions={
                name: handle.instructions
                for name, handle in found.items()
                if handle is not None and handle.instructions
            },
        )

    # -- everything else

    async def items(self, kind: Kind, toolboxes: Iterable[str]) -> dict[ServerIdentifier, tuple[Item, ...]]:
        """Prompts, resources or templates of these toolboxes, within the open deadline.

        A server that fails or is still starting has none until it heals.
        """
        seconds = self._limits.open_timeout_seconds
        servers = self.servers_of(toolboxes)
        found = await asyncio.gather(*(self._items(kind, server, seconds) for server in servers))
        return dict(zip(servers, found, strict=True))

    async def learn(self, kind: Kind, servers: Iterable[ServerIdentifier]) -> None:
        """Have servers list that have not been asked yet, starting those that do not run.

        A running server that does not answer is waited for only once and briefly.
        """
        short, long = self._limits.refresh_wait_seconds, self._limits.open_timeout_seconds
        new = {server: self.pool.handle(server) for server in servers}
        await asyncio.gather(
            *(
                self._items(kind, server, short if handle.supervisor.current is not None else long)
                for server, handle in new.items()
                if not handle.lists.caches[kind].was_tried
            )
        )

    async def learn_tools(self, servers: Iterable[ServerIdentifier]) -> None:
        """Have servers list their tools, within the open deadline."""
        grouped: dict[str, list[ServerConfig]] = {}
        for server in servers:
            grouped.setdefault(server.toolbox, []).append(self.pool.server_config(server.toolbox, server.server))
        await _gather(self._list(group) for group in grouped.values())

    async def recheck(self, toolboxes: Collection[str], *kinds: Kind | Literal["tools"]) -> None:
        """List again on the running servers of these toolboxes, for a caller who did not find a name."""
        running = [handle for server, handle in self.pool if server.toolbox in toolboxes and handle.is_running]
        await asyncio.gather(*(handle.lists.recheck(kind) for handle in running for kind in kinds))

    def servers_of(self, toolboxes: Iterable[str]) -> list[ServerIdentifier]:
        """The servers of these toolboxes, in order."""
        return [ServerIdentifier(toolbox, name) for toolbox in toolboxes for name in self.pool.toolbox(toolbox).servers]

    def known_items(self, kind: Kind) -> Iterator[tuple[ServerIdentifier, Item]]:
        """The items that servers have listed so far."""
        for server, handle in self.pool:
            for item in handle.lists.known(kind):
                yield server, item

    def offering(self, capability: str) -> list[ServerIdentifier]:
        """The running servers that declared a capability."""
        return self._servers_where(lambda handle: handle.runs_with(capability))

    def declaring(self, capability: str) -> list[ServerIdentifier]:
        """The servers that declared a capability in their last run."""
        return self._servers_where(lambda handle: handle.offers(capability))

    def having_list(self, kind: Kind, toolboxes: Iterable[str]) -> list[ServerIdentifier]:
        """The servers of these toolboxes that have or may have such a list. Starts nothing."""
        boxes = [box for name in toolboxes if (box := self.pool.config.toolboxes.get(name)) is not None]
        servers = [server for box in boxes for server in box.servers.values()]
        handles = self.pool.handles_of(servers)
        return [server.identifier for server, one in zip(servers, handles, strict=True) if one.may_have(kind)]

    def _servers_where(self, is_meant: Callable[[ServerHandle], bool]) -> list[ServerIdentifier]:
        return [server for server, handle in self.pool if is_meant(handle)]

    def connection_state(self, server: ServerIdentifier) -> ConnectionState | None:
        """The state of the connection to a server and the number of its known tools; None without a handle."""
        handle = self.pool.find(server)
        if handle is None:
            return None
        listing = self.catalog.listing(server.toolbox, server.server)
        return ConnectionState(handle.supervisor.state, listing.count.offered if listing is not None else None)

    def tell(self, method: str, params: Params) -> None:
        """Pass on a client's notification to every running server."""
        for _, handle in self.pool:
            handle.tell(method, params)

    def handles(self, toolbox: ToolboxConfig) -> dict[str, ServerHandle]:
        """The handles of a toolbox's servers, by name. Starts nothing."""
        return dict(zip(toolbox.servers, self.pool.handles_of(toolbox.servers.values()), strict=True))

    def apply(self, config: Config, replaced: Collection[ServerIdentifier]) -> None:
        """Use a new configuration. `replaced` are the servers that it removed or changed."""
        self.pool.config = config
        self._finder = None  # it has indexed the old toolboxes
        self.catalog.follow(_server_names(config), replaced)
        there = set(self.servers_of(config.toolboxes))
        for server in replaced:
            if self.pool.replace(server, is_gone=server not in there):
                self._reconnecting.start(self.pool.connect(server))

    def _host(self, server: ServerIdentifier) -> ServerHandle | None:
        """A sibling's handle of a modern server. Requests carry their capabilities, so one connection is enough."""
        found = (router.pool.find(server) for router in self._siblings())
        return next((one for one in found if one is not None and one.supervisor.is_modern), None)

    async def _items(self, kind: Kind, server: ServerIdentifier, seconds: float) -> tuple[Item, ...]:
        try:
            return await self.pool.handle(server).lists.items(kind, seconds)
        except (Fault, RequestError) as error:  # the server failed, or the configuration just lost it
            logger.debug("a server's list is missing", server=server, list=kind, code=error.code)
            return ()

    async def _list(
        self, servers: Collection[ServerConfig], until: float | None = None
    ) -> dict[str, ServerTools | Fault]:
        """The tools of each server, or why it has none, within the open deadline or until a given time."""
        now = asyncio.get_running_loop().time()
        seconds = self._limits.open_timeout_seconds if until is None else max(0.0, until - now)
        handles = dict(zip((server.name for server in servers), self.pool.handles_of(servers), strict=True))
        listed: dict[str, ServerTools | Fault] = {
            name: tools for name, one in handles.items() if (tools := one.lists.tools_now()) is not None
        }
        asked = [name for name in handles if name not in listed]
        listings = (handles[name].lists.list_tools(seconds) for name in asked)
        outcomes = await asyncio.gather(*listings, return_exceptions=True)
        for name, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Fault):
                raise outcome
            listed[name] = outcome
        return {name: listed[name] for name in handles}


def _server_names(config: Config) -> dict[str, tuple[str, ...]]:
    return {name: tuple(toolbox.servers) for name, toolbox in config.toolboxes.items()}


async def _gather(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    await asyncio.gather(*work)
