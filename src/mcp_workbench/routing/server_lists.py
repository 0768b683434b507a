"""The lists of one server, for one client: kept current, remembered on disk, and put into the catalog.

It does not know how the server is reached, nor what it says besides its lists.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.catalog.definition import compact
from mcp_workbench.catalog.items import Item, ServerItems, take_items
from mcp_workbench.catalog.memory.records import Record
from mcp_workbench.catalog.memory.store import Entry
from mcp_workbench.catalog.memory.store import Kind as ListKind
from mcp_workbench.catalog.rendering.instructions import read_instructions
from mcp_workbench.catalog.skills import take_skills
from mcp_workbench.catalog.snapshot import Catalog, ServerTools, Withheld, take_listing
from mcp_workbench.config.model import ServerConfig
from mcp_workbench.connections.connection import Connection
from mcp_workbench.connections.listing import Listed, list_items
from mcp_workbench.connections.supervisor import Supervisor
from mcp_workbench.errors import Fault, StillStarting
from mcp_workbench.limits import Limits
from mcp_workbench.routing.list_cache import Fetched, ListCache, Remembered
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.eras import SKILLS

T = TypeVar("T")
Kind: TypeAlias = Literal["prompts", "resources", "templates", "skills"]
"""The lists besides tools. Templates are announced with resources."""

_LISTS: dict[Kind, tuple[str, str, str]] = {
    "prompts": ("prompts/list", "prompts", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "skills": ("skills/list", "skills", "uri"),
}
"""How each is asked for, where its items stand in a page, and what names an item."""
FEATURES: dict[Kind, frozenset[str]] = {
    "prompts": frozenset({"prompts"}),
    "resources": frozenset({"resources"}),
    "templates": frozenset({"resources"}),
    "skills": frozenset({SKILLS, "skills"}),
}
"""The features that a server with such a list declares. An early draft declared skills as a capability."""


class ServerLists:
    """What one server lists, as one client sees it."""

    def __init__(
        self,
        config: ServerConfig,
        caller: Caller,
        catalog: Catalog,
        limits: Limits,
        supervisor: Supervisor,
        *,
        record: Record,
        turn: asyncio.Semaphore,
        reach: Callable[[], Awaitable[Connection]],
        changed: Callable[[str, str], None],
    ) -> None:
        """`reach` sees that the server runs; `changed` is told of a toolbox and a kind whose list is another one.

        `record` is what is remembered of it; `turn` is for those who start a server only to check that.
        """
        self._config = config
        self._caller = caller
        self._catalog = catalog
        self._limits = limits
        self._supervisor = supervisor
        self._record = record
        self._changed: Callable[[str, str], None] = changed
        self._waited_for: object = None
        self._entries: dict[ListKind, Entry | None] = {}
        made: Callable[..., ListCache[Any]] = partial(
            ListCache, config.identifier, supervisor, reach, limits=limits, turn=turn
        )
        self._tools: ListCache[ServerTools] = made(self._list_tools, recall=self._recall_tools)
        self._items: dict[Kind, ListCache[ServerItems]] = {
            kind: made(partial(self._list, kind), recall=partial(self._recall, kind)) for kind in _LISTS
        }

    # -- tools

    async def tools(self, seconds: float | None = None) -> ServerTools:
        """The tools that it offers; see `ListCache.get`."""
        await self._load()
        return await self._tools.get(seconds)

    def tools_at_hand(self) -> ServerTools | None:
        """The tools, where they are known without waiting, as nearly always: a task for each server would cost more."""
        if (entry := self._unread()) is not None:
            if _is_long(entry.items, self._limits):
                return None
            self._know(self._take(entry.items, self._limits))
        return self._tools.at_hand()

    async def tools_now(self) -> ServerTools:
        """The tools that the server lists now; see `ListCache.fresh`."""
        return await self._tools.fresh()

    async def freshen(self) -> None:
        """Have the running server list again, and wait for it for a moment."""
        with contextlib.suppress(Fault):
            await self._tools.get(self._limits.refresh_wait_seconds)

    async def recheck(self, kind: Kind | Literal["tools"]) -> None:
        """Ask the running server again, for a caller who misses something; see `ListCache.recheck`."""
        await (self._tools if kind == "tools" else self._items[kind]).recheck()

    async def recheck_tools(self) -> ServerTools | None:
        """Ask the server again, for a caller who misses a tool; start it if it has listed before.

        With `"refresh": "never"` only a running server is asked. If the server can't be asked, the list is unchanged.
        """
        if self._supervisor.current is not None:
            await self._tools.recheck()
        elif self._record.refresh != "never" and (self._tools.last is not None or self.remembered("tools") is not None):
            with contextlib.suppress(Fault):
                await self._tools.fresh()
        return self._catalog.listing(self._config.toolbox, self._config.name)

    async def known_tools(self) -> ServerTools | None:
        """The tools that are known without asking the server."""
        await self._load()
        return self._catalog.listing(self._config.toolbox, self._config.name)

    async def fresh(self) -> ServerTools:
        """Have the server list everything. Raises the `Fault` that prevented it for its tools."""
        tools = await self._tools.fresh()
        await asyncio.gather(*(listing.fresh() for listing in self._items.values()), return_exceptions=True)
        return tools

    @property
    def is_remembered(self) -> bool:
        """Whether its tools are stored for its own client, not only for the other era."""
        return (entry := self._record.get("tools")) is not None and not entry.is_lent

    @property
    def is_live(self) -> bool:
        """Whether its tools are those that the running server listed."""
        return self._tools.standing is not None

    @property
    def is_settled(self) -> bool:
        """Whether the catalog knows what tools the server offers now."""
        listed = self._catalog.listing(self._config.toolbox, self._config.name) is not None
        return listed and not self._tools.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether it runs and its known tools may be out of date."""
        return self._supervisor.current is not None and not self.is_settled

    # -- everything else

    async def items(self, kind: Kind, seconds: float | None = None) -> tuple[Item, ...]:
        """Its prompts, resources or templates; see `ListCache.get`. A start is waited for `seconds` once."""
        start = self._supervisor.start
        if start is not None and start is self._waited_for:
            seconds = self._limits.refresh_wait_seconds
        if kind == "skills" and self._items[kind].standing is not None:
            self._items[kind].is_outdated = True  # there is no notification for changed skills
        try:
            return (await self._items[kind].get(seconds)).items
        except StillStarting:
            self._waited_for = self._supervisor.start
            raise

    def has_tried(self, kind: Kind) -> bool:
        """Whether the running server was asked for these, answered or not."""
        return self._items[kind].was_tried

    def known(self, kind: Kind) -> tuple[Item, ...]:
        """What of these it has listed so far."""
        listed = self._items[kind].last
        return listed.items if listed is not None else ()

    def listed(self, kind: Kind) -> Sequence[Raw]:
        """What of these it has listed so far, in this process or before."""
        if known := self.known(kind):
            return [item.raw for item in known]
        return entry.items if (entry := self.remembered(kind)) is not None else ()

    async def withheld(self, kind: Kind) -> tuple[Withheld, ...]:
        """The items of this kind that the server lists now but that are withheld; see `ListCache.fresh`."""
        return (await self._items[kind].fresh()).withheld

    # -- what happens to the server

    def connected(self, *, again: bool) -> None:
        """There is a new connection; `again` if there was one before."""
        for listing in self._all:
            # A new process may offer other things than the one that died, or the one that is remembered.
            is_doubtful = again or (listing.is_remembered and self._record.refresh != "never")
            if is_doubtful and listing.is_in_use:
                listing.outdate()

    def announced(self, kind: str | None) -> None:
        """The server says that its lists of this kind changed."""
        for listing in self._announced(kind):
            if listing.is_in_use:
                listing.outdate()

    def lose(self) -> None:
        """The server can't be reached."""
        if self._catalog.lose(self._config.toolbox, self._config.name):
            self._changed(self._config.toolbox, "tools")

    def retire(self) -> None:
        """What the server lists from now on is not known to the client any more."""
        self._catalog = self._catalog.apart(self._config.toolbox, self._config.name)
        self._changed = lambda _toolbox, _kind: None

    def close(self) -> None:
        """Who waits for a list is told by the end of the server."""
        for listing in self._all:
            listing.close()

    @property
    def _all(self) -> tuple[ListCache[Any], ...]:
        return (self._tools, *self._items.values())

    def _announced(self, kind: str | None) -> tuple[ListCache[Any], ...]:
        """The lists that an announcement of this kind is about."""
        match kind:
            case "tools":
                return (self._tools,)
            case "prompts":
                return (self._items["prompts"],)
            case "resources":
                return (self._items["resources"], self._items["templates"], self._items["skills"])
            case _:
                return ()

    # -- listing

    async def _list_tools(self, connection: Connection) -> Fetched[ServerTools]:
        listed = await list_items(connection, "tools/list", "tools", self._limits, caller=self._caller)
        listed = listed._replace(items=await self._beside(listed.items, partial(_compacted, listed.items)))
        listing = await self._beside(listed.items, partial(self._take, listed.items))
        await self._keep("tools", listed, connection)
        if self._catalog.put(self._config.toolbox, self._config.name, listing):
            for pattern in listing.unmatched_filters:
                observe.warning("a tool filter matches nothing", server=self._config.identifier, filter=pattern)
            self._log_withheld("tools", listing.withheld)
            self._changed(self._config.toolbox, "tools")
        shown = self._catalog.listing(self._config.toolbox, self._config.name) or listing
        return Fetched(shown, _lifetime(listed, connection, "tools"))

    def _take(self, definitions: Sequence[Raw], limits: Limits) -> ServerTools:
        handshake = self._caller.is_handshake_client
        return take_listing(definitions, self._config.tool_filters, limits, handshake=handshake)

    def _log_withheld(self, kind: str, withheld: Sequence[Withheld]) -> None:
        server = self._config.identifier
        for one in withheld[: self._limits.names_shown]:
            observe.warning("a definition is withheld", server=server, kind=kind, name=one.name, reason=one.reason)
        if (left := len(withheld) - self._limits.names_shown) > 0:
            observe.warning("more definitions are withheld", server=server, kind=kind, count=left)

    async def _beside(self, raw: Sequence[Raw], read: Callable[[Limits], T]) -> T:
        """Read what was listed; much of it beside the event loop, which must not wait for that."""
        if not _is_long(raw, self._limits):
            return read(self._limits)
        return await asyncio.to_thread(read, self._limits)

    async def _list(self, kind: Kind, connection: Connection) -> Fetched[ServerItems]:
        method, member, _ = _LISTS[kind]
        if not connection.agreement.features & FEATURES[kind]:
            return Fetched(ServerItems(), None)
        listed = await list_items(connection, method, member, self._limits, caller=self._caller)
        items = await self._beside(listed.items, partial(_take_items, kind, listed.items))
        await self._keep(kind, listed, connection)
        announced = "prompts" if kind == "prompts" else "resources"
        before = self._items[kind].last
        if before is None or before != items:
            self._log_withheld(kind, items.withheld)
        if before is not None and before.items != items.items:
            self._changed(self._config.toolbox, announced)
        return Fetched(items, _lifetime(listed, connection, announced))

    # -- what is remembered

    def remembered(self, kind: ListKind) -> Entry | None:
        """A list as it is remembered, read from the disk once."""
        if kind not in self._entries:
            self._entries[kind] = self._record.get(kind)
        return self._entries[kind]

    async def _keep(self, kind: ListKind, listed: Listed, connection: Connection) -> None:
        agreement = connection.agreement
        draft = partial(
            self._record.draft,
            listed.items,
            modern=agreement.modern,
            offers=agreement.features,
            instructions=read_instructions(agreement.hello, self._limits) if kind == "tools" else "",
            ttl_seconds=listed.ttl_seconds or None,
        )
        self._record.put(kind, await self._beside(listed.items, lambda _limits: draft()))
        self._entries.pop(kind, None)

    async def _load(self) -> None:
        """Have the catalog know what is remembered, where it knows nothing newer."""
        if (entry := self._unread()) is not None:
            self._know(await self._beside(entry.items, partial(self._take, entry.items)))

    def _unread(self) -> Entry | None:
        """The tools that are remembered, where the catalog knows of none yet."""
        known = self._catalog.listing(self._config.toolbox, self._config.name)
        return self.remembered("tools") if known is None else None

    def _know(self, listing: ServerTools) -> None:
        if self._catalog.listing(self._config.toolbox, self._config.name) is None:
            self._catalog.put(self._config.toolbox, self._config.name, listing)

    def _recall_tools(self) -> Remembered[ServerTools] | None:
        """The tools that the server listed before; None if it can't be reached now."""
        listing = self._catalog.listing(self._config.toolbox, self._config.name)
        if not self._may_recall or listing is None or (entry := self.remembered("tools")) is None:
            return None
        return Remembered(listing, self._record.is_current(entry))

    def _recall(self, kind: Kind) -> Remembered[ServerItems] | None:
        tools = self.remembered("tools")
        if not self._may_recall or tools is None:
            return None
        if not tools.offers & FEATURES[kind]:
            return Remembered(ServerItems(), is_current=True)  # if that changes, its next list of tools shows it
        if (entry := self.remembered(kind)) is None:
            return None
        return Remembered(_take_items(kind, entry.items, self._limits), self._record.is_current(entry))

    @property
    def _may_recall(self) -> bool:
        lost = self._catalog.is_lost(self._config.toolbox, self._config.name)
        return self._record.refresh != "always" and not lost


def _take_items(kind: Kind, listed: Sequence[Raw], limits: Limits) -> ServerItems:
    """The items of a list that can be offered."""
    if kind == "skills":
        return ServerItems(take_skills(listed, limits))
    return take_items(listed, _LISTS[kind][2], limits)


def _lifetime(listed: Listed, connection: Connection, capability: str) -> float | None:
    """The time to live of a list. A stated 0 is ignored if the server announces changes."""
    if listed.ttl_seconds == 0 and connection.agreement.declares(capability, "listChanged"):
        return None
    return listed.ttl_seconds


def _compacted(items: Sequence[Raw], _limits: Limits) -> list[Raw]:
    return [compact(item) for item in items]


def _is_long(items: Sequence[Raw], limits: Limits) -> bool:
    """Whether a list takes so long to read that the event loop must not wait for it."""
    return sum(map(len, items)) > limits.list_inline_bytes
