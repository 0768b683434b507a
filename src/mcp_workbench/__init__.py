"""MCP Workbench as a library: one MCP server in front of many, grouped into toolboxes that open on demand.

    from mcp_workbench import ToolIdentifier, Workbench, load_config

    async with Workbench(load_config("workbench-config.json")) as workbench:
        opened = await workbench.open("dev")
        result = await workbench.use(ToolIdentifier("dev", "filesystem", "read_file"), {"path": "README.md"})

Importing the package is cheap: each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_workbench import errors
    from mcp_workbench.catalog.snapshot import Opened
    from mcp_workbench.config.load import load_config
    from mcp_workbench.config.model import Config
    from mcp_workbench.errors import WorkbenchError
    from mcp_workbench.identity import ToolIdentifier, ToolInfo
    from mcp_workbench.limits import Limits
    from mcp_workbench.workbench import Workbench

__version__ = "0.11.0"

_HOMES = {
    "Config": "mcp_workbench.config.model",
    "Limits": "mcp_workbench.limits",
    "Opened": "mcp_workbench.catalog.snapshot",
    "ToolIdentifier": "mcp_workbench.identity",
    "ToolInfo": "mcp_workbench.identity",
    "Workbench": "mcp_workbench.workbench",
    "WorkbenchError": "mcp_workbench.errors",
    "load_config": "mcp_workbench.config.load",
}

__all__ = [
    "Config",
    "Limits",
    "Opened",
    "ToolIdentifier",
    "ToolInfo",
    "Workbench",
    "WorkbenchError",
    "__version__",
    "errors",
    "load_config",
]


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 -- only for names that are used

    if name == "errors":
        return import_module("mcp_workbench.errors")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mcp_workbench' has no attribute {name!r}")
