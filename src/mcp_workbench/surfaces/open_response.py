"""Renders the responses of `open_toolbox`: one text block of compact JSON, within a token budget.

A response shows full definitions if they fit, else signatures, else parameter names with first sentences, else first
sentences, else as many of those as fit. A search has a smaller budget: it shows signatures of the best matches and
first sentences of the others. Everything except the tools is shortened first. The servers' instructions get the room
that the tools leave, but always a small share of the budget.

If the client chooses a `detail`, there is no token budget, but the response has at most `ANSWER_BYTES`: a server may
list megabytes, and one response must neither block the event loop nor fill the memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import render, signature
from mcp_workbench.catalog.rendering.budget import INSTRUCTIONS_SHARE, estimate, fitted, usable
from mcp_workbench.catalog.snapshot import Found, Matches, Opened
from mcp_workbench.identity import EVERY_TOOLBOX, ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.surfaces.arguments import OpenArguments
from mcp_workbench.surfaces.failures import text_result
from mcp_workbench.text.sanitize import NAME_SHOWN_LENGTH, NAMES_SHOWN, count
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.fairness import Renderer

ANSWER_BYTES = 8_000_000
"""The largest response if the client chose a `detail`. It fits into the largest message, and encoding it takes 40 ms.
No model reads two million tokens."""
MISFITS = 20
"""Tools that are skipped because they do not fit into the rest of the budget, before a response ends."""
SEARCH_BUDGET_TOKENS = 1000
"""The token budget of a search response: enough for the signatures of the best matches and the first sentences of the
others."""
SEARCH_SIGNATURES = 5
"""Matches that a search shows with signatures. In four out of five searches, the needed tool is among them."""
ALSO_IN_SHOWN = 3
"""Other servers with the same tool that a search names; the rest are counted."""
ERROR_SHOWN_LENGTH = 300
"""Characters of each server's failure that a response shows if many failed: the first sentence or two."""
ERROR_SHOWN_LEAST_LENGTH = 80
"""The same if that is still too long."""

Render: TypeAlias = Callable[[ToolIdentifier, Definition], Raw]
Frame: TypeAlias = dict[str, Any]
Mark: TypeAlias = Callable[[ToolIdentifier, Raw], Raw]
"""Adds search details to the entry of a tool."""
T = TypeVar("T")

WHOLE = 'For full definitions: {"toolbox":"TOOLBOX","tools":["NAME"]}'
NO_MATCH = "No tool matches this query."
WEAK_MATCHES = "No tool matches this query well; these are the closest."
LONGEST_TOKEN_BYTES: Final = 16
"""A text with more bytes than this per available token does not fit, so its cost is not estimated."""
SHORT_BYTES: Final = 1024
"""The costs of entries up to this size are cached: at most 8 MB of entries."""
FRAME_SHARE: Final = 4
"""The frame takes at most `1 / FRAME_SHARE` of the bytes of a response."""
INSTRUCTIONS_LEAST_SHARE: Final = 16
"""Instructions get at least `1 / INSTRUCTIONS_LEAST_SHARE` of the budget, even if the tools need it."""


class Brevity(NamedTuple):
    """Limits on the texts and lists in a frame."""

    length: int
    """Characters of a text; 0 means no limit."""
    most: int
    """Items of a list; 0 means no limit, a negative number means none."""

    def text(self, text: str) -> str:
        return text if not self.length or len(text) <= self.length else f"{text[: self.length]}…"

    def some(self, items: Sequence[T]) -> Sequence[T]:
        return items[: max(0, self.most)] if self.most else items


MakeFrame: TypeAlias = Callable[[Brevity], Frame]
"""Makes the frame of a response: all of its members except the tools, within the limits of a `Brevity`."""


class _Level(NamedTuple):
    """One way to show tools, and the note that explains it."""

    show: Render
    note: str = ""


FULL = _Level(render.entry)
SIGNATURE = _Level(signature.entry, f"Signatures only. {WHOLE}")
OUTLINE = _Level(signature.outline, f"Parameter names and first sentences only. {WHOLE}")
BRIEF = _Level(signature.brief, f"First sentences only. {WHOLE}")
LEAN = _Level(signature.lean, f"The best matches have signatures, the others first sentences. {WHOLE}")


async def opened(
    toolbox: Opened, found: Sequence[Found], request: OpenArguments, limits: Limits, renderer: Renderer | None = None
) -> Raw:
    """The response for one toolbox that shows the tools in `found`."""
    detail = request.detail or ("full" if request.tools else "auto")
    # A request for some definitions usually follows an open: do not repeat the instructions.
    instructions: Mapping[str, str] = {} if request.tools else toolbox.instructions
    rendering = _Rendering(limits, renderer or Renderer())
    return await rendering.opened(lambda brevity: _toolbox_frame(toolbox, brevity), found, detail, instructions)


async def matches(
    searched: Matches,
    request: OpenArguments,
    limits: Limits,
    renderer: Renderer | None = None,
    toolbox: Opened | None = None,
) -> Raw:
    """The response to a search in one toolbox, or in all."""
    notes = [WEAK_MATCHES if searched.found else NO_MATCH] if searched.is_weak or not searched.found else []
    if notes and toolbox is not None:
        notes.append(f"Omit query to get all {count(len(toolbox.found), 'tool')}.")
    if searched.never_listed:
        servers = count(len(searched.never_listed), "server")
        notes.append(f"Not searched: {servers} whose tools are not known yet. Open their toolboxes first.")

    def make_frame(brevity: Brevity) -> Frame:
        unknown = _by_toolbox(brevity.some(searched.never_listed[:NAMES_SHOWN]))
        frame: Frame = _toolbox_frame(toolbox, brevity) if toolbox is not None else {"toolbox": EVERY_TOOLBOX}
        more: Frame = {"never_listed": unknown, "note": " ".join(notes)}
        return frame | {member: value for member, value in more.items() if value}

    return await _Rendering(limits, renderer or Renderer()).matches(make_frame, searched, request)


class _Rendering:
    """Renders one response."""

    def __init__(self, limits: Limits, renderer: Renderer) -> None:
        self._limits = limits
        self._renderer = renderer
        self._budget = usable(limits.open_budget_tokens)

    async def opened(
        self, make_frame: MakeFrame, found: Sequence[Found], detail: str, instructions: Mapping[str, str]
    ) -> Raw:
        budget = self._budget
        if detail != "auto":
            level = FULL if detail == "full" else SIGNATURE
            frame = _bounded_frame(make_frame) | fitted(instructions, budget // INSTRUCTIONS_SHARE)
            return await self._in_detail(frame, level, found, lambda _, entry: entry)
        base = _brief_frame(make_frame, budget)
        least = min(budget // INSTRUCTIONS_LEAST_SHARE, _room(base, BRIEF, budget))
        frame = base | fitted(instructions, least)
        # The cheapest form first: if that does not fit, no other form does.
        if len(await self._fitting(BRIEF, found, _room(frame, FULL, budget))) == len(found):
            for level in (FULL, SIGNATURE, OUTLINE, BRIEF):
                entries = await self._fitting(level, found, _room(frame, level, budget))
                if len(entries) == len(found):
                    left = budget - estimate(_encoded(base, level, entries)) if instructions else 0
                    room = min(max(left, least), budget // INSTRUCTIONS_SHARE)
                    return _response(base | fitted(instructions, room), level, entries)
        few = {**frame, "tools_left_out": len(found)}
        room = _room(few, _partial_level(len(found), len(found)), budget)
        entries = await self._fitting(BRIEF, found, room, MISFITS)
        few["tools_left_out"] = len(found) - len(entries)
        return _response(few, _partial_level(len(entries), len(found)), entries)

    async def matches(self, make_frame: MakeFrame, searched: Matches, request: OpenArguments) -> Raw:
        limits = self._limits
        if (detail := request.detail or "auto") != "auto":
            level = FULL if detail == "full" else SIGNATURE
            mark = partial(_with_matches, searched=searched)
            return await self._in_detail(_bounded_frame(make_frame), level, searched.found, mark)
        share = max(1.0, request.limit / limits.matches)
        budget = min(self._budget, usable(int(share * SEARCH_BUDGET_TOKENS)))
        frame = {**_brief_frame(make_frame, budget), "tools_left_out": len(searched.found)}
        entries = await self._search_entries(searched, budget - estimate(_encoded(frame, LEAN, ())))
        if not (left := len(searched.found) - len(entries)):
            del frame["tools_left_out"]
        return _response(frame | ({"tools_left_out": left} if left else {}), LEAN, entries)

    async def _in_detail(self, frame: Frame, level: _Level, found: Sequence[Found], mark: Mark) -> Raw:
        """The first tools in the chosen detail, as many as fit into `ANSWER_BYTES`."""
        room = ANSWER_BYTES - _escaped_bytes(_encoded(frame, level, ()))
        entries: list[Raw] = []
        async for entry in self._rendered(level, found):
            marked = mark(found[len(entries)][0], entry)
            room -= _escaped_bytes(marked) + 1
            if room < 0:
                break
            entries.append(marked)
        if not (left := len(found) - len(entries)):
            return _response(frame, level, entries)
        note = f"Only the first {len(entries)} of {count(len(found), 'tool')} fit in one response. {WHOLE}"
        return _response({**frame, "tools_left_out": left}, level._replace(note=note), entries)

    async def _search_entries(self, searched: Matches, room: int) -> list[Raw]:
        """First sentences of all matches; for the best ones, signatures or parameter names if they fit."""
        best, others = searched.found[:SEARCH_SIGNATURES], searched.found[SEARCH_SIGNATURES:]
        entries = [*await self._with_matches(LEAN, searched, best), *await self._with_matches(BRIEF, searched, others)]
        if estimate(b",".join(map(bytes, entries))) <= room:  # nearly always
            return entries
        entries = await self._with_matches(BRIEF, searched, searched.found)
        costs = [_cost(entry) for entry in entries]
        spare = room - sum(costs)
        while entries and spare < 0:
            entries.pop()
            spare += costs.pop()
        for number, one in enumerate(best[: len(entries)]):
            for level in (LEAN, OUTLINE):
                [entry] = await self._with_matches(level, searched, (one,))
                if (more := _cost(entry) - costs[number]) <= spare:
                    entries[number], spare = entry, spare - more
                    break
        return entries

    async def _with_matches(self, level: _Level, searched: Matches, found: Sequence[Found]) -> list[Raw]:
        entries = [entry async for entry in self._rendered(level, found)]
        return [_with_matches(tool, entry, searched) for (tool, _), entry in zip(found, entries, strict=True)]

    async def _fitting(self, level: _Level, found: Sequence[Found], room: int, misfits: int = 0) -> list[Raw]:
        """As many entries as fit into `room`, skipping up to `misfits` that are too large."""
        entries: list[Raw] = []
        parts = 0
        async for entry in self._rendered(level, found):
            if level is SIGNATURE:
                parts += signature.parts(found[len(entries)][1])
                if parts > self._limits.open_budget_tokens:
                    break
            cost = _cost(entry) if len(entry) <= room * LONGEST_TOKEN_BYTES else room + 1
            if cost <= room:
                room -= cost
                entries.append(entry)
            elif misfits:
                misfits -= 1
            else:
                break
        return entries

    def _rendered(self, level: _Level, found: Sequence[Found]) -> AsyncIterator[Raw]:
        """Render the entries one at a time."""
        return self._renderer.each(found, lambda one: level.show(*one))


def _with_matches(identifier: ToolIdentifier, entry: Raw, searched: Matches) -> Raw:
    """Add to an entry which other servers have the same tool, and whether it is a weak match."""
    others = searched.also_in.get(identifier, ())
    shown = others[:ALSO_IN_SHOWN]
    members: Frame = {"also_in": [{"toolbox": other.toolbox, "server": other.server} for other in shown]}
    members |= {"also_in_left_out": len(others) - len(shown), "weak": searched.is_weak}
    if not (kept := {member: value for member, value in members.items() if value}):
        return entry
    return Raw(jsonrpc.encode({**jsonrpc.fields(entry), **kept}))


def _toolbox_frame(toolbox: Opened, brevity: Brevity) -> Frame:
    return {
        "toolbox": toolbox.toolbox,
        "description": brevity.text(toolbox.description),
        "servers_connected": toolbox.servers_connected,
        **_stored(toolbox, brevity),
        **_problems(toolbox, brevity),
    }


def _partial_level(number: int, total: int) -> _Level:
    return BRIEF._replace(note=f"{number} of {count(total, 'tool')}; use query to find others. {BRIEF.note}")


def _brief_frame(make_frame: MakeFrame, budget: int) -> Frame:
    """The frame, shortened until it leaves half of the budget to the tools."""
    for length in (0, ERROR_SHOWN_LENGTH, ERROR_SHOWN_LEAST_LENGTH):
        frame = make_frame(Brevity(length, NAMES_SHOWN if length else 0))
        encoded = _encoded(frame, BRIEF, ())
        if len(encoded) <= budget * LONGEST_TOKEN_BYTES and budget - estimate(encoded) >= budget // 2:
            return frame
    return make_frame(Brevity(ERROR_SHOWN_LEAST_LENGTH, -1))


def _bounded_frame(make_frame: MakeFrame) -> Frame:
    """The frame, shortened if it is large: a hostile server can make it so."""
    frame = make_frame(Brevity(0, 0))
    if len(_encoded(frame, BRIEF, ())) <= ANSWER_BYTES // FRAME_SHARE:
        return frame
    return make_frame(Brevity(ERROR_SHOWN_LENGTH, NAMES_SHOWN))


def _escaped_bytes(text: bytes | Raw) -> int:
    """The length of a JSON text when it is escaped inside a JSON string."""
    text = bytes(text)
    return len(text) + text.count(b'"') + text.count(b"\\")


def _cost(entry: Raw) -> int:
    text = bytes(entry)
    return _short_cost(text) if len(text) <= SHORT_BYTES else estimate(text) + 1


@lru_cache(maxsize=8192)
def _short_cost(text: bytes) -> int:
    """Cached, since toolboxes are opened repeatedly and the estimate takes most of the time."""
    return estimate(text) + 1


def _room(frame: Frame, level: _Level, budget: int) -> int:
    """Tokens left for tools."""
    return budget - estimate(_encoded(frame, level, ()))


def _response(frame: Frame, level: _Level, entries: Sequence[Raw]) -> Raw:
    return text_result(_encoded(frame, level if entries else FULL, entries).decode())


def _encoded(frame: Frame, level: _Level, entries: Sequence[Raw]) -> bytes:
    note = " ".join(filter(None, (frame.get("note"), level.note)))
    return jsonrpc.encode({**frame, **({"note": note} if note else {}), "tools": entries})


def _stored(toolbox: Opened, brevity: Brevity) -> Frame:
    """Which servers' tools come from the cache: `true` if all do; else `stored` or `live`, whichever list is shorter.

    A list that is too long becomes a count.
    """
    if not toolbox.stored:
        return {}
    if not toolbox.live:
        return {"stored": True}
    member, names = ("stored", toolbox.stored) if len(toolbox.stored) <= len(toolbox.live) else ("live", toolbox.live)
    return {member: names if len(brevity.some(names)) == len(names) else len(names)}


def _problems(toolbox: Opened, brevity: Brevity) -> Frame:
    """The failed servers and the withheld tools, with reasons."""
    failed = [{"server": one.server, "error": brevity.text(one.fault.reason)} for one in brevity.some(toolbox.failed)]
    withheld = [
        {"server": server, "name": brevity.text(tool.name[:NAME_SHOWN_LENGTH]), "reason": tool.reason}
        for server, tool in brevity.some(toolbox.withheld)
    ]
    problems: Frame = {}
    for member, shown, number in (
        ("servers_failed", failed, len(toolbox.failed)),
        ("tools_withheld", withheld, len(toolbox.withheld)),
    ):
        problems |= {member: shown} if shown else {}
        problems |= {f"{member}_left_out": number - len(shown)} if len(shown) < number else {}
    return problems


def _by_toolbox(servers: Iterable[ServerIdentifier]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for server in servers:
        grouped.setdefault(server.toolbox, []).append(server.server)
    return grouped
