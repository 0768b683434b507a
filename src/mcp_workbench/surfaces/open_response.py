"""The answers of `open_toolbox`: one text block of compact JSON that costs no more tokens than it may.

Whole definitions while they fit, then signatures, then parameter names with the first sentence, then first sentences,
then as many of those as fit. A search shows signatures of its best matches and first sentences of the others, in a
smaller budget. Everything but the tools is shortened first: the servers' instructions get the room that the tools
leave, but always a small part of the budget.

An answer with a `detail` of the client's choice has no budget of tokens. It has at most `ANSWER_BYTES`: a server may
list megabytes, and one answer must neither block the event loop nor fill the memory.
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
"""An `open_toolbox` answer whose `detail` the client chose: it fits into the largest message, and writing it takes
40 ms. No model reads two million tokens."""
MISFITS = 20
"""Tools that are passed over because they are too large for what is left of an answer, before it ends."""
SEARCH_BUDGET_TOKENS = 1000
"""The most tokens that the answer of a search may have: enough for the signatures of the best tools and the first
sentences of the others."""
SEARCH_SIGNATURES = 5
"""How many tools a search shows with their signatures: four out of five needed tools are among them."""
ALSO_IN_SHOWN = 3
"""Other servers with the same tool that a search names; the rest are counted."""
ERROR_SHOWN_LENGTH = 300
"""Characters of a server's failure that an answer shows, where many failed: its first sentence or two."""
ERROR_SHOWN_LEAST_LENGTH = 80
"""The same where even that is too much."""

Render: TypeAlias = Callable[[ToolIdentifier, Definition], Raw]
Answer: TypeAlias = dict[str, Any]
Mark: TypeAlias = Callable[[ToolIdentifier, Raw], Raw]
"""Adds to the entry of a tool what a search says about it."""
T = TypeVar("T")

WHOLE = 'for a whole definition: {"toolbox":"TOOLBOX","tools":["NAME"]}'
NOTHING_FITS = "No tool fits this query."
NEAREST = "No tool fits this query well; these are the nearest."
LONGEST_TOKEN_BYTES: Final = 16
"""A text with more bytes per token of room does not fit, and need not be estimated."""
SHORT_BYTES: Final = 1024
"""What entries cost is remembered up to this size, 8 MB of them at most."""
BESIDE_SHARE: Final = 4
"""What is said beside the tools takes at most `1 / BESIDE_SHARE` of the bytes of an answer."""
INSTRUCTIONS_LEAST_SHARE: Final = 16
"""Instructions get at least `1 / INSTRUCTIONS_LEAST_SHARE` of the budget, even if the tools need it."""


class Brevity(NamedTuple):
    """How much is said beside the tools."""

    length: int
    """Characters of a text; 0 is all of it."""
    most: int
    """Items of a list; 0 is all of them, and less is none."""

    def text(self, text: str) -> str:
        return text if not self.length or len(text) <= self.length else f"{text[: self.length]}…"

    def some(self, items: Sequence[T]) -> Sequence[T]:
        return items[: max(0, self.most)] if self.most else items


ALL = Brevity(0, 0)
_NONE: Final[Mapping[str, str]] = {}
Told: TypeAlias = Callable[[Brevity], Answer]
"""What is said beside the tools, as briefly as it must be."""


class _Level(NamedTuple):
    """One way to show tools, and what is said of it."""

    show: Render
    note: str = ""


FULL = _Level(render.entry)
SIGNATURE = _Level(signature.entry, f"Signatures; {WHOLE}")
OUTLINE = _Level(signature.outline, f"Parameter names and first sentences; {WHOLE}")
BRIEF = _Level(signature.brief, f"First sentences; {WHOLE}")
LEAN = _Level(signature.lean, f"Signatures of the best, first sentences of the others; {WHOLE}")


async def opened(
    toolbox: Opened, found: Sequence[Found], request: OpenArguments, limits: Limits, renderer: Renderer | None = None
) -> Raw:
    """The answer for one toolbox, of whose tools `found` were asked for."""
    detail = request.detail or ("full" if request.tools else "auto")
    # A request for some definitions usually follows an open: do not repeat the instructions.
    instructions = toolbox.instructions if not request.tools else _NONE
    rendering = _Rendering(limits, renderer or Renderer())
    return await rendering.opened(lambda brevity: _toolbox(toolbox, brevity), found, detail, instructions)


async def matches(
    searched: Matches,
    request: OpenArguments,
    limits: Limits,
    renderer: Renderer | None = None,
    toolbox: Opened | None = None,
) -> Raw:
    """The answer of a search: in one toolbox, or in all."""
    notes = [NEAREST if searched.found else NOTHING_FITS] if searched.is_weak or not searched.found else []
    if notes and toolbox is not None:
        notes.append(f"Without query: all {count(len(toolbox.found), 'tool')}.")
    if searched.never_listed:
        servers = count(len(searched.never_listed), "server")
        notes.append(f"Not searched: {servers} never listed yet; open their toolboxes first.")

    def told(brevity: Brevity) -> Answer:
        unknown = _by_toolbox(brevity.some(searched.never_listed[:NAMES_SHOWN]))
        answer: Answer = _toolbox(toolbox, brevity) if toolbox is not None else {"toolbox": EVERY_TOOLBOX}
        more: Answer = {"never_listed": unknown, "note": " ".join(notes)}
        return answer | {member: value for member, value in more.items() if value}

    return await _Rendering(limits, renderer or Renderer()).matches(told, searched, request)


class _Rendering:
    """Renders one answer."""

    def __init__(self, limits: Limits, renderer: Renderer) -> None:
        self._limits = limits
        self._renderer = renderer
        self._budget = usable(limits.open_budget_tokens)

    async def opened(self, told: Told, found: Sequence[Found], detail: str, instructions: Mapping[str, str]) -> Raw:
        budget = self._budget
        if detail != "auto":
            level = FULL if detail == "full" else SIGNATURE
            said = _concisely(told) | fitted(instructions, budget // INSTRUCTIONS_SHARE)
            return await self._chosen(said, level, found, lambda _, entry: entry)
        beside = _briefly(told, budget)
        least = min(budget // INSTRUCTIONS_LEAST_SHARE, _room(beside, BRIEF, budget))
        said = beside | fitted(instructions, least)
        # The cheapest form first: where not even that fits beside what is always said, no other does.
        if len(await self._fitting(BRIEF, found, _room(said, FULL, budget))) == len(found):
            for level in (FULL, SIGNATURE, OUTLINE, BRIEF):
                entries = await self._fitting(level, found, _room(said, level, budget))
                if len(entries) == len(found):
                    left = budget - estimate(_encoded(beside, level, entries)) if instructions else 0
                    room = min(max(left, least), budget // INSTRUCTIONS_SHARE)
                    return _text(beside | fitted(instructions, room), level, entries)
        few = {**said, "tools_left_out": len(found)}
        room = _room(few, _some_of(len(found), len(found)), budget)
        entries = await self._fitting(BRIEF, found, room, MISFITS)
        few["tools_left_out"] = len(found) - len(entries)
        return _text(few, _some_of(len(entries), len(found)), entries)

    async def matches(self, told: Told, searched: Matches, request: OpenArguments) -> Raw:
        limits = self._limits
        if (detail := request.detail or "auto") != "auto":
            level = FULL if detail == "full" else SIGNATURE
            mark = partial(_marked, searched=searched)
            return await self._chosen(_concisely(told), level, searched.found, mark)
        share = max(1.0, request.limit / limits.matches)
        budget = min(self._budget, usable(int(share * SEARCH_BUDGET_TOKENS)))
        said = {**_briefly(told, budget), "tools_left_out": len(searched.found)}
        entries = await self._lean(searched, budget - estimate(_encoded(said, LEAN, ())))
        if not (left := len(searched.found) - len(entries)):
            del said["tools_left_out"]
        return _text(said | ({"tools_left_out": left} if left else {}), LEAN, entries)

    async def _chosen(self, said: Answer, level: _Level, found: Sequence[Found], mark: Mark) -> Raw:
        """Tools in the detail that was chosen: as many of the first ones as an answer may have bytes."""
        room = ANSWER_BYTES - _escaped_bytes(_encoded(said, level, ()))
        entries: list[Raw] = []
        async for entry in self._shown(level, found):
            marked = mark(found[len(entries)][0], entry)
            room -= _escaped_bytes(marked) + 1
            if room < 0:
                break
            entries.append(marked)
        if not (left := len(found) - len(entries)):
            return _text(said, level, entries)
        note = f"The first {len(entries)} of {count(len(found), 'tool')}: more are too much for one answer. {WHOLE}"
        return _text({**said, "tools_left_out": left}, level._replace(note=note), entries)

    async def _lean(self, searched: Matches, room: int) -> list[Raw]:
        """First sentences of all matches; of the best, signatures or parameter names where there is room for them."""
        best, others = searched.found[:SEARCH_SIGNATURES], searched.found[SEARCH_SIGNATURES:]
        entries = [*await self._marked(LEAN, searched, best), *await self._marked(BRIEF, searched, others)]
        if estimate(b",".join(map(bytes, entries))) <= room:  # as nearly always
            return entries
        entries = await self._marked(BRIEF, searched, searched.found)
        costs = [_cost(entry) for entry in entries]
        spare = room - sum(costs)
        while entries and spare < 0:
            entries.pop()
            spare += costs.pop()
        for number, one in enumerate(best[: len(entries)]):
            for level in (LEAN, OUTLINE):
                [entry] = await self._marked(level, searched, (one,))
                if (more := _cost(entry) - costs[number]) <= spare:
                    entries[number], spare = entry, spare - more
                    break
        return entries

    async def _marked(self, level: _Level, searched: Matches, found: Sequence[Found]) -> list[Raw]:
        entries = [entry async for entry in self._shown(level, found)]
        return [_marked(tool, entry, searched) for (tool, _), entry in zip(found, entries, strict=True)]

    async def _fitting(self, level: _Level, found: Sequence[Found], room: int, misfits: int = 0) -> list[Raw]:
        """As many entries as there is room for; so many that are too large may be passed over."""
        entries: list[Raw] = []
        parts = 0
        async for entry in self._shown(level, found):
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

    def _shown(self, level: _Level, found: Sequence[Found]) -> AsyncIterator[Raw]:
        """The entries one by one."""
        return self._renderer.each(found, lambda one: level.show(*one))


def _marked(identifier: ToolIdentifier, entry: Raw, searched: Matches) -> Raw:
    """An entry, with the other servers that have the same tool, and whether it fits badly."""
    others = searched.also_in.get(identifier, ())
    shown = others[:ALSO_IN_SHOWN]
    members: Answer = {"also_in": [{"toolbox": other.toolbox, "server": other.server} for other in shown]}
    members |= {"also_in_left_out": len(others) - len(shown), "weak": searched.is_weak}
    if not (kept := {member: value for member, value in members.items() if value}):
        return entry
    return Raw(jsonrpc.encode({**jsonrpc.fields(entry), **kept}))


def _toolbox(toolbox: Opened, brevity: Brevity) -> Answer:
    return {
        "toolbox": toolbox.toolbox,
        "description": brevity.text(toolbox.description),
        "servers_connected": toolbox.servers_connected,
        **_stored(toolbox, brevity),
        **_beside(toolbox, brevity),
    }


def _some_of(number: int, total: int) -> _Level:
    return BRIEF._replace(note=f"{number} of {count(total, 'tool')}; find others by query. {BRIEF.note}")


def _briefly(told: Told, budget: int) -> Answer:
    """What is said beside the tools, shortened until it leaves half of the room to them."""
    for length in (0, ERROR_SHOWN_LENGTH, ERROR_SHOWN_LEAST_LENGTH):
        said = told(Brevity(length, NAMES_SHOWN if length else 0))
        encoded = _encoded(said, BRIEF, ())
        if len(encoded) <= budget * LONGEST_TOKEN_BYTES and budget - estimate(encoded) >= budget // 2:
            return said
    return told(Brevity(ERROR_SHOWN_LEAST_LENGTH, -1))


def _concisely(told: Told) -> Answer:
    """What is said beside the tools; shortened if it is large, which a hostile server can make it."""
    said = told(ALL)
    if len(_encoded(said, BRIEF, ())) <= ANSWER_BYTES // BESIDE_SHARE:
        return said
    return told(Brevity(ERROR_SHOWN_LENGTH, NAMES_SHOWN))


def _escaped_bytes(text: bytes | Raw) -> int:
    """The bytes of a JSON text within a JSON string."""
    text = bytes(text)
    return len(text) + text.count(b'"') + text.count(b"\\")


def _cost(entry: Raw) -> int:
    text = bytes(entry)
    return _short_cost(text) if len(text) <= SHORT_BYTES else estimate(text) + 1


@lru_cache(maxsize=8192)
def _short_cost(text: bytes) -> int:
    """Remembered, since a toolbox is opened again and again: estimating takes longer than all the rest of it."""
    return estimate(text) + 1


def _room(said: Answer, level: _Level, budget: int) -> int:
    """Tokens that are left for tools."""
    return budget - estimate(_encoded(said, level, ()))


def _text(said: Answer, level: _Level, entries: Sequence[Raw]) -> Raw:
    return text_result(_encoded(said, level if entries else FULL, entries).decode())


def _encoded(said: Answer, level: _Level, entries: Sequence[Raw]) -> bytes:
    note = " ".join(filter(None, (said.get("note"), level.note)))
    return jsonrpc.encode({**said, **({"note": note} if note else {}), "tools": entries})


def _stored(toolbox: Opened, brevity: Brevity) -> Answer:
    """Which tools are as they were listed before: nothing where none, `true` where all, else the shorter list.

    Where even that is too long, how many.
    """
    if not toolbox.stored:
        return {}
    if not toolbox.live:
        return {"stored": True}
    member, names = ("stored", toolbox.stored) if len(toolbox.stored) <= len(toolbox.live) else ("live", toolbox.live)
    return {member: names if len(brevity.some(names)) == len(names) else len(names)}


def _beside(toolbox: Opened, brevity: Brevity) -> Answer:
    """What is not offered, and why."""
    failed = [{"server": one.server, "error": brevity.text(one.fault.reason)} for one in brevity.some(toolbox.failed)]
    withheld = [
        {"server": server, "name": brevity.text(tool.name[:NAME_SHOWN_LENGTH]), "reason": tool.reason}
        for server, tool in brevity.some(toolbox.withheld)
    ]
    told: Answer = {}
    for member, shown, number in (
        ("servers_failed", failed, len(toolbox.failed)),
        ("tools_withheld", withheld, len(toolbox.withheld)),
    ):
        told |= {member: shown} if shown else {}
        told |= {f"{member}_left_out": number - len(shown)} if len(shown) < number else {}
    return told


def _by_toolbox(servers: Iterable[ServerIdentifier]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for server in servers:
        grouped.setdefault(server.toolbox, []).append(server.server)
    return grouped
