"""How a configured server is reached."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from mcp_workbench.config.model import Endpoint, Launch, ServerConfig
from mcp_workbench.errors import VariableMissing
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.processes import Processes
from mcp_workbench.servers.stdio import StdioChannel
from mcp_workbench.wire.memory_budget import Account

if TYPE_CHECKING:
    from types import ModuleType


async def open_channel(
    server: ServerConfig, processes: Processes, limits: Limits, account: Account | None = None
) -> Channel:
    """A wire to the server. Raises the `Fault` that prevents it.

    `account` is the memory of the client that it works for: while that is paused, the server is not read.
    """
    account = account or Account()
    if server.missing:
        names = ", ".join(f"{missing.variable} (for {missing.path})" for missing in server.missing)
        raise VariableMissing(f"not set in the environment: {names}", hint="Set it, or give a default: ${NAME:-value}")
    if isinstance(server.target, Launch):
        return await StdioChannel.open(processes, server.target, server.identifier, limits, account)
    return await _remote(server, server.target, limits, account)


async def _remote(server: ServerConfig, endpoint: Endpoint, limits: Limits, account: Account) -> Channel:
    """What speaks HTTP is loaded by who needs it, and beside the event loop: it takes a fifth of a second."""
    http: ModuleType = await asyncio.to_thread(importlib.import_module, "mcp_workbench.servers.http.opening")
    return await http.open_remote(server, endpoint, limits, account)
