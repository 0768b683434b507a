"""The configuration and the toolboxes that a command at a terminal works on."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcp_workbench import logger
from mcp_workbench.cli.answering import print_failure
from mcp_workbench.cli.config_file import config_source, say_used
from mcp_workbench.cli.terminal import report
from mcp_workbench.config.load import config_of
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConfigError, WorkbenchError
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known


def chosen(options: Mapping[str, str]) -> tuple[Config, tuple[str, ...]]:
    """The configuration, and the toolbox that was named or all of them. Raises `ConfigError`."""
    logger.log.set_level(log_level(options, otherwise="error"))
    config = config_of(config_source(options))
    logger.guard(lambda: config.secrets)
    logger.log.redact.hide(config.secrets)
    if "json" not in options:  # a document names the file itself
        say_used(config.file, options)
    toolbox = options.get("toolbox", "")
    if toolbox and toolbox not in config.toolboxes:
        problem = f"Toolbox '{escape(toolbox)}' not found"
        raise ConfigError(problem, file=config.file, hint=nearest_or_known(toolbox, config.toolboxes, "toolboxes"))
    return config, (toolbox,) if toolbox else tuple(config.toolboxes)


def log_level(options: Mapping[str, str], *, otherwise: str) -> str:
    """How much is logged. Raises `ConfigError`."""
    level = options.get("log_level") or os.environ.get("WORKBENCH_LOG") or otherwise
    if level not in logger.LEVELS:
        raise ConfigError(f"WORKBENCH_LOG is '{escape(level)}'", hint=f"Set it to one of {', '.join(logger.LEVELS)}.")
    return level


def refuse(error: WorkbenchError, options: Mapping[str, str]) -> int:
    """Report that a command can't be done, to a person or to a program; the exit status."""
    return print_failure(error) if "json" in options else report(error)
