"""Reads the record for `status` and `logs`, also while workbenches write to it.

It creates and changes no file. Raises `RecordFailed` if there is a file that can't be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from mcp_workbench.activity.batch import ClientState, Flight, Moment, ServerState
from mcp_workbench.activity.process_identity import birth
from mcp_workbench.command_errors import RecordFailed
from mcp_workbench.limits import Limits
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import Busy, Damaged, Unusable

RECORD_READ_TRIES = 8
"""How often a reader tries again while a process writes."""
STATUS_ERRORS = 10
"""Failed calls of each workbench that `mcp-workbench status` shows."""

T = TypeVar("T")
Row = TypeVar("Row", "LoggedLine", "RecordedCall")
_Rows: TypeAlias = Callable[[str, Sequence[Any]], list[Any]]
"""Runs a query and returns its rows."""

_RUNS = """SELECT id, pid, birth, version, config, transport, began, seen, ended, was_killed, lost, problem,
    pressure, held FROM record_runs"""
_SERVERS = """SELECT toolbox, server, state, since, connections, tools, code, error, error_at
    FROM record_servers WHERE run = ?"""
_CLIENTS = """SELECT name, version, protocol, sessions FROM record_clients WHERE run = ?
    ORDER BY sessions DESC, name, version"""
_FLIGHTS = "SELECT began, toolbox, server, tool FROM record_flights WHERE run = ? ORDER BY began"
_TOOLS = """SELECT toolbox, server, tool, calls, errors FROM record_tools WHERE run = ?
    ORDER BY calls DESC, toolbox, server, tool"""
_TIMES = """SELECT toolbox, server, tools.tool, milliseconds
    FROM record_calls AS calls JOIN record_tools AS tools ON tools.id = calls.tool WHERE run = ?
    ORDER BY milliseconds"""
_ERRORS = """SELECT at, toolbox, server, tools.tool, outcome, error
    FROM record_calls AS calls JOIN record_tools AS tools ON tools.id = calls.tool WHERE run = ? AND outcome <> ''
    ORDER BY calls.id DESC LIMIT ?"""
_OPENINGS = "SELECT total(opens), total(flat), total(answered) FROM record_openings WHERE run = ?"
_LINES = """SELECT record_lines.id, run, pid, at, level, toolbox, server, text FROM record_lines
    JOIN record_runs ON record_runs.id = run WHERE record_lines.id > ? ORDER BY record_lines.id"""

_NEWEST = "SELECT coalesce(max(id), 0) FROM {table}"
_CALLS = """SELECT calls.id, run, pid, at, toolbox, server, tools.tool, milliseconds, outcome, arguments, result
    FROM record_calls AS calls JOIN record_tools AS tools ON tools.id = calls.tool
    JOIN record_runs ON record_runs.id = run WHERE calls.id > ? ORDER BY calls.id"""


class RunRow(NamedTuple):
    """A process that serves, or served."""

    id: int
    pid: Annotated[int, Meta(gt=0)]
    birth: str
    version: str
    config: str
    transport: str
    began: Moment
    seen: Moment
    ended: Moment | None
    was_killed: bool
    lost: int
    problem: str
    """Why its changed configuration file is not used; empty if it is."""
    pressure: str = "calm"
    """The level of memory pressure."""
    held: int = 0
    """The bytes that wait for clients and servers."""

    @property
    def is_running(self) -> bool:
        """Whether the process exists. A killed one could not record its end."""
        return self.ended is None and birth(self.pid) == self.birth


class ToolUse(NamedTuple):
    """The calls of a tool. The times are those of the calls that are still in the record."""

    toolbox: str
    server: str
    tool: str
    calls: int
    errors: int
    times: tuple[float, ...] = ()
    """Durations in milliseconds, shortest first."""

    def within(self, percent: int) -> float | None:
        """A percentile of the durations; None without any."""
        return self.times[-(-len(self.times) * percent // 100) - 1] if self.times else None


class FailedCall(NamedTuple):
    """A failed call."""

    at: Moment
    toolbox: str
    server: str
    tool: str
    outcome: str
    error: str
    """What went wrong, in a sentence; empty if unknown."""


class TokenCounts(NamedTuple):
    """How many bytes agents would have read without toolboxes (`flat`), and how many they did (`answered`)."""

    opens: int
    flat: int
    answered: int


class RunStatus(NamedTuple):
    """Everything that the record has about a run."""

    run: RunRow
    is_running: bool
    servers: tuple[ServerState, ...]
    flights: tuple[Flight, ...]
    tools: tuple[ToolUse, ...]
    errors: tuple[FailedCall, ...]
    """The latest first."""
    tokens: TokenCounts
    clients: tuple[ClientState, ...] = ()


class LoggedLine(NamedTuple):
    """A log line of a process."""

    id: int
    run: int
    pid: int
    at: Moment
    level: str
    toolbox: str
    server: str
    """The server that the line is about; `toolbox` and `server` are empty if there is none."""
    text: str


class RecordedCall(NamedTuple):
    """An ended call."""

    id: int
    run: int
    pid: int
    at: Moment
    """When it began."""
    toolbox: str
    server: str
    tool: str
    milliseconds: float
    outcome: str
    """The code of its failure; empty if it succeeded."""
    arguments: str | None
    result: str | None


class RecordReader:
    """Reads the record at a path. The file need not exist."""

    def __init__(self, path: str, limits: Limits) -> None:
        self.path = secure_files.located(path)
        self._limits = limits

    def statuses(self, *, everything: bool = False) -> list[RunStatus]:
        """The running processes, or all that are in the record; oldest first."""
        return self._read(lambda rows: self._statuses(rows, everything=everything), [])

    def lines(self, after: int = 0, *, everything: bool = False) -> list[LoggedLine]:
        """Log lines after a given one, of running workbenches or of all."""
        return self._read(lambda rows: _of_runs(rows, _LINES, after, list[LoggedLine], everything=everything), [])

    def newest_line(self) -> int:
        """The number of the last log line. A rebuilt record starts at 1 again."""
        return self._newest("record_lines")

    def calls(self, after: int = 0, *, everything: bool = False) -> list[RecordedCall]:
        """Ended calls after a given one, of running workbenches or of all."""
        return self._read(lambda rows: _of_runs(rows, _CALLS, after, list[RecordedCall], everything=everything), [])

    def newest_call(self) -> int:
        """The number of the last call, like `newest_line`."""
        return self._newest("record_calls")

    def _newest(self, table: str) -> int:
        return self._read(lambda rows: _converted(rows(_NEWEST.format(table=table), ()), list[tuple[int]])[0][0], 0)

    def _statuses(self, rows: _Rows, *, everything: bool) -> list[RunStatus]:
        known = [(run, run.is_running) for run in _converted(rows(f"{_RUNS} ORDER BY began", ()), list[RunRow])]
        return [self._status(rows, run, is_running=lives) for run, lives in known if lives or everything]

    def _status(self, rows: _Rows, run: RunRow, *, is_running: bool) -> RunStatus:
        one = (run.id,)
        times: dict[tuple[str, str, str], list[float]] = {}
        for toolbox, server, tool, milliseconds in _converted(rows(_TIMES, one), list[tuple[str, str, str, float]]):
            times.setdefault((toolbox, server, tool), []).append(milliseconds)
        used = [ToolUse(*row) for row in _converted(rows(_TOOLS, one), list[tuple[str, str, str, int, int]])]
        opens, flat, answered = _converted(rows(_OPENINGS, one), list[tuple[float, float, float]])[0]
        return RunStatus(
            run,
            is_running=is_running,
            servers=tuple(_converted(rows(_SERVERS, one), list[ServerState])),
            flights=tuple(_converted(rows(_FLIGHTS, one), list[Flight])) if is_running else (),
            tools=tuple(use._replace(times=tuple(times.get(use[:3], ()))) for use in used),
            errors=tuple(_converted(rows(_ERRORS, (run.id, STATUS_ERRORS)), list[FailedCall])),
            tokens=TokenCounts(int(opens), int(flat), int(answered)),
            clients=tuple(_converted(rows(_CLIENTS, one), list[ClientState])),
        )

    def _read(self, action: Callable[[_Rows], T], otherwise: T) -> T:
        try:
            status = secure_files.inspect(self.path)
            if status is None or not status.st_size:
                return otherwise
            return self._patiently(action)
        except Damaged as damage:
            hint = "If the file is the record, remove it: running workbenches create a new one."
            raise RecordFailed(self.path, str(damage), hint=hint) from None
        except (Unusable, OSError) as error:
            hint = "Fix that, or remove the file: running workbenches create a new one."
            raise RecordFailed(self.path, secure_files.reason(error), hint=hint) from None

    def _patiently(self, action: Callable[[_Rows], T]) -> T:
        for _ in range(RECORD_READ_TRIES):
            try:
                return self._at_once(action)
            except Busy:
                time.sleep(self._limits.store_busy_seconds)
        raise Unusable("another process keeps it locked")

    def _at_once(self, action: Callable[[_Rows], T]) -> T:
        """Read in one transaction."""
        from mcp_workbench.activity.tables import RecordTables  # noqa: PLC0415 -- some Pythons lack SQLite

        tables = RecordTables(self.path, self._limits)
        try:
            with tables.file.transaction("DEFERRED"):
                return action(lambda query, values: tables.file.run(query, values).fetchall())
        finally:
            tables.close()


def _of_runs(rows: _Rows, query: str, after: int, kind: type[list[Row]], *, everything: bool) -> list[Row]:
    """The rows after a given one, of running processes or of all."""
    found = _converted(rows(query, (after,)), kind)
    if everything:
        return found
    runs = {run.id for run in _converted(rows(_RUNS, ()), list[RunRow]) if run.is_running}
    return [one for one in found if one.run in runs]


def _converted(rows: list[Any], kind: type[T]) -> T:
    """Convert rows, since SQLite allows any type in any column. Raises `msgspec.ValidationError`."""
    texts = [[one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in row] for row in rows]
    return msgspec.convert(texts, kind, strict=False)
