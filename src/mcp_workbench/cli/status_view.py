"""The status of workbenches as text and as JSON. Busy and failing servers come first."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from mcp_workbench.activity.batch import ClientState, Flight, ServerState
from mcp_workbench.activity.reading import FailedCall, RunStatus, ToolUse
from mcp_workbench.cli.display import Block, Column, Table, Tone, Words, lines
from mcp_workbench.text.sanitize import count, slashed

_TROUBLE: Final = frozenset(("failing", "resting", "needs_auth", "starting"))


def busiest_first(statuses: Iterable[RunStatus]) -> list[RunStatus]:
    """Sort workbenches: running ones with calls in progress first, then by last activity."""
    ordered = sorted(statuses, key=lambda one: (one.is_running, len(one.flights), one.run.seen), reverse=True)
    return [_sorted(status) for status in ordered]


def _sorted(status: RunStatus) -> RunStatus:
    """Sort servers: those with calls in progress, then failing ones, then by number of calls. Sort tools likewise."""
    flying = Counter((flight.toolbox, flight.server) for flight in status.flights)
    busy_tools = {(flight.toolbox, flight.server, flight.tool) for flight in status.flights}
    calls = Counter[tuple[str, str]]()
    for use in status.tools:
        calls[use.toolbox, use.server] += use.calls

    def weight(server: ServerState) -> tuple[int, bool, bool, int]:
        name = (server.toolbox, server.server)
        return -flying[name], server.state not in _TROUBLE, server.state != "ready", -calls[name]

    tools = sorted(status.tools, key=lambda use: (use[:3] not in busy_tools, -use.calls))
    return status._replace(servers=tuple(sorted(status.servers, key=weight)), tools=tuple(tools))


def matching(statuses: Iterable[RunStatus], text: str) -> list[RunStatus]:
    """Filter by names, states and errors. A workbench whose host or file matches is kept whole."""
    wanted = text.casefold()
    if not wanted:
        return list(statuses)
    narrowed = [status if _is_about(status, wanted) else _narrowed(status, wanted) for status in statuses]
    return [one for one in narrowed if one.servers or one.flights or one.tools or one.errors]


def _is_about(status: RunStatus, wanted: str) -> bool:
    run = status.run
    hosts = (f"{client.name} {client.version}" for client in status.clients)
    return any(wanted in text.casefold() for text in (str(run.pid), run.config, *hosts))


def _narrowed(status: RunStatus, wanted: str) -> RunStatus:
    return status._replace(
        servers=tuple(one for one in status.servers if _has(wanted, one.toolbox, one.server, one.state, one.error)),
        flights=tuple(one for one in status.flights if _has(wanted, *_names(one))),
        tools=tuple(one for one in status.tools if _has(wanted, *_names(one))),
        errors=tuple(one for one in status.errors if _has(wanted, *_names(one), one.outcome, one.error)),
    )


def _names(of: Flight | ToolUse | FailedCall) -> tuple[str, str, str]:
    return of.toolbox, of.server, of.tool


def _has(wanted: str, *texts: str) -> bool:
    return any(wanted in text.casefold() for text in (*texts, slashed(*texts[:2]), slashed(*texts[:3])))


RECORD_TOKEN_BYTES = 4.0
"""Bytes per token, to estimate savings: measured at 3.6 to 4.4 in JSON definitions."""

_TONES: Final[dict[str, Tone]] = {
    "ready": "good",
    "starting": "doubtful",
    "needs_auth": "doubtful",
    "failing": "bad",
    "resting": "bad",
}
_STATES: Final = {"needs_auth": "needs a login", "idle": "not running", "closed": "ended"}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
HALF, MOST = 50, 95
_NUMBER: Final = Column(is_number=True, is_whole=True)
_SERVERS: Final = (Column(), Column(is_whole=True), _NUMBER._replace(is_optional=True))
_ERRORS: Final = (_NUMBER._replace(tone="quiet", is_optional=True), Column(), Column(most_lines=3))
_TOOLS: Final = (
    Column("tool"),
    *(_NUMBER._replace(title=title) for title in ("calls", "errors")),
    *(_NUMBER._replace(title=title, is_optional=True) for title in ("p50", "p95")),
)
_MIB: Final = 1024 * 1024
_PRESSURE: Final = {
    "refuse": "clients that hold the most get no new calls",
    "shed": "the calls of the largest clients are cancelled",
    "close": "the connections that hold the most are closed",
}
_LEAST_ROWS: Final = 2
"""The rows that a truncated table keeps."""


def blocks(statuses: Sequence[RunStatus], now: float, *, everything: bool = False) -> list[Block]:
    """The status as text."""
    if not statuses:
        none = "No workbench was recorded." if everything else "No workbench is running."
        ended = "" if everything else " For ended ones: status --all"
        return [none, Words(f"A host starts one: mcp-workbench serve.{ended}", "quiet")]
    shown: list[Block] = []
    for status in busiest_first(statuses):
        shown += ["", *_of_run(status, now)] if shown else _of_run(status, now)
    return shown


def moment(seconds: float) -> str:
    """A time as JSON shows it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of_day(seconds: float) -> str:
    """A local time as log lines show it."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def age(seconds: float) -> str:
    """A duration as text: `12 s`, `3 min`, `2 h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "0 s"


def fitted(blocks: Sequence[Block], rows: int, to: TextIO) -> list[Block]:
    """Fit blocks into a number of lines by truncating the longest tables, each with a note."""
    kept = {at: len(block.rows) for at, block in enumerate(blocks) if isinstance(block, Table)}

    def cut() -> list[Block]:
        return [piece for at, block in enumerate(blocks) for piece in _first_rows(block, kept.get(at, 0))]

    while sum(1 for _ in lines(*cut(), to=to)) > rows and max(kept.values(), default=0) > _LEAST_ROWS:
        kept[max(kept, key=lambda at: (kept[at], at))] -= 1
    return cut()


def _first_rows(block: Block, rows: int) -> Iterator[Block]:
    if not isinstance(block, Table) or rows == len(block.rows):
        yield block
        return
    yield block._replace(rows=block.rows[:rows])
    yield Words(f"and {len(block.rows) - rows:,} more", "quiet", block.indent)


def _of_run(status: RunStatus, now: float) -> Iterator[Block]:
    run = status.run
    yield Words(f"workbench {run.pid}: {_standing(status, now)}", "strong")
    if hosts := _hosts(status):
        yield Words(hosts, indent=2)
    yield Words(f"{run.config} ({run.transport}, version {run.version})", "quiet", 2)
    if run.problem:
        yield Words(f"the current file is not in use: {run.problem}", "bad", 2)
    if status.is_running and run.pressure in _PRESSURE:
        held = f"{run.held / _MIB:,.0f} MiB are waiting for clients and servers"
        yield Words(f"memory: {held}; {_PRESSURE[run.pressure]}", "bad", 2)
    if status.flights:
        yield Words("calls in progress", indent=2)
        rows = [(_name(it), f"for {age(now - it.began)}") for it in status.flights]
        yield Table((Column(), Column(is_whole=True)), rows, 4)
    yield from _of_errors(status, now)
    if status.servers:
        yield Words("servers", indent=2)
        server_rows = [_server_row(server, now, is_running=status.is_running) for server in status.servers]
        yield Table(_SERVERS, server_rows, 4)
    if status.tools:
        yield Words("calls", indent=2)
        yield Table(_TOOLS, [_tool_row(use) for use in status.tools], 4)
    if status.tokens.opens:
        yield Words(_saved(status), indent=2)
    if run.lost:
        yield Words(f"{count(run.lost, 'event')} could not be recorded", "doubtful", 2)


def _hosts(status: RunStatus) -> str:
    """The connected hosts; for an ended workbench, all that were."""
    there = [client for client in status.clients if client.sessions or not status.is_running]
    told = ", ".join(_host(client) for client in there)
    return f"{'host' if len(there) == 1 else 'hosts'}: {told}" if there else ""


def _host(client: ClientState) -> str:
    sessions = f", {count(client.sessions, 'session')}" if client.sessions > 1 else ""
    return f"{f'{client.name} {client.version}'.rstrip()} (MCP {client.protocol}{sessions})"


def _of_errors(status: RunStatus, now: float) -> Iterator[Block]:
    """The last errors of servers and calls."""
    found = [(one.error_at, slashed(one.toolbox, one.server), one.error) for one in status.servers if one.error_at]
    found += [(one.at, _name(one), ": ".join(filter(None, (one.outcome, one.error)))) for one in status.errors]
    if found:
        yield Words("last errors", indent=2)
        rows = [(f"{age(now - at)} ago", name, Words(text, "bad")) for at, name, text in sorted(found, reverse=True)]
        yield Table(_ERRORS, rows, 4)


def _standing(status: RunStatus, now: float) -> str:
    run = status.run
    if status.is_running:
        return f"running for {age(now - run.began)}"
    ended = run.seen if run.ended is None else run.ended
    how = "was killed" if run.was_killed or run.ended is None else "ended"
    return f"{how} {age(now - ended)} ago"


def _server_row(server: ServerState, now: float, *, is_running: bool) -> tuple[str | Words, ...]:
    state = server.state if is_running else "closed"
    text = _STATES.get(state, state)
    if is_running and state != "idle":
        text += f" for {age(now - server.since)}"
    if server.connections > 1:
        text += f", {count(server.connections, 'connection')}"
    tools = "" if server.tools is None else count(server.tools, "tool")
    return slashed(server.toolbox, server.server), Words(text, _TONES.get(state, "quiet")), tools


def _tool_row(use: ToolUse) -> tuple[str | Words, ...]:
    found = [use.within(percent) for percent in (HALF, MOST)]
    times = ["" if one is None else milliseconds(one) for one in found]
    errors = Words(f"{use.errors:,}", "bad" if use.errors else "quiet")
    return _name(use), f"{use.calls:,}", errors, *times


def _name(of: Flight | FailedCall | ToolUse) -> str:
    return slashed(of.toolbox, of.server, of.tool)


def milliseconds(number: float) -> str:
    digits = 1 if number < 10 else 0  # noqa: PLR2004 -- two digits are enough
    return f"{number:,.{digits}f} ms"


def _saved(status: RunStatus) -> str:
    """The tokens that agents saved; with few tools, plain lists can be cheaper."""
    told = tokens(status)
    saved = told["saved"]
    gain = f"{saved:,} saved" if saved >= 0 else f"{-saved:,} more"
    opens = count(told["opens"], "open")
    return f"tokens, estimated: {told['answered']:,} read in {opens}, {told['flat']:,} in plain lists ({gain})"


def tokens(status: RunStatus) -> dict[str, int]:
    """The tokens that agents read, and that plain lists would have cost."""
    flat, answered = (round(size / RECORD_TOKEN_BYTES) for size in status.tokens[1:])
    return {"opens": status.tokens.opens, "flat": flat, "answered": answered, "saved": flat - answered}


def as_json(statuses: Sequence[RunStatus], now: float) -> dict[str, Any]:
    return {"ok": True, "at": moment(now), "runs": [_run_json(status, now) for status in statuses]}


def _run_json(status: RunStatus, now: float) -> dict[str, Any]:
    run = status.run
    state = "running" if status.is_running else "killed" if run.was_killed or run.ended is None else "ended"
    return {
        "pid": run.pid,
        "state": state,
        "version": run.version,
        "config": run.config,
        "config_problem": run.problem or None,
        "transport": run.transport,
        "memory": {"level": run.pressure or "calm", "held_bytes": run.held},
        "began": moment(run.began),
        "seen": moment(run.seen),
        "ended": None if status.is_running else moment(run.seen if run.ended is None else run.ended),
        "clients": [client._asdict() for client in status.clients],
        "servers": [_server_json(server) for server in status.servers],
        "in_flight": [
            {**_named(it), "began": moment(it.began), "seconds": round(now - it.began, 3)} for it in status.flights
        ],
        "tools": [_tool_json(use) for use in status.tools],
        "errors": [_error_json(error) for error in status.errors],
        "tokens": tokens(status),
        "lost": run.lost,
    }


def _server_json(server: ServerState) -> dict[str, Any]:
    error = None
    if server.error_at is not None:
        error = {"at": moment(server.error_at), "code": server.code, "message": server.error}
    return {
        "toolbox": server.toolbox,
        "server": server.server,
        "state": server.state,
        "since": moment(server.since),
        "connections": server.connections,
        "tools": server.tools,
        "last_error": error,
    }


def _tool_json(use: ToolUse) -> dict[str, Any]:
    half, most = (use.within(percent) for percent in (HALF, MOST))
    return {
        **_named(use),
        "calls": use.calls,
        "errors": use.errors,
        "p50_ms": None if half is None else round(half, 3),
        "p95_ms": None if most is None else round(most, 3),
    }


def _error_json(error: FailedCall) -> dict[str, Any]:
    return {"at": moment(error.at), **_named(error), "code": error.outcome, "message": error.error}


def _named(of: Flight | FailedCall | ToolUse) -> dict[str, str]:
    return {"toolbox": of.toolbox, "server": of.server, "tool": of.tool}
