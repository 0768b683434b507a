"""A whole configuration, examined: what is written in it, and every server, several at once."""

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
"""Servers that `mcp-workbench doctor` starts at once: each is a program that loads."""
COLLISIONS_SHOWN = 10
"""Tools whose name several servers of a toolbox share that are named to a person; beyond it, how many there are."""


class Audience(Protocol):
    """Who hears how it goes."""

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
    """Start every server of these toolboxes, ask it and end it; each has its own limit, or `seconds`."""
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
    """The toolboxes that are meant, with other limits where somebody says so."""
    chosen = {name: _limited(box, seconds, limits) for name, box in config.toolboxes.items() if name in toolboxes}
    return msgspec.structs.replace(config, toolboxes=chosen)


def _limited(toolbox: ToolboxConfig, seconds: float | None, limits: Limits) -> ToolboxConfig:
    servers = {name: limited(server, seconds, limits) for name, server in toolbox.servers.items()}
    return msgspec.structs.replace(toolbox, servers=servers)


def limited(server: ServerConfig, seconds: float | None, limits: Limits) -> ServerConfig:
    """A server that may take `seconds` to start and to list, or as long as it may by itself."""
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
    """What is odd about its entry. Its packages are installed now that it was started, so their versions are known."""
    found = entries.of(server.identifier)
    reported = visited.answer.version if visited.answer is not None else ""
    renewed = iter(tuple(unpinned(server, entries.written[server.identifier], reported)))
    return tuple(next(renewed, one) if one.code == UNPINNED else one for one in found)


def _unused_proxy(endpoint: Endpoint, environ: Mapping[str, str]) -> Iterator[Finding]:
    """A note for a remote server that can't be reached where other programs would use a proxy."""
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
    """Tools of a toolbox that share a name."""
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
            advice="Nothing need be done: calls name the server. With --toolbox such tools have joined names.",
        )
