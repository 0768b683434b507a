"""A whole configuration, examined: what is written in it, and every server, several at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

import msgspec

from mcp_workbench import observe
from mcp_workbench.checkup.entries import Entries, inspect
from mcp_workbench.checkup.findings import Examined, Finding, Report
from mcp_workbench.checkup.programs import Program, find_program
from mcp_workbench.checkup.visits import Visit, visit
from mcp_workbench.config.model import Config, Endpoint, ServerConfig, ToolboxConfig
from mcp_workbench.config.source import read_source
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown
from mcp_workbench.workbench import Workbench


class Audience(Protocol):
    """Who hears how it goes."""

    def began(self, server: ServerIdentifier) -> None: ...

    def done(self, examined: Examined) -> None: ...


def entries_of(file: str) -> Entries:
    """What can be said without starting anything. Raises `ConfigError`."""
    return inspect(read_source(file, DEFAULTS))


async def examine(
    entries: Entries, toolboxes: Collection[str], audience: Audience, *, seconds: float | None = None
) -> Report:
    """Start every server of these toolboxes, ask it and end it; each has its own limit, or `seconds`."""
    config = _within(entries.config, toolboxes, seconds)
    turn = asyncio.Semaphore(DEFAULTS.examined_at_once)
    async with Workbench(config) as workbench:

        async def one(server: ServerConfig) -> Examined:
            async with turn:
                identifier = ServerIdentifier(server.toolbox, server.name)
                audience.began(identifier)
                examined = await _examined(workbench, server, entries.of(identifier))
                audience.done(examined)
                return examined

        servers = await asyncio.gather(*(one(server) for server in config.servers()))
    found = (*entries.of_file, *_collisions(servers))
    return Report(file=config.file, servers=tuple(servers), findings=found)


def _within(config: Config, toolboxes: Collection[str], seconds: float | None) -> Config:
    """The toolboxes that are meant, with other limits where somebody says so."""
    chosen = {name: _limited(box, seconds) for name, box in config.toolboxes.items() if name in toolboxes}
    return msgspec.structs.replace(config, toolboxes=chosen)


def _limited(toolbox: ToolboxConfig, seconds: float | None) -> ToolboxConfig:
    if seconds is None:
        return toolbox
    bounds = {
        "startup_timeout_seconds": seconds,
        "list_page_timeout_seconds": min(seconds, DEFAULTS.list_page_timeout_seconds),
        "list_total_timeout_seconds": min(seconds, DEFAULTS.list_total_timeout_seconds),
    }
    servers = {
        name: msgspec.structs.replace(server, bounds={**server.bounds, **bounds})
        for name, server in toolbox.servers.items()
    }
    return msgspec.structs.replace(toolbox, servers=servers)


async def _examined(workbench: Workbench, server: ServerConfig, written: tuple[Finding, ...]) -> Examined:
    target = server.target
    is_remote = isinstance(target, Endpoint)
    program = Program() if is_remote or server.missing else find_program(target, os.environ)
    visited = Visit("failed") if server.missing else await visit(workbench, server, advice=program.advice)
    return Examined(
        server=ServerIdentifier(server.toolbox, server.name),
        transport=target.transport if is_remote else "stdio",
        program=observe.foreign(program.found, len(program.found)),
        state=visited.state,
        answer=visited.answer,
        findings=tuple(sorted((*written, *visited.findings), key=_weight)),
    )


def _weight(finding: Finding) -> int:
    return ("error", "warning", "note").index(finding.severity)


def _collisions(servers: Iterable[Examined]) -> Iterator[Finding]:
    """Tools of a toolbox that share a name."""
    holders: dict[tuple[str, str], list[str]] = {}
    for examined in servers:
        for tool in examined.answer.tools if examined.answer is not None else ():
            holders.setdefault((examined.server.toolbox, tool), []).append(examined.server.server)
    shared = {place: names for place, names in holders.items() if len(names) > 1}
    for toolbox in dict.fromkeys(place[0] for place in shared):
        tools = [shown(observe.redacted(tool)) for box, tool in shared if box == toolbox]
        first, left = tools[: DEFAULTS.collisions_shown], len(tools) - DEFAULTS.collisions_shown
        more = f" and {left} more" if left > 0 else ""
        yield Finding(
            code="names_shared",
            severity="note",
            message=f"servers of toolbox '{shown(toolbox)}' have tools of the same name: {', '.join(first)}{more}",
            advice="Nothing need be done: calls name the server. With --toolbox such tools have joined names.",
        )
