"""What is found, as values: what is odd about a server or a file, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from mcp_workbench.catalog.snapshot import ToolCount
from mcp_workbench.identity import ServerIdentifier

Severity = Literal["error", "warning", "note"]
"""An error: it can't be used. A warning: something to put right. A note: nothing is wrong, but it is good to know."""
State = Literal["ok", "failed", "needs_login"]
Outcome = Literal["found", "narrowed", "no_help", "unsteady"]
"""Of a trial: the variables are known; they are among those named; no variable helps; results contradict each other."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is odd, without any secret."""

    code: str
    """Stable: docs/commands/doctor.md has all."""
    message: str
    """The same for every server where the same is odd."""
    item: str = ""
    """What the message is about, where that is more than the server: a package."""
    advice: str
    """What to do, in a sentence."""
    severity: Severity = "warning"
    path: str = ""
    """Where in the file it stands, if it is there."""
    line: int = 0
    column: int = 0

    @property
    def text(self) -> str:
        return f"{self.message}: {self.item}" if self.item else self.message


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said when it was asked."""

    protocol: str
    is_modern: bool
    version: str
    """Of the server, as it reports it; empty if it does not."""
    start_seconds: float
    """Until it could be talked to."""
    list_seconds: float
    """Until it had listed its tools, after that."""
    tools: tuple[str, ...]
    """What is offered of them."""
    count: ToolCount
    tokens: int
    """What an agent would read of them, by estimate."""
    noise: str = ""
    """How the first line begins that it wrote to stdout and is no message."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of starting a server with more variables of our environment."""

    outcome: Outcome
    tries: int
    variables: tuple[str, ...] = ()
    """Names, never values: with these variables it worked."""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """One server."""

    server: ServerIdentifier
    transport: Literal["stdio", "http", "sse"]
    program: str = ""
    """Where its command was found."""
    state: State = "ok"
    answer: ServerReport | None = None
    findings: tuple[Finding, ...] = ()
    trial: Trial | None = None
    """Whether it works with more variables, if somebody let us try."""


class ConfigReport(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration."""

    file: str
    servers: tuple[Examined, ...]
    findings: tuple[Finding, ...] = ()
    """What is about no server alone."""

    @property
    def has_failed(self) -> bool:
        """Whether a server can't be used."""
        return any(server.state == "failed" for server in self.servers)

    def count(self, severity: Severity) -> int:
        every: Iterable[Finding] = (*self.findings, *(one for server in self.servers for one in server.findings))
        return sum(finding.severity == severity for finding in every)
