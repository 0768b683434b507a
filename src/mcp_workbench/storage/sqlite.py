"""Opens our SQLite files, creates their tables, and translates SQLite's errors.

Every error of SQLite becomes `Busy` (another process is writing), `Damaged` (the content is broken or not ours) or
`Unusable` (the system refuses). Only the thread that opened a connection may use it; Python's module raises otherwise.

Files use the rollback journal. A write-ahead log needs shared memory, which network file systems and read-only folders
lack, and a truncated file would kill the process with SIGBUS. Writes are not flushed to the disk, so they take less
than a millisecond. Damage by a power failure is handled like any other damage.
"""

# ruff: noqa: PTH120 -- a first open needs this module, and importing pathlib takes longer than all of it

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Generator, Sequence
from typing import Any, Final, Literal

import msgspec

from mcp_workbench.limits import Limits
from mcp_workbench.storage.secure_files import Busy, Damaged, Unusable, read
from mcp_workbench.wire.caller import CAPABILITIES_BYTES

STORE_CACHE_BYTES = 256 * 1024
"""SQLite's page cache. It can be small, since the system caches the file too."""
STORE_HEAD_BYTES = 4096
"""How much of a damaged file is read to recognise it as ours: its first page, which names the tables."""

LISTS: Final = 0x4D435057
"""`MCPW`: the application id of the catalog file."""
RECORD: Final = 0x4D435052
"""`MCPR`: the application id of the record."""

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DENIED: Final = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_AUTH,
)
_PRIMARY: Final = 0xFF
"""Masks the primary code in SQLite's extended error codes."""


class Database:
    """An open file. Every method raises `Busy`, `Damaged` or `Unusable`."""

    def __init__(
        self, path: str, schema: Sequence[str], version: int, limits: Limits, *, application: int = LISTS
    ) -> None:
        """Open an existing file. An empty one gets the tables of `schema`."""
        self._path = path
        self._application = application
        with self._explained():
            self._connection = _connect(path, limits)
        try:
            with self._explained():
                self._prepare(schema, version)
        except (Busy, Damaged, Unusable):
            self.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def run(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def run_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    def row(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row. Ends the statement, which releases its lock."""
        cursor = self.run(statement, values)
        row = cursor.fetchone()
        cursor.close()
        return row

    @contextlib.contextmanager
    def transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Generator[None]:
        """Run the block as one transaction.

        Writers begin with IMMEDIATE: two readers can't both become writers.
        """
        with self._explained():
            try:
                self.run(f"BEGIN {kind}")
                yield
                self.run("COMMIT")
            finally:
                if self._connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self.run("ROLLBACK")

    def _prepare(self, schema: Sequence[str], version: int) -> None:
        for setting in ("journal_mode = DELETE", "synchronous = OFF", "temp_store = MEMORY", "cell_size_check = ON"):
            self.row(f"PRAGMA {setting}")
        self.row(f"PRAGMA cache_size = {-STORE_CACHE_BYTES // 1024}")
        if self._is_blank():
            self._make([*schema, f"PRAGMA application_id = {self._application}", f"PRAGMA user_version = {version}"])
        if self._number("application_id") != self._application:
            raise Damaged("it is not our file")
        if (found := self._number("user_version")) != version:
            newer = found > version
            raise Unusable("a newer version of the program wrote it") if newer else Damaged("an older version wrote it")

    def _make(self, statements: Sequence[str]) -> None:
        with self.transaction("IMMEDIATE"):
            if self._is_blank():  # another process may have been faster
                for statement in statements:
                    self.run(statement)

    def _is_blank(self) -> bool:
        return self._number("application_id") == 0 and self.row("SELECT 1 FROM sqlite_master") is None

    def _number(self, name: str) -> int:
        return msgspec.convert(self.row(f"PRAGMA {name}"), tuple[int])[0]

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._meaning(error) from None
        except (UnicodeDecodeError, msgspec.ValidationError):  # a damaged name in SQLite's message, or a damaged row
            raise Damaged("it is damaged") from None
        except MemoryError:
            raise Unusable("there is not enough memory") from None

    def _meaning(self, error: sqlite3.Error) -> Exception:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return error  # we used the module wrongly
        what = code & _PRIMARY
        if what in _BUSY or code == sqlite3.SQLITE_READONLY_DBMOVED:
            return Busy()
        if what == sqlite3.SQLITE_READONLY and self._may_write():
            return Damaged("it is damaged")  # a damaged header marks the file as read-only
            # Our statements are valid, so any other error is due to the content of the file.
        return Unusable(str(error)) if what in _DENIED else Damaged("it is damaged")

    def _may_write(self) -> bool:
        return all(os.access(path, os.W_OK) for path in (self._path, os.path.dirname(self._path)))


def is_ours(path: str, mark: bytes, *, application: int = LISTS) -> bool:
    """Whether a damaged file is empty or was ours: its first page has our application id or `mark`.

    Raises `OSError`.
    """
    head = read(path, STORE_HEAD_BYTES)
    return not head or mark in head or application.to_bytes(4) in head


def _connect(path: str, limits: Limits) -> sqlite3.Connection:
    # mode=rw keeps SQLite from creating a missing file, which others could read.
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file://{escaped}?mode=rw", uri=True, isolation_level=None, timeout=limits.store_busy_seconds
    )
    connection.text_factory = bytes
    # A damaged length must not make SQLite allocate a gigabyte.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.store_entry_bytes + CAPABILITIES_BYTES)
    return connection
