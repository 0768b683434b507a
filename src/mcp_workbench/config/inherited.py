"""Which variables of our own environment a server gets: `inheritEnv`, by name or glob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def inherited(patterns: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What `inheritEnv` lets through. Most servers have none, and pay nothing for it."""
    if not patterns:
        return {}
    from fnmatch import fnmatchcase  # noqa: PLC0415 -- few servers need it

    return {name: value for name, value in environ.items() if any(fnmatchcase(name, pattern) for pattern in patterns)}
