"""The answers of `open_toolbox`: one text block of compact JSON that costs no more tokens than it may.

Whole definitions while they fit, then signatures, then names with the first sentence, then as many of those as
fit. Everything but the tools is shortened first: the servers' instructions get the room that the tools leave, but
always a small part of the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import tee
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.opened import Found, Matches, Opened
from mcp_workbench.catalog.rendering import render, signature
from mcp_workbench.catalog.rendering.budget import estimate
from mcp_workbench.catalog.rendering.instructions import INSTRUCTIONS_SHARE, fitted
from mcp_workbench.identity import EVERY_TOOLBOX, ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.surfaces import results
from mcp_workbench.surfaces.arguments import OpenRequest
from mcp_workbench.wire import jsonrpc

Render: TypeAlias = Callable[[ToolIdentifier, Definition], Raw]
Answer: TypeAlias = dict[str, Any]
T = TypeVar("T")

WHOLE = 'for a whole definition: {"toolbox":"TOOLBOX","tools":["NAME"]}'
NOTHING_FITS = "No tool fits this query."
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
BRIEF = _Level(signature.brief, f"First sentences; {WHOLE}")


def opened(toolbox: Opened, found: Sequence[Found], request: OpenRequest, limits: Limits) -> Raw:
    """The answer for one toolbox, of whose tools `found` were asked for."""
    detail = request.detail if request.detail != "auto" or not request.tools else "full"
    note = f"{NOTHING_FITS} Without query: all {len(toolbox.found)} tools." if request.query and not found else ""

    def told(brevity: Brevity) -> Answer:
        return {
            "toolbox": toolbox.toolbox,
            "description": brevity.text(toolbox.description),
            "servers_connected": toolbox.servers_connected,
            **_stored(toolbox, brevity),
            **_beside(toolbox, brevity),
            **({"note": note} if note else {}),
        }

    # A search, or a request for some definitions, usually follows an open: do not repeat the instructions.
    instructions = toolbox.instructions if not request.query and not request.tools else _NONE
    return _answer(told, found, detail, limits, instructions)


def matches(searched: Matches, request: OpenRequest, limits: Limits) -> Raw:
    """The answer of a search in every toolbox."""
    notes = [NOTHING_FITS] if not searched.found else []
    if searched.never_listed:
        notes.append(
            f"Not searched: {len(searched.never_listed)} servers never listed yet; open their toolboxes first."
        )

    def told(brevity: Brevity) -> Answer:
        unknown = _by_toolbox(brevity.some(searched.never_listed[: limits.names_shown]))
        answer: Answer = {"toolbox": EVERY_TOOLBOX, "never_listed": unknown, "note": " ".join(notes)}
        return {member: value for member, value in answer.items() if value}

    return _answer(told, searched.found, request.detail, limits)


def _answer(
    told: Told, found: Sequence[Found], detail: str, limits: Limits, instructions: Mapping[str, str] = _NONE
) -> Raw:
    budget = limits.open_budget_tokens
    if detail != "auto":
        level = FULL if detail == "full" else SIGNATURE
        said = told(ALL) | fitted(instructions, budget // INSTRUCTIONS_SHARE, limits)
        return _text(said, level, [level.show(*one) for one in found])
    beside = _briefly(told, limits)
    least = min(budget // INSTRUCTIONS_LEAST_SHARE, _room(beside, BRIEF, limits))
    said = beside | fitted(instructions, least, limits)
    briefs, again = tee(BRIEF.show(*one) for one in found)
    # The cheapest form first: where not even that fits beside what is always said, no other does.
    if len(list(_fitting(briefs, _room(said, FULL, limits), 0))) == len(found):
        for level in (FULL, SIGNATURE, BRIEF):
            entries = list(_fitting((level.show(*one) for one in found), _room(said, level, limits), 0))
            if len(entries) == len(found):
                left = budget - estimate(_encoded(beside, level, entries)) if instructions else 0
                room = min(max(left, least), budget // INSTRUCTIONS_SHARE)
                return _text(beside | fitted(instructions, room, limits), level, entries)
    few = {**said, "tools_left_out": len(found)}
    entries = list(_fitting(again, _room(few, _some_of(len(found), len(found)), limits), limits.misfits))
    few["tools_left_out"] = len(found) - len(entries)
    return _text(few, _some_of(len(entries), len(found)), entries)


def _some_of(count: int, total: int) -> _Level:
    return BRIEF._replace(note=f"{count} of {total} tools; find others by query. {BRIEF.note}")


def _briefly(told: Told, limits: Limits) -> Answer:
    """What is said beside the tools, shortened until it leaves half of the room to them."""
    for length in (0, limits.error_shown_length, limits.error_shown_least_length):
        said = told(Brevity(length, limits.names_shown if length else 0))
        if _room(said, BRIEF, limits) >= limits.open_budget_tokens // 2:
            return said
    return told(Brevity(limits.error_shown_least_length, -1))


def _fitting(entries: Iterable[Raw], room: int, misfits: int) -> Iterator[Raw]:
    """As many as there is room for; so many that are too large may be passed over."""
    for entry in entries:
        cost = estimate(bytes(entry)) + 1
        if cost <= room:
            room -= cost
            yield entry
        elif misfits:
            misfits -= 1
        else:
            return


def _room(said: Answer, level: _Level, limits: Limits) -> int:
    """Tokens that are left for tools."""
    return limits.open_budget_tokens - estimate(_encoded(said, level, ()))


def _text(said: Answer, level: _Level, entries: Sequence[Raw]) -> Raw:
    return results.text(_encoded(said, level if entries else FULL, entries).decode())


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
        {"server": server, "name": brevity.text(tool.name), "reason": tool.reason}
        for server, tool in brevity.some(toolbox.withheld)
    ]
    told: Answer = {}
    for member, shown, count in (
        ("servers_failed", failed, len(toolbox.failed)),
        ("tools_withheld", withheld, len(toolbox.withheld)),
    ):
        told |= {member: shown} if shown else {}
        told |= {f"{member}_left_out": count - len(shown)} if len(shown) < count else {}
    return told


def _by_toolbox(servers: Iterable[ServerIdentifier]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for server in servers:
        grouped.setdefault(server.toolbox, []).append(server.server)
    return grouped
