"""The pool of one router's servers. It makes their handles on demand and follows the configuration.

When a new configuration removes or changes a server, its handle leaves the pool at once and ends when its calls have
ended. Unchanged servers keep running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from mcp_workbench.catalog.cache.server_cache import ServerCache
from mcp_workbench.catalog.snapshot import Catalog
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig, find_server, find_toolbox
from mcp_workbench.errors import ConnectFailed, Fault, ShuttingDown
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.server_handle import ServerHandle
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.health import Health
from mcp_workbench.servers.processes import Processes
from mcp_workbench.text.sanitize import NAMES_SHOWN, escape
from mcp_workbench.text.suggest import nearest_and_known
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.exchange import ClientRef, Exchange, with_progress

T = TypeVar("T")


class ServerPool:
    """The server handles of one client."""

    def __init__(
        self,
        config: Config,
        client_ref: ClientRef,
        catalog: Catalog,
        limits: Limits,
        processes: Callable[[], Processes],
        *,
        memory: ServerCache,
        health: Callable[[ServerIdentifier], Health],
        host: Callable[[ServerIdentifier], ServerHandle | None],
        refused: Callable[[], str] = lambda: "",
    ) -> None:
        """`host` finds the handle of the same modern server in another router of the client.

        `refused` returns why the changed configuration file is not used; empty if it is.
        """
        self.config = config
        """The current configuration."""
        self._refused = refused
        self.client_ref = client_ref
        self._catalog = catalog
        self._limits = limits
        self._processes = processes
        self._memory = memory
        self._health = health
        self._host = host
        self._level: str | None = None
        self.handles: dict[str, dict[str, ServerHandle]] = {}
        self._replaced: dict[ServerIdentifier, ServerHandle] = {}
        """Handles of changed servers; each is passed to its successor, which is made on demand."""
        self._ending: list[ServerHandle] = []
        """Removed handles that wait for the end of their calls."""
        self._endings = BackgroundTasks()
        self._is_closed = False

    def toolbox(self, name: str) -> ToolboxConfig:
        """The configuration of a toolbox. Raises `ToolboxNotFound`."""
        return find_toolbox(self.config, name, self._not_found_hint)

    def server_config(self, toolbox: str, server: str) -> ServerConfig:
        """The configuration of a server. Raises `ToolboxNotFound` or `ServerNotFound`."""
        return find_server(self.config, toolbox, server, self._not_found_hint)

    def _not_found_hint(self, name: str, known: Iterable[str], kind: str) -> str:
        """The nearest names, and that the changed configuration file, which may have the name, is not used."""
        hint, refused = nearest_and_known(name, known, kind), self._refused()
        return f"{hint} The configuration file changed and is not used: {refused}" if refused else hint

    def handle(self, where: ServerIdentifier | ToolIdentifier) -> ServerHandle:
        """The handle of a server, made if needed. Raises `ToolboxNotFound` or `ServerNotFound`."""
        handle = self.handles.get(where.toolbox, {}).get(where.server)
        return handle if handle is not None else self._make((self.server_config(where.toolbox, where.server),))[0]

    def handles_of(self, servers: Iterable[ServerConfig]) -> list[ServerHandle]:
        """The handles of servers. Missing ones are made together."""
        chosen = tuple(servers)
        self._make([one for one in chosen if one.name not in self.handles.get(one.toolbox, {})])
        return [self.handles[one.toolbox][one.name] for one in chosen]

    def find(self, server: ServerIdentifier) -> ServerHandle | None:
        """The handle of a server, if it was made and the server is still configured."""
        return self.handles.get(server.toolbox, {}).get(server.server)

    def __iter__(self) -> Iterator[tuple[ServerIdentifier, ServerHandle]]:
        for toolbox, handles in self.handles.items():
            for server, handle in handles.items():
                yield ServerIdentifier(toolbox, server), handle

    async def connect(self, where: ServerIdentifier | ToolIdentifier) -> Connection:
        """Start a server if needed. Raises `ConnectFailed`."""
        try:
            return await self.handle(where).reach()
        except Fault as fault:
            raise ConnectFailed(where.toolbox, where.server, fault) from None

    def wait_for(
        self, exchange: Exchange | None, servers: Iterable[ServerConfig], work: Coroutine[Any, Any, T]
    ) -> Coroutine[Any, Any, T]:
        """Wait for servers. A client that requested progress learns now and then which are still starting."""
        chosen = tuple(servers)
        return with_progress(exchange, work, lambda: self._starting(chosen), self._limits.start_progress_seconds)

    def _starting(self, servers: Iterable[ServerConfig]) -> str:
        names = [escape(one.name) for one in servers if self._is_starting(one)]
        return f"starting {', '.join(names[:NAMES_SHOWN])}" if names else "waiting"

    def _is_starting(self, server: ServerConfig) -> bool:
        handle = self.find(server.identifier)
        return handle is not None and handle.supervisor.state == "starting"

    def set_level(self, level: str) -> None:
        """Set the client's log level on all servers, also on those that start later."""
        self._level = level
        for _, handle in self:
            handle.set_level(level)

    def replace(self, server: ServerIdentifier, *, is_gone: bool) -> bool:
        """Remove a server's handle; whether its successor must connect at once, since the client has subscriptions."""
        handle = self.handles.get(server.toolbox, {}).pop(server.server, None)
        if handle is None:
            return False
        handle.retire()
        self._ending.append(handle)
        self._endings.start(self._forget_at_end(handle))
        if not is_gone:
            self._replaced[server] = handle
        return not is_gone and handle.subscriptions.is_used

    async def _forget_at_end(self, handle: ServerHandle) -> None:
        await handle.wait_for_end()
        self._ending.remove(handle)

    async def close(self) -> None:
        """End every server. No handle is made after this."""
        self._is_closed = True
        handles = (*(handle for _, handle in self), *self._ending)
        await asyncio.gather(*(handle.close() for handle in handles))

    def _make(self, servers: Sequence[ServerConfig]) -> list[ServerHandle]:
        if self._is_closed and servers:
            raise ShuttingDown("the workbench is closing")
        made: list[ServerHandle] = []
        caller = self.client_ref.caller
        records = self._memory.of(servers, caller.capabilities, modern=caller.modern)
        for config, record in zip(servers, records, strict=True):
            server = ServerIdentifier(config.toolbox, config.name)
            handle = ServerHandle(
                config,
                self.client_ref,
                self._processes(),
                self._catalog.snapshot(config.toolbox, config.name),
                self._limits,
                record=record,
                turn=self._memory.revalidation_slots,
                health=self._health(server),
                host=self._host(server),
                predecessor=self._replaced.pop(server, None),
            )
            self.handles.setdefault(config.toolbox, {})[config.name] = handle
            if self._level is not None:
                handle.set_level(self._level)
            made.append(handle)
        return made
