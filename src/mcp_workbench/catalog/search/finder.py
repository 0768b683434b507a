"""Searches a router's catalog with an index that is updated before each search.

The first search builds the index; later searches index only the servers whose lists changed. A few tools are
indexed on the event loop, many in a thread, so that no other call waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcp_workbench.catalog.search.index import Index
from mcp_workbench.catalog.snapshot import Catalog, Matches, ServerTools
from mcp_workbench.config.model import Config
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.wire.background import consume_exception

INDEX_INLINE_TOOLS = 100
"""Up to this many tools are indexed for search on the event loop (about 10 ms). More tools, or tools larger than
`list_inline_bytes` together, are indexed in a thread."""


class Finder:
    """Finds tools of one catalog."""

    def __init__(
        self, config: Config, catalog: Catalog, limits: Limits, offer: Callable[[ServerIdentifier], str] = lambda _: ""
    ) -> None:
        """`offer` returns a server's own texts next to its tools; it is called when its tools are indexed."""
        self._config = config
        self._offer = offer
        self._catalog = catalog
        self._limits = limits
        self._index: Index | None = None
        self._indexed: dict[ServerIdentifier, ServerTools] = {}
        self._update: asyncio.Task[Index] | None = None

    async def search(self, query: str, toolbox: str | None = None, most: int = 0) -> Matches:
        """The matching tools, best first. Tools that left the catalog meanwhile are omitted."""
        while (index := self._index) is None or self._update is not None or self._differences():
            if self._update is None:
                self._update = asyncio.ensure_future(self._follow())
                self._update.add_done_callback(self._updated)
            # Shielded: a cancelled search must not cancel the update, which other searches wait for.
            await asyncio.shield(self._update)
        hits, is_weak = index.search(query, most or self._limits.matches, toolbox=toolbox)
        found = ((hit.identifier, self._catalog.tool(hit.identifier)) for hit in hits)
        return Matches(
            found=tuple((identifier, tool) for identifier, tool in found if tool is not None),
            also_in={hit.identifier: hit.also_in for hit in hits if hit.also_in},
            is_weak=is_weak,
        )

    def _updated(self, update: asyncio.Task[Index]) -> None:
        self._update = None
        consume_exception(update)

    def _differences(self) -> dict[ServerIdentifier, ServerTools | None]:
        """The changed servers: their current lists, or None for a removed server."""
        present = self._catalog.listings()
        gone = {server: None for server in self._indexed if server not in present}
        new = {server: tools for server, tools in present.items() if self._indexed.get(server) is not tools}
        return gone | new

    async def _follow(self) -> Index:
        """Bring the index up to date with the catalog."""
        index = self._index = self._index or Index(self._limits)
        new: dict[ServerIdentifier, tuple[ServerTools, str]] = {}
        for server, tools in self._differences().items():
            if tools is None:
                index.drop(server)
                del self._indexed[server]
            else:
                new[server] = (tools, self._offer(server))
        if self._are_few(new):
            self._put(index, new)
        else:
            await asyncio.to_thread(self._put, index, new)
        return index

    def _are_few(self, new: dict[ServerIdentifier, tuple[ServerTools, str]]) -> bool:
        """True if indexing these tools takes a few milliseconds at most."""
        tools = [tool for listing, _ in new.values() for tool in listing.tools.values()]
        size = sum(len(tool.raw) for tool in tools)
        return len(tools) <= INDEX_INLINE_TOOLS and size <= self._limits.list_inline_bytes

    def _put(self, index: Index, new: dict[ServerIdentifier, tuple[ServerTools, str]]) -> None:
        for server, (tools, offer) in new.items():
            about = self._config.toolboxes[server.toolbox].description
            index.put(server, tools.tools.values(), about=about, offer=offer)
            self._indexed[server] = tools
