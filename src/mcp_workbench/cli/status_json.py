"""What workbenches are doing, as JSON for a program: docs/commands/status.md describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_workbench.activity.batch import Flight, ServerState
from mcp_workbench.activity.reading import FailedCall, RunStatus, ToolUse
from mcp_workbench.cli.happenings import HALF, MOST, moment, tokens


def as_json(statuses: Sequence[RunStatus], now: float) -> dict[str, Any]:
    """The document of `--json`."""
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
