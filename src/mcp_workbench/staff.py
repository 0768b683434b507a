"""The providers of one place: made when somebody needs them, and replaced when the configuration changes.

A server that a new configuration has no more, or has otherwise, is taken out of it at once and ends when the calls
have ended that it works on; one that is as it was goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from mcp_workbench.catalog.memory.records import Memory
from mcp_workbench.catalog.snapshot import Catalog
from mcp_workbench.config.model import ServerConfig
from mcp_workbench.connections.health import Health
from mcp_workbench.connections.processes import Processes
from mcp_workbench.errors import ShuttingDown
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.provider import Provider
from mcp_workbench.wire.client import Seat


class Staff:
    """Who provides what servers have, for one client."""

    def __init__(
        self,
        seat: Seat,
        catalog: Catalog,
        limits: Limits,
        processes: Callable[[], Processes],
        *,
        memory: Memory,
        health: Callable[[ServerIdentifier], Health],
        host: Callable[[ServerIdentifier], Provider | None],
    ) -> None:
        """`host` finds the provider of the same modern server at another place of the client."""
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
