"""The lists of one server for one client, kept current and stored on disk.

Every definition, listed or stored, is validated by `_take` or `_take_items` before anybody sees it. The module does
not know how the server is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.catalog.cache.server_cache import CachedServer
from mcp_workbench.catalog.cache.store import Entry
from mcp_workbench.catalog.definition import Item, ServerItems, Withheld, compact, take_items
from mcp_workbench.catalog.rendering.budget import read_instructions
from mcp_workbench.catalog.skills import take_skills
from mcp_workbench.catalog.snapshot import ServerSnapshot, ServerTools, take_listing
from mcp_workbench.config.model import ServerConfig
from mcp_workbench.errors import Fault, StillStarting
from mcp_workbench.limits import Limits
from mcp_workbench.routing.list_cache import Fetched, ListCache
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.listing import Listed, list_items
from mcp_workbench.servers.supervisor import Supervisor
from mcp_workbench.text.sanitize import NAMES_SHOWN
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.eras import SKILLS

T = TypeVar("T")
Kind: TypeAlias = Literal["prompts", "resources", "templates", "skills"]
"""The lists other than tools. Changes of templates are announced as changes of resources."""
AnyKind: TypeAlias = Kind | Literal["tools"]

_LISTS: dict[Kind, tuple[str, str, str]] = {
    "prompts": ("prompts/list", "prompts", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "skills": ("skills/list", "skills", "uri"),
}
"""The method of each list, the member of a page that has its items, and the member that identifies an item."""
FEATURES: dict[Kind, frozenset[str]] = {
    "prompts": frozenset({"prompts"}),
    "resources": frozenset({"resources"}),
    "templates": frozenset({"resources"}),
    "skills": frozenset({SKILLS, "skills"}),
}
"""The features that declare each list. An early draft declared skills as a capability."""


class ServerLists:
    """One client's view of a server's lists."""

    def __init__(
        self,
        config: ServerConfig,
        caller: Caller,
        kept: ServerSnapshot[ServerTools],
        limits: Limits,
        supervisor: Supervisor,
        *,
        record: CachedServer,
        turn: asyncio.Semaphore,
        reach: Callable[[], Awaitable[Connection]],
        changed: Callable[[str, str], None],
    ) -> None:
        """`kept` holds the tools. `reach` starts the server; `changed` gets the toolbox and the kind of a changed list.

        `record` holds the stored lists. `turn` limits starts that only revalidate a list.
        """
        self._config = config
        self._caller = caller
        self._limits = limits
        self._supervisor = supervisor
        self._record = record
        self._changed: Callable[[str, str], None] = changed
        self._waited_for: object = None
        self._entries: dict[AnyKind, Entry | None] = {}
        """The stored lists, read once. The items of a list that is in use are dropped."""
        made: Callable[..., ListCache[Any]] = partial(
            ListCache, config.identifier, supervisor, reach, limits=limits, turn=turn
        )
        self.tools: ListCache[ServerTools] = made(
            self._list_tools, kept=kept, listed=self._listed_tools, recall=self._recall_tools
        )
        self.caches: dict[Kind, ListCache[ServerItems]] = {
            kind: made(
                partial(self._list, kind),
                kept=ServerSnapshot[ServerItems](),
                listed=partial(self._listed, kind),
                recall=partial(self._recall, kind),
            )
            for kind in _LISTS
        }
        """The lists besides tools."""

    # -- tools

    async def list_tools(self, seconds: float | None = None) -> ServerTools:
        """The server's tools; see `ListCache.get`."""
        await self.known_tools()
        return await self.tools.get(seconds)

    def tools_now(self) -> ServerTools | None:
        """The tools if they are known without waiting, as they mostly are. That saves a task per server."""
        if (items := self._unread()) is not None:
            if _is_long(items, self._limits):
                return None
            self._keep_tools(self._take(items, self._limits))
        return self.tools.get_now()

    async def known_tools(self) -> ServerTools | None:
        """The tools that are known without asking the server; None if there are none."""
        if (items := self._unread()) is not None:
            self._keep_tools(await self._read(items, partial(self._take, items)))
        return self.tools.kept.value

    async def relist(self) -> None:
        """Have the running server list again, and wait briefly."""
        with contextlib.suppress(Fault):
            await self.tools.get(self._limits.refresh_wait_seconds)

    async def recheck(self, kind: AnyKind) -> None:
        """List again, for a caller who did not find a name; see `ListCache.recheck`."""
        await (self.tools if kind == "tools" else self.caches[kind]).recheck()

    async def recheck_tools(self) -> ServerTools | None:
        """List again, for a caller who did not find a tool. Starts a server that has listed before.

        With `"refresh": "never"` only a running server lists again. If that is not possible, the list stays unchanged.
        """
        if self._supervisor.current is not None:
            await self.tools.recheck()
        elif self._record.refresh != "never" and (self.tools.is_in_use or self.remembered("tools") is not None):
            with contextlib.suppress(Fault):
                await self.tools.fresh()
        return self.tools.kept.value

    async def fresh(self) -> ServerTools:
        """Have the server list everything. Raises the `Fault` that prevented listing its tools."""
        tools = await self.tools.fresh()
        await asyncio.gather(*(cache.fresh() for cache in self.caches.values()), return_exceptions=True)
        return tools

    @property
    def is_remembered(self) -> bool:
        """Whether tools are stored for this kind of client, not only for the other era."""
        return (entry := self._record.get("tools")) is not None and not entry.is_fallback

    @property
    def is_settled(self) -> bool:
        """Whether the known tools are up to date."""
        return self.tools.kept.value is not None and not self.tools.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether the server runs and the known tools may be out of date."""
        return self._supervisor.current is not None and not self.is_settled

    # -- everything else

    async def items(self, kind: Kind, seconds: float | None = None) -> tuple[Item, ...]:
        """The items of a list; see `ListCache.get`. Only the first wait for a start may take `seconds`."""
        start = self._supervisor.start
        if start is not None and start is self._waited_for:
            seconds = self._limits.refresh_wait_seconds
        cache = self.caches[kind]
        if kind == "skills" and cache.is_live:
            cache.is_outdated = True  # there is no notification for changed skills
        try:
            return (await cache.get(seconds)).items
        except StillStarting:
            self._waited_for = self._supervisor.start
            raise

    def known(self, kind: Kind) -> tuple[Item, ...]:
        """The items that this process has listed so far."""
        listed = self.caches[kind].kept.value
        return listed.items if listed is not None else ()

    def listed(self, kind: Kind) -> Sequence[Raw]:
        """The items that this or an earlier process listed."""
        if known := self.known(kind):
            return [item.raw for item in known]
        return entry.items if (entry := self.remembered(kind)) is not None else ()

    # -- events of the server

    def connected(self, *, again: bool) -> None:
        """Check the lists on a new connection; `again` if there was one before."""
        for cache in self._all:
            # A new process may have other lists than the last one, or than the stored ones.
            is_doubtful = again or (cache.is_remembered and self._record.refresh != "never")
            if is_doubtful and cache.is_in_use:
                cache.invalidate()

    def announced(self, kind: str | None) -> None:
        """Handle the server's announcement that its lists of this kind changed."""
        for cache in self._caches_of(kind):
            if cache.is_in_use:
                cache.invalidate()

    def lose(self) -> None:
        """Mark all lists as lost, since the server can't be reached."""
        for cache in self.caches.values():
            cache.kept.lose()
        if self.tools.kept.lose():
            self._changed(self._config.toolbox, "tools")

    def retire(self) -> None:
        """Stop notifying the client of changed lists."""
        self._changed = lambda _toolbox, _kind: None

    def close(self) -> None:
        """Stop refreshing all lists."""
        for cache in self._all:
            cache.close()

    @property
    def _all(self) -> tuple[ListCache[Any], ...]:
        return (self.tools, *self.caches.values())

    def _caches_of(self, kind: str | None) -> tuple[ListCache[Any], ...]:
        """The lists that an announcement of this kind concerns."""
        match kind:
            case "tools":
                return (self.tools,)
            case "prompts":
                return (self.caches["prompts"],)
            case "resources":
                return (self.caches["resources"], self.caches["templates"], self.caches["skills"])
            case _:
                return ()

    # -- listing

    async def _list_tools(self, connection: Connection) -> Fetched[ServerTools]:
        listed = await list_items(connection, "tools/list", "tools", self._limits, caller=self._caller)
        listed = listed._replace(items=await self._read(listed.items, partial(_compacted, listed.items)))
        tools = await self._read(listed.items, partial(self._take, listed.items))
        await self._store("tools", listed, connection)
        return Fetched(tools, _lifetime(listed, connection, "tools"))

    def _listed_tools(self, before: ServerTools | None, is_new: bool) -> None:  # noqa: FBT001 -- a callback
        del before
        self._mark_reachable()
        if is_new and (listing := self.tools.kept.value) is not None:
            for pattern in listing.unmatched_filters:
                logger.warning("a tool filter matches nothing", server=self._config.identifier, filter=pattern)
            self._log_withheld("tools", listing.withheld)
            self._changed(self._config.toolbox, "tools")

    def _take(self, definitions: Sequence[Raw], limits: Limits) -> ServerTools:
        """The valid tools of a listed or stored list, filtered as configured."""
        handshake = self._caller.is_handshake_client
        return take_listing(definitions, self._config.tool_filters, limits, handshake=handshake)

    def _log_withheld(self, kind: str, withheld: Sequence[Withheld]) -> None:
        server = self._config.identifier
        for one in withheld[:NAMES_SHOWN]:
            logger.warning("a definition is withheld", server=server, kind=kind, name=one.name, reason=one.reason)
        if (left := len(withheld) - NAMES_SHOWN) > 0:
            logger.warning("more definitions are withheld", server=server, kind=kind, count=left)

    async def _read(self, raw: Sequence[Raw], read: Callable[[Limits], T]) -> T:
        """Read a list; a long one in a thread, so that the event loop does not wait."""
        if not _is_long(raw, self._limits):
            return read(self._limits)
        return await asyncio.to_thread(read, self._limits)

    async def _list(self, kind: Kind, connection: Connection) -> Fetched[ServerItems]:
        method, member, _ = _LISTS[kind]
        if not connection.agreement.features & FEATURES[kind]:
            return Fetched(ServerItems(), None)
        listed = await list_items(connection, method, member, self._limits, caller=self._caller)
        items = await self._read(listed.items, partial(_take_items, kind, listed.items))
        await self._store(kind, listed, connection)
        return Fetched(items, _lifetime(listed, connection, _announced_as(kind)))

    def _listed(self, kind: Kind, before: ServerItems | None, _is_new: bool) -> None:  # noqa: FBT001 -- a callback
        now = self.caches[kind].kept.value
        if now is None or now == before:
            return
        self._log_withheld(kind, now.withheld)
        if before is not None and before.items != now.items:
            self._changed(self._config.toolbox, _announced_as(kind))

    # -- stored lists

    def remembered(self, kind: AnyKind) -> Entry | None:
        """A stored list, read from the disk once, and without its items once they are in use."""
        if kind not in self._entries:
            self._entries[kind] = self._record.get(kind)
            if (self.tools if kind == "tools" else self.caches[kind]).kept.value is not None:
                self._drop_items(kind)
        return self._entries[kind]

    async def _store(self, kind: AnyKind, listed: Listed, connection: Connection) -> None:
        agreement = connection.agreement
        draft = partial(
            self._record.draft,
            listed.items,
            modern=agreement.modern,
            offers=agreement.features,
            instructions=read_instructions(agreement.hello) if kind == "tools" else "",
            ttl_seconds=listed.ttl_seconds or None,
        )
        self._record.put(kind, await self._read(listed.items, lambda _limits: draft()))
        self._entries.pop(kind, None)

    def _unread(self) -> Sequence[Raw] | None:
        """The stored tools, unless newer ones are known."""
        entry = self.remembered("tools") if self.tools.kept.value is None else None
        return entry.items if entry is not None else None

    def _keep_tools(self, listing: ServerTools) -> None:
        if self.tools.kept.value is None:
            self.tools.kept.put(listing)
            self._mark_reachable()
            self._drop_items("tools")

    def _mark_reachable(self) -> None:
        """No longer count the lists as lost."""
        for cache in self._all:
            cache.kept.is_lost = False

    def _drop_items(self, kind: AnyKind) -> None:
        if (entry := self._entries.get(kind)) is not None:
            self._entries[kind] = msgspec.structs.replace(entry, items=())

    def _recall_tools(self) -> bool | None:
        """Whether the stored tools are current; None if they must not be used, since the server can't be reached."""
        kept = self.tools.kept
        if not self._may_recall(kept) or kept.value is None or (entry := self.remembered("tools")) is None:
            return None
        return self._record.is_current(entry)

    def _recall(self, kind: Kind) -> bool | None:
        kept, tools = self.caches[kind].kept, self.remembered("tools")
        if not self._may_recall(kept) or tools is None:
            return None
        if not tools.offers & FEATURES[kind]:
            kept.value = ServerItems()
            return True  # a change would show with the next list of tools
        if (entry := self.remembered(kind)) is None:
            return None
        if kept.value is None:
            kept.value = _take_items(kind, entry.items, self._limits)
            self._drop_items(kind)
        return self._record.is_current(entry)

    def _may_recall(self, kept: ServerSnapshot[Any]) -> bool:
        return self._record.refresh != "always" and not kept.is_lost


def _announced_as(kind: Kind) -> str:
    """The kind under which a server announces changes of a list."""
    return "prompts" if kind == "prompts" else "resources"


def _take_items(kind: Kind, listed: Sequence[Raw], limits: Limits) -> ServerItems:
    """The valid items of a list."""
    if kind == "skills":
        return ServerItems(take_skills(listed, limits))
    return take_items(listed, _LISTS[kind][2], limits)


def _lifetime(listed: Listed, connection: Connection, capability: str) -> float | None:
    """The time to live of a list. 0 is ignored if the server announces changes."""
    if listed.ttl_seconds == 0 and connection.agreement.declares(capability, "listChanged"):
        return None
    return listed.ttl_seconds


def _compacted(items: Sequence[Raw], _limits: Limits) -> list[Raw]:
    return [compact(item) for item in items]


def _is_long(items: Sequence[Raw], limits: Limits) -> bool:
    """Whether a list is too long to be read on the event loop."""
    return sum(map(len, items)) > limits.list_inline_bytes
