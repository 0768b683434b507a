"""The report of `doctor` as text and as JSON, and its progress display."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from mcp_workbench.cli.display import REFRESH_SECONDS, Block, Live, Tone, Words, write
from mcp_workbench.doctor.findings import ConfigReport, Finding, ServerExamination, State
from mcp_workbench.errors import NeedsLogin
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.sanitize import count, slashed
from mcp_workbench.text.tracebacks import shorten
from mcp_workbench.wire.background import in_background

_STATES: Final[dict[State, tuple[str, Tone]]] = {
    "ok": ("ok", "good"),
    "failed": ("failed", "bad"),
    "needs_login": ("needs a login", "doubtful"),
}
_TONES: Final[dict[str, Tone]] = {"error": "bad", "warning": "doubtful", "note": "quiet"}


class DoctorProgress:
    """Reports each server when it is done, in the order of the file, and shows which are still running."""

    def __init__(self, order: Sequence[ServerIdentifier], live: Live, *, is_quiet: bool) -> None:
        self._order = list(order)
        self._live = live
        self._is_quiet = is_quiet
        self._since: dict[ServerIdentifier, float] = {}
        self._ready: dict[ServerIdentifier, ServerExamination] = {}

    async def watched(self, work: Coroutine[Any, Any, ConfigReport]) -> ConfigReport:
        """Await the work and show progress. If it is interrupted, report the findings so far."""
        is_done = False
        try:
            with in_background(self._tick()):
                report = await work
            is_done = True
            return report
        finally:
            self._live.clear()
            self._tell(server for server in self._order if server in self._ready)
            if not is_done and not self._is_quiet:
                write(*_warnings(self._ready.values()))

    def began(self, server: ServerIdentifier) -> None:
        self._since[server] = time.monotonic()
        self._show()

    def done(self, examined: ServerExamination) -> None:
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
            await asyncio.sleep(REFRESH_SECONDS)
            self._show()

    def _show(self) -> None:
        if self._is_quiet or not self._since:
            return
        now = time.monotonic()
        waiting = [f"{_name(server)} ({now - since:.0f} s)" for server, since in self._since.items()]
        untold = sum(server in self._ready for server in self._order)
        others = len(self._order) - len(waiting) - untold
        parts = [*waiting, *([f"{others} after that"] if others else []), *([f"{untold} done"] if untold else [])]
        self._live.show(Words(f"examining {', '.join(parts)}", "quiet"))


# -- for people


def summary(report: ConfigReport, servers: str) -> Iterator[Block]:
    """Warnings and notes, then the number of servers in each state."""
    yield from _warnings(report.servers)
    for finding in report.findings:
        yield from finding_lines(finding, 0)
    numbers = ((word, sum(server.state == state for server in report.servers)) for state, (word, _) in _STATES.items())
    states = [f"{number} {word}" for word, number in numbers if number]
    warnings = count(report.count("warning"), "warning")
    tone: Tone = "bad" if report.has_failed else "doubtful" if report.count("warning") else "good"
    yield ""
    yield Words(f"{servers}: {', '.join([*states, warnings])}", tone)


def _of_server(examined: ServerExamination) -> Iterator[Block]:
    word, tone = _STATES[examined.state]
    yield Words(f"{_name(examined.server)}: {word}{_answer_text(examined)}", tone)
    for finding in filter(_is_shown_at_once, examined.findings):
        yield from finding_lines(finding, 2)


def _is_shown_at_once(finding: Finding) -> bool:
    """Whether the finding makes the server unusable. Others come at the end, grouped."""
    return finding.severity == "error" or finding.code == NeedsLogin.code


def _warnings(servers: Iterable[ServerExamination]) -> Iterator[Block]:
    """Warnings, then notes. Findings that several servers share are grouped."""
    groups: dict[tuple[str, str, str], list[tuple[ServerExamination, Finding]]] = {}
    for examined in servers:
        for finding in examined.findings:
            if not _is_shown_at_once(finding):
                groups.setdefault((finding.severity, finding.code, finding.message), []).append((examined, finding))
    if groups:
        yield ""
    for (severity, _, _), group in sorted(groups.items(), key=lambda one: one[0][0] == "note"):
        if len(group) == 1:
            [(examined, finding)] = group
            yield from finding_lines(finding, 0, f"{_name(examined.server)}: ")
        else:
            yield from _group_lines(severity, group)


def _group_lines(severity: str, group: Sequence[tuple[ServerExamination, Finding]]) -> Iterator[Block]:
    is_same = len({finding.advice for _, finding in group}) == 1
    yield Words(f"{severity}: {group[0][1].message}", _TONES[severity])
    for examined, finding in group:
        where = f" (line {finding.line})" if finding.line else ""
        item = f": {finding.item}" if finding.item else ""
        yield Words(f"{_name(examined.server)}{item}{where}", "", 2)
        if not is_same:
            yield Words(f"do: {finding.advice}", "", 4)
    if is_same:
        yield Words(f"do: {group[0][1].advice}", "", 2)


def _answer_text(examined: ServerExamination) -> str:
    if (answer := examined.answer) is None:
        return ""
    seconds = answer.start_seconds + answer.list_seconds
    return f", {answer.count}, {count(answer.tokens, 'token')}, {seconds:.1f} s, MCP {answer.protocol}"


def finding_lines(finding: Finding, indent: int, server: str = "") -> Iterator[Block]:
    """A finding and its advice as text."""
    where = f" ({finding.path}, line {finding.line})" if finding.path and finding.line else ""
    head, *rest = shorten(finding.text)
    yield Words(f"{finding.severity}: {server}{head}{where}", _TONES[finding.severity], indent)
    for line in rest:
        yield Words(line, "", indent + 4)
    yield Words(f"do: {finding.advice}", "", indent + 2)


def _name(server: ServerIdentifier) -> str:
    return slashed(*server.parts())


# -- for programs


def as_json(report: ConfigReport, *, is_ok: bool) -> dict[str, Any]:
    """The JSON document that docs/commands/doctor.md describes; it is stable."""
    return {
        "ok": is_ok,
        "file": report.file,
        "failed": sum(server.state == "failed" for server in report.servers),
        "warnings": report.count("warning"),
        "servers": [_server_json(server) for server in report.servers],
        "findings": [_finding_json(finding) for finding in report.findings],
    }


def _server_json(examined: ServerExamination) -> dict[str, Any]:
    document: dict[str, Any] = {
        "toolbox": examined.server.toolbox,
        "server": examined.server.server,
        "state": examined.state,
        "transport": examined.transport,
    }
    if examined.program:
        document["command"] = examined.program
    if (answer := examined.answer) is not None:
        document |= {
            "era": "modern" if answer.is_modern else "handshake",
            "protocol": answer.protocol,
            "version": answer.version,
            "seconds": {"start": round(answer.start_seconds, 3), "list": round(answer.list_seconds, 3)},
            "tools": answer.count.offered,
            "withheld": answer.count.withheld,
            "tokens": answer.tokens,
        }
    if (trial := examined.trial) is not None:
        document["environment"] = {"outcome": trial.outcome, "tries": trial.tries, "variables": trial.variables}
    return document | {"findings": [_finding_json(finding) for finding in examined.findings]}


def _finding_json(finding: Finding) -> dict[str, Any]:
    document: dict[str, Any] = {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.text,
        "advice": finding.advice,
    }
    return document | ({"path": finding.path, "line": finding.line} if finding.path else {})
