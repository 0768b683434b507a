"""FastMCP's search transform over tools that are mounted under their server's name: `search_fastmcp.py JOB`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import search_job
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool

if TYPE_CHECKING:
    from search_job import Search


def build(entries: list[dict[str, Any]]) -> Search:
    tools: dict[str, Tool] = {}
    places: dict[str, tuple[str, str]] = {}
    for entry in entries:
        defined = entry["definition"]
        name = f"{entry['server']}_{defined['name']}"
        places[name] = (entry["server"], defined["name"])
        tools[name] = Tool(name=name, description=defined["description"], parameters=defined["inputSchema"])
    transform = BM25SearchTransform(max_results=10)
    listed = list(tools.values())
    loop = asyncio.new_event_loop()

    def search(query: str, most: int) -> list[tuple[str, str, float | None]]:
        # What its search tool does once it has the list of tools; it gives no scores.
        found = loop.run_until_complete(transform._search(listed, query))  # noqa: SLF001 -- it is in no public function
        return [(*places[tool.name], None) for tool in found[:most]]

    return search


if __name__ == "__main__":
    search_job.run(build)
