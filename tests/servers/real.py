"""Supervisors and channels of real, tiny servers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Raw

from mcp_workbench.config.model import Launch, ServerConfig
from mcp_workbench.limits import Limits
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.connector import open_channel
from mcp_workbench.servers.health import Health
from mcp_workbench.servers.processes import Processes
from mcp_workbench.servers.stdio import StdioChannel
from mcp_workbench.servers.supervisor import Events, Supervisor
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.jsonrpc import METHOD_NOT_FOUND, RpcError
from tests.support.configs import rogue


def launch(mode: str = "ok", *arguments: object, log: Path | None = None, env: dict[str, str] | None = None) -> Launch:
    """How the rogue server is started in a mode."""
    entry = rogue(mode, *arguments, log=log, env=env)
    return Launch(command=entry["command"], args=tuple(entry["args"]), env=entry["env"])


@contextlib.asynccontextmanager
async def processes(**limits: Any) -> AsyncIterator[Processes]:
    running = Processes(Limits(**limits))
    try:
        yield running
    finally:
        await running.close()


@contextlib.asynccontextmanager
async def channel(how: Launch, **limits: Any) -> AsyncIterator[StdioChannel]:
    async with processes(**limits) as running:
        opened = await StdioChannel.open(running, how, "dev/fs", Limits(**limits))
        try:
            yield opened
        finally:
            await opened.close()


class Recorded:
    """Writes down what happens on a server's connections; questions are refused."""

    def __init__(self) -> None:
        self.again: list[bool] = []
        """One for each connection: whether there was one before."""
        self.notified_of: list[str] = []
        self.asked_for: list[str] = []

    def connected(self, connection: Connection, *, again: bool) -> None:
        del connection
        self.again.append(again)

    def notified(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> None:
        del connection, params, owner
        self.notified_of.append(method)

    async def asked(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> Raw:
        del connection, params, owner
        self.asked_for.append(method)
        raise RpcError(METHOD_NOT_FOUND, "Method not found")


def supervisor_of(
    server: ServerConfig,
    running: Processes,
    limits: Limits,
    events: Events | None = None,
    client: Caller = LIBRARY,
    *,
    health: Health | None = None,
) -> Supervisor:
    opening = partial(open_channel, server, running, limits)
    return Supervisor(f"{server.toolbox}/{server.name}", opening, client, limits, events or Recorded(), health=health)


@contextlib.asynccontextmanager
async def supervisor(
    how: Launch,
    *,
    events: Events | None = None,
    client: Caller = LIBRARY,
    health: Health | None = None,
    **limits: Any,
) -> AsyncIterator[Supervisor]:
    async with processes(**limits) as running:
        server = ServerConfig(name="fs", toolbox="dev", target=how)
        supervised = supervisor_of(server, running, Limits(**limits), events, client, health=health)
        try:
            yield supervised
        finally:
            await supervised.close()
