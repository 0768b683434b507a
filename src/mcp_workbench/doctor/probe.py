"""Probes one server: starts it, lists what it offers, stops it, and reports the problems with its answers.

Guarantees: the server is stopped in any case, and no finding repeats a secret of the configuration. `find_program`
finds the program of a command, or says how to install it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.catalog.rendering.budget import estimate
from mcp_workbench.catalog.snapshot import ServerTools
from mcp_workbench.config.model import Endpoint, Launch, ServerConfig
from mcp_workbench.doctor.findings import Finding, ServerReport, State
from mcp_workbench.errors import Fault, NeedsLogin, StartupTimeout
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.server_handle import ServerHandle
from mcp_workbench.routing.server_lists import Kind
from mcp_workbench.servers.processes import environment
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.workbench import Workbench

EXAMINED_GRACE_SECONDS = 2.0
"""Extra time after the start-up limit, for a second attempt or the last output of a server."""

_LOOK = "Start its command in a terminal to see the error."
_WAIT = "Start its command in a terminal to see what it waits for, or set a longer startupTimeout."
_LOOK_THERE = "Check its url and the network, or set a longer startupTimeout."

_REPORT = "Report it to the developers of the server: only they can fix it."
_ITEMS: Final[dict[Kind, str]] = {"prompts": "prompt", "resources": "resource", "templates": "resource template"}
"""The lists other than tools, with the word for one item."""


class ProbeResult(NamedTuple):
    """The result of a probe."""

    state: State
    answer: ServerReport | None = None
    findings: tuple[Finding, ...] = ()


async def probe_server(workbench: Workbench, server: ServerConfig, *, advice: str = "") -> ProbeResult:
    """Start a server with the capabilities of the latest client, list what it offers, and stop it.

    `advice` replaces the hint of a failure, if the program can't be run.
    """
    newest, *_ = workbench.expected()
    handle = workbench.at(newest).pool.handle(ServerIdentifier(server.toolbox, server.name))
    limits = workbench.limits.bounded(server.bounds)
    try:
        with handle.supervisor.in_use():
            answer, listing = await _list_tools(handle, limits)
            others = [finding for kind in _ITEMS async for finding in _item_findings(handle, kind)]
    except NeedsLogin as fault:
        finding = Finding(code=fault.code, message=logger.redacted(str(fault)), advice=fault.hint)
        return ProbeResult("needs_login", findings=(finding,))
    except Fault as fault:
        return ProbeResult("failed", findings=(_failure(server, fault, advice),))
    finally:
        handle.supervisor.stop_when_idle()
    await handle.supervisor.wait_closed()
    return ProbeResult("ok", answer, (*_tool_findings(server, answer, listing, limits), *others))


async def _list_tools(handle: ServerHandle, limits: Limits) -> tuple[ServerReport, ServerTools]:
    """Start the server and list its tools. Raises `Fault`."""
    began = time.monotonic()
    seconds = limits.startup_timeout_seconds
    try:
        async with asyncio.timeout(seconds + EXAMINED_GRACE_SECONDS):
            connection = await handle.reach()
    except TimeoutError:
        raise StartupTimeout(f"it did not answer within {seconds:g} s") from None
    ready = time.monotonic()
    listing = await handle.lists.tools.fresh()
    answer = ServerReport(
        protocol=connection.agreement.version,
        is_modern=connection.agreement.modern,
        version=_version(connection.agreement.hello),
        start_seconds=ready - began,
        list_seconds=time.monotonic() - ready,
        tools=tuple(listing.tools),
        count=listing.count,
        tokens=estimate(jsonrpc.encode([tool.raw for tool in listing.tools.values()])) if listing.tools else 0,
        noise=connection.channel.noise,
    )
    return answer, listing


def _version(hello: Raw) -> str:
    """The version in a server's `serverInfo`."""
    handshake = jsonrpc.members(hello)
    info = handshake.get("serverInfo") or jsonrpc.members(handshake.get("_meta")).get(eras.SERVER_INFO)
    return escape(logger.redacted(jsonrpc.text_or_none(jsonrpc.members(info).get("version")) or ""))


def _failure(server: ServerConfig, fault: Fault, advice: str) -> Finding:
    is_remote = isinstance(server.target, Endpoint)
    hint = fault.hint or (_LOOK_THERE if is_remote else _LOOK)
    if isinstance(fault, StartupTimeout):  # its own hint suggests the doctor, which is running
        hint = _LOOK_THERE if is_remote else _WAIT
    return Finding(
        code=fault.code, severity="error", message=logger.redacted(str(fault)), advice=logger.redacted(advice or hint)
    )


# -- findings about the answers


async def _item_findings(handle: ServerHandle, kind: Kind) -> AsyncIterator[Finding]:
    """Findings for prompts, resources or templates that are not offered."""
    try:
        withheld = (await handle.lists.caches[kind].fresh()).withheld
    except Fault as fault:
        message = f"its {_ITEMS[kind]}s can't be listed: {logger.redacted(str(fault))}"
        yield Finding(code="list_failed", message=message, advice=fault.hint or _REPORT)
        return
    for item in withheld:
        name = escape(logger.redacted(item.name))
        message = f"its {_ITEMS[kind]} '{name}' is not offered: {item.reason}"
        yield Finding(code="item_withheld", message=message, advice=_REPORT)


def _tool_findings(
    server: ServerConfig, answer: ServerReport, listing: ServerTools, limits: Limits
) -> Iterator[Finding]:
    for pattern in listing.unmatched_filters:
        yield Finding(
            code="filter_matches_nothing",
            message=f"the tool filter '{escape(pattern)}' matches no tool of the server",
            advice="Correct or remove it in toolFilters; without filters every tool is offered.",
        )
    if not answer.tools:
        filtered = bool(server.tool_filters)
        yield Finding(
            code="no_tools",
            message="none of its tools passes its toolFilters" if filtered else "it lists no tools",
            advice="Correct its toolFilters." if filtered else "Read its documentation: it may need an argument.",
        )
    for tool in listing.withheld:
        yield Finding(
            code="tool_withheld",
            message=f"its tool '{escape(logger.redacted(tool.name))}' is not offered: {tool.reason}",
            advice=_REPORT,
        )
    if answer.noise:
        yield Finding(
            code="noise_on_stdout",
            message=f"it writes log lines to stdout, where messages belong: '{answer.noise}'",
            advice="Make it log to stderr, or turn that output off: many such lines end the connection.",
        )
    yield from _cost_findings(answer, limits)


def _cost_findings(answer: ServerReport, limits: Limits) -> Iterator[Finding]:
    if answer.start_seconds + answer.list_seconds > limits.open_timeout_seconds:
        yield Finding(
            code="slow_start",
            message=f"it needs longer than the {limits.open_timeout_seconds:g} s that opening a toolbox waits",
            advice="Its tools are cached now, so the next open need not wait; else set a longer openTimeout.",
        )
    if answer.tokens > limits.open_budget_tokens:
        yield Finding(
            code="many_tokens",
            severity="note",
            message=f"its tools alone are more than the {limits.open_budget_tokens:,} tokens of an open, "
            "so agents see a shortened list",
            advice="Choose the tools that you need with toolFilters.",
        )


_INSTALL: Final[Mapping[str, str]] = {
    "npx": "Install Node.js, which includes npx: https://nodejs.org",
    "npm": "Install Node.js, which includes npm: https://nodejs.org",
    "node": "Install Node.js: https://nodejs.org",
    "bun": "Install Bun: https://bun.sh",
    "bunx": "Install Bun, which includes bunx: https://bun.sh",
    "pnpm": "Install pnpm: https://pnpm.io",
    "pnpx": "Install pnpm, which includes pnpx: https://pnpm.io",
    "yarn": "Install Yarn: https://yarnpkg.com",
    "python": "Write python3, or the full path of a Python: many systems have no program named python.",
    "python3": "Install Python: https://www.python.org",
    "uvx": "Install uv, which includes uvx: https://docs.astral.sh/uv",
    "uv": "Install uv: https://docs.astral.sh/uv",
    "pipx": "Install pipx: https://pipx.pypa.io",
    "docker": "Install Docker, and start it: https://docs.docker.com/get-docker",
    "podman": "Install Podman: https://podman.io",
    "deno": "Install Deno: https://deno.com",
}
_SPLIT: Final = "Put only the program into its command, and each following word into its args."


class Program(NamedTuple):
    """The path of a program, or what to do if it was not found."""

    path: str = ""
    advice: str = ""


def find_program(launch: Launch, environ: Mapping[str, str]) -> Program:
    """Find the program of a local server."""
    command = launch.command
    if "/" in command:
        is_there = os.path.isfile(command) and os.access(command, os.X_OK)  # noqa: PTH113 -- as below
        return Program(command) if is_there else Program(advice=_unusable_advice(command))
    search_path = environment(launch, environ, "").get("PATH", os.defpath)
    if path := shutil.which(command, path=search_path):
        return Program(path)
    if "PATH" in launch.env and (other_path := shutil.which(command, path=environ.get("PATH", os.defpath))):
        return Program(advice=f"Its own PATH lacks the folder of {other_path}: add it to env.PATH, or remove env.PATH.")
    if blocked := shutil.which(command, mode=os.F_OK, path=search_path):
        return Program(advice=_unusable_advice(blocked))
    if " " in command:
        return Program(advice=_SPLIT)
    return Program(advice=_INSTALL.get(command, "Install it, or write the full path of the program as its command."))


def _unusable_advice(path: str) -> str:
    if os.path.isdir(path):  # noqa: PTH112 -- a path of the configuration, which Path may refuse
        return "Its command is a folder: write the path of the program."
    if os.path.exists(path):  # noqa: PTH110 -- same
        return "Make its command executable: chmod +x"
    return _SPLIT if " " in path else "Correct the path of its command."
