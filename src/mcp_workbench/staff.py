"""The configured servers of one place. Their providers are made on demand and replaced with the configuration.

A server that a new configuration has no more, or has otherwise, is taken out of it at once and ends when the calls
have ended that it works on; one that is as it was goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from mcp_workbench.catalog.memory.records import Memory
from mcp_workbench.catalog.snapshot import Catalog
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig
from mcp_workbench.connections.connection import Connection
from mcp_workbench.connections.health import Health
from mcp_workbench.connections.processes import Processes
from mcp_workbench.errors import ConnectFailed, Fault, ServerNotFound, ShuttingDown, ToolboxNotFound
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.nearest import nearest_and_known
from mcp_workbench.provider import Provider
from mcp_workbench.shown import shown
from mcp_workbench.wire.client import Seat
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.waiting import meanwhile

T = TypeVar("T")


class Staff:
    """Who provides what servers have, for one client."""

    def __init__(
        self,
        config: Config,
        seat: Seat,
        catalog: Catalog,
        limits: Limits,
        processes: Callable[[], Processes],
        *,
        memory: Memory,
        health: Callable[[ServerIdentifier], Health],
        host: Callable[[ServerIdentifier], Provider | None],
        refused: Callable[[], str] = lambda: "",
    ) -> None:
        """`host` finds the provider of the same modern server at another place of the client.

        `refused` tells why the configuration file is not used as it is now; nothing where it is.
        """
        self.config = config
        """The configuration in force."""
        self._refused = refused
        self._seat = seat
        self._catalog = catalog
        self._limits = limits
        self._processes = processes
        self._memory = memory
        self._health = health
        self._host = host
        self._level: str | None = None
        self._providers: dict[str, dict[str, Provider]] = {}
        self._replaced: dict[ServerIdentifier, Provider] = {}
        """Those in whose place there will be another one, when somebody needs it."""
        self._ending: dict[asyncio.Task[None], Provider] = {}
        self._is_closed = False

    def toolbox(self, name: str) -> ToolboxConfig:
        """Raises `ToolboxNotFound`."""
        if (toolbox := self.config.toolboxes.get(name)) is None:
            raise ToolboxNotFound(name, hint=self._help(name, self.config.toolboxes, "toolboxes"))
        return toolbox

    def configured(self, toolbox_name: str, name: str) -> ServerConfig:
        """How a server is configured. Raises `ToolboxNotFound` or `ServerNotFound`."""
        toolbox = self.toolbox(toolbox_name)
        if (server := toolbox.servers.get(name)) is None:
            raise ServerNotFound(toolbox_name, name, hint=self._help(name, toolbox.servers, "servers"))
        return server

    def _help(self, name: str, known: Iterable[str], kind: str) -> str:
        """What there is instead; and that a file which may have it can't be used, if so."""
        hint, refused = nearest_and_known(name, known, kind), self._refused()
        return f"{hint} The configuration file changed and is not used: {refused}" if refused else hint

    def provider(self, server: ServerIdentifier) -> Provider:
        """Raises `ToolboxNotFound` or `ServerNotFound`."""
        return self.of(self.configured(server.toolbox, server.server))

    def of(self, config: ServerConfig) -> Provider:
        """The provider of a server that is configured now."""
        provider = self._providers.get(config.toolbox, {}).get(config.name)
        return provider if provider is not None else self._make((config,))[0]

    def all_of(self, servers: Iterable[ServerConfig]) -> list[Provider]:
        """The providers of servers; those that are not there yet are made together."""
        chosen = tuple(servers)
        self._make([one for one in chosen if one.name not in self._providers.get(one.toolbox, {})])
        return [self.of(one) for one in chosen]

    def find(self, toolbox: str, server: str) -> Provider | None:
        """The provider of a server, if somebody needed it, and if it is still configured."""
        return self._providers.get(toolbox, {}).get(server)

    def __iter__(self) -> Iterator[tuple[ServerIdentifier, Provider]]:
        for toolbox, providers in self._providers.items():
            for server, provider in providers.items():
                yield ServerIdentifier(toolbox, server), provider

    async def connect(self, server: ServerIdentifier) -> Connection:
        """See that a server runs. Raises `ConnectFailed`."""
        try:
            return await self.provider(server).reach()
        except Fault as fault:
            raise ConnectFailed(server.toolbox, server.server, fault) from None

    def meanwhile(
        self, exchange: Exchange | None, servers: Iterable[ServerConfig], work: Coroutine[Any, Any, T]
    ) -> Coroutine[Any, Any, T]:
        """Wait for servers; a client that asked for progress is told now and then which are still starting."""
        chosen = tuple(servers)
        return meanwhile(exchange, work, lambda: self._starting(chosen), self._limits.start_progress_seconds)

    def _starting(self, servers: Iterable[ServerConfig]) -> str:
        names = [shown(one.name) for one in servers if self._is_starting(one)]
        return f"starting {', '.join(names[: self._limits.names_shown])}" if names else "waiting"

    def _is_starting(self, server: ServerConfig) -> bool:
        provider = self.find(server.toolbox, server.name)
        return provider is not None and provider.supervisor.state == "starting"

    def set_level(self, level: str) -> None:
        """Which log messages the client wants of servers, also of those that start later."""
        self._level = level
        for _, provider in self:
            provider.set_level(level)

    def replace(self, server: ServerIdentifier, *, is_gone: bool) -> bool:
        """Take a server out; whether another one has to be there at once, since the client waits for what it tells."""
        provider = self._providers.get(server.toolbox, {}).pop(server.server, None)
        if provider is None:
            return False
        end = provider.retire()
        self._ending[end] = provider
        end.add_done_callback(self._ending.pop)
        if not is_gone:
            self._replaced[server] = provider
        return not is_gone and provider.subscriptions.is_used

    async def close(self) -> None:
        """End every server. None is there after this."""
        self._is_closed = True
        providers = (*(provider for _, provider in self), *self._ending.values())
        await asyncio.gather(*(provider.close() for provider in providers))

    def _make(self, servers: Sequence[ServerConfig]) -> list[Provider]:
        if self._is_closed and servers:
            raise ShuttingDown("the workbench is closing")
        made: list[Provider] = []
        caller = self._seat.caller
        records = self._memory.of(servers, caller.capabilities, modern=caller.modern)
        for config, record in zip(servers, records, strict=True):
            server = ServerIdentifier(config.toolbox, config.name)
            provider = Provider(
                config,
                self._seat,
                self._processes(),
                self._catalog,
                self._limits,
                record=record,
                turn=self._memory.turn,
                health=self._health(server),
                host=self._host(server),
                predecessor=self._replaced.pop(server, None),
            )
            self._providers.setdefault(config.toolbox, {})[config.name] = provider
            if self._level is not None:
                provider.set_level(self._level)
            made.append(provider)
        return made
