"""`mcp-workbench doctor`: starts every server once, and reports problems with advice.

A failing server gets the whole environment only if the user agrees to it at a terminal, for each server, or passes
`--try-environment`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Mapping
from math import isfinite

import msgspec

from mcp_workbench import logger
from mcp_workbench.cli.config_selection import config_source, log_level, say_used
from mcp_workbench.cli.display import Live, Words, is_terminal, write
from mcp_workbench.cli.doctor_report import DoctorProgress, as_json, finding_lines, summary
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.server_states import server_count
from mcp_workbench.cli.terminal import FAILURE, is_agreed
from mcp_workbench.config.keys import TIMEOUT_MOST_SECONDS
from mcp_workbench.config.model import ServerConfig, find_toolbox
from mcp_workbench.doctor.config_checks import ConfigChecks, inspect
from mcp_workbench.doctor.environment_trial import finding_of, try_environment, withheld_variables
from mcp_workbench.doctor.examination import examine, limited
from mcp_workbench.doctor.findings import ConfigReport, ServerExamination
from mcp_workbench.errors import ConfigError, SpawnFailed
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import count, escape, slashed

HELP = """Examine a configuration and every server in it, and report problems with advice.

The command starts each server of the toolbox (or of all), lists its tools and stops it, several at once. It
calls no tool. It also checks the file: packages without a version, secrets, duplicate servers.

A failing server may need a variable of your environment that it does not get. At a terminal the command asks
whether to try the server with your whole environment; --try-environment does so without asking.

The exit status is 1 if a server can't be used, 2 if the file can't, and 0 otherwise. With --strict, a
warning also makes it 1."""


def run(options: Mapping[str, str]) -> int:
    logger.log.set_level(log_level(options, default="error"))
    seconds = _seconds(options)
    checks = inspect(config_source(options))
    if "json" not in options:
        say_used(checks.config.file, options)
    named = options.get("toolbox", "")
    toolboxes = (find_toolbox(checks.config, named).name,) if named else tuple(checks.config.toolboxes)
    servers = [server for server in checks.config.servers() if server.toolbox in toolboxes]
    order = [server.identifier for server in servers]
    with Live() as live:
        progress = DoctorProgress(order, live, is_quiet="json" in options)
        report = asyncio.run(progress.watched(examine(checks, toolboxes, progress, seconds=seconds)))
    report = with_trials(report, checks, options, seconds=seconds)
    is_ok = not report.has_failed and not ("strict" in options and report.count("warning"))
    if "json" in options:
        print_json(as_json(report, is_ok=is_ok))
    else:
        write(*summary(report, server_count(checks.config, toolboxes)))
    return 0 if is_ok else FAILURE


def _seconds(options: Mapping[str, str]) -> float | None:
    """The start timeout from `--timeout`. Raises `ConfigError`."""
    if "timeout" not in options:
        return None
    try:
        seconds = float(options["timeout"])
    except ValueError:
        seconds = 0.0
    if not isfinite(seconds) or not 0 < seconds <= TIMEOUT_MOST_SECONDS:
        raise ConfigError("--timeout must be a number of seconds", hint="Write, for example, --timeout 10")
    return seconds


_KEY = "try_environment"


def with_trials(
    report: ConfigReport, checks: ConfigChecks, options: Mapping[str, str], *, seconds: float | None
) -> ConfigReport:
    """Try failing servers with the whole environment, and add the findings to the report."""
    configured = {server.identifier: limited(server, seconds, DEFAULTS) for server in checks.config.servers()}
    servers, left = list(report.servers), list[str]()
    for at, examined in enumerate(servers):
        server = configured[examined.server]
        if not _may_help(examined, server):
            continue
        if _KEY in options or (_is_attended(options) and _is_agreed(examined, server)):
            servers[at] = _try_server(examined, server, checks, options)
        else:
            left.append(_name(examined))
    if left and "json" not in options and not _is_attended(options):
        named = ["--config", options["config"]] if "config" in options else []
        command = shlex.join(["mcp-workbench", "doctor", "--try-environment", *named])
        write(f"To see whether a variable is missing ({', '.join(left)}): {escape(command, len(command))}")
    return msgspec.structs.replace(report, servers=tuple(servers))


def _is_attended(options: Mapping[str, str]) -> bool:
    """Whether somebody can answer a question."""
    return "json" not in options and is_terminal(sys.stdin) and is_terminal(sys.stdout)


def _name(examined: ServerExamination) -> str:
    return slashed(*examined.server.parts())


def _may_help(examined: ServerExamination, server: ServerConfig) -> bool:
    """Whether a missing variable is possible: the program runs, and does not get the whole environment."""
    is_run = not server.missing and all(finding.code != SpawnFailed.code for finding in examined.findings)
    return examined.state == "failed" and is_run and bool(withheld_variables(server, os.environ))


def _is_agreed(examined: ServerExamination, server: ServerConfig) -> bool:
    number = count(len(withheld_variables(server, os.environ)), "variable")
    name = _name(examined)
    write(
        "",
        f"{name} does not get {number} of your environment and may need one of them. "
        "If you say yes, it gets their values, including secrets, but no token of the workbench.",
    )
    return is_agreed(f"Try {name} once with your whole environment, and if it works, find the variables it needs?")


def _try_server(
    examined: ServerExamination, server: ServerConfig, checks: ConfigChecks, options: Mapping[str, str]
) -> ServerExamination:
    name, is_quiet = _name(examined), "json" in options
    said = "\n".join(finding.message for finding in examined.findings)
    with Live() as live:

        def on_try(number: int) -> None:
            if not is_quiet:
                live.show(Words(f"trying {name} with variables of your environment (try {number})", "quiet"))

        trial = asyncio.run(try_environment(server, os.environ, said, on_try))
    named = checks.config.file if "config" in options else ""
    finding = finding_of(trial, checks.entries[examined.server], named)
    if not is_quiet:
        write(Words(f"{name}, with your environment:", "strong"), *finding_lines(finding, 2))
    return msgspec.structs.replace(examined, findings=(*examined.findings, finding), trial=trial)
