"""One configured server, for one place: how it is reached, what it lists, what it is told and tells.

It joins a supervisor, the lists that are kept of it, its subscriptions and the dialogue with the client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.catalog.items import Item, ServerItems, take_items
from mcp_workbench.catalog.memory.records import Record
from mcp_workbench.catalog.memory.store import Entry
from mcp_workbench.catalog.memory.store import Kind as ListKind
from mcp_workbench.catalog.rendering.instructions import read_instructions
from mcp_workbench.catalog.skills import take_skills
from mcp_workbench.catalog.snapshot import Catalog, ServerTools, Withheld, take_listing
from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.connections.base import Channel
from mcp_workbench.connections.connection import Connection
from mcp_workbench.connections.health import Health
from mcp_workbench.connections.listing import Listed, list_items
from mcp_workbench.connections.negotiate import Agreement
from mcp_workbench.connections.opening import open_channel
from mcp_workbench.connections.processes import Processes
from mcp_workbench.connections.starts import OpenChannel
from mcp_workbench.connections.subscriptions import Subscriptions
from mcp_workbench.connections.supervisor import Supervisor
from mcp_workbench.dialogue import Dialogue
from mcp_workbench.errors import Fault, StillStarting
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.listings import Fetched, Listing, Remembered
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.client import Seat
from mcp_workbench.wire.eras import HANDSHAKE_NOTICES, LIST_CHANGED, SKILLS
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params

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
_FEATURES: dict[Kind, frozenset[str]] = {
    "prompts": frozenset({"prompts"}),
    "resources": frozenset({"resources"}),
    "templates": frozenset({"resources"}),
    "skills": frozenset({SKILLS, "skills"}),
}
"""The features that a server with such a list declares. An early draft declared skills as a capability."""


class Provider:
    """A server as one client sees it."""

    def __init__(
        self,
        config: ServerConfig,
        seat: Seat,
        processes: Processes,
        catalog: Catalog,
        limits: Limits,
        *,
        record: Record,
        turn: asyncio.Semaphore,
        health: Health | None = None,
        host: Provider | None = None,
        predecessor: Provider | None = None,
    ) -> None:
        """`record` is what is remembered of it; `turn` is for those who start a server only to check that.

        `host` is the provider of the same modern server at another place of the client, whose connection it uses.
        `predecessor` had its name, and may hold what it needs until it has ended; what was watched there is here.
        """
        limits = limits.bounded(config.bounds)
        self._config = config
        self._caller = seat.caller
        self._catalog = catalog
        self._limits = limits
        self._changed: Callable[[str, str], None] = seat.changed
        self._level: str | None = None
        self._waited_for: object = None
        self._record = record
        self._entries: dict[ListKind, Entry | None] = {}
        before = self._entry("tools")
        self._offers = before.offers if before is not None else None
        self._was_modern = None if before is None or before.is_lent else before.modern
        self.instructions = jsonrpc.text_or_none(before.instructions) or "" if before is not None else ""
        """The server's instructions, as of its last run."""
        label = config.identifier
        self._dialogue = Dialogue(label, seat, limits)
        self._host = host
        self.subscriptions = host.subscriptions if host is not None else Subscriptions(limits)
        self.retiring: asyncio.Task[None] | None = None
        self._predecessor = predecessor
        if predecessor is not None:
            self.subscriptions.take_over(predecessor.subscriptions)
        open_it = partial(self._open, partial(open_channel, config, processes, limits))
        self.supervisor = self._supervised(host, label, open_it, health)
        if (current := self.supervisor.current) is not None:  # of the host
            self._hear(current.agreement)
        made: Callable[..., Listing[Any]] = partial(
            Listing, label, self.supervisor, self.reach, limits=limits, turn=turn
        )
        self._tools: Listing[ServerTools] = made(self._list_tools, recall=self._recall_tools)
        self._items: dict[Kind, Listing[ServerItems]] = {
            kind: made(partial(self._list, kind), recall=partial(self._recall, kind)) for kind in _LISTS
        }

    def _supervised(
        self, host: Provider | None, label: ServerIdentifier, open_it: OpenChannel, health: Health | None
    ) -> Supervisor:
        if host is not None:
            host.supervisor.join(self)
            return host.supervisor
        return Supervisor(
            label,
            open_it,
            self._caller,
            self._limits,
            self,
            health=health,
            era=self._record.era,
            is_remote=isinstance(self._config.target, Endpoint),
        )

    # -- what it offers

    async def tools(self, seconds: float | None = None) -> ServerTools:
        """The tools that it offers; see `Listing.get`."""
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
        """The tools that the server lists now; see `Listing.fresh`."""
        return await self._tools.fresh()

    async def freshen(self) -> None:
        """Have the running server list again, and wait for it for a moment."""
        with contextlib.suppress(Fault):
            await self._tools.get(self._limits.refresh_wait_seconds)

    async def recheck(self, kind: Kind | Literal["tools"]) -> None:
        """Ask the running server again, for a caller who misses something; see `Listing.recheck`."""
        await (self._tools if kind == "tools" else self._items[kind]).recheck()

    async def recheck_tools(self) -> ServerTools | None:
        """Ask the server again, for a caller who misses a tool; start it if it has listed before.

        With `"refresh": "never"` only a running server is asked. If the server can't be asked, the list is unchanged.
        """
        if self.is_running:
            await self._tools.recheck()
        elif self._record.refresh != "never" and (self._tools.last is not None or self._entry("tools") is not None):
            with contextlib.suppress(Fault):
                await self._tools.fresh()
        return self._catalog.listing(self._config.toolbox, self._config.name)

    async def known_tools(self) -> ServerTools | None:
        """The tools that are known without asking the server."""
        await self._load()
        return self._catalog.listing(self._config.toolbox, self._config.name)

    async def refresh(self) -> ServerTools:
        """Have the server list everything, remember it, and stop it again unless it is used.

        A stopped server is also probed for its era. Raises the `Fault` that prevented listing its tools.
        """
        if self.supervisor.current is None:
            self.supervisor.forget_era()
        with self.supervisor.used():
            tools = await self._tools.fresh()
            await asyncio.gather(*(listing.fresh() for listing in self._items.values()), return_exceptions=True)
        self.supervisor.let_go()
        await self.supervisor.cleared()
        return tools

    @property
    def is_remembered(self) -> bool:
        """Whether its tools are stored for its own client, not only for the other era."""
        return (entry := self._record.get("tools")) is not None and not entry.is_lent

    @property
    def is_running(self) -> bool:
        return self.supervisor.current is not None

    @property
    def is_live(self) -> bool:
        """Whether its tools are those that the running server listed."""
        return self._tools.standing is not None

    async def items(self, kind: Kind, seconds: float | None = None) -> tuple[Item, ...]:
        """Its prompts, resources or templates; see `Listing.get`. A start is waited for `seconds` once."""
        start = self.supervisor.start
        if start is not None and start is self._waited_for:
            seconds = self._limits.refresh_wait_seconds
        if kind == "skills" and self._items[kind].standing is not None:
            self._items[kind].is_outdated = True  # there is no notification for changed skills
        try:
            return (await self._items[kind].get(seconds)).items
        except StillStarting:
            self._waited_for = self.supervisor.start
            raise

    def has_tried(self, kind: Kind) -> bool:
        """Whether the running server was asked for these, answered or not."""
        return self._items[kind].was_tried

    def known(self, kind: Kind) -> tuple[Item, ...]:
        """What of these it has listed so far."""
        listed = self._items[kind].last
        return listed.items if listed is not None else ()

    async def withheld(self, kind: Kind) -> tuple[Withheld, ...]:
        """The items of this kind that the server lists now but that are withheld; see `Listing.fresh`."""
        return (await self._items[kind].fresh()).withheld

    @property
    def is_settled(self) -> bool:
        """Whether the catalog knows what tools the server offers now."""
        listed = self._catalog.listing(self._config.toolbox, self._config.name) is not None
        return listed and not self._tools.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether it runs and its known tools may be out of date."""
        return self.is_running and not self.is_settled

    def runs_with(self, capability: str) -> bool:
        """Whether the connection that is there now declared it."""
        current = self.supervisor.current
        return current is not None and capability in current.agreement.offers

    def offers(self, capability: str) -> bool:
        """Whether the server declared it, when it ran last."""
        return self._offers is not None and capability in self._offers

    def may_have(self, kind: Kind) -> bool:
        """Whether the server declared such a list, or never ran and so may have one."""
        return self._offers is None or bool(self._offers & _FEATURES[kind])

    def may_have_tasks(self, *, modern: bool) -> bool:
        """Whether the server has tasks for clients of this era, or has never run for one and so may have them."""
        if self._was_modern is None:
            return True
        return self._was_modern == modern and self.offers(eras.TASKS if modern else "tasks")

    # -- what it does

    async def reach(self) -> Connection:
        """See that the server runs. Raises the `Fault` that prevents it."""
        try:
            return await self.supervisor.connection()
        except Fault:
            if self._catalog.lose(self._config.toolbox, self._config.name):
                self._changed(self._config.toolbox, "tools")
            raise

    async def forward(self, method: str, params: Params, exchange: Exchange | None) -> Raw:
        """A client's request. Raises the `Fault` that it ended in."""
        return await self.supervisor.forward(method, params, exchange)

    def tell(self, method: str, params: Params) -> None:
        """A client's notification, if the server runs, reads, and knows it in its era."""
        current = self.supervisor.current
        if current is None or current.channel.congested or (current.agreement.modern and method in HANDSHAKE_NOTICES):
            return
        current.channel.notify(method, params)

    def set_level(self, level: str) -> None:
        """Which log messages the client wants, from now on and after a restart."""
        self._level = level
        if (current := self.supervisor.current) is not None:
            current.set_level(level)

    async def subscribe(self, uri: str) -> None:
        await self.subscriptions.subscribe(await self.reach(), uri)

    def unsubscribe(self, uri: str) -> None:
        self.subscriptions.unsubscribe(self.supervisor.current, uri)

    async def watch_task(self, task: str) -> bool:
        """Whether the server can tell of it: only a modern one."""
        connection = await self.reach()
        if connection.agreement.modern:
            self.subscriptions.watch_task(connection, task)
        return connection.agreement.modern

    def unwatch_task(self, task: str) -> None:
        self.subscriptions.unwatch_task(self.supervisor.current, task)

    async def close(self, drain_seconds: float | None = None) -> None:
        """End the server; who waits for a listing is told by that. Calls may end by themselves, for so long."""
        self.subscriptions.close()
        for listing in (self._tools, *self._items.values()):
            listing.close()
        await self.supervisor.close(drain_seconds)

    def retire(self) -> asyncio.Task[None]:
        """The configuration has it no more, or has another in its place: it ends when its calls have.

        What it lists until then is not known to the client any more.
        """
        self._predecessor = None
        self._catalog = self._catalog.apart(self._config.toolbox, self._config.name)
        self._changed = lambda _toolbox, _kind: None
        self.retiring = asyncio.ensure_future(self.close(self._limits.call_hard_timeout_seconds))
        return self.retiring

    async def _open(self, open_it: OpenChannel) -> Channel:
        """Open it when a predecessor has ended, if that does not take long: calls may go on there for minutes."""
        predecessor, self._predecessor = self._predecessor, None
        if predecessor is not None and predecessor.retiring is not None:
            await asyncio.wait((predecessor.retiring,), timeout=self._limits.predecessor_seconds)
        return await open_it()

    # -- Events of its supervisor

    def connected(self, connection: Connection, *, again: bool) -> None:
        self._hear(connection.agreement)
        if self._host is None:
            self._record.spoke(modern=connection.agreement.modern)
            if self._level is not None:
                connection.set_level(self._level)
            self.subscriptions.connected(connection)
        for listing in (self._tools, *self._items.values()):
            # A new process may offer other things than the one that died, or the one that is remembered.
            is_doubtful = again or (listing.is_remembered and self._record.refresh != "never")
            if is_doubtful and listing.is_in_use:
                listing.outdate()

    def notified(self, connection: Connection, method: str, params: Raw, owner: object = None) -> None:
        if self.supervisor.state == "closed":
            return
        for listing in self._announced(LIST_CHANGED.get(method)):
            if listing.is_in_use:
                listing.outdate()
        fields = jsonrpc.members(params)
        if self._host is None and self.subscriptions.hears(method, fields):
            self._dialogue.notified(connection, method, fields, owner)

    async def asked(self, connection: Connection, method: str, params: Raw, owner: object = None) -> Raw:
        return await self._dialogue.asked(connection, method, params, owner)

    def _hear(self, agreement: Agreement) -> None:
        """Take over what the server declared in its answer to the greeting."""
        self._offers = agreement.features
        self._was_modern = agreement.modern
        self.instructions = read_instructions(agreement.hello, self._limits)

    @property
    def is_waiting(self) -> bool:
        return self.subscriptions.is_used or self._dialogue.is_asking

    def _announced(self, kind: str | None) -> tuple[Listing[Any], ...]:
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
        if not connection.agreement.features & _FEATURES[kind]:
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

    async def _keep(self, kind: ListKind, listed: Listed, connection: Connection) -> None:
        agreement = connection.agreement
        draft = partial(
            self._record.draft,
            listed.items,
            modern=agreement.modern,
            offers=agreement.features,
            instructions=self.instructions if kind == "tools" else "",
            ttl_seconds=listed.ttl_seconds or None,
        )
        self._record.put(kind, await self._beside(listed.items, lambda _limits: draft()))
        self._entries.pop(kind, None)

    def _entry(self, kind: ListKind) -> Entry | None:
        """What is remembered, read from the disk once."""
        if kind not in self._entries:
            self._entries[kind] = self._record.get(kind)
        return self._entries[kind]

    async def _load(self) -> None:
        """Have the catalog know what is remembered, where it knows nothing newer."""
        if (entry := self._unread()) is not None:
            self._know(await self._beside(entry.items, partial(self._take, entry.items)))

    def _unread(self) -> Entry | None:
        """The tools that are remembered, where the catalog knows of none yet."""
        known = self._catalog.listing(self._config.toolbox, self._config.name)
        return self._entry("tools") if known is None else None

    def _know(self, listing: ServerTools) -> None:
        if self._catalog.listing(self._config.toolbox, self._config.name) is None:
            self._catalog.put(self._config.toolbox, self._config.name, listing)

    def _recall_tools(self) -> Remembered[ServerTools] | None:
        """The tools that the server listed before, unless it can't be reached now: then nobody is told of them."""
        listing = self._catalog.listing(self._config.toolbox, self._config.name)
        if not self._may_recall or listing is None or (entry := self._entry("tools")) is None:
            return None
        return Remembered(listing, self._record.is_current(entry))

    def _recall(self, kind: Kind) -> Remembered[ServerItems] | None:
        tools = self._entry("tools")
        if not self._may_recall or tools is None:
            return None
        if not tools.offers & _FEATURES[kind]:
            return Remembered(ServerItems(), is_current=True)  # if that changes, its next list of tools shows it
        if (entry := self._entry(kind)) is None:
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


def _is_long(items: Sequence[Raw], limits: Limits) -> bool:
    """Whether a list takes so long to read that the event loop must not wait for it."""
    return sum(map(len, items)) > limits.list_inline_bytes
