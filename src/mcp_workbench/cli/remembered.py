"""What is remembered of servers, read from the disk at once: for commands that start nothing.

Servers may list other tools to clients that can be asked. Shown is what the client of which the workbench heard last
would see; where nothing is remembered for it, what another would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mcp_workbench.catalog.cache.server_cache import Memory, Record
from mcp_workbench.catalog.cache.store import Declared, Entry
from mcp_workbench.catalog.definition import OFFERED, offer_text
from mcp_workbench.catalog.snapshot import ServerTools, take_listing
from mcp_workbench.config.model import Config, ServerConfig
from mcp_workbench.errors import ToolNotFound
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.suggest import nearest_or_known
from mcp_workbench.wire import jsonrpc

Found = dict[ServerIdentifier, "Known"]


class Known(NamedTuple):
    """What a server listed, and when, as `time.time()` has it."""

    listing: ServerTools
    listed_at: float
    offer: str = ""
    """What the server says beside its tools: its instructions, and the names of its prompts and resources."""


def known_tools(config: Config, servers: Iterable[ServerConfig]) -> Found:
    """What is remembered of these; those of which nothing is are not in it."""
    limits = DEFAULTS.bounded(config.bounds)
    memory = Memory(config, limits)
    if not memory.exists:
        return {}
    try:
        return dict(_read(memory, list(servers)))
    finally:
        memory.close()


def checked_tool(listing: ServerTools, identifier: ToolIdentifier) -> None:
    """Raises `ToolNotFound`, with the reason where a tool is withheld."""
    if identifier.tool in listing.tools:
        return
    withheld = {one.name: one.reason for one in listing.withheld}
    near = nearest_or_known(identifier.tool, listing.tools, "tools")
    problem = withheld.get(identifier.tool)
    raise ToolNotFound(identifier, hint=f"Its server lists it, but {problem}." if problem else near)


def _read(memory: Memory, servers: list[ServerConfig]) -> Iterator[tuple[ServerIdentifier, Known]]:
    for declared, modern in (*memory.declared(), Declared(jsonrpc.EMPTY_OBJECT, modern=False)):
        missing: list[ServerConfig] = []
        for server, record in zip(servers, memory.of(servers, declared, modern=modern), strict=True):
            if (entry := record.get("tools")) is None:
                missing.append(server)
                continue
            limits = DEFAULTS.bounded(server.bounds)
            listing = take_listing(entry.items, server.tool_filters, limits)
            yield ServerIdentifier(server.toolbox, server.name), Known(listing, entry.listed_at, _offer(record, entry))
        if not (servers := missing):
            return


def _offer(record: Record, entry: Entry) -> str:
    lists = (record.get(kind) for kind in OFFERED if kind in entry.offers)
    items = (item for one in lists if one is not None for item in one.items)
    return offer_text(jsonrpc.text_or_none(entry.instructions) or "", items)
