"""Examines a whole configuration: the file and every server, several at the same time.

Guarantees: each server is started once, within its own time limit, and stopped; a server that fails does not affect
the others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from mcp_workbench import logger
from mcp_workbench.config.model import Config, Endpoint, ServerConfig, ToolboxConfig
from mcp_workbench.doctor.config_checks import UNPINNED, ConfigChecks, unpinned
from mcp_workbench.doctor.descriptions import description_findings
from mcp_workbench.doctor.findings import ConfigReport, Examined, Finding
from mcp_workbench.doctor.probe import Program, Visit, find_program, visit
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.text.sanitize import escape
from mcp_workbench.workbench import Workbench

EXAMINED_AT_ONCE = 8
"""Servers that `mcp-workbench doctor` starts at the same time. Each of them loads a program."""
COLLISIONS_SHOWN = 10
"""Shared tool names that a finding lists; of the rest it gives the number."""


class Audience(Protocol):
    """Receives the progress of an examination."""

    def began(self, server: ServerIdentifier) -> None: ...

    def done(self, examined: Examined) -> None: ...


async def examine(
    entries: ConfigChecks,
    toolboxes: Collection[str],
    audience: Audience,
    *,
    seconds: float | None = None,
    limits: Limits = DEFAULTS,
) -> ConfigReport:
    """Probe every server of these toolboxes. `seconds` replaces the time limits of the servers."""
    config = _within(entries.config, toolboxes, seconds, limits)
    turn = asyncio.Semaphore(EXAMINED_AT_ONCE)
    async with Workbench(config, limits=limits) as workbench:

        async def one(server: ServerConfig) -> Examined:
            async with turn:
                identifier = ServerIdentifier(server.toolbox, server.name)
                audience.began(identifier)
                examined = await _examined(workbench, server, entries)
                audience.done(examined)
                return examined

        servers = await asyncio.gather(*(one(server) for server in config.servers()))
    tools = {one.server: one.answer.tools for one in servers if one.answer is not None}
    found = (*entries.of_file, *description_findings(config.toolboxes.values(), tools), *_collisions(servers))
    return ConfigReport(file=config.file, servers=tuple(servers), findings=found)


def _within(config: Config, toolboxes: Collection[str], seconds: float | None, limits: Limits) -> Config:
    """The configuration with only these toolboxes, and with `seconds` as their time limit."""
    chosen = {name: _limited(box, seconds, limits) for name, box in config.toolboxes.items() if name in toolboxes}
    return msgspec.structs.replace(config, toolboxes=chosen)


def _limited(toolbox: ToolboxConfig, seconds: float | None, limits: Limits) -> ToolboxConfig:
    servers = {name: limited(server, seconds, limits) for name, server in toolbox.servers.items()}
    return msgspec.structs.replace(toolbox, servers=servers)


def limited(server: ServerConfig, seconds: float | None, limits: Limits) -> ServerConfig:
    """The server with `seconds` to start and to list; None leaves its own limits."""
    if seconds is None:
        return server
    bounds = {
        "startup_timeout_seconds": seconds,
        "list_page_timeout_seconds": min(seconds, limits.list_page_timeout_seconds),
        "list_total_timeout_seconds": min(seconds, limits.list_total_timeout_seconds),
    }
    return msgspec.structs.replace(server, bounds={**server.bounds, **bounds})


async def _examined(workbench: Workbench, server: ServerConfig, entries: ConfigChecks) -> Examined:
    target = server.target
    is_remote = isinstance(target, Endpoint)
    program = Program() if is_remote or server.missing else find_program(target, os.environ)
    visited = Visit("failed") if server.missing else await visit(workbench, server, advice=program.advice)
    written = _with_installed(server, entries, visited)
    notes = _unused_proxy(target, os.environ) if is_remote and visited.state == "failed" else ()
    return Examined(
        server=ServerIdentifier(server.toolbox, server.name),
        transport=target.transport if is_remote else "stdio",
        program=logger.foreign(program.found, len(program.found)),
        state=visited.state,
        answer=visited.answer,
        findings=tuple(sorted((*written, *visited.findings, *notes), key=_weight)),
    )


def _with_installed(server: ServerConfig, entries: ConfigChecks, visited: Visit) -> tuple[Finding, ...]:
    """The findings about its entry. Since it was started, its packages are installed and their versions known."""
    found = entries.of(server.identifier)
    reported = visited.answer.version if visited.answer is not None else ""
    renewed = iter(tuple(unpinned(server, entries.written[server.identifier], reported)))
    return tuple(next(renewed, one) if one.code == UNPINNED else one for one in found)


def _unused_proxy(endpoint: Endpoint, environ: Mapping[str, str]) -> Iterator[Finding]:
    """A note for a remote server that can't be reached, if other programs would use a proxy."""
    scheme = endpoint.url.partition(":")[0].lower()
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    for name in [name for name in names if environ.get(name)][:1]:
        yield Finding(
            code="proxy_not_used",
            severity="note",
            message=f"{name} is set, but the workbench connects to remote servers directly",
            advice="If only the proxy reaches its host, allow direct connections to it, or run the server locally.",
        )


def _weight(finding: Finding) -> int:
    return ("error", "warning", "note").index(finding.severity)


def _collisions(servers: Iterable[Examined]) -> Iterator[Finding]:
    """Findings for tools of a toolbox that share a name."""
    holders: dict[tuple[str, str], list[str]] = {}
    for examined in servers:
        for tool in examined.answer.tools if examined.answer is not None else ():
            holders.setdefault((examined.server.toolbox, tool), []).append(examined.server.server)
    shared = {place: names for place, names in holders.items() if len(names) > 1}
    for toolbox in dict.fromkeys(place[0] for place in shared):
        tools = [escape(logger.redacted(tool)) for box, tool in shared if box == toolbox]
        first, left = tools[:COLLISIONS_SHOWN], len(tools) - COLLISIONS_SHOWN
        more = f" and {left} more" if left > 0 else ""
        yield Finding(
            code="names_shared",
            severity="note",
            message=f"servers of toolbox '{escape(toolbox)}' have tools of the same name: {', '.join(first)}{more}",
            advice="You need not change anything: calls name the server. With --toolbox, such tools have joined names.",
        )
