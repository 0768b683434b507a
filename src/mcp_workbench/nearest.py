"""The one line of help after "not found": the nearest name that exists, or what exists."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown

_NEAR = 0.6
_VERY_NEAR = 0.8


def nearest(name: str, known: Iterable[str], *, certain: bool = False) -> str | None:
    """The known name that was probably meant; `certain`: all but surely."""
    found = nearest_names(name, known, _VERY_NEAR if certain else _NEAR)
    return found[0] if found else None


def nearest_names(name: str, known: Iterable[str], cutoff: float = _NEAR) -> list[str]:
    """The known names that were probably meant, the best first; case does not matter."""
    import difflib  # noqa: PLC0415 -- only errors need it

    folded = name.casefold()
    by_case = {other.casefold(): other for other in reversed(list(known))}
    if folded in by_case:
        return [by_case[folded]]
    names = list(by_case)
    if len(names) > DEFAULTS.nearest_candidates:
        # Comparing takes long; those of about the same length and with the same beginning go first.
        names.sort(key=lambda other: (other[:2] != folded[:2], abs(len(other) - len(folded))))
        del names[DEFAULTS.nearest_candidates :]
    near = difflib.get_close_matches(folded[: DEFAULTS.name_shown_length], names, DEFAULTS.nearest_shown, cutoff)
    return [by_case[other] for other in near]


def nearest_or_known(name: str, known: Iterable[str], kind: str) -> str:
    """`Did you mean 'read_file'?`, else which `kind` of names there are."""
    names = list(known)
    if (match := nearest(name, names)) is not None:
        return f"Did you mean '{shown(match)}'?"
    return known_names(names, kind)


def known_names(known: Iterable[str], kind: str) -> str:
    """Which `kind` of names there are, the first of them."""
    names = list(known)
    if not names:
        return f"There are no {kind}."
    listed = ", ".join(f"'{shown(other)}'" for other in names[: DEFAULTS.names_shown])
    more = len(names) - DEFAULTS.names_shown
    return f"Available {kind}: {listed}" + (f" and {more} more" if more > 0 else "")
