"""Search in what a place knows, with an index that follows its catalog.

The index is made at the first search; later only servers that listed something new are put into it again. Few
tools are indexed at once, many in a thread, so that no other call waits for it.
"""

from __future__ import annotations

import asyncio

from mcp_workbench import observe
from mcp_workbench.catalog.search.index import Index
from mcp_workbench.catalog.search.meanings import Embedder
from mcp_workbench.catalog.snapshot import Catalog, ServerTools
from mcp_workbench.config.model import Config
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.wire.tasks import heard


class Finder:
    """Finds tools of one catalog."""

    def __init__(self, config: Config, catalog: Catalog, limits: Limits) -> None:
        self._config = config
        self._catalog = catalog
        self._limits = limits
        self._index: Index | None = None
        self._indexed: dict[ServerIdentifier, ServerTools] = {}
        self._update: asyncio.Task[Index] | None = None

    async def search(self, query: str, toolbox: str | None = None) -> list[ToolIdentifier]:
        """The tools that fit, best first; those of servers that can't be reached are left out."""
        while (index := self._index) is None or self._update is not None or self._differences():
            if self._update is None:
                self._update = asyncio.ensure_future(self._follow())
                self._update.add_done_callback(self._updated)
            # Whoever gives up waiting leaves the index to one thread, and to those who still wait.
            await asyncio.shield(self._update)
        return [hit.identifier for hit in index.search(query, self._limits.matches, toolbox=toolbox)]

    def _updated(self, update: asyncio.Task[Index]) -> None:
        self._update = None
        heard(update)

    def _differences(self) -> dict[ServerIdentifier, ServerTools | None]:
        """What the index lacks: what servers list now, or None for one that is gone."""
        present = self._catalog.listings()
        gone = {server: None for server in self._indexed if server not in present}
        new = {server: tools for server, tools in present.items() if self._indexed.get(server) is not tools}
        return gone | new

    async def _follow(self) -> Index:
        """Have the index follow the catalog."""
        index = self._index = self._index or Index(self._limits, embed=await self._embedder())
        new: dict[ServerIdentifier, ServerTools] = {}
        for server, tools in self._differences().items():
            if tools is not None:
                new[server] = tools
                continue
            index.drop(server.toolbox, server.server)
            del self._indexed[server]
        if sum(len(tools.tools) for tools in new.values()) <= self._limits.index_inline_tools:
            self._put(index, new)
        else:
            await asyncio.to_thread(self._put, index, new)
        return index

    def _put(self, index: Index, new: dict[ServerIdentifier, ServerTools]) -> None:
        for server, tools in new.items():
            about = self._config.toolboxes[server.toolbox].description
            index.put(server.toolbox, server.server, tools.tools.values(), about=about)
            self._indexed[server] = tools

    async def _embedder(self) -> Embedder | None:
        """What compares meanings, where the configuration asks for it. Without it words alone are searched."""
        if not self._config.catalog.semantic:
            return None
        from mcp_workbench.catalog.search import semantic  # noqa: PLC0415 -- an extra that few have

        try:
            return await asyncio.to_thread(semantic.load, self._limits)
        except semantic.Unavailable as problem:
            observe.warning("search compares words only", reason=str(problem))
            return None
