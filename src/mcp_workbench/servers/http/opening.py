"""How a configured remote server is reached. Importing it loads the HTTP library: see `servers/opening.py`."""

from __future__ import annotations

from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.http.channel import HttpChannel
from mcp_workbench.servers.http.client import Client, trusted
from mcp_workbench.servers.http.login import auth_for
from mcp_workbench.servers.http.sse import SseChannel
from mcp_workbench.wire.memory_budget import Account

trusted()  # reading the certificates takes as long as loading the library


async def open_remote(
    server: ServerConfig, endpoint: Endpoint, limits: Limits, account: Account | None = None
) -> Channel:
    """A wire to a remote server. Raises the `Fault` that prevents it."""
    label = server.identifier
    client = Client(endpoint, limits, auth=auth_for(server, limits))
    if endpoint.transport == "sse":
        return SseChannel(client, label, limits, account)
    return HttpChannel(client, label, limits, account)
