"""`mcp-workbench refresh`: updates the cached tool lists, so that toolboxes open without starting servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mcp_workbench.catalog.snapshot import ToolCount
from mcp_workbench.cli.config_selection import chosen
from mcp_workbench.cli.display import Live, Words
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.terminal import FAILURE, say
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConfigError, ConnectFailed
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.sanitize import slashed
from mcp_workbench.text.tracebacks import shorten
from mcp_workbench.wire.caller import Caller
from mcp_workbench.workbench import Workbench

REFRESHED_AT_ONCE = 8
"""The number of servers that start at the same time."""

HELP = """Start the servers of a toolbox, or of all, cache the tools that they list, and stop them again.

After that, their toolboxes open at once, and a server starts only when one of its tools is called. A server
may list different tools for different kinds of clients, so the command lists them once for each kind of
client that was seen on this machine. The exit status is 1 if a server failed."""


class Outcome(NamedTuple):
    """The result for one server."""

    server: ServerIdentifier
    seconds: float
    tools: ToolCount = ToolCount(0)
    error: str = ""
    is_kept: bool = True

    def line(self) -> str:
        name = slashed(*self.server.parts())
        if self.error:
            return "\n    ".join(shorten(f"{name}: failed: {self.error}"))
        unkept = "" if self.is_kept else "; not cached, since the list contains a secret or is too large"
        return f"{name}: {self.tools} ({self.seconds:.1f} s){unkept}"

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"toolbox": self.server.toolbox, "server": self.server.server}
        document["seconds"] = round(self.seconds, 3)
        return document | ({"error": self.error} if self.error else self._listed())

    def _listed(self) -> dict[str, Any]:
        return {"tools": self.tools.offered, "withheld": self.tools.withheld, "remembered": self.is_kept}


def run(options: Mapping[str, str]) -> int:
    config, toolboxes = chosen(options)
    with Live() as live:
        outcomes = asyncio.run(_refresh(config, toolboxes, Progress(live, is_quiet="json" in options)))
    failed = any(outcome.error for outcome in outcomes)
    if "json" in options:
        print_json({"ok": not failed, "file": config.file, "servers": [outcome.as_json() for outcome in outcomes]})
    return FAILURE if failed else 0


class Progress:
    """Prints a line for each finished server, and shows at a terminal which are still running."""

    def __init__(self, live: Live, *, is_quiet: bool) -> None:
        self._live = live
        self._is_quiet = is_quiet
        self._waiting: dict[ServerIdentifier, None] = {}

    def began(self, server: ServerIdentifier) -> None:
        self._waiting[server] = None
        self._show()

    def done(self, outcome: Outcome) -> None:
        self._waiting.pop(outcome.server, None)
        self._live.clear()
        if not self._is_quiet:
            say(outcome.line())
        self._show()

    def _show(self) -> None:
        if self._waiting and not self._is_quiet:
            names = ", ".join(slashed(*server.parts()) for server in self._waiting)
            self._live.show(Words(f"waiting for {names}", "quiet"))


async def _refresh(config: Config, toolboxes: Iterable[str], progress: Progress) -> list[Outcome]:
    async with Workbench(config) as workbench:
        callers = workbench.expected()
        if (problem := workbench.cache_problem()) is not None:
            hint = "Name a writable file: catalog.path in the configuration, or $WORKBENCH_CATALOG."
            raise ConfigError(f"the catalog is not writable: {problem}", hint=hint)
        turn = asyncio.Semaphore(REFRESHED_AT_ONCE)
        servers = workbench.at(callers[0]).servers_of(toolboxes)
        return await asyncio.gather(*(_one(workbench, callers, server, turn, progress) for server in servers))


async def _one(
    workbench: Workbench, callers: Iterable[Caller], server: ServerIdentifier, turn: asyncio.Semaphore, show: Progress
) -> Outcome:
    async with turn:
        show.began(server)
        since = time.monotonic()
        try:
            # In sequence: two processes of one server may compete for a file or a port.
            counts = [(await workbench.at(caller).refresh(server)).count for caller in callers]
            is_kept = all(workbench.at(caller).pool.handle(server).lists.is_remembered for caller in callers)
            outcome = Outcome(server, time.monotonic() - since, tools=counts[0], is_kept=is_kept)
        except ConnectFailed as error:
            outcome = Outcome(server, time.monotonic() - since, error=error.fault.reason)
        show.done(outcome)
        return outcome
