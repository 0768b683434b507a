"""Offers to start servers that failed once more, with the whole environment, and tells which variables they need.

Nothing is started unless a person at a terminal says yes, for each server, or `--try-environment` was passed.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Mapping

import msgspec

from mcp_workbench.cli.consent import is_agreed
from mcp_workbench.cli.diagnosis import finding_lines
from mcp_workbench.cli.display import Live, Words, is_terminal, write
from mcp_workbench.config.model import ServerConfig
from mcp_workbench.doctor.entries import Entries
from mcp_workbench.doctor.environment_trial import finding_of, try_environment, withheld
from mcp_workbench.doctor.examination import limited
from mcp_workbench.doctor.findings import Examined, Report
from mcp_workbench.errors import SpawnFailed
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import count, escape, slashed

_KEY = "try_environment"


def with_trials(report: Report, entries: Entries, options: Mapping[str, str], *, seconds: float | None) -> Report:
    """The report, with what is found about servers that may be tried."""
    configured = {server.identifier: limited(server, seconds, DEFAULTS) for server in entries.config.servers()}
    servers, left = list(report.servers), list[str]()
    for at, examined in enumerate(servers):
        server = configured[examined.server]
        if not _may_help(examined, server):
            continue
        if _KEY in options or (_is_attended(options) and _is_agreed(examined, server)):
            servers[at] = _tried(examined, server, entries, options)
        else:
            left.append(_name(examined))
    if left and "json" not in options and not _is_attended(options):
        named = ["--config", options["config"]] if "config" in options else []
        command = shlex.join(["mcp-workbench", "doctor", "--try-environment", *named])
        write(f"To see whether a variable is missing ({', '.join(left)}): {escape(command, len(command))}")
    return msgspec.structs.replace(report, servers=tuple(servers))


def _is_attended(options: Mapping[str, str]) -> bool:
    """Whether there is a person who can be asked."""
    return "json" not in options and is_terminal(sys.stdin) and is_terminal(sys.stdout)


def _name(examined: Examined) -> str:
    return slashed(*examined.server.parts())


def _may_help(examined: Examined, server: ServerConfig) -> bool:
    """Whether a variable may be missing: the program can be run, and there are variables that it does not get."""
    is_run = not server.missing and all(finding.code != SpawnFailed.code for finding in examined.findings)
    return examined.state == "failed" and is_run and bool(withheld(server, os.environ))


def _is_agreed(examined: Examined, server: ServerConfig) -> bool:
    number = count(len(withheld(server, os.environ)), "variable")
    name = _name(examined)
    write(
        "",
        f"{name} does not get {number} of your environment and may need one of them. "
        "If you say yes, it sees their values, including secrets, but no token of the workbench.",
    )
    return is_agreed(f"Try {name} once with your whole environment, and if it works, find the variables it needs?")


def _tried(examined: Examined, server: ServerConfig, entries: Entries, options: Mapping[str, str]) -> Examined:
    name, is_quiet = _name(examined), "json" in options
    said = "\n".join(finding.message for finding in examined.findings)
    with Live() as live:

        def on_try(number: int) -> None:
            if not is_quiet:
                live.show(Words(f"trying {name} with variables of your environment (try {number})", "quiet"))

        trial = asyncio.run(try_environment(server, os.environ, said, on_try))
    named = entries.config.file if "config" in options else ""
    finding = finding_of(trial, entries.written[examined.server], named)
    if not is_quiet:
        write(Words(f"{name}, with your environment:", "strong"), *finding_lines(finding, 2))
    return msgspec.structs.replace(examined, findings=(*examined.findings, finding), trial=trial)
