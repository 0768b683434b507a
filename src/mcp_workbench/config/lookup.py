"""The one lookup of a toolbox and a server by name, with the help for a name that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig
from mcp_workbench.errors import ServerNotFound, ToolboxNotFound
from mcp_workbench.text.suggest import nearest_or_known

Help: TypeAlias = Callable[[str, Iterable[str], str], str]
"""What to say about a name that does not exist, those that do, and what they name."""


def find_toolbox(config: Config, name: str, help_with: Help = nearest_or_known) -> ToolboxConfig:
    """Raises `ToolboxNotFound`."""
    if (toolbox := config.toolboxes.get(name)) is None:
        raise ToolboxNotFound(name, hint=help_with(name, config.toolboxes, "toolboxes"))
    return toolbox


def find_server(config: Config, toolbox_name: str, name: str, help_with: Help = nearest_or_known) -> ServerConfig:
    """Raises `ToolboxNotFound` or `ServerNotFound`."""
    toolbox = find_toolbox(config, toolbox_name, help_with)
    if (server := toolbox.servers.get(name)) is not None:
        return server
    is_disabled = name in toolbox.disabled
    hint = "It is disabled in the configuration." if is_disabled else help_with(name, toolbox.servers, "servers")
    raise ServerNotFound(toolbox_name, name, hint=hint)
