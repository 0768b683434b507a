"""The heart: toolboxes that open when they are needed, and tools that are called by their identifier.

It knows what is configured, and has a provider for each server, which joins what the catalog knows of
it and how it is reached. It checks that a toolbox, a server and a tool exist before anything is
started or contacted, and names whatever goes wrong. It knows no front, no era and no tool names
but identifiers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.catalog import render
from mcp_workbench.catalog.snapshot import Catalog, ServerTools, Withheld
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig
from mcp_workbench.connections.base import explained
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

if TYPE_CHECKING:
    from mcp_workbench.connections.processes import Processes
    from mcp_workbench.provider import Provider


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
        self._processes: Processes | None = None
        self._providers: dict[str, dict[str, Provider]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._closing: asyncio.Task[None] | None = None
        self._killed = False
        names = {*config.toolboxes, *(server.name for server in config.servers())}
        secrets = {secret for server in config.servers() for secret in server.secrets}
        observe.log.redact.hide(secrets - names)

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
        outcomes = await self._list(chosen.servers.values())
        failed = tuple(
            ConnectFailed(toolbox, name, outcome) for name, outcome in outcomes.items() if isinstance(outcome, Fault)
        )
        given_up = [one for one in failed if not isinstance(one.fault, StillStarting)]
        if given_up and len(given_up) == len(outcomes):
            raise ToolboxFailed(toolbox, failed)
        listings = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, Fault)}
        return _opened(chosen, listings, failed)

    async def list_all(self) -> None:
        """Have every server of every toolbox list, as far as the open deadline allows."""
        self._check_open()
        await asyncio.gather(*(self._list(toolbox.servers.values()) for toolbox in self.config.toolboxes.values()))

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
        provider = self._provider(self._find(identifier))
        if self.catalog.tool(identifier) is None:
            await self._check_tool(identifier, provider)
        params: dict[str, Any] = {"name": identifier.tool, "arguments": arguments}
        if exchange is not None and exchange.meta:
            params["_meta"] = exchange.meta
        if provider.supervisor.current is None:
            await self._reach(identifier, provider)
        try:
            result = await provider.supervisor.call(params, exchange)
        except ServerRefused as refusal:
            raise CallFailed(identifier, explained(refusal)) from None
        except Fault as fault:
            raise CallFailed(identifier, fault) from None
        if not jsonrpc.is_object(result):
            raise CallFailed(identifier, ProtocolViolation("its result is not an object"))
        return result

    async def close(self) -> None:
        """End every server, all at once, within the shutdown limit. Nothing starts after this.

        Whoever calls it, and however often, waits for the same end; cancelling one caller stops nothing.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        providers = [provider for toolbox in self._providers.values() for provider in toolbox.values()]
        await asyncio.gather(*(provider.close() for provider in providers))
        if self._processes is not None:
            await self._processes.close()

    def kill(self) -> None:
        """End every server at once, without waiting: for a second signal."""
        self._killed = True
        if self._processes is not None:
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
        if self._closing is not None or self._killed:
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

    async def _check_tool(self, identifier: ToolIdentifier, provider: Provider) -> None:
        """The catalog does not have it: it does not exist, or its server has not listed yet."""
        listing = self.catalog.listing(identifier.toolbox, identifier.server)
        if listing is None or not provider.is_settled:
            try:
                listing = await provider.tools()
            except Fault as fault:
                raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
        if identifier.tool not in listing.tools:
            raise ToolNotFound(identifier, hint=nearest_or_known(identifier.tool, listing.tools, "tools"))

    async def _reach(self, identifier: ToolIdentifier, provider: Provider) -> None:
        """See that the server runs, before a slot of it is taken."""
        try:
            await provider.reach()
        except Fault as fault:
            raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None

    def _provider(self, config: ServerConfig) -> Provider:
        toolbox = self._providers.setdefault(config.toolbox, {})
        if (provider := toolbox.get(config.name)) is None:
            provider = toolbox[config.name] = self._new_provider(config)
        return provider

    def _new_provider(self, config: ServerConfig) -> Provider:
        # What only a call needs is imported by the first call: a client's first answer does not wait for it.
        from mcp_workbench.connections.processes import Processes  # noqa: PLC0415
        from mcp_workbench.provider import Provider  # noqa: PLC0415

        if self._processes is None:
            self._processes = Processes(self.limits)
        return Provider(config, self._processes, self.catalog, self.limits, self._changed)

    def _changed(self, toolbox: str) -> None:
        for listener in tuple(self._listeners):
            listener(toolbox)

    async def _list(self, servers: Iterable[ServerConfig]) -> dict[str, ServerTools | Fault]:
        """What each server offers, or why it offers nothing now, within the open deadline."""
        seconds = self.limits.open_timeout_seconds
        providers = {server.name: self._provider(server) for server in servers}
        outcomes = await asyncio.gather(*(one.tools(seconds) for one in providers.values()), return_exceptions=True)
        listed: dict[str, ServerTools | Fault] = {}
        for name, outcome in zip(providers, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Fault):
                raise outcome
            listed[name] = outcome
        return listed


def _opened(toolbox: ToolboxConfig, listings: Mapping[str, ServerTools], failed: tuple[ConnectFailed, ...]) -> Opened:
    return Opened(
        toolbox=toolbox.name,
        description=toolbox.description,
        entries=tuple(
            render.entry(ToolIdentifier(toolbox.name, server, tool.name), tool)
            for server, listing in listings.items()
            for tool in listing.tools.values()
        ),
        servers_connected=len(listings),
        failed=failed,
        withheld=tuple((server, tool) for server, listing in listings.items() for tool in listing.withheld),
    )
