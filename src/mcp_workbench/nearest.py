"""The one line of help after "not found": the nearest name that exists, or what exists."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    import difflib  # noqa: PLC0415 -- only errors need it

    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    if (same := folded.get(name.casefold())) is not None:
        return same
    found = difflib.get_close_matches(name[: DEFAULTS.name_shown_length], names, n=1)
    return found[0] if found else None


def nearest_or_known(name: str, known: Iterable[str], kind: str) -> str:
    """`Did you mean 'read_file'?`, else which `kind` of names there are."""
    names = list(known)
    if (match := nearest(name, names)) is not None:
        return f"Did you mean '{shown(match)}'?"
    if not names:
        return f"There are no {kind}."
    listed = ", ".join(f"'{shown(other)}'" for other in names[: DEFAULTS.names_shown])
    more = len(names) - DEFAULTS.names_shown
    return f"Available {kind}: {listed}" + (f" and {more} more" if more > 0 else "")
