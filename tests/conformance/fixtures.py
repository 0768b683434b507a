"""The servers that the suite is run against, and what each of them is asked about."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import install

HERE = Path(__file__).parent
TASKS = "tasks-"
"""How the names of the scenarios of the tasks extension begin. The suite has them at 2026-07-28 only."""
BY_NAME = "server-stateless"
"""The one protocol scenario some of whose checks call tools by name."""
PROTOCOL_SCENARIOS = {
    "2025-11-25": [
        "server-initialize",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "server-session-lifecycle",
    ],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "input-required-result-unsupported-methods",
        "http-header-validation",
    ],
}
"""Those that need no tool of a name that the suite chose."""


@dataclass(frozen=True)
class Fixture:
    """A server that speaks on stdio, and over HTTP with `--http PORT`."""

    name: str
    command: tuple[str, ...]
    has_tasks: bool = False

    def is_asked(self, scenario: str, revision: str) -> bool:
        """The suite runs all scenarios against every server; those about what a server doesn't have don't count."""
        if self.has_tasks:
            return scenario.startswith(TASKS) or (scenario in PROTOCOL_SCENARIOS[revision] and scenario != BY_NAME)
        return not scenario.startswith(TASKS)


def python(name: str, file: str, *, has_tasks: bool = False) -> Fixture:
    return Fixture(name, (sys.executable, str(HERE / file)), has_tasks)


OWN = python("low-level", "everything_server.py")
FIXTURES = (
    OWN,
    python("python", "high_level_server.py"),
    Fixture("typescript", (str(install.newer_node() or "node"), str(HERE / "typescript" / "server.mjs"))),
    python("tasks", "tasks_server.py", has_tasks=True),
)
