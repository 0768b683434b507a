"""`mcp-workbench doctor`: start every server once, and say what is wrong and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import isfinite

from mcp_workbench import logger
from mcp_workbench.cli.answering import answered, print_json
from mcp_workbench.cli.chosen import log_level
from mcp_workbench.cli.config_file import config_source, say_used
from mcp_workbench.cli.diagnosis import Course, as_json, summary
from mcp_workbench.cli.display import Live, write
from mcp_workbench.cli.states import server_count
from mcp_workbench.cli.terminal import FAILURE
from mcp_workbench.cli.try_environment import with_trials
from mcp_workbench.config.keys import TIMEOUT_MOST_SECONDS
from mcp_workbench.config.lookup import find_toolbox
from mcp_workbench.doctor.entries import inspect
from mcp_workbench.doctor.examination import examine
from mcp_workbench.errors import ConfigError
from mcp_workbench.identity import ServerIdentifier

HELP = """Examine a configuration and every server in it: say what is wrong, and what to do about it.

Starts each server of the toolbox (or of all), asks it for its tools and ends it, several at once. Calls no
tool. Checks the file itself too: packages without a version, secrets that are written into it, duplicate
servers.

A server that fails may need a variable of your environment that it does not get. At a terminal you are
asked whether to try it with your whole environment; --try-environment does it without asking.

The exit status is 1 if a server can't be used, 2 if the file can't, and 0 otherwise; with --strict also 1
if there is any warning."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Mapping[str, str]) -> int:
    logger.log.set_level(log_level(options, otherwise="error"))
    seconds = _seconds(options)
    entries = inspect(config_source(options))
    if "json" not in options:
        say_used(entries.config.file, options)
    named = options.get("toolbox", "")
    toolboxes = (find_toolbox(entries.config, named).name,) if named else tuple(entries.config.toolboxes)
    servers = [server for server in entries.config.servers() if server.toolbox in toolboxes]
    order = [ServerIdentifier(server.toolbox, server.name) for server in servers]
    with Live() as live:
        course = Course(order, live, is_quiet="json" in options)
        report = asyncio.run(course.watched(examine(entries, toolboxes, course, seconds=seconds)))
    report = with_trials(report, entries, options, seconds=seconds)
    is_ok = not report.has_failed and not ("strict" in options and report.count("warning"))
    if "json" in options:
        print_json(as_json(report, is_ok=is_ok))
    else:
        write(*summary(report, server_count(entries.config, toolboxes)))
    return 0 if is_ok else FAILURE


def _seconds(options: Mapping[str, str]) -> float | None:
    """How long each server may take. Raises `ConfigError`."""
    if "timeout" not in options:
        return None
    try:
        seconds = float(options["timeout"])
    except ValueError:
        seconds = 0.0
    if not isfinite(seconds) or not 0 < seconds <= TIMEOUT_MOST_SECONDS:
        raise ConfigError("--timeout must be a number of seconds", hint="Write, for example, --timeout 10")
    return seconds
