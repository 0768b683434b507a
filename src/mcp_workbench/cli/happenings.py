"""What workbenches are doing, in words for a person and as JSON for a program."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from mcp_workbench.cli.display import Block, Column, Table, Tone, Words
from mcp_workbench.cli.states import count
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.record.batch import Flight, ServerState
from mcp_workbench.record.reading import FailedCall, RunStatus, ToolUse
from mcp_workbench.shown import slashed

_TONES: Final[dict[str, Tone]] = {
    "ready": "good",
    "starting": "doubtful",
    "needs_auth": "doubtful",
    "failing": "bad",
    "resting": "bad",
}
_STATES: Final = {"needs_auth": "needs a login", "idle": "not running", "closed": "ended"}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_HALF, _MOST = 50, 95


def blocks(statuses: Sequence[RunStatus], now: float, *, everything: bool = False) -> list[Block]:
    """What a person reads."""
    if not statuses:
        none = "No workbench is known." if everything else "No workbench is running."
        ended = "" if everything else " Those that ended: status --all"
        return [none, Words(f"A host starts one: mcp-workbench serve.{ended}", "quiet")]
    shown: list[Block] = []
    for status in statuses:
        shown += ["", *_of_run(status, now)] if shown else _of_run(status, now)
    return shown


def as_json(statuses: Sequence[RunStatus], now: float) -> dict[str, Any]:
    """The document of `--json`."""
    return {"ok": True, "at": moment(now), "runs": [_run_json(status, now) for status in statuses]}


def moment(seconds: float) -> str:
    """A time for programs."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of_day(seconds: float) -> str:
    """A time for people, as the lines of a log have it."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def age(seconds: float) -> str:
    """How long something takes, or ago it was: `12 s`, `3 min`, `2 h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "0 s"


# -- for people


def _of_run(status: RunStatus, now: float) -> Iterator[Block]:
    run = status.run
    yield Words(f"workbench {run.pid}: {_standing(status, now)}", "strong")
    yield Words(f"{run.config} ({run.transport}, version {run.version})", "quiet", 2)
    if run.problem:
        yield Words(f"the file is not used as it is now: {run.problem}", "bad", 2)
    if status.servers:
        yield Words("servers", indent=2)
        yield Table(
            (Column(is_whole=True), Column(is_whole=True), Column(is_number=True, is_whole=True), Column()),
            [_server_row(server, now, is_running=status.is_running) for server in status.servers],
            4,
        )
    if status.flights:
        yield Words("calls under way", indent=2)
        rows = [(_name(it), f"for {age(now - it.began)}") for it in status.flights]
        yield Table((Column(), Column(is_whole=True)), rows, 4)
    yield from _of_calls(status, now)
    if status.tokens.opens:
        yield Words(_saved(status), indent=2)
    if run.lost:
        yield Words(f"{count(run.lost, 'event')} could not be recorded", "doubtful", 2)


def _of_calls(status: RunStatus, now: float) -> Iterator[Block]:
    if status.tools:
        yield Words("calls", indent=2)
        heads = ("tool", "calls", "errors", "p50", "p95")
        columns = [Column(head, is_number=number > 0, is_whole=number > 0) for number, head in enumerate(heads)]
        yield Table(columns, [_tool_row(use) for use in status.tools], 4)
    if status.errors:
        yield Words("last errors of calls", indent=2)
        rows = [(f"{age(now - it.at)} ago", _name(it), Words(it.outcome, "bad")) for it in status.errors]
        yield Table((Column(is_number=True, is_whole=True, tone="quiet"), Column(), Column(is_whole=True)), rows, 4)


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
        text += f", {server.connections} connections"
    tools = "" if server.tools is None else count(server.tools, "tool")
    when = f"{age(now - server.error_at)} ago: " if server.error_at is not None else ""
    error = Words(f"{when}{server.error}", "bad" if state in ("failing", "resting") else "quiet")
    return slashed(server.toolbox, server.server), Words(text, _TONES.get(state, "quiet")), tools, error


def _tool_row(use: ToolUse) -> tuple[str | Words, ...]:
    found = [use.within(percent) for percent in (_HALF, _MOST)]
    times = ["" if one is None else milliseconds(one) for one in found]
    errors = Words(f"{use.errors:,}", "bad" if use.errors else "quiet")
    return _name(use), f"{use.calls:,}", errors, *times


def _name(of: Flight | FailedCall | ToolUse) -> str:
    return slashed(of.toolbox, of.server, of.tool)


def milliseconds(number: float) -> str:
    """How long a call took."""
    digits = 1 if number < 10 else 0  # noqa: PLR2004 -- two digits are enough for a person
    return f"{number:,.{digits}f} ms"


def _saved(status: RunStatus) -> str:
    """Where there are few tools, reading all of them costs less."""
    told = _tokens(status)
    saved = told["saved"]
    gain = f"{saved:,} saved" if saved >= 0 else f"{-saved:,} more"
    opens = count(told["opens"], "open")
    return f"tokens, about: {told['answered']:,} read in {opens}, {told['flat']:,} in plain lists ({gain})"


# -- for programs


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
        "began": moment(run.began),
        "seen": moment(run.seen),
        "ended": None if status.is_running else moment(run.seen if run.ended is None else run.ended),
        "servers": [_server_json(server) for server in status.servers],
        "in_flight": [
            {**_named(it), "began": moment(it.began), "seconds": round(now - it.began, 3)} for it in status.flights
        ],
        "tools": [_tool_json(use) for use in status.tools],
        "errors": [{"at": moment(it.at), **_named(it), "code": it.outcome} for it in status.errors],
        "tokens": _tokens(status),
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
    half, most = (use.within(percent) for percent in (_HALF, _MOST))
    return {
        **_named(use),
        "calls": use.calls,
        "errors": use.errors,
        "p50_ms": None if half is None else round(half, 3),
        "p95_ms": None if most is None else round(most, 3),
    }


def _named(of: Flight | FailedCall | ToolUse) -> dict[str, str]:
    return {"toolbox": of.toolbox, "server": of.server, "tool": of.tool}


def _tokens(status: RunStatus) -> dict[str, int]:
    flat, answered = (round(size / DEFAULTS.record_token_bytes) for size in status.tokens[1:])
    return {"opens": status.tokens.opens, "flat": flat, "answered": answered, "saved": flat - answered}
