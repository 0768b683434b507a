"""The workbench's own index: `search_workbench.py JOB [semantic]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec
import search_job

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.search import semantic
from mcp_workbench.catalog.search.index import Index

if TYPE_CHECKING:
    from search_job import Search

TOOLBOX = "all"


def build(entries: list[dict[str, Any]]) -> Search:
    index = Index(embed=semantic.load() if sys.argv[2:] == ["semantic"] else None)
    servers: dict[str, list[Definition]] = {}
    about = {entry["server"]: entry["about"] for entry in entries}
    for entry in entries:
        defined = entry["definition"]
        raw = msgspec.Raw(msgspec.json.encode(defined))
        servers.setdefault(entry["server"], []).append(Definition(defined["name"], raw))
    for server, tools in servers.items():
        index.put(TOOLBOX, server, tools, about=about[server])

    def search(query: str, most: int) -> list[tuple[str, str, float | None]]:
        return [(hit.identifier.server, hit.identifier.tool, hit.score) for hit in index.search(query, most)]

    return search


if __name__ == "__main__":
    search_job.run(build)
