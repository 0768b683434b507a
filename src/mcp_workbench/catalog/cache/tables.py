"""The tables of the cache file: lists, their items, and the capabilities of clients.

The items of a list are in a table of their own, so that an unchanged list writes only one small row. Entries that take
too much space, or were not used for long, are pruned when others are added. Every method raises what `Database`
raises.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from mcp_workbench.catalog.cache.entry import (
    STORE_TOUCH_SECONDS,
    Entry,
    Kind,
    read_entry,
    read_head,
    seal,
    unseal,
    write_body,
    write_head,
)
from mcp_workbench.limits import Limits
from mcp_workbench.storage.sqlite import Database, is_ours

STORE_UNUSED_SECONDS = 90 * 86_400.0
"""A list that was not used for a quarter of a year probably belongs to a configuration that is gone."""
STORE_PRUNE_EVERY = 32
"""The file is pruned after this many new lists. With 2,000 lists, that takes 10 ms."""
STORE_DECLARED = 16
"""Sets of capabilities that are stored: as many as one client may declare."""

T = TypeVar("T")

VERSION: Final = 3
"""The version of the tables and of their contents. It increases with every change of either."""

_MARK: Final = b"workbench_lists"
_SCHEMA: Final = (
    """CREATE TABLE workbench_lists (
        id INTEGER PRIMARY KEY, stamp BLOB NOT NULL, declared BLOB NOT NULL, kind BLOB NOT NULL,
        head BLOB NOT NULL, size INTEGER NOT NULL, used_at REAL NOT NULL, UNIQUE (stamp, declared, kind))""",
    "CREATE TABLE workbench_items (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    """CREATE TABLE workbench_declared (
        id INTEGER PRIMARY KEY, digest BLOB UNIQUE NOT NULL, capabilities BLOB NOT NULL, seen_at REAL NOT NULL)""",
)
_FIND: Final = """SELECT id, head, used_at, body FROM workbench_lists LEFT JOIN workbench_items USING (id)
    WHERE stamp = ? AND declared = ? AND kind = ? AND size <= ?"""
_KNOWN: Final = "SELECT id, head FROM workbench_lists WHERE stamp = ? AND declared = ? AND kind = ?"
_RENEW: Final = "UPDATE workbench_lists SET head = ?, used_at = ? WHERE id = ?"
_TOUCH: Final = "UPDATE workbench_lists SET used_at = ? WHERE id = ?"
_ADD: Final = "INSERT INTO workbench_lists (stamp, declared, kind, head, size, used_at) VALUES (?, ?, ?, ?, ?, ?)"
_ADD_ITEMS: Final = "INSERT INTO workbench_items (id, body) VALUES (?, ?)"
_REMOVE: Final = ("DELETE FROM workbench_lists WHERE id = ?", "DELETE FROM workbench_items WHERE id = ?")
_OF_SERVER: Final = "SELECT id FROM workbench_lists WHERE stamp = ? AND (? IS NULL OR declared = ?)"
_NEWEST: Final = "SELECT digest FROM workbench_declared WHERE seen_at > ? ORDER BY id DESC LIMIT 1"
_SEE: Final = "INSERT OR REPLACE INTO workbench_declared (digest, capabilities, seen_at) VALUES (?, ?, ?)"
_SEEN: Final = "SELECT digest, capabilities FROM workbench_declared WHERE seen_at > ? ORDER BY id DESC LIMIT ?"
_FORGET: Final = """DELETE FROM workbench_declared WHERE id IN (
    SELECT id FROM workbench_declared ORDER BY id DESC LIMIT -1 OFFSET ?)"""

ListId: TypeAlias = tuple[bytes, bytes, Kind]
"""The key of a list: the stamp of its server, the digest of its client's capabilities, and its kind."""


class StoredEntry(msgspec.Struct, frozen=True):
    """An entry with the id of its row and the time of its last use."""

    id: int
    entry: Entry
    used_at: float


class _StoredRow(msgspec.Struct, frozen=True, array_like=True):
    id: int
    head: bytes
    used_at: float
    body: bytes


class CacheTables:
    """The tables of an open file."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._limits = limits
        self._file = Database(path, _SCHEMA, VERSION, limits)

    def close(self) -> None:
        self._file.close()

    # -- lists

    def find(self, keys: Sequence[tuple[bytes, bytes]], kind: Kind) -> list[StoredEntry | None]:
        """The entries for pairs of stamp and capabilities digest, read in one transaction."""
        with self._file.transaction("DEFERRED"):
            return [self._find((stamp, declared, kind)) for stamp, declared in keys]

    def keep(self, list_id: ListId, entry: Entry, now: float) -> None:
        """Write an entry. Unchanged items are not written again, and too large ones are not stored."""
        key = _key(list_id)
        with self._file.transaction("IMMEDIATE"):
            row = self._file.row(_KNOWN, list_id)
            known = _converted(row, tuple[int, bytes]) if row is not None else None
            if known is not None and read_head(key, known[1]).fingerprint == entry.fingerprint:
                self._file.run(_RENEW, (write_head(key, entry), now, known[0]))
                return
            if known is not None:
                self._remove([known[0]])
            if len(body := write_body(key, entry)) <= self._limits.store_entry_bytes:
                added = self._file.run(_ADD, (*list_id, write_head(key, entry), len(body), now)).lastrowid
                self._file.run(_ADD_ITEMS, (added, body))
                if (added or 0) % STORE_PRUNE_EVERY == 0:
                    self._prune(now)

    def touch(self, ids: Sequence[int], now: float) -> None:
        """Record that entries were used."""
        with self._file.transaction("IMMEDIATE"):
            self._file.run_each(_TOUCH, [(now, one) for one in ids])

    def drop(self, stamp: bytes, declared: bytes | None = None) -> None:
        """Remove the lists of a server, for clients with these capabilities or, if None, for all."""
        with self._file.transaction("IMMEDIATE"):
            rows = self._file.run(_OF_SERVER, (stamp, declared, declared))
            self._remove([row[0] for row in rows.fetchall()])

    def _find(self, list_id: ListId) -> StoredEntry | None:
        row = self._file.row(_FIND, (*list_id, self._limits.store_entry_bytes))
        if row is None:
            return None
        read = _converted(row, _StoredRow)
        return StoredEntry(read.id, read_entry(_key(list_id), read.head, read.body), read.used_at)

    def _remove(self, ids: Sequence[int]) -> None:
        for statement in _REMOVE:
            self._file.run_each(statement, [(one,) for one in ids])

    def _prune(self, now: float) -> None:
        """Remove entries that were not used for long, then the least recently used ones until the rest fits."""
        limits, since = self._limits, now - STORE_UNUSED_SECONDS
        row = self._file.row("SELECT count(*), total(size), min(used_at) FROM workbench_lists")
        count, size, oldest = _converted(row, tuple[int, float, float])
        if count <= limits.store_entries and size <= limits.store_bytes and oldest >= since:
            return
        query = "SELECT id, size, used_at FROM workbench_lists ORDER BY used_at DESC, id DESC"
        rows = _converted(self._file.run(query).fetchall(), list[tuple[int, int, float]])
        totals = itertools.accumulate(size for _, size, _ in rows)
        self._remove(
            [
                one
                for number, ((one, _, used_at), total) in enumerate(zip(rows, totals, strict=True))
                if number >= limits.store_entries or total > limits.store_bytes or used_at < since
            ]
        )

    # -- capabilities of clients

    def record_client(self, digest: bytes, capabilities: bytes, now: float) -> None:
        """Record capabilities. The newest are not written again until they are old."""
        with self._file.transaction("DEFERRED"):
            newest = self._file.row(_NEWEST, (now - STORE_TOUCH_SECONDS,))
        if newest != (digest,):
            with self._file.transaction("IMMEDIATE"):
                self._file.run(_SEE, (digest, seal(digest, capabilities), now))
                self._file.run(_FORGET, (STORE_DECLARED,))

    def recent_clients(self, most: int, now: float) -> list[bytes]:
        """The capabilities that clients declared recently, newest first."""
        with self._file.transaction("DEFERRED"):
            rows = self._file.run(_SEEN, (now - STORE_UNUSED_SECONDS, most)).fetchall()
            pairs = _converted(rows, list[tuple[bytes, bytes]])
            return [bytes(unseal(digest, sealed)) for digest, sealed in pairs]


def is_store(path: str) -> bool:
    """Whether a damaged file was a store, or is empty. Raises `OSError`."""
    return is_ours(path, _MARK)


def _key(list_id: ListId) -> bytes:
    stamp, declared, kind = list_id
    return b"".join((stamp, declared, kind.encode()))


def _converted(row: Any, kind: type[T]) -> T:
    """Check the types of values, since SQLite allows any type in any column. Raises `msgspec.ValidationError`."""
    return msgspec.convert(row, kind, builtin_types=(bytes,))
