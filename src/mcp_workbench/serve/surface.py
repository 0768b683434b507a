"""Which surface a client sees."""

from __future__ import annotations

from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.hello import EVERYTHING, View
from mcp_workbench.workbench import Workbench


def surface_for(workbench: Workbench, view: View = EVERYTHING) -> Surface:
    """What a client sees, by what it asked for and what the configuration says."""
    if view.server:
        from mcp_workbench.surfaces.server import ServerSurface  # noqa: PLC0415 -- only what is used is loaded

        return ServerSurface(workbench, ServerIdentifier(view.toolbox, view.server))
    if view.toolbox:
        from mcp_workbench.surfaces.toolbox import ToolboxSurface  # noqa: PLC0415

        return ToolboxSurface(workbench, view.toolbox)
    if workbench.config.tool_mode == "dynamic":
        from mcp_workbench.surfaces.dynamic import DynamicSurface  # noqa: PLC0415

        return DynamicSurface(workbench)
    from mcp_workbench.surfaces.proxy import ProxySurface  # noqa: PLC0415

    return ProxySurface(workbench)
