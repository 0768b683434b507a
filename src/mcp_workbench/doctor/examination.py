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
from mcp_workbench.doctor.findings import ConfigReport, Finding, ServerExamination
from mcp_workbench.doctor.probe import ProbeResult, Program, find_program, probe_server
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.text.sanitize import escape
from mcp_workbench.workbench import Workbench

EXAMINED_AT_ONCE = 8
"""Servers that `mcp-workbench doctor` starts at the same time. Each of them loads a program."""
COLLISIONS_SHOWN = 10
"""Shared tool names that a finding lists; of the rest it gives the number."""


class ProgressListener(Protocol):
    """Receives the progress of an examination."""

    def began(self, server: ServerIdentifier) -> None: ...

    def done(self, examined: ServerExamination) -> None: ...


async def examine(
    checks: ConfigChecks,
    toolboxes: Collection[str],
    listener: ProgressListener,
    *,
    seconds: float | None = None,
    limits: Limits = DEFAULTS,
) -> ConfigReport:
    """Probe every server of these toolboxes. `seconds` replaces the time limits of the servers."""
    config = _selected(checks.config, toolboxes, seconds, limits)
    slots = asyncio.Semaphore(EXAMINED_AT_ONCE)
    async with Workbench(config, limits=limits) as workbench:

        async def examine_one(server: ServerConfig) -> ServerExamination:
            async with slots:
                identifier = ServerIdentifier(server.toolbox, server.name)
                listener.began(identifier)
                examined = await _examine_server(workbench, server, checks)
                listener.done(examined)
                return examined

        servers = await asyncio.gather(*(examine_one(server) for server in config.servers()))
    tools = {server.server: server.answer.tools for server in servers if server.answer is not None}
    findings = (*checks.file_findings, *description_findings(config.toolboxes.values(), tools), *_collisions(servers))
    return ConfigReport(file=config.file, servers=tuple(servers), findings=findings)


def _selected(config: Config, toolboxes: Collection[str], seconds: float | None, limits: Limits) -> Config:
    """The configuration with only these toolboxes, and with `seconds` as their time limit."""
    selected: dict[str, ToolboxConfig] = {}
    for name in (name for name in config.toolboxes if name in toolboxes):
        toolbox = config.toolboxes[name]
        servers = {name: limited(server, seconds, limits) for name, server in toolbox.servers.items()}
        selected[name] = msgspec.structs.replace(toolbox, servers=servers)
    return msgspec.structs.replace(config, toolboxes=selected)


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


async def _examine_server(workbench: Workbench, server: ServerConfig, checks: ConfigChecks) -> ServerExamination:
    target = server.target
    is_remote = isinstance(target, Endpoint)
    program = Program() if is_remote or server.missing else find_program(target, os.environ)
    result = ProbeResult("failed") if server.missing else await probe_server(workbench, server, advice=program.advice)
    entry_findings = _entry_findings(server, checks, result)
    proxy_notes = _unused_proxy(target, os.environ) if is_remote and result.state == "failed" else ()
    return ServerExamination(
        server=ServerIdentifier(server.toolbox, server.name),
        transport=target.transport if is_remote else "stdio",
        program=logger.foreign(program.path, len(program.path)),
        state=result.state,
        answer=result.answer,
        findings=tuple(sorted((*entry_findings, *result.findings, *proxy_notes), key=_severity_rank)),
    )


def _entry_findings(server: ServerConfig, checks: ConfigChecks, result: ProbeResult) -> tuple[Finding, ...]:
    """The findings about its entry. Since it was started, its packages are installed and their versions known."""
    findings = checks.findings_of(server.identifier)
    reported = result.answer.version if result.answer is not None else ""
    renewed = iter(tuple(unpinned(server, checks.entries[server.identifier], reported)))
    return tuple(next(renewed, finding) if finding.code == UNPINNED else finding for finding in findings)


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


def _severity_rank(finding: Finding) -> int:
    return ("error", "warning", "note").index(finding.severity)


def _collisions(servers: Iterable[ServerExamination]) -> Iterator[Finding]:
    """Findings for tools of a toolbox that share a name."""
    holders: dict[tuple[str, str], list[str]] = {}
    for examined in servers:
        for tool in examined.answer.tools if examined.answer is not None else ():
            holders.setdefault((examined.server.toolbox, tool), []).append(examined.server.server)
    shared = {key: names for key, names in holders.items() if len(names) > 1}
    for toolbox in dict.fromkeys(key[0] for key in shared):
        tools = [escape(logger.redacted(tool)) for box, tool in shared if box == toolbox]
        first, rest = tools[:COLLISIONS_SHOWN], len(tools) - COLLISIONS_SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        yield Finding(
            code="names_shared",
            severity="note",
            message=f"servers of toolbox '{escape(toolbox)}' have tools of the same name: {', '.join(first)}{more}",
            advice="You need not change anything: calls name the server. With --toolbox, such tools have joined names.",
        )
