"""Lists of servers on disk, so that no server need run to show what it offers.

It is a cache, and never a reason to fail: no method raises for what the file, its folder or another process does. What
can't be had at once is done without, for a moment where another process writes and for some seconds where the
system refuses. A damaged file, or one of an older version of the program, is made anew, if it was a store: another
file that somebody named by mistake is left alone. So is one of a newer version, which would lose its entries again
and again while both versions are in use. People are told once of each.

Every call is a few system calls on a local file: about a millisecond, at worst the time that a stuck process is
waited for. A store belongs to the thread that opened it. It does not look into what it keeps.
"""

# ruff: noqa: PTH111 -- on the way to a first open, and importing pathlib takes longer than all of this

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from msgspec import Raw

from mcp_workbench.catalog.cache.entry import (
    STORE_TOUCH_SECONDS,
    STORE_TRIES,
    Entry,
    Kind,
    declared_digest,
    fingerprint,
)
from mcp_workbench.config.locate import own_file
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import Unusable
from mcp_workbench.storage.table_file import KeptFile
from mcp_workbench.storage.table_file import Kind as FileKind

if TYPE_CHECKING:
    from mcp_workbench.catalog.cache.tables import CacheTables

__all__ = ["CacheStore", "Entry", "Kind", "StoredClient", "fingerprint", "store_path"]

VARIABLE: Final = "WORKBENCH_CATALOG"
FILE_NAME: Final = "catalog.sqlite"
_LOSS: Final = "lists of servers on disk are lost and will be made anew"

T = TypeVar("T")


def store_path(environ: Mapping[str, str]) -> str:
    """Where the store is: `$WORKBENCH_CATALOG`, or a file in the user's cache folder."""
    if named := environ.get(VARIABLE):
        return os.path.expanduser(named)
    return own_file(environ, "cache", FILE_NAME)


class StoredClient(NamedTuple):
    """The capabilities and the era of a client."""

    capabilities: Raw
    modern: bool


class CacheStore:
    """The file, or nothing where it can't be used."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._limits = limits
        self._file: KeptFile[CacheTables] = KeptFile(
            path, FileKind(FILE_NAME, _LOSS, STORE_TRIES, self._opened, self._was_ours)
        )
        self._rests_until = {"reads": 0.0, "writes": 0.0}
        self._is_refused = False
        self._is_closed = False

    @classmethod
    def open(cls, path: str, limits: Limits = DEFAULTS) -> CacheStore:
        """The store at a path, made if it is not there."""
        store = cls(path, limits)
        store._attempt(lambda _: None, None)
        return store

    def close(self) -> None:
        """Nothing is read or written from now on."""
        self._is_closed = True
        self._file.let_go()

    @property
    def is_usable(self) -> bool:
        """False where the file can't be used, as people have been told. One that is locked for a moment can."""
        return not self._is_closed and not self._is_refused

    # -- lists

    def get(self, stamp: bytes, declared: bytes, kind: Kind) -> Entry | None:
        """What a server listed, by its stamp and the digest of what was declared to it."""
        return self.get_many([(stamp, declared)], kind)[0]

    def get_many(self, keys: Sequence[tuple[bytes, bytes]], kind: Kind) -> list[Entry | None]:
        """The same for many servers at once, in their order."""
        rows = self._attempt(lambda tables: tables.find(keys, kind), [None] * len(keys))
        now = time.time()
        old = [row.id for row in rows if row is not None and row.used_at < now - STORE_TOUCH_SECONDS]
        if old:
            self._attempt(lambda tables: tables.touch(old, now), None, writes=True)
        return [row.entry if row is not None else None for row in rows]

    def put(self, stamp: bytes, declared: bytes, kind: Kind, entry: Entry) -> None:
        """Keep a list instead of the one before; one with the same fingerprint costs no write of its items."""
        now = time.time()
        self._attempt(lambda tables: tables.keep((stamp, declared, kind), entry, now), None, writes=True)

    def drop(self, stamp: bytes, declared: bytes | None = None) -> None:
        """Delete every list of a server: for clients that declare this, or for all if it is None."""
        self._attempt(lambda tables: tables.drop(stamp, declared), None, writes=True)

    # -- what clients declare

    def saw(self, declared: Raw, *, modern: bool) -> None:
        """Record that a client of this era declared these capabilities."""
        digest, now = declared_digest(declared, modern=modern), time.time()
        written = bytes([modern]) + bytes(declared)
        self._attempt(lambda tables: tables.see(digest, written, now), None, writes=True)

    def declared(self, most: int) -> list[StoredClient]:
        """What clients declared lately, the newest first."""
        now = time.time()
        found = self._attempt(lambda tables: tables.seen(most, now), [])
        return [StoredClient(Raw(one[1:]), modern=one[:1] == b"\1") for one in found]

    # -- the file

    def _attempt(self, action: Callable[[CacheTables], T], otherwise: T, *, writes: bool = False) -> T:
        """What the action gives, or `otherwise` where the file does not let it."""
        use = "writes" if writes else "reads"
        if self._is_closed or time.monotonic() < self._rests_until[use]:
            return otherwise
        try:
            return self._file.act(action)
        except secure_files.Busy:
            pass
        except (Unusable, OSError) as error:
            self._is_refused = self._file.tables is None
            self._file.let_go()
            secure_files.warn_once("lists of servers are not kept on disk", self._file.path, secure_files.reason(error))
        self._rests_until[use] = time.monotonic() + self._limits.store_rest_seconds
        return otherwise

    def _opened(self, path: str) -> CacheTables:
        from mcp_workbench.catalog.cache.tables import CacheTables  # noqa: PLC0415 -- there are Pythons without SQLite

        tables = CacheTables(path, self._limits)
        self._is_refused = False
        return tables

    def _was_ours(self, path: str) -> bool:
        from mcp_workbench.catalog.cache.tables import is_store  # noqa: PLC0415 -- it was imported to find the damage

        return is_store(path)
