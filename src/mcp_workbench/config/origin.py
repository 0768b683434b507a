"""Where a configuration comes from, and how its files are told to have changed. Needs nothing: every start has it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_workbench.config.model import Config

Stamp: TypeAlias = "tuple[tuple[int, ...], ...]"
"""What tells that files may be otherwise than before."""


class Origin(NamedTuple):
    """What a configuration was read from, and how it is read again."""

    files: tuple[str, ...]
    """Those that decide what it is: where one changes, it is read again."""
    stamp: Stamp
    """How they were before it was read."""
    read: Callable[[], Config]
    """Reads it as at the start. Raises `WorkbenchError`."""


def origin_of(files: Sequence[str], read: Callable[[], Config]) -> Origin:
    """An origin, as its files are now."""
    return Origin(tuple(files), stamp_of(files), read)


def stamp_of(files: Sequence[str]) -> Stamp:
    return tuple(map(_look, files))


def _look(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)  # noqa: PTH116 -- pathlib is not loaded for it
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
