"""The help after "not found": the nearest name that exists, and what exists.

A tool whose verb differs is never proposed. The work is bounded, however many names there are and however long:
of very many, only those that share most fragments with the name are compared letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp_workbench.text.sanitize import NAME_SHOWN_LENGTH, NAMES_SHOWN, escape

NEAREST_CANDIDATES = 300
"""Names that are compared in search of the nearest: more would block the event loop."""
JOINED_MATCHES_SHOWN = 5
"""How many calls an error shows if a mistaken call can mean several."""
NEAREST_SHOWN = 3
"""Names that may have been meant, where several are offered."""

_NEAR = 0.6
_VERY_NEAR = 0.8
_FRAGMENT = 3
_FRAGMENTS = 6
_COMPARED_LETTERS = 8_000
"""Letters of known names that are compared with one name: two milliseconds."""


def nearest(name: str, known: Iterable[str], *, certain: bool = False) -> str | None:
    """The known name that was probably meant; `certain`: all but surely."""
    found = nearest_names(name, known, _VERY_NEAR if certain else _NEAR)
    return found[0] if found else None


def nearest_tools(name: str, known: Iterable[str]) -> list[str]:
    """The known tools that were probably meant, the best first; never one that does something else."""
    from mcp_workbench.text.spelling import says_the_same  # noqa: PLC0415 -- only errors need it

    found = nearest_names(name, known, most=NEAREST_CANDIDATES)
    return [other for other in found if says_the_same(name, other)][:NEAREST_SHOWN]


def nearest_names(name: str, known: Iterable[str], cutoff: float = _NEAR, *, most: int = NEAREST_SHOWN) -> list[str]:
    """The known names that were probably meant, the best first; case does not matter."""
    from mcp_workbench.text.spelling import letter_positions, similarity  # noqa: PLC0415 -- only errors need it

    length = NAME_SHOWN_LENGTH
    folded = name[:length].casefold()
    by_case = {other[:length].casefold(): other for other in reversed(list(known))}
    if folded in by_case:
        return [by_case[folded]]
    masks = letter_positions(folded)
    scores = {other: similarity(folded, other, masks) for other in _comparable(folded, by_case, cutoff)}
    ranked = sorted((other for other in scores if scores[other] >= cutoff), key=lambda other: -scores[other])
    return [by_case[other] for other in ranked[:most]]


def _comparable(name: str, known: Iterable[str], cutoff: float) -> list[str]:
    """The names whose length fits; of more than can be compared, those that share most fragments with `name`."""
    least, most = len(name) * cutoff / (2 - cutoff), len(name) * (2 - cutoff) / cutoff
    fitting = [other for other in reversed(list(known)) if least <= len(other) <= most]
    room = min(NEAREST_CANDIDATES, _COMPARED_LETTERS // (max(map(len, fitting), default=0) + 1))
    if len(fitting) <= room:
        return fitting
    last = max(len(name) - _FRAGMENT, 0)
    starts = {last * part // (_FRAGMENTS - 1) for part in range(_FRAGMENTS)}
    fragments = [name[start : start + _FRAGMENT] for start in starts]
    shared = [sum([fragment in other for fragment in fragments]) for other in fitting]
    best = sorted(range(len(fitting)), key=shared.__getitem__, reverse=True)[:room]
    return [fitting[number] for number in best]


def nearest_or_known(name: str, known: Iterable[str], kind: str) -> str:
    """`Did you mean 'read_file'?`, else which `kind` of names there are."""
    names = list(known)
    if (match := _nearest_of(name, names, kind)) is not None:
        return f"Did you mean '{escape(match)}'?"
    return known_names(names, kind)


def nearest_and_known(name: str, known: Iterable[str], kind: str) -> str:
    """`Did you mean 'read_file'?` where a name is near, and which `kind` of names there are."""
    names = list(known)
    match = _nearest_of(name, names, kind)
    meant = f"Did you mean '{escape(match)}'? " if match is not None else ""
    return f"{meant}{known_names(names, kind)}"


def _nearest_of(name: str, known: list[str], kind: str) -> str | None:
    found = nearest_tools(name, known) if kind == "tools" else nearest_names(name, known)
    return found[0] if found else None


def known_names(known: Iterable[str], kind: str) -> str:
    """Which `kind` of names there are, the first of them."""
    names = list(known)
    if not names:
        return f"There are no {kind}."
    listed = ", ".join(f"'{escape(other)}'" for other in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"Available {kind}: {listed}" + (f" and {more} more" if more > 0 else "")
