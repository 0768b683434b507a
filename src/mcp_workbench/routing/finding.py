"""Whether a server has a tool, and which tools are near a name that it does not have."""

from __future__ import annotations

import asyncio

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.errors import ConnectFailed, Fault, ToolNotFound
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.routing.server_lists import ServerLists
from mcp_workbench.text.suggest import nearest_and_known


async def find_tool(lists: ServerLists, identifier: ToolIdentifier) -> Definition:
    """A tool that is not known yet: the server is asked. Raises `ToolNotFound`, or `ConnectFailed`."""
    listing = lists.tools.kept.value
    if listing is None or not lists.is_settled:
        try:
            listing = await lists.list_tools()
        except Fault as fault:
            raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
    if identifier.tool not in listing.tools:
        listing = await lists.recheck_tools() or listing
    if (definition := listing.tools.get(identifier.tool)) is None:
        raise ToolNotFound(identifier, hint=nearest_and_known(identifier.tool, listing.tools, "tools"))
    return definition


async def check_gone(lists: ServerLists, identifier: ToolIdentifier, seconds: float) -> None:
    """A call failed. Raises `ToolNotFound` if that is because the server no longer has the tool."""
    try:
        async with asyncio.timeout(seconds):
            listing = await lists.tools.fresh()
    except (Fault, TimeoutError):
        return
    if identifier.tool not in listing.tools:
        near = nearest_and_known(identifier.tool, listing.tools, "tools")
        raise ToolNotFound(identifier, hint=f"Its server no longer has it. {near}")
