"""What a client is told at the start, from the configuration alone. It needs no event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcp_workbench.config.model import Config
from mcp_workbench.surfaces.wording import instructions, toolbox_instructions
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


class Hello(NamedTuple):
    """Who serves, what it can do, and how it is used."""

    capabilities: Mapping[str, Any]
    instructions: Any = ""
    server_info: Any = eras.SELF


def static_hello(config: Config, view: View, *, modern: bool) -> Hello:
    """The greeting of a surface whose servers need not be asked."""
    capabilities: dict[str, Any] = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
    }
    if not view.toolbox:
        return Hello(capabilities, instructions(config))
    if modern:
        capabilities["extensions"] = {eras.TASKS: {}}
    else:
        capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    toolbox = config.toolboxes.get(view.toolbox)  # none where another configuration lost it
    return Hello(capabilities, toolbox_instructions(toolbox) if toolbox is not None else "")
