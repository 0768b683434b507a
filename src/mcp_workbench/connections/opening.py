"""How a configured server is reached."""

from __future__ import annotations

from mcp_workbench.config.model import Launch, ServerConfig
from mcp_workbench.connections.base import Channel
from mcp_workbench.connections.processes import Processes
from mcp_workbench.connections.stdio import StdioChannel
from mcp_workbench.errors import TransportUnavailable, VariableMissing
from mcp_workbench.limits import Limits


async def open_channel(server: ServerConfig, processes: Processes, limits: Limits) -> Channel:
    """A wire to the server. Raises the `Fault` that prevents it."""
    if server.missing:
        names = ", ".join(f"{missing.variable} (for {missing.path})" for missing in server.missing)
        raise VariableMissing(f"not set in the environment: {names}", hint="Set it, or give a default: ${NAME:-value}")
    if isinstance(server.target, Launch):
        return await StdioChannel.open(processes, server.target, f"{server.toolbox}/{server.name}", limits)
    raise TransportUnavailable(
        "servers with a url are not supported by this version", hint="Use a server with a command."
    )
