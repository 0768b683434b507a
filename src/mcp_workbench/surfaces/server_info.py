"""The greetings that the surfaces send to clients. They need no event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcp_workbench.config.model import Config, ToolboxConfig
from mcp_workbench.surfaces.descriptions import instructions, toolbox_instructions
from mcp_workbench.wire import eras


class View(msgspec.Struct, frozen=True):
    """What of the workbench is served: all of it, one toolbox, or one server of a toolbox."""

    toolbox: str = ""
    server: str = ""

    @property
    def has_tasks(self) -> bool:
        """Whether tasks can be served: the two meta-tools answer calls, and have no tasks of their own."""
        return bool(self.toolbox)


EVERYTHING: Final = View()


class ServerInfo(NamedTuple):
    """Who serves, what it can do, and how it is used."""

    capabilities: Mapping[str, Any]
    instructions: Any = ""
    server_info: Any = eras.SELF
    others: Mapping[str, Any] = {}
    """Other members of a server's own greeting, for a client of the same era."""


_COMMON: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}


def static_hello(config: Config) -> ServerInfo:
    """The greeting of the whole workbench; it depends only on the configuration."""
    return ServerInfo(_COMMON, instructions(config))


def toolbox_hello(toolbox: ToolboxConfig | None, known: Mapping[str, Any], tasks: Mapping[str, Any]) -> ServerInfo:
    """The greeting of one toolbox; `known` is the result of `instructions.fitted` for its servers."""
    said = toolbox_instructions(toolbox, known) if toolbox is not None else ""  # a new configuration may lack it
    return ServerInfo({**_COMMON, **tasks}, said)


def extended(hello: ServerInfo, extensions: Mapping[str, Any]) -> ServerInfo:
    """The greeting with these extensions added."""
    if not extensions:
        return hello
    declared = {**hello.capabilities.get("extensions", {}), **extensions}
    return hello._replace(capabilities={**hello.capabilities, "extensions": declared})


def declared_tasks(*, modern: bool) -> dict[str, Any]:
    """The capability that declares tasks in an era."""
    if modern:
        return {"extensions": {eras.TASKS: {}}}
    return {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
