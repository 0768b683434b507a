"""Answers of the surfaces to `initialize` and `server/discover`. This module needs no event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcp_workbench.config.model import Config, ToolboxConfig
from mcp_workbench.surfaces.descriptions import instructions, toolbox_instructions
from mcp_workbench.wire import eras


class View(msgspec.Struct, frozen=True):
    """The part of the workbench that is served: everything, one toolbox, or one server of a toolbox."""

    toolbox: str = ""
    server: str = ""

    @property
    def has_tasks(self) -> bool:
        """Whether clients can use tasks. The meta-tools have none."""
        return bool(self.toolbox)


EVERYTHING: Final = View()


class ServerInfo(NamedTuple):
    """A server's implementation info, capabilities and instructions."""

    capabilities: Mapping[str, Any]
    instructions: Any = ""
    server_info: Any = eras.SELF
    others: Mapping[str, Any] = {}
    """Other members of a server's own answer, for a client of the same era."""


_COMMON: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}


def static_info(config: Config) -> ServerInfo:
    """The answer of the whole workbench. It depends only on the configuration."""
    return ServerInfo(_COMMON, instructions(config))


def toolbox_info(toolbox: ToolboxConfig | None, known: Mapping[str, Any], tasks: Mapping[str, Any]) -> ServerInfo:
    """The answer of one toolbox. `known` is the result of `instructions.fitted` for its servers."""
    text = toolbox_instructions(toolbox, known) if toolbox is not None else ""  # a new configuration may lack it
    return ServerInfo({**_COMMON, **tasks}, text)


def with_extensions(info: ServerInfo, extensions: Mapping[str, Any]) -> ServerInfo:
    """Add extensions to the capabilities."""
    if not extensions:
        return info
    declared = {**info.capabilities.get("extensions", {}), **extensions}
    return info._replace(capabilities={**info.capabilities, "extensions": declared})


def tasks_capability(*, modern: bool) -> dict[str, Any]:
    """The capability that declares tasks to clients of an era."""
    if modern:
        return {"extensions": {eras.TASKS: {}}}
    return {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
