"""Findings and reports as values: the problems of a server or a file, and what to do about them. No secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from mcp_workbench.catalog.snapshot import ToolCount
from mcp_workbench.identity import ServerIdentifier

Severity = Literal["error", "warning", "note"]
"""error: it can't be used. warning: it should be fixed. note: nothing is wrong, but it is worth knowing."""
State = Literal["ok", "failed", "needs_login"]
Outcome = Literal["found", "narrowed", "no_help", "unsteady"]
"""Of a trial: the variables are known; they are among those listed; none helps; the results contradict each other."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a server or a file."""

    code: str
    """Stable. docs/commands/doctor.md lists all codes."""
    message: str
    """The problem, in the same words for every server that has it."""
    item: str = ""
    """The subject of the message, such as a package, if it is not the server as a whole."""
    advice: str
    """What to do, as a sentence."""
    severity: Severity = "warning"
    path: str = ""
    """Its path in the file, if it is about a value there."""
    line: int = 0
    column: int = 0

    @property
    def text(self) -> str:
        return f"{self.message}: {self.item}" if self.item else self.message


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of a server: its protocol, its tools, and their cost."""

    protocol: str
    is_modern: bool
    version: str
    """The version of the server; empty if it reports none."""
    start_seconds: float
    """The time until the handshake was complete."""
    list_seconds: float
    """The time from then until it had listed its tools."""
    tools: tuple[str, ...]
    """The names of the tools that the workbench offers."""
    count: ToolCount
    tokens: int
    """The estimated size of their definitions."""
    noise: str = ""
    """The beginning of the first line on stdout that is not a message."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of starting a server with more variables of our environment."""

    outcome: Outcome
    tries: int
    variables: tuple[str, ...] = ()
    """The names, never the values, of the variables with which it worked."""


class ServerExamination(msgspec.Struct, frozen=True, kw_only=True):
    """The report on one server."""

    server: ServerIdentifier
    transport: Literal["stdio", "http", "sse"]
    program: str = ""
    """The path of its program."""
    state: State = "ok"
    answer: ServerReport | None = None
    findings: tuple[Finding, ...] = ()
    trial: Trial | None = None
    """The result of a trial with more variables, if the user allowed one."""


class ConfigReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on a whole configuration."""

    file: str
    servers: tuple[ServerExamination, ...]
    findings: tuple[Finding, ...] = ()
    """The findings that are not about a single server."""

    @property
    def has_failed(self) -> bool:
        """Whether any server can't be used."""
        return any(server.state == "failed" for server in self.servers)

    def count(self, severity: Severity) -> int:
        findings: Iterable[Finding] = (
            *self.findings,
            *(finding for server in self.servers for finding in server.findings),
        )
        return sum(finding.severity == severity for finding in findings)
