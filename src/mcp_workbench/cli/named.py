"""What a person named on the command line, found in the configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcp_workbench import observe
from mcp_workbench.cli.chosen import log_level
from mcp_workbench.config.load import load_config
from mcp_workbench.config.locate import find_config
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig
from mcp_workbench.errors import ServerNotFound, ToolboxNotFound
from mcp_workbench.nearest import nearest_or_known


def read_config(options: Mapping[str, str]) -> Config:
    """The configuration; a variable that is missing is the matter of its own server. Raises `ConfigError`."""
    observe.log.set_level(log_level(options, otherwise="error"))
    config = load_config(find_config(options.get("config"), os.environ, terminal=True), strict=False)
    observe.log.redact.hide(config.secrets)
    return config


def find_toolbox(config: Config, name: str) -> ToolboxConfig:
    """Raises `ToolboxNotFound`."""
    if (toolbox := config.toolboxes.get(name)) is None:
        raise ToolboxNotFound(name, hint=nearest_or_known(name, config.toolboxes, "toolboxes"))
    return toolbox


def find_server(config: Config, toolbox_name: str, name: str) -> ServerConfig:
    """Raises `ToolboxNotFound` or `ServerNotFound`."""
    toolbox = find_toolbox(config, toolbox_name)
    if (server := toolbox.servers.get(name)) is not None:
        return server
    if name in toolbox.disabled:
        raise ServerNotFound(toolbox_name, name, hint="It is disabled in the configuration.")
    raise ServerNotFound(toolbox_name, name, hint=nearest_or_known(name, toolbox.servers, "servers"))
