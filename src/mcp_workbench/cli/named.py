"""The configuration that a command line names."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_workbench import logger
from mcp_workbench.cli.chosen import log_level
from mcp_workbench.cli.config_file import config_source, say_used
from mcp_workbench.config.load import config_of
from mcp_workbench.config.model import Config


def read_config(options: Mapping[str, str], *, always_say_file: bool = False) -> Config:
    """The configuration; a variable that is missing is the matter of its own server. Raises `ConfigError`.

    Says on stderr which file it is. With `--json` only where asked: most documents name the file themselves.
    """
    logger.log.set_level(log_level(options, otherwise="error"))
    config = config_of(config_source(options), strict=False)
    logger.log.redact.hide(config.secrets)
    if always_say_file or "json" not in options:
        say_used(config.file, options)
    return config
