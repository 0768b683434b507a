"""The file of cached lists.

A cache must never be a reason to fail: no method raises because of the file, its folder or another process. If the
file can't be used at once, the store backs off and works without it: for a moment if another process writes, for some
seconds if the system refuses. A damaged file, or one of an older version of the program, is replaced, but only if it
was a store: a file that was named by mistake is left alone. So is a file of a newer version, which would repeatedly
lose its entries while both versions are in use. Each problem is reported once.

Every call takes about a millisecond, or at worst the time limit for a lock that another process holds. A store belongs
to the thread that opened it. It does not interpret the entries.
"""

# ruff: noqa: PTH111 -- the first open waits for this, and importing pathlib takes longer

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
_LOSS: Final = "the cached lists of servers are lost and will be rebuilt"

T = TypeVar("T")


def store_path(environ: Mapping[str, str]) -> str:
    """The path of the store: `$WORKBENCH_CATALOG`, or a file in the user's cache folder."""
    if named := environ.get(VARIABLE):
        return os.path.expanduser(named)
    return own_file(environ, "cache", FILE_NAME)


class StoredClient(NamedTuple):
    """The capabilities and the era of a client."""

    capabilities: Raw
    modern: bool


class CacheStore:
    """The cache file. While it can't be used, nothing is found and nothing is stored."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._limits = limits
        self._file: KeptFile[CacheTables] = KeptFile(
            path, FileKind(FILE_NAME, _LOSS, STORE_TRIES, self._opened, self._was_ours)
        )
        self._backoff_until = {"reads": 0.0, "writes": 0.0}
        self._is_refused = False
        self._is_closed = False

    @classmethod
    def open(cls, path: str, limits: Limits = DEFAULTS) -> CacheStore:
        """Open the store at a path, and create it if it does not exist."""
        store = cls(path, limits)
        store._attempt(lambda _: None, None)
        return store

    def close(self) -> None:
        """Stop reading and writing."""
        self._is_closed = True
        self._file.let_go()

    @property
    def is_usable(self) -> bool:
        """Whether the file can be used. A lock does not count. If it is false, a warning was logged."""
        return not self._is_closed and not self._is_refused

    # -- lists

    def get(self, stamp: bytes, declared: bytes, kind: Kind) -> Entry | None:
        """The list of a server, by its stamp and the digest of the client's capabilities."""
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
        """Replace a list. Items with the same fingerprint are not written again."""
        now = time.time()
        self._attempt(lambda tables: tables.keep((stamp, declared, kind), entry, now), None, writes=True)

    def drop(self, stamp: bytes, declared: bytes | None = None) -> None:
        """Delete the lists of a server, for clients with these capabilities or, if None, for all."""
        self._attempt(lambda tables: tables.drop(stamp, declared), None, writes=True)

    # -- capabilities of clients

    def record_client(self, declared: Raw, *, modern: bool) -> None:
        """Record the capabilities of a client of an era."""
        digest, now = declared_digest(declared, modern=modern), time.time()
        encoded = bytes([modern]) + bytes(declared)
        self._attempt(lambda tables: tables.record_client(digest, encoded, now), None, writes=True)

    def recent_clients(self, most: int) -> list[StoredClient]:
        """The capabilities that clients declared recently, newest first."""
        now = time.time()
        found = self._attempt(lambda tables: tables.recent_clients(most, now), [])
        return [StoredClient(Raw(one[1:]), modern=one[:1] == b"\1") for one in found]

    # -- the file

    def _attempt(self, action: Callable[[CacheTables], T], default: T, *, writes: bool = False) -> T:
        """The result of the action, or `default` if the file can't be used."""
        use = "writes" if writes else "reads"
        if self._is_closed or time.monotonic() < self._backoff_until[use]:
            return default
        try:
            return self._file.act(action)
        except secure_files.Busy:
            pass
        except (Unusable, OSError) as error:
            self._is_refused = self._file.tables is None
            self._file.let_go()
            secure_files.warn_once("lists of servers are not kept on disk", self._file.path, secure_files.reason(error))
        self._backoff_until[use] = time.monotonic() + self._limits.store_rest_seconds
        return default

    def _opened(self, path: str) -> CacheTables:
        from mcp_workbench.catalog.cache.tables import CacheTables  # noqa: PLC0415 -- there are Pythons without SQLite

        tables = CacheTables(path, self._limits)
        self._is_refused = False
        return tables

    def _was_ours(self, path: str) -> bool:
        from mcp_workbench.catalog.cache.tables import is_store  # noqa: PLC0415 -- it was imported to find the damage

        return is_store(path)
