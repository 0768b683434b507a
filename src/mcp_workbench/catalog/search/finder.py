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


class Finder:
    """Finds tools of one catalog."""

    def __init__(self, config: Config, catalog: Catalog, limits: Limits) -> None:
        self._config = config
        self._catalog = catalog
        self._limits = limits
        self._index: Index | None = None
        self._indexed: dict[ServerIdentifier, ServerTools] = {}
        self._busy = asyncio.Lock()

    async def search(self, query: str, toolbox: str | None = None) -> list[ToolIdentifier]:
        """The tools that fit, best first; those of servers that can't be reached are left out."""
        async with self._busy:
            index = self._index = self._index or Index(self._limits, embed=await self._embedder())
            present = self._catalog.listings()
            for server in [server for server in self._indexed if server not in present]:
                index.drop(server.toolbox, server.server)
                del self._indexed[server]
            new = {server: tools for server, tools in present.items() if self._indexed.get(server) is not tools}
            if sum(len(tools.tools) for tools in new.values()) <= self._limits.index_inline_tools:
                self._put(index, new)
            else:
                await asyncio.to_thread(self._put, index, new)
            return [hit.identifier for hit in index.search(query, self._limits.matches, toolbox=toolbox)]

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
