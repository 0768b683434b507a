"""The tables of the record, and the writes to them. Every method raises the errors of `Database`.

The tables are bounded by rows, bytes and age; the oldest rows are removed first. The bounds on rows and bytes hold
after every write, however many processes write. Old rows and runs are pruned now and then.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_workbench.activity.batch import Batch, Run
from mcp_workbench.activity.process_identity import birth
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.storage.sqlite import RECORD, Database, is_ours

RECORD_ROWS_AT_ONCE = 100
"""Rows of one statement. Older versions of SQLite allow at most 999 values."""
RECORD_AGE_SECONDS = 14 * 86_400.0
"""How long everything in the record is kept. Nobody looks for older failures."""

VERSION: Final = 4
"""The version of the tables and their contents. It grows with every change."""

_MARK: Final = b"record_runs"
# AUTOINCREMENT: the number of a removed run or line is never used again.
# `start` is the sum of the sizes of all earlier rows, so the total size needs no scan.
_SCHEMA: Final = (
    """CREATE TABLE record_runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL, birth TEXT NOT NULL, version TEXT NOT NULL,
        config TEXT NOT NULL, transport TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL,
        ended REAL, was_killed INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0,
        problem TEXT NOT NULL DEFAULT '', pressure TEXT NOT NULL DEFAULT '', held INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE record_servers (
        run INTEGER NOT NULL, toolbox TEXT NOT NULL, server TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL,
        connections INTEGER NOT NULL, tools INTEGER, code TEXT NOT NULL, error TEXT NOT NULL, error_at REAL,
        PRIMARY KEY (run, toolbox, server)) WITHOUT ROWID""",
    """CREATE TABLE record_flights (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL, began REAL NOT NULL, toolbox TEXT NOT NULL,
        server TEXT NOT NULL, tool TEXT NOT NULL)""",
    """CREATE TABLE record_tools (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL, toolbox TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
        calls INTEGER NOT NULL, errors INTEGER NOT NULL, UNIQUE (run, toolbox, server, tool))""",
    """CREATE TABLE record_calls (
        id INTEGER PRIMARY KEY, tool INTEGER NOT NULL, at REAL NOT NULL, milliseconds REAL NOT NULL,
        outcome TEXT NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL, arguments TEXT, result TEXT,
        error TEXT NOT NULL)""",
    """CREATE TABLE record_clients (
        run INTEGER NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, protocol TEXT NOT NULL,
        sessions INTEGER NOT NULL, PRIMARY KEY (run, name, version, protocol)) WITHOUT ROWID""",
    """CREATE TABLE record_lines (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL, at REAL NOT NULL, level TEXT NOT NULL,
        toolbox TEXT NOT NULL, server TEXT NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL,
        text TEXT NOT NULL)""",
    """CREATE TABLE record_openings (
        run INTEGER NOT NULL, toolbox TEXT NOT NULL, opens INTEGER NOT NULL, flat INTEGER NOT NULL,
        answered INTEGER NOT NULL, PRIMARY KEY (run, toolbox)) WITHOUT ROWID""",
)
_BEGIN: Final = """INSERT INTO record_runs (pid, birth, version, config, transport, began, seen)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_SEE: Final = """UPDATE record_runs SET seen = ?, ended = ?, was_killed = 0, lost = lost + ?, problem = ?,
    pressure = ?, held = ? WHERE id = ?"""
_SERVER: Final = """INSERT OR REPLACE INTO record_servers
    (run, toolbox, server, state, since, connections, tools, code, error, error_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_GONE: Final = "DELETE FROM record_servers WHERE run = ? AND toolbox = ? AND server = ?"
_FLIGHT: Final = "INSERT INTO record_flights (run, began, toolbox, server, tool) VALUES (?, ?, ?, ?, ?)"
_CALL: Final = """INSERT INTO record_calls (
    tool, at, milliseconds, outcome, start, size, arguments, result, error) VALUES"""
_CLIENT: Final = """INSERT OR REPLACE INTO record_clients (run, name, version, protocol, sessions)
    VALUES (?, ?, ?, ?, ?)"""
_TOOL: Final = """INSERT INTO record_tools (run, toolbox, server, tool, calls, errors) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (run, toolbox, server, tool)
    DO UPDATE SET calls = calls + excluded.calls, errors = errors + excluded.errors"""
_FIND_TOOL: Final = "SELECT id FROM record_tools WHERE run = ? AND toolbox = ? AND server = ? AND tool = ?"
_LINE: Final = "INSERT INTO record_lines (run, at, level, toolbox, server, start, size, text) VALUES"
_OPENING: Final = """INSERT INTO record_openings (run, toolbox, opens, flat, answered) VALUES (?, ?, 1, ?, ?)
    ON CONFLICT (run, toolbox) DO UPDATE SET
    opens = opens + 1, flat = flat + excluded.flat, answered = answered + excluded.answered"""
_KILLED: Final = "UPDATE record_runs SET ended = seen, was_killed = 1 WHERE id = ?"
_TOO_MANY: Final = "DELETE FROM {table} WHERE id <= (SELECT max(id) FROM {table}) - ?"
_TOO_OLD: Final = "DELETE FROM {table} WHERE at < ?"
_END: Final = "SELECT start + size FROM {table} ORDER BY id DESC LIMIT 1"
_TOO_LARGE: Final = """DELETE FROM {table} WHERE id < coalesce(
    (SELECT id FROM {table} WHERE start >= ({end}) - ? ORDER BY id LIMIT 1), (SELECT max(id) + 1 FROM {table}))"""
# A run that ended in the future was written with a wrong clock, and is removed first.
_OLD_RUNS: Final = """SELECT id FROM record_runs WHERE ended IS NOT NULL AND (ended < ? OR id NOT IN (
    SELECT id FROM record_runs WHERE ended IS NOT NULL ORDER BY ended > ?, ended DESC LIMIT ?))"""
_LEAST_USED: Final = """DELETE FROM record_tools WHERE id IN (
    SELECT id FROM record_tools WHERE run = ? ORDER BY calls DESC LIMIT -1 OFFSET ?)"""
_ORPHANS: Final = "DELETE FROM record_calls WHERE tool NOT IN (SELECT id FROM record_tools)"
_OF_RUN: Final = ("servers", "clients", "flights", "tools", "lines", "openings")


class RecordTables:
    """The tables of an open record."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._limits = limits
        self.file = Database(path, _SCHEMA, VERSION, limits, application=RECORD)

    def close(self) -> None:
        self.file.close()

    def begin(self, run: Run) -> int:
        """Add a run and return its number. Ends the runs whose process is gone."""
        with self.file.transaction("IMMEDIATE"):
            self._end_dead_runs()
            added = self.file.run(_BEGIN, (*map(_escaped, run), run.began)).lastrowid or 0
            self._prune(run.began)
        return added

    def write(self, run: int, batch: Batch, *, prunes: bool) -> bool:
        """Add a batch. False if the run is missing, because it was taken for dead and removed."""
        with self.file.transaction("IMMEDIATE"):
            state = (batch.lost, _escaped(batch.problem), *batch.memory)
            if not self.file.run(_SEE, (batch.at, batch.at if batch.is_last else None, *state, run)).rowcount:
                return False
            self._add(_GONE, run, batch.gone)
            self._add(_SERVER, run, batch.servers)
            self._add(_CLIENT, run, batch.clients)
            self.file.run("DELETE FROM record_flights WHERE run = ?", (run,))
            self._add(_FLIGHT, run, batch.flights)
            self._add_calls(run, batch)
            self._add_lines(run, batch)
            self._add(_OPENING, run, batch.openings)
            self._trim(run)
            if prunes:
                self._end_dead_runs()
                self._prune(batch.at)
        return True

    def _add(self, statement: str, run: int, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self.file.run_each(statement, [(run, *map(_escaped, row)) for row in rows])

    def _insert(self, statement: str, rows: Sequence[Sequence[Any]], marks: str) -> None:
        """Insert many rows with one statement, since Python's threads switch at every statement and others wait."""
        size = RECORD_ROWS_AT_ONCE
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            values = [*itertools.chain.from_iterable(some)]
            self.file.run(f"{statement} {', '.join([marks] * len(some))}", values)

    def _add_calls(self, run: int, batch: Batch) -> None:
        """Add calls with the number of their tool, so that each takes a few bytes."""
        calls = Counter(call[0] for call in batch.calls)
        errors = Counter(call[0] for call in batch.calls if call[3])
        for tool, (succeeded, failed) in batch.counts.items():
            calls[tool] += succeeded + failed
            errors[tool] += failed
        self._add(_TOOL, run, [(*tool.parts(), number, errors[tool]) for tool, number in calls.items()])
        ids = {tool: self._id_of(run, tool) for tool in calls}
        self._add_call_rows(ids, batch)

    def _add_call_rows(self, ids: Mapping[ToolIdentifier, int], batch: Batch) -> None:
        """Add the rows of calls. Most have no texts and take few bytes."""
        epoch, plain, full = batch.epoch, list[Sequence[Any]](), list[Sequence[Any]]()
        start = self._end("calls")
        for tool, began, took, outcome, given, returned, error in batch.calls:
            row = (ids[tool], epoch + began, took, outcome)
            if given is None and returned is None and not error:
                plain.append(row)
            else:
                size = _size_of(given, returned, error)
                full.append((*row, start, size, *map(_escaped, (given, returned, error))))
                start += size
        self._insert(_CALL, full, "(?, ?, ?, ?, ?, ?, ?, ?, ?)")
        # Rows without text get the higher numbers, so they start where the last text ends.
        self._insert(_CALL, plain, f"(?, ?, ?, ?, {start}, 0, NULL, NULL, '')")

    def _add_lines(self, run: int, batch: Batch) -> None:
        start, rows = self._end("lines"), list[Sequence[Any]]()
        for at, level, toolbox, server, text in batch.lines:
            size = _size_of(text)
            rows.append((run, at, *map(_escaped, (level, toolbox, server)), start, size, _escaped(text)))
            start += size
        self._insert(_LINE, rows, "(?, ?, ?, ?, ?, ?, ?, ?)")

    def _end(self, table: str) -> int:
        """The sum of the sizes of all rows that were ever added."""
        return (self.file.row(_END.format(table=f"record_{table}")) or (0,))[0]

    def _id_of(self, run: int, tool: ToolIdentifier) -> int:
        return (self.file.row(_FIND_TOOL, (run, *map(_escaped, tool.parts()))) or (0,))[0]

    def _end_dead_runs(self) -> None:
        """End the runs whose process is gone."""
        rows: list[Any] = self.file.run("SELECT id, pid, birth FROM record_runs WHERE ended IS NULL").fetchall()
        dead = [(one,) for one, pid, born in rows if birth(pid) != born.decode()]
        self.file.run_each(_KILLED, dead)
        self.file.run_each("DELETE FROM record_flights WHERE run = ?", dead)

    def _prune(self, now: float) -> None:
        limits = self._limits
        since = now - RECORD_AGE_SECONDS
        for table in ("calls", "lines"):
            self.file.run(_TOO_OLD.format(table=f"record_{table}"), (since,))
        old = self.file.run(_OLD_RUNS, (since, now, limits.record_runs)).fetchall()
        for table in _OF_RUN:
            self.file.run_each(f"DELETE FROM record_{table} WHERE run = ?", old)  # noqa: S608 -- a name of ours
        self.file.run_each("DELETE FROM record_runs WHERE id = ?", old)
        self.file.run(_ORPHANS)

    def _trim(self, run: int) -> None:
        """Keep the newest rows within their bounds, and the most used tools of a run."""
        limits = self._limits
        self._trim_table("record_calls", limits.record_calls, limits.record_calls_bytes)
        self._trim_table("record_lines", limits.record_lines, limits.record_lines_bytes)
        if self.file.run(_LEAST_USED, (run, limits.record_tools)).rowcount:
            self.file.run(_ORPHANS)

    def _trim_table(self, table: str, rows: int, size: int) -> None:
        """Remove the oldest rows beyond the bounds. The time depends only on the number of removed rows."""
        self.file.run(_TOO_MANY.format(table=table), (rows,))
        self.file.run(_TOO_LARGE.format(table=table, end=_END.format(table=table)), (size,))


def is_record(path: str) -> bool:
    """Whether a damaged file was a record, or is empty. Raises `OSError`."""
    return is_ours(path, _MARK, application=RECORD)


def _escaped(value: Any) -> Any:
    """Escape text that is not valid UTF-8, such as some paths. SQLite rejects it."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _size_of(*texts: str | None) -> int:
    return sum(len(text) for text in texts if text)
