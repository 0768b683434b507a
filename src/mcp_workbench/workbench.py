"""The heart: toolboxes that open when they are needed, and tools that are called by their identifier.

It joins the catalog (what tools there are) and the connections (how their servers are reached),
which do not know each other. It checks that a toolbox, a server and a tool exist before anything is
started or contacted, and names whatever goes wrong. It knows no front, no era and no tool names
but identifiers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, cast

import msgspec
from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.catalog import render
from mcp_workbench.catalog.snapshot import Catalog, ServerTools, Withheld, take_listing
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig
from mcp_workbench.connections.base import explained
from mcp_workbench.connections.listing import list_tools
from mcp_workbench.connections.processes import Processes
from mcp_workbench.connections.supervisor import Supervisor
from mcp_workbench.errors import (
    CallFailed,
    ConnectFailed,
    Fault,
    ProtocolViolation,
    ServerNotFound,
    ServerRefused,
    ShuttingDown,
    StillStarting,
    ToolboxFailed,
    ToolboxNotFound,
    ToolNotFound,
)
from mcp_workbench.identity import ToolIdentifier, ToolInfo
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.nearest import nearest_or_known
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Exchange


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """An open toolbox: what is offered, and what is not."""

    toolbox: str
    description: str
    entries: tuple[Raw, ...]
    """One raw JSON object per tool, as `open_toolbox` shows it."""
    servers_connected: int
    failed: tuple[ConnectFailed, ...] = ()
    withheld: tuple[tuple[str, Withheld], ...] = ()
    """Server name and tool."""

    @property
    def tools(self) -> list[ToolInfo]:
        """The entries as Python objects."""
        return [cast("ToolInfo", msgspec.json.decode(entry)) for entry in self.entries]


class Workbench:
    """Toolboxes of MCP servers, as a library.

        async with Workbench(load_config("workbench-config.json")) as workbench:
            opened = await workbench.open("dev")
            result = await workbench.use(ToolIdentifier.of(opened.tools[0]), {"path": "README.md"})

    Nothing is started by constructing it. Closing it ends every process that it started.
    """

    def __init__(self, config: Config, *, limits: Limits = DEFAULTS) -> None:
        if config.open_timeout_seconds is not None:
            limits = msgspec.structs.replace(limits, open_timeout_seconds=config.open_timeout_seconds)
        self.config = config
        self.limits = limits
        self.catalog = Catalog({name: tuple(toolbox.servers) for name, toolbox in config.toolboxes.items()})
        self._processes = Processes(limits)
        self._servers: dict[str, dict[str, _Server]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._closed = False
        names = {*config.toolboxes, *(server.name for server in config.servers())}
        for server in config.servers():
            observe.log.redact.hide(server.secrets - names)

    async def __aenter__(self) -> Workbench:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- the two things that it does

    async def open(self, toolbox: str) -> Opened:
        """Start the servers of a toolbox and list their tools; those that fail are reported.

        Answers within the open deadline with what is ready; what is still starting goes on. Raises
        `ToolboxNotFound`, or `ToolboxFailed` if every server failed.
        """
        self._check_open()
        chosen = self._toolbox(toolbox)
        listings = {name: self._server(server).start_listing() for name, server in chosen.servers.items()}
        if listings:
            await asyncio.wait(listings.values(), timeout=self.limits.open_timeout_seconds)
        failed = tuple(self._failures(chosen, listings))
        if listings and len([one for one in failed if not isinstance(one.fault, StillStarting)]) == len(listings):
            raise ToolboxFailed(toolbox, failed)
        return self._opened(chosen, failed)

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

    async def relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None = None) -> Raw:
        """`use` in raw JSON, on behalf of a client: what the server says goes to `exchange`."""
        self._check_open()
        server = self._server(self._find(identifier))
        await self._check_tool(identifier, server)
        params: dict[str, Any] = {"name": identifier.tool, "arguments": arguments}
        if exchange is not None and exchange.meta:
            params["_meta"] = exchange.meta
        await self._reach(identifier, server)
        try:
            result = await server.supervisor.call(params, exchange)
        except ServerRefused as refusal:
            raise CallFailed(identifier, explained(refusal)) from None
        except Fault as fault:
            raise CallFailed(identifier, fault) from None
        if not jsonrpc.is_object(result):
            raise CallFailed(identifier, ProtocolViolation("its result is not an object"))
        return result

    async def close(self) -> None:
        """End every server, all at once, within the shutdown limit. Nothing starts after this."""
        if self._closed:
            return
        self._closed = True
        servers = [server for toolbox in self._servers.values() for server in toolbox.values()]
        await asyncio.gather(*(server.close() for server in servers))
        await self._processes.close()

    def kill(self) -> None:
        """End every server at once, without waiting: for a second signal."""
        self._closed = True
        self._processes.kill_all()

    def on_change(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the toolbox whenever a listing in it changed; returns how to stop that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- finding

    def known(self) -> Iterator[ToolIdentifier]:
        """Every tool that some server has listed so far."""
        return self.catalog.known()

    def _check_open(self) -> None:
        if self._closed:
            raise ShuttingDown("The workbench is closing")

    def _toolbox(self, name: str) -> ToolboxConfig:
        if (toolbox := self.config.toolboxes.get(name)) is None:
            raise ToolboxNotFound(name, hint=nearest_or_known(name, self.config.toolboxes, "toolboxes"))
        return toolbox

    def _find(self, identifier: ToolIdentifier) -> ServerConfig:
        toolbox = self._toolbox(identifier.toolbox)
        if (server := toolbox.servers.get(identifier.server)) is None:
            hint = nearest_or_known(identifier.server, toolbox.servers, "servers")
            raise ServerNotFound(identifier.toolbox, identifier.server, hint=hint)
        return server

    async def _check_tool(self, identifier: ToolIdentifier, server: _Server) -> None:
        """Whether the tool exists is asked of the catalog, and of the server if that does not know yet."""
        if self.catalog.tool(identifier) is not None:
            return
        listing = self.catalog.listing(identifier.toolbox, identifier.server)
        if listing is None:
            try:
                listing = await asyncio.shield(server.start_listing())
            except Fault as fault:
                raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
        if identifier.tool not in listing.tools:
            raise ToolNotFound(identifier, hint=nearest_or_known(identifier.tool, listing.tools, "tools"))

    async def _reach(self, identifier: ToolIdentifier, server: _Server) -> None:
        """See that the server runs, before a slot of it is taken."""
        try:
            await server.supervisor.connection()
        except Fault as fault:
            raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None

    def _server(self, config: ServerConfig) -> _Server:
        toolbox = self._servers.setdefault(config.toolbox, {})
        if (server := toolbox.get(config.name)) is None:
            server = toolbox[config.name] = _Server(config, self._processes, self.catalog, self.limits, self._changed)
        return server

    def _changed(self, toolbox: str) -> None:
        for listener in tuple(self._listeners):
            listener(toolbox)

    # -- what an open answers

    def _failures(
        self, toolbox: ToolboxConfig, listings: Mapping[str, asyncio.Future[ServerTools]]
    ) -> Iterator[ConnectFailed]:
        for name, listing in listings.items():
            if not listing.done():
                # What an earlier listing told stands while a new one is under way.
                if self.catalog.listing(toolbox.name, name) is None:
                    yield ConnectFailed(toolbox.name, name, StillStarting("still starting"))
            elif isinstance(fault := listing.exception(), Fault):
                yield ConnectFailed(toolbox.name, name, fault)
            elif fault is not None:
                raise fault

    def _opened(self, toolbox: ToolboxConfig, failed: tuple[ConnectFailed, ...]) -> Opened:
        lost = {failure.server for failure in failed}
        listings = {name: self.catalog.listing(toolbox.name, name) for name in toolbox.servers if name not in lost}
        present = {name: listing for name, listing in listings.items() if listing is not None}
        return Opened(
            toolbox=toolbox.name,
            description=toolbox.description,
            entries=tuple(
                render.entry(ToolIdentifier(toolbox.name, server, tool.name), tool)
                for server, listing in present.items()
                for tool in listing.tools.values()
            ),
            servers_connected=len(present),
            failed=failed,
            withheld=tuple((server, tool) for server, listing in present.items() for tool in listing.withheld),
        )


class _Server:
    """One configured server: its supervisor, and its listing in the catalog."""

    def __init__(
        self,
        config: ServerConfig,
        processes: Processes,
        catalog: Catalog,
        limits: Limits,
        changed: Callable[[str], None],
    ) -> None:
        self._config = config
        self._catalog = catalog
        self._limits = limits
        self._changed = changed
        self._listing: asyncio.Task[ServerTools] | None = None
        self._relisting: asyncio.Task[None] | None = None
        self._outdated = False
        self._listed_at = 0.0
        self._listed_on: object = None
        self.supervisor = Supervisor(config, processes, limits, self._list_changed)

    def start_listing(self) -> asyncio.Future[ServerTools]:
        """The listing: the one that is there while its connection lasts, else a new one. Single flight."""
        if self._listing is None or (self._listing.done() and not self._is_current()):
            self._listing = asyncio.get_running_loop().create_task(self._list())
            self._listing.add_done_callback(_mark_retrieved)
        return self._listing

    async def close(self) -> None:
        if self._relisting is not None:
            self._relisting.cancel()
        await self.supervisor.close()  # which ends a listing too, and tells whoever waits for it

    def _is_current(self) -> bool:
        """Whether the last listing succeeded on the connection that is there now."""
        return (
            self._listing is not None
            and not self._listing.cancelled()
            and self._listing.exception() is None
            and self.supervisor.current is self._listed_on
        )

    async def _list(self) -> ServerTools:
        connection = await self.supervisor.connection()
        self._listed_at = asyncio.get_running_loop().time()
        self._outdated = False
        definitions = await list_tools(connection, self._limits)
        listing = take_listing(definitions, self._config.tool_filters, self._limits)
        self._listed_on = connection
        label = f"{self._config.toolbox}/{self._config.name}"
        for pattern in listing.unmatched_filters:
            observe.warning("a tool filter matches nothing", server=label, filter=pattern)
        if self._catalog.put(self._config.toolbox, self._config.name, listing):
            self._changed(self._config.toolbox)
        return listing

    def _list_changed(self) -> None:
        """The server says that its tools changed: list again, but not more often than the limit."""
        self._outdated = True
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.get_running_loop().create_task(self._relist())

    async def _relist(self) -> None:
        loop = asyncio.get_running_loop()
        while self._outdated:
            await asyncio.sleep(max(0.0, self._listed_at + self._limits.relist_interval_seconds - loop.time()))
            if self._listing is not None and not self._listing.done():
                await asyncio.wait((self._listing,))
                continue
            self._listing = loop.create_task(self._list())
            self._listing.add_done_callback(_mark_retrieved)
            await asyncio.wait((self._listing,))
            if self._listing.cancelled() or self._listing.exception() is not None:
                observe.warning("a changed list could not be read", server=self._config.name)
                return


def _mark_retrieved(listing: asyncio.Task[ServerTools]) -> None:
    """A failed listing that nobody waits for is no news: the next one is tried when it is needed."""
    if not listing.cancelled():
        listing.exception()
