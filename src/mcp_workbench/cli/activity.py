"""Sorts and filters the activity of workbenches: what matters most comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from mcp_workbench.activity.batch import Flight, ServerState
from mcp_workbench.activity.reading import FailedCall, RunStatus, ToolUse
from mcp_workbench.text.sanitize import slashed

_TROUBLE: Final = frozenset(("failing", "resting", "needs_auth", "starting"))


def busiest_first(statuses: Iterable[RunStatus]) -> list[RunStatus]:
    """Running workbenches with calls under way first, then by when something happened last."""
    ordered = sorted(statuses, key=lambda one: (one.is_running, len(one.flights), one.run.seen), reverse=True)
    return [_sorted(status) for status in ordered]


def _sorted(status: RunStatus) -> RunStatus:
    """Servers with calls under way, then those in trouble, then by their calls; tools by the same."""
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
    """Only what has this text in its name, state or error; a workbench whose host or file has it is kept whole."""
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
