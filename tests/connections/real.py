"""Supervisors and channels of real, tiny servers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from mcp_workbench.config.model import Launch, ServerConfig
from mcp_workbench.connections.processes import Processes
from mcp_workbench.connections.stdio import StdioChannel
from mcp_workbench.connections.supervisor import Supervisor
from mcp_workbench.limits import Limits
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


@contextlib.asynccontextmanager
async def supervisor(
    how: Launch, *, on_list_changed: Callable[[], None] = lambda: None, **limits: Any
) -> AsyncIterator[Supervisor]:
    async with processes(**limits) as running:
        server = ServerConfig(name="fs", toolbox="dev", target=how)
        supervised = Supervisor(server, running, Limits(**limits), on_list_changed)
        try:
            yield supervised
        finally:
            await supervised.close()
