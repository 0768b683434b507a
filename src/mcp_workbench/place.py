"""One client's place at the workbench: its own connections, and what servers list on them.

Servers list other tools to clients that can be asked, and a question must reach the client whose call
caused it. So a place belongs to one client with one set of declared capabilities; clients that can't be
told apart, because nothing is ever said to them, may share one. It checks that a toolbox, a server and
a tool exist before anything is started or contacted, and names whatever goes wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.catalog import apps, links
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
    RequestError,
    ServerNotFound,
    ServerRefused,
    ShuttingDown,
    StillStarting,
    ToolboxFailed,
    ToolboxNotFound,
    ToolNotFound,
)
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.nearest import nearest_or_known
from mcp_workbench.provider import Provider
from mcp_workbench.record.recorder import Recorder, Standing
from mcp_workbench.server_lists import Kind
from mcp_workbench.shown import shown
from mcp_workbench.staff import Staff
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.client import Seat
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params
from mcp_workbench.wire.tasks import heard
from mcp_workbench.wire.waiting import meanwhile

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
        recorder: Recorder | None = None,
        refused: Callable[[], str] = lambda: "",
    ) -> None:
        """`siblings` are the places of the same client that declares other capabilities there.

        `refused` tells why the configuration file is not used as it is now; nothing where it is.
        """
        self._refused = refused
        self._recorder = recorder
        self._siblings = siblings
        self._config = config
        self._limits = limits
        self.catalog = Catalog(_shape(config))
        self._staff = Staff(seat, self.catalog, limits, processes, memory=memory, health=health, host=self._host)
        self._finder: Finder | None = None
        self.links = links.Links(limits)
        """Resources that servers named in results."""

    # -- tools

    async def open(self, toolbox: str, exchange: Exchange | None = None) -> Opened:
        """What a toolbox has: servers of which nothing is remembered are started; those that fail are reported.

        Answers within the open deadline with what is ready; what is still starting goes on. Raises
        `ToolboxNotFound`, or `ToolboxFailed` if every server failed.
        """
        chosen, outcomes = await self._listed(toolbox, exchange)
        while chosen is not self._config.toolboxes.get(toolbox):  # another configuration came meanwhile
            chosen, outcomes = await self._listed(toolbox, exchange)
        failed = tuple(
            ConnectFailed(toolbox, name, outcome) for name, outcome in outcomes.items() if isinstance(outcome, Fault)
        )
        given_up = [one for one in failed if not isinstance(one.fault, StillStarting)]
        if given_up and len(given_up) == len(outcomes):
            raise ToolboxFailed(toolbox, failed)
        listings = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, Fault)}
        return self._opened(chosen, listings, failed)

    async def _listed(
        self, toolbox: str, exchange: Exchange | None
    ) -> tuple[ToolboxConfig, dict[str, ServerTools | Fault]]:
        """What each server of a toolbox lists, or why it lists nothing."""
        chosen = self.toolbox(toolbox)
        servers = chosen.servers.values()
        return chosen, await self._meanwhile(exchange, servers, self._list(servers))

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
        providers = self._staff.all_of(self._config.servers())
        await asyncio.gather(*(provider.lists.freshen() for provider in providers if provider.lists.is_stale))
        unknown = [
            server
            for server, provider in zip(servers, providers, strict=True)
            if await provider.lists.known_tools() is None
        ]
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
        for server, provider in zip(chosen.servers, self._staff.all_of(chosen.servers.values()), strict=True):
            if (listing := await provider.lists.known_tools()) is None:
                return None
            listings[server] = listing
        return self._opened(chosen, listings)

    async def list_tools(self, toolboxes: Iterable[str], exchange: Exchange | None = None) -> None:
        """Have every server of these toolboxes list, as far as the open deadline allows."""
        boxes = [self.toolbox(name) for name in toolboxes]
        while True:
            before = self._config
            servers = [server for box in boxes for server in box.servers.values()]
            await self._meanwhile(exchange, servers, _all_done(self._list(box.servers.values()) for box in boxes))
            if before is self._config:
                return
            found = (self._config.toolboxes.get(box.name) for box in boxes)
            boxes = [box for box in found if box is not None]

    async def relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None) -> Raw:
        """Call a tool, on behalf of a client: what the server says meanwhile goes to `exchange`."""
        work = partial(self._relay, identifier, arguments, exchange)
        return await self._done(work, exchange, identifier, arguments)

    async def _relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None) -> Raw:
        config = self._find(identifier.toolbox, identifier.server)
        provider = self._staff.of(config)
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
            self._note_links(ServerIdentifier(identifier.toolbox, identifier.server), result, exchange)
        if exchange is not None and not exchange.caller.modern:
            definition = self.catalog.tool(identifier)
            exchange.projection = "schema" if definition is not None and definition.wraps_output else "value"
        return result

    def _note_links(self, server: ServerIdentifier, result: Raw, exchange: Exchange | None) -> None:
        """Record the resources that a result names: in its content, and as a UI in its `_meta`."""
        self.links.remember(server, result)
        if exchange is None:
            return
        with contextlib.suppress(msgspec.DecodeError):  # nested too deep; its client gets an error
            if (meta := exchange.read(result).get("_meta")) is not None:
                self.links.add(server, apps.ui_uris(meta))

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
        is_doubtful = not provider.lists.is_live or self.catalog.tool(identifier) is None
        if is_doubtful and jsonrpc.is_true(jsonrpc.fields(result).get("isError")):
            await self._check_gone(identifier, provider)
        return result

    def _opened(
        self, toolbox: ToolboxConfig, listings: Mapping[str, ServerTools], failed: tuple[ConnectFailed, ...] = ()
    ) -> Opened:
        found = {name: self._staff.find(toolbox.name, name) for name in listings}
        live = tuple(name for name, provider in found.items() if provider is not None and provider.lists.is_live)
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
                name: provider.instructions
                for name, provider in found.items()
                if provider is not None and provider.instructions
            },
        )

    async def _done(
        self,
        work: Callable[[], Coroutine[Any, Any, Raw]],
        exchange: Exchange | None,
        call: ToolIdentifier,
        given: Raw,
    ) -> Raw:
        """Do what is a call, and have it recorded."""
        recorder = self._recorder
        if recorder is None:
            return await self._on_newest(work)
        noted = recorder.began(call)
        try:
            result = await self._on_newest(work)
        except BaseException as error:
            recorder.failed(noted, given, error)
            raise
        try:
            members = jsonrpc.fields(result) if exchange is None else exchange.read(result)
        except msgspec.DecodeError:  # nested too deep, which is told to its client
            members = {}
        recorder.ended(noted, given, result, members)
        return result

    async def _on_newest(self, work: Callable[[], Coroutine[Any, Any, Raw]]) -> Raw:
        """Do it, and again where another configuration came before it was sent to the server."""
        while True:
            before = self._config
            try:
                return await work()
            except (ConnectFailed, CallFailed, ShuttingDown) as error:
                if before is self._config or not _is_unsent(error):
                    raise

    # -- everything else

    async def forward(self, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
        """Any request of a client to one server. Raises `ConnectFailed`, or the `Fault` that it ended in."""
        work = partial(self._forward, server, method, params, exchange)
        if self._recorder is None or method != "tools/call":
            return await self._on_newest(work)
        tool = ToolIdentifier(server.toolbox, server.server, jsonrpc.text_or_none(params.get("name")) or "?")
        return await self._done(work, exchange, tool, params.get("arguments", jsonrpc.NOTHING))

    async def _forward(self, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
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
                if not provider.lists.has_tried(kind)
            )
        )

    async def learn_tools(self, servers: Iterable[ServerIdentifier]) -> None:
        """Have servers list their tools, as far as the open deadline allows."""
        grouped: dict[str, list[ServerConfig]] = {}
        for server in servers:
            grouped.setdefault(server.toolbox, []).append(self._find(server.toolbox, server.server))
        await _all_done(self._list(group) for group in grouped.values())

    async def recheck(self, toolboxes: Collection[str], *kinds: Kind | Literal["tools"]) -> None:
        """Ask the running servers of these toolboxes again, for a caller who misses something in their lists."""
        running = [provider for server, provider in self._staff if server.toolbox in toolboxes and provider.is_running]
        await asyncio.gather(*(provider.lists.recheck(kind) for provider in running for kind in kinds))

    def servers_of(self, toolboxes: Iterable[str]) -> list[ServerIdentifier]:
        """Every server of these toolboxes, in order."""
        return [ServerIdentifier(toolbox, name) for toolbox in toolboxes for name in self.toolbox(toolbox).servers]

    def known_items(self, kind: Kind) -> Iterator[tuple[ServerIdentifier, Item]]:
        """What servers have listed so far."""
        for server, provider in self._staff:
            for item in provider.lists.known(kind):
                yield server, item

    def offering(self, capability: str) -> list[ServerIdentifier]:
        """The servers that run and declared a capability."""
        return self._where(lambda provider: provider.runs_with(capability))

    def declaring(self, capability: str) -> list[ServerIdentifier]:
        """The servers that declared a capability when they ran last."""
        return self._where(lambda provider: provider.offers(capability))

    def having(self, kind: Kind, toolboxes: Iterable[str]) -> list[ServerIdentifier]:
        """The servers of these toolboxes that have such a list, or may because they never ran. Starts nothing."""
        boxes = [box for name in toolboxes if (box := self._config.toolboxes.get(name)) is not None]
        servers = [server for box in boxes for server in box.servers.values()]
        providers = self._staff.all_of(servers)
        return [server.identifier for server, one in zip(servers, providers, strict=True) if one.may_have(kind)]

    def _where(self, is_meant: Callable[[Provider], bool]) -> list[ServerIdentifier]:
        return [server for server, provider in self._staff if is_meant(provider)]

    def hosting(self, server: ServerIdentifier) -> Provider | None:
        """A modern server's provider: it takes what was declared with each request, so one connection is enough."""
        provider = self.existing(server)
        return provider if provider is not None and provider.supervisor.is_modern else None

    def standing(self, server: ServerIdentifier) -> Standing | None:
        """How the connection to a server is doing, and how many tools are known of it; None where nobody needs it."""
        provider = self.existing(server)
        if provider is None:
            return None
        listing = self.catalog.listing(server.toolbox, server.server)
        return Standing(provider.supervisor.state, len(listing.tools) if listing is not None else None)

    def tell(self, method: str, params: Params) -> None:
        """A client's notification, to every server that runs."""
        for _, provider in self._staff:
            provider.tell(method, params)

    def set_level(self, level: str) -> None:
        """Which log messages the client wants of servers, also of those that start later."""
        self._staff.set_level(level)

    def provider(self, server: ServerIdentifier) -> Provider:
        """Raises `ToolboxNotFound` or `ServerNotFound`."""
        return self._staff.of(self._find(server.toolbox, server.server))

    def providers(self, toolbox: ToolboxConfig) -> dict[str, Provider]:
        """The providers of a toolbox's servers, by name. Starts nothing."""
        return dict(zip(toolbox.servers, self._staff.all_of(toolbox.servers.values()), strict=True))

    def existing(self, server: ServerIdentifier) -> Provider | None:
        """The provider of a server that somebody needed; there may be none, or no such server any more."""
        return self._staff.find(server.toolbox, server.server)

    def apply(self, config: Config, replaced: Collection[ServerIdentifier]) -> None:
        """Go by another configuration from now on; `replaced` are servers that it has no more, or has otherwise."""
        self._config = config
        self._finder = None  # it knows the words of the toolboxes
        self.catalog.follow(_shape(config), replaced)
        there = set(self.servers_of(config.toolboxes))
        for server in replaced:
            if self._staff.replace(server, is_gone=server not in there):
                asyncio.ensure_future(self.connect(server)).add_done_callback(heard)

    async def close(self) -> None:
        """End every server of this place."""
        await self._staff.close()

    # -- finding

    def known(self) -> Iterator[ToolIdentifier]:
        """Every tool that some server has listed so far."""
        return self.catalog.known()

    def toolbox(self, name: str) -> ToolboxConfig:
        """Raises `ToolboxNotFound`."""
        if (toolbox := self._config.toolboxes.get(name)) is None:
            raise ToolboxNotFound(name, hint=self._help(name, self._config.toolboxes, "toolboxes"))
        return toolbox

    def _find(self, toolbox_name: str, name: str) -> ServerConfig:
        toolbox = self.toolbox(toolbox_name)
        if (server := toolbox.servers.get(name)) is None:
            raise ServerNotFound(toolbox_name, name, hint=self._help(name, toolbox.servers, "servers"))
        return server

    def _help(self, name: str, known: Iterable[str], kind: str) -> str:
        """What there is instead; and that a file which may have it can't be used, if so."""
        hint, refused = nearest_or_known(name, known, kind), self._refused()
        return f"{hint} The configuration file changed and is not used: {refused}" if refused else hint

    async def _check_tool(self, identifier: ToolIdentifier, provider: Provider) -> None:
        """The catalog does not have it: it does not exist, or its server has not listed yet."""
        listing = self.catalog.listing(identifier.toolbox, identifier.server)
        if listing is None or not provider.lists.is_settled:
            try:
                listing = await provider.lists.tools()
            except Fault as fault:
                raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
        if identifier.tool not in listing.tools:
            listing = await provider.lists.recheck_tools() or listing
        if identifier.tool not in listing.tools:
            raise ToolNotFound(identifier, hint=nearest_or_known(identifier.tool, listing.tools, "tools"))

    async def _check_gone(self, identifier: ToolIdentifier, provider: Provider) -> None:
        """A call failed. If that is because its server no longer has the tool: raises `ToolNotFound`."""
        try:
            async with asyncio.timeout(self._limits.refresh_wait_seconds):
                listing = await provider.lists.tools_now()
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

    def _meanwhile(
        self, exchange: Exchange | None, servers: Iterable[ServerConfig], work: Coroutine[Any, Any, T]
    ) -> Coroutine[Any, Any, T]:
        """Wait for servers; a client that asked for progress is told now and then which are still starting."""
        chosen = tuple(servers)
        return meanwhile(exchange, work, lambda: self._starting(chosen), self._limits.start_progress_seconds)

    def _starting(self, servers: Iterable[ServerConfig]) -> str:
        names = [shown(one.name) for one in servers if self._is_starting(one)]
        return f"starting {', '.join(names[: self._limits.names_shown])}" if names else "waiting"

    def _is_starting(self, server: ServerConfig) -> bool:
        provider = self._staff.find(server.toolbox, server.name)
        return provider is not None and provider.supervisor.state == "starting"

    def _host(self, server: ServerIdentifier) -> Provider | None:
        return next((host for place in self._siblings() if (host := place.hosting(server))), None)

    async def _items(self, kind: Kind, server: ServerIdentifier, seconds: float) -> tuple[Item, ...]:
        try:
            return await self.provider(server).lists.items(kind, seconds)
        except (Fault, RequestError) as error:  # it failed, or the configuration lost it just now
            observe.debug("a server's list is missing", server=server, list=kind, code=error.code)
            return ()

    async def _list(self, servers: Collection[ServerConfig]) -> dict[str, ServerTools | Fault]:
        """What each server offers, or why it offers nothing now, within the open deadline."""
        seconds = self._limits.open_timeout_seconds
        providers = dict(zip((server.name for server in servers), self._staff.all_of(servers), strict=True))
        listed: dict[str, ServerTools | Fault] = {
            name: tools for name, one in providers.items() if (tools := one.lists.tools_at_hand()) is not None
        }
        asked = [name for name in providers if name not in listed]
        outcomes = await asyncio.gather(
            *(providers[name].lists.tools(seconds) for name in asked), return_exceptions=True
        )
        for name, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Fault):
                raise outcome
            listed[name] = outcome
        return {name: listed[name] for name in providers}


def _shape(config: Config) -> dict[str, tuple[str, ...]]:
    return {name: tuple(toolbox.servers) for name, toolbox in config.toolboxes.items()}


def _is_unsent(error: ConnectFailed | CallFailed | ShuttingDown) -> bool:
    """Whether a server was closed before a request was sent to it."""
    fault = error if isinstance(error, Fault) else error.fault
    return isinstance(fault, ShuttingDown) and (isinstance(error, ConnectFailed) or not fault.was_sent)


async def _all_done(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    await asyncio.gather(*work)
