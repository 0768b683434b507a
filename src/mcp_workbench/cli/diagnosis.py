"""What was found about servers, as people read it and as programs do; and how far it has come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from mcp_workbench.checkup.findings import Examined, Finding, Report, State
from mcp_workbench.cli.display import Block, Live, Tone, Words, write
from mcp_workbench.cli.states import count
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import slashed

_STATES: Final[dict[State, tuple[str, Tone]]] = {
    "ok": ("ok", "good"),
    "failed": ("failed", "bad"),
    "needs_login": ("needs a login", "doubtful"),
}
_TONES: Final[dict[str, Tone]] = {"error": "bad", "warning": "doubtful", "note": "quiet"}


class Course:
    """Tells of each server when it is done, in the order of the file; meanwhile what is waited for."""

    def __init__(self, order: Sequence[ServerIdentifier], live: Live, *, is_quiet: bool) -> None:
        self._order = list(order)
        self._live = live
        self._is_quiet = is_quiet
        self._since: dict[ServerIdentifier, float] = {}
        self._ready: dict[ServerIdentifier, Examined] = {}

    async def watched(self, work: Coroutine[Any, Any, Report]) -> Report:
        """Do it, and show meanwhile how long each server takes; who stops it is told what was found until then."""
        clock = asyncio.ensure_future(self._tick())
        try:
            return await work
        finally:
            clock.cancel()
            self._live.clear()
            self._tell(server for server in self._order if server in self._ready)

    def began(self, server: ServerIdentifier) -> None:
        self._since[server] = time.monotonic()
        self._show()

    def done(self, examined: Examined) -> None:
        self._since.pop(examined.server, None)
        self._ready[examined.server] = examined
        self._live.clear()
        self._tell(takewhile(self._ready.__contains__, self._order))
        self._show()

    def _tell(self, servers: Iterable[ServerIdentifier]) -> None:
        for server in () if self._is_quiet else list(servers):
            self._order.remove(server)
            write(*_of_server(self._ready[server]))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(DEFAULTS.shown_every_seconds)
            self._show()

    def _show(self) -> None:
        if self._is_quiet or not self._since:
            return
        now = time.monotonic()
        waiting = [f"{_name(server)} ({now - since:.0f} s)" for server, since in self._since.items()]
        untold = sum(server in self._ready for server in self._order)
        others = len(self._order) - len(waiting) - untold
        told = [*waiting, *([f"{others} after that"] if others else []), *([f"{untold} done"] if untold else [])]
        self._live.show(Words(f"examining {', '.join(told)}", "quiet"))


# -- for people


def summary(report: Report) -> Iterator[Block]:
    """What is about no server alone, and how many are how."""
    for finding in report.findings:
        yield from _of_finding(finding, 0)
    numbers = ((word, sum(server.state == state for server in report.servers)) for state, (word, _) in _STATES.items())
    told = [f"{number} {word}" for word, number in numbers if number]
    warnings = count(report.count("warning"), "warning")
    tone: Tone = "bad" if report.has_failed else "doubtful" if report.count("warning") else "good"
    yield ""
    yield Words(f"{count(len(report.servers), 'server')}: {', '.join([*told, warnings])}", tone)


def _of_server(examined: Examined) -> Iterator[Block]:
    word, tone = _STATES[examined.state]
    yield Words(f"{_name(examined.server)}: {word}{_told(examined)}", tone)
    for finding in examined.findings:
        yield from _of_finding(finding, 2)


def _told(examined: Examined) -> str:
    if (answer := examined.answer) is None:
        return ""
    seconds = answer.start_seconds + answer.list_seconds
    era = "modern" if answer.is_modern else "handshake"
    tools = count(len(answer.tools), "tool")
    return f", {tools}, {answer.tokens:,} tokens, {seconds:.1f} s, {era} {answer.protocol}"


def _of_finding(finding: Finding, indent: int) -> Iterator[Block]:
    where = f" ({finding.path}, line {finding.line})" if finding.path and finding.line else ""
    message = " | ".join(finding.message.splitlines())
    yield Words(f"{finding.severity}: {message}{where}", _TONES[finding.severity], indent)
    yield Words(f"do: {finding.advice}", "", indent + 2)


def _name(server: ServerIdentifier) -> str:
    return slashed(*server.parts())


# -- for programs


def as_json(report: Report, *, is_ok: bool) -> dict[str, Any]:
    """Stable: docs/commands/doctor.md describes it."""
    return {
        "ok": is_ok,
        "file": report.file,
        "failed": sum(server.state == "failed" for server in report.servers),
        "warnings": report.count("warning"),
        "servers": [_server_json(server) for server in report.servers],
        "findings": [_finding_json(finding) for finding in report.findings],
    }


def _server_json(examined: Examined) -> dict[str, Any]:
    told: dict[str, Any] = {
        "toolbox": examined.server.toolbox,
        "server": examined.server.server,
        "state": examined.state,
        "transport": examined.transport,
    }
    if examined.program:
        told["command"] = examined.program
    if (answer := examined.answer) is not None:
        told |= {
            "era": "modern" if answer.is_modern else "handshake",
            "protocol": answer.protocol,
            "seconds": {"start": round(answer.start_seconds, 3), "list": round(answer.list_seconds, 3)},
            "tools": len(answer.tools),
            "tokens": answer.tokens,
        }
    return told | {"findings": [_finding_json(finding) for finding in examined.findings]}


def _finding_json(finding: Finding) -> dict[str, Any]:
    told: dict[str, Any] = {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "advice": finding.advice,
    }
    return told | ({"path": finding.path, "line": finding.line} if finding.path else {})
