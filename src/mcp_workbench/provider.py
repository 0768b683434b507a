"""One configured server as a source of tools: how it is reached, and what it last listed.

It joins a supervisor and the catalog for one server. Listing is single flight; what was listed on the
connection that is there now stands until the server says that it changed; a server is started by
somebody who needs it, never by a refresh.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.catalog.snapshot import Catalog, ServerTools, take_listing
from mcp_workbench.config.model import ServerConfig
from mcp_workbench.connections.listing import list_tools
from mcp_workbench.connections.processes import Processes
from mcp_workbench.connections.supervisor import Connection, Supervisor
from mcp_workbench.errors import Fault, StillStarting
from mcp_workbench.limits import Limits
from mcp_workbench.wire.tasks import heard


class Provider:
    """A server's supervisor, and its listing in the catalog."""

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
        self._listed_on: Connection | None = None
        self.supervisor = Supervisor(config, processes, limits, self._list_changed)

    async def tools(self, seconds: float | None = None) -> ServerTools:
        """What the server offers, started and listed if need be.

        Waits for a first listing at most `seconds`, for a newer one only shortly: meanwhile, and if it
        fails, the one of this connection stands. Raises the `Fault` that prevented it, or
        `StillStarting`; then the start goes on.
        """
        known = self._standing()
        if known is not None and not self._outdated:
            return known
        listing = self._list_once()
        patience = seconds if known is None else self._limits.refresh_wait_seconds
        await asyncio.wait((listing,), timeout=patience)
        if listing.done() and listing.exception() is None:
            return listing.result()
        if (known := self._standing()) is not None:
            return known
        if not listing.done():
            raise StillStarting("still starting")
        return listing.result()

    @property
    def is_settled(self) -> bool:
        """Whether the catalog knows what the server offers now."""
        return not self._outdated and self._catalog.listing(self._config.toolbox, self._config.name) is not None

    async def reach(self) -> None:
        """See that the server runs. Raises the `Fault` that prevents it."""
        try:
            await self.supervisor.connection()
        except Fault:
            self._lose()
            raise

    async def close(self) -> None:
        """End the server; who waits for a listing is told by that."""
        if self._relisting is not None:
            self._relisting.cancel()
        await self.supervisor.close()

    # -- listing

    def _standing(self) -> ServerTools | None:
        """The listing that was made on the connection that is there now."""
        current = self.supervisor.current
        if current is None or self._listed_on is not current:
            return None
        return self._catalog.listing(self._config.toolbox, self._config.name)

    def _list_once(self) -> asyncio.Task[ServerTools]:
        """The listing under way, else a new one."""
        if self._listing is None or self._listing.done():
            self._listing = asyncio.get_running_loop().create_task(self._list())
            self._listing.add_done_callback(heard)
        return self._listing

    async def _list(self) -> ServerTools:
        await self.reach()
        connection = await self.supervisor.connection()
        self._listed_at = asyncio.get_running_loop().time()
        self._outdated = False  # what changes from here on is not in this listing
        try:
            listing = await self._choose(await list_tools(connection, self._limits))
        except Fault:
            self._outdated = True
            raise
        self._listed_on = connection
        if self._catalog.put(self._config.toolbox, self._config.name, listing):
            self._report_filters(listing)
            self._changed(self._config.toolbox)
        return listing

    async def _choose(self, definitions: list[Raw]) -> ServerTools:
        """Read the definitions; many of them beside the event loop, which must not wait for that."""
        arguments = (definitions, self._config.tool_filters, self._limits)
        if sum(memoryview(raw).nbytes for raw in definitions) <= self._limits.list_inline_bytes:
            return take_listing(*arguments)
        return await asyncio.to_thread(take_listing, *arguments)

    def _report_filters(self, listing: ServerTools) -> None:
        label = f"{self._config.toolbox}/{self._config.name}"
        for pattern in listing.unmatched_filters:
            observe.warning("a tool filter matches nothing", server=label, filter=pattern)

    def _lose(self) -> None:
        if self._catalog.lose(self._config.toolbox, self._config.name):
            self._changed(self._config.toolbox)

    # -- what the server says of its list

    def _list_changed(self) -> None:
        """Its tools changed: list again, but not more often than the limit."""
        self._outdated = True
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.get_running_loop().create_task(self._relist())

    async def _relist(self) -> None:
        """Until the list is current, or there is no connection: then the next demand lists."""
        loop = asyncio.get_running_loop()
        while self._outdated:
            await asyncio.sleep(max(0.0, self._listed_at + self._limits.relist_interval_seconds - loop.time()))
            if self.supervisor.current is None:
                return
            listing = self._list_once()
            await asyncio.wait((listing,))
            if listing.cancelled() or listing.exception() is not None:
                observe.warning("a changed list could not be read", server=self._config.name)
                return
