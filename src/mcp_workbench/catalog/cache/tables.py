"""The tables of the store: lists, their items, and what clients declared.

A list's items stand apart from the rest of it, so that a listing that found nothing new writes one small row. What
takes too much room, or was not used for long, is removed now and then when something is added. Every method raises
what `Database` raises.
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
"""A list that nobody used for a quarter of a year is of a configuration that is gone."""
STORE_PRUNE_EVERY = 32
"""New lists after which these bounds are looked at again: with 2,000 lists that takes 10 ms."""
STORE_DECLARED = 16
"""Sets of capabilities that are remembered: as many as one client may declare."""

T = TypeVar("T")

VERSION: Final = 3
"""Of the tables and what stands in them. It grows with every change of either."""

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

Place: TypeAlias = tuple[bytes, bytes, Kind]
"""The stamp of a server, the digest of the client that it listed for, and the kind of list."""


class StoredEntry(msgspec.Struct, frozen=True):
    """An entry, its row, and when somebody last used it."""

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
        """The entries for pairs of stamp and declared capabilities, all as they are at one moment."""
        with self._file.transaction("DEFERRED"):
            return [self._find((stamp, declared, kind)) for stamp, declared in keys]

    def keep(self, place: Place, entry: Entry, now: float) -> None:
        """Write an entry: its items only where the fingerprint is another one, and not if they are too large."""
        key = _key(place)
        with self._file.transaction("IMMEDIATE"):
            row = self._file.row(_KNOWN, place)
            known = _converted(row, tuple[int, bytes]) if row is not None else None
            if known is not None and read_head(key, known[1]).fingerprint == entry.fingerprint:
                self._file.run(_RENEW, (write_head(key, entry), now, known[0]))
                return
            if known is not None:
                self._remove([known[0]])
            if len(body := write_body(key, entry)) <= self._limits.store_entry_bytes:
                added = self._file.run(_ADD, (*place, write_head(key, entry), len(body), now)).lastrowid
                self._file.run(_ADD_ITEMS, (added, body))
                if (added or 0) % STORE_PRUNE_EVERY == 0:
                    self._prune(now)

    def touch(self, ids: Sequence[int], now: float) -> None:
        """Note that entries were used."""
        with self._file.transaction("IMMEDIATE"):
            self._file.run_each(_TOUCH, [(now, one) for one in ids])

    def drop(self, stamp: bytes, declared: bytes | None = None) -> None:
        """Remove all lists of a server: for clients that declare this, or for all if it is None."""
        with self._file.transaction("IMMEDIATE"):
            rows = self._file.run(_OF_SERVER, (stamp, declared, declared))
            self._remove([row[0] for row in rows.fetchall()])

    def _find(self, place: Place) -> StoredEntry | None:
        row = self._file.row(_FIND, (*place, self._limits.store_entry_bytes))
        if row is None:
            return None
        read = _converted(row, _StoredRow)
        return StoredEntry(read.id, read_entry(_key(place), read.head, read.body), read.used_at)

    def _remove(self, ids: Sequence[int]) -> None:
        for statement in _REMOVE:
            self._file.run_each(statement, [(one,) for one in ids])

    def _prune(self, now: float) -> None:
        """Remove what nobody used for long, and what was used longest ago until the rest is within bounds."""
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

    # -- what clients declared

    def see(self, digest: bytes, capabilities: bytes, now: float) -> None:
        """Note that a client declared this. The newest one is not written again, until it is old."""
        with self._file.transaction("DEFERRED"):
            newest = self._file.row(_NEWEST, (now - STORE_TOUCH_SECONDS,))
        if newest != (digest,):
            with self._file.transaction("IMMEDIATE"):
                self._file.run(_SEE, (digest, seal(digest, capabilities), now))
                self._file.run(_FORGET, (STORE_DECLARED,))

    def seen(self, most: int, now: float) -> list[bytes]:
        """What clients declared lately, the newest first."""
        with self._file.transaction("DEFERRED"):
            rows = self._file.run(_SEEN, (now - STORE_UNUSED_SECONDS, most)).fetchall()
            pairs = _converted(rows, list[tuple[bytes, bytes]])
            return [bytes(unseal(digest, sealed)) for digest, sealed in pairs]


def is_store(path: str) -> bool:
    """Whether a damaged file was a store, or nothing at all. Raises `OSError`."""
    return is_ours(path, _MARK)


def _key(place: Place) -> bytes:
    stamp, declared, kind = place
    return b"".join((stamp, declared, kind.encode()))


def _converted(row: Any, kind: type[T]) -> T:
    """Values of the kinds that we wrote: SQLite puts any kind into any column. Raises `msgspec.ValidationError`."""
    return msgspec.convert(row, kind, builtin_types=(bytes,))
