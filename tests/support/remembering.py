"""Workbenches that remember, in front of servers in this process: starts are counted, and the clock is the test's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from mcp_workbench.config.model import CatalogConfig, Config, Launch, Refresh, ServerConfig, ToolboxConfig, ToolMode
from mcp_workbench.errors import Fault, SpawnFailed
from mcp_workbench.limits import Limits
from mcp_workbench.workbench import Workbench
from tests.support.memory import MemoryChannel, MemoryServer

Shops = Mapping[str, Mapping[str, "Shop"]]


class Shop(MemoryServer):
    """A server that counts how many of its connections were ended, and that may fail to start."""

    def __init__(self, name: str = "s", **fields: Any) -> None:
        super().__init__(name, **fields)
        self.tried = 0
        self.closed = 0
        self.fault: Fault | None = None

    async def open(self) -> MemoryChannel:
        self.tried += 1
        if self.fault is not None:
            raise self.fault
        channel = await super().open()
        channel.close = self._close  # type: ignore[method-assign]
        return channel

    async def _close(self) -> None:
        self.closed += 1

    @property
    def is_running(self) -> bool:
        return self.starts > self.closed

    def stock(self, *names: str, **fields: Any) -> None:
        """From now on it lists these tools."""
        self.methods["tools/list"] = {"tools": [{"name": name, "inputSchema": {}, **fields} for name in names]}

    def fail(self) -> None:
        """From now on it can't be started."""
        self.fault = SpawnFailed("it is out of order")

    def heal(self) -> None:
        self.fault = None


def shop_config(
    shops: Mapping[str, Iterable[str]],
    *,
    secrets: Iterable[str] = (),
    mode: ToolMode = "proxy",
    refresh: Refresh = "background",
    **bounds: float,
) -> Config:
    """A configuration in which each server is started in a way of its own."""

    def server(toolbox: str, name: str) -> ServerConfig:
        launch = Launch(command=f"/no/such/{toolbox}/{name}", env={f"S{n}": one for n, one in enumerate(secrets)})
        return ServerConfig(name=name, toolbox=toolbox, target=launch, secrets=frozenset(secrets))

    toolboxes = {
        toolbox: ToolboxConfig(
            name=toolbox,
            description=f"The toolbox {toolbox}",
            servers={name: server(toolbox, name) for name in servers},
        )
        for toolbox, servers in shops.items()
    }
    catalog = CatalogConfig(refresh=refresh)
    return Config(file="/etc/config.json", toolboxes=toolboxes, tool_mode=mode, catalog=catalog, bounds=bounds)


@contextlib.asynccontextmanager
async def remembering(
    store: Path, shops: Shops, config: Config | None = None, *, refresh: Refresh = "background", **limits: Any
) -> AsyncIterator[Workbench]:
    """A workbench in front of these servers, whose store is this file."""

    async def opened(entry: ServerConfig, *_: object) -> MemoryChannel:
        return await shops[entry.toolbox][entry.name].open()

    config = config or shop_config(shops, refresh=refresh)
    small = {"backoff_first_seconds": 0.0, "relist_interval_seconds": 0.0}
    with (
        mock.patch("mcp_workbench.routing.server_handle.open_channel", opened),
        mock.patch.dict(os.environ, WORKBENCH_CATALOG=str(store)),
    ):
        async with Workbench(config, limits=Limits(**small | limits)) as workbench:
            yield workbench


class Clock:
    """What time it is, as far as the age of what is remembered is concerned."""

    def __init__(self) -> None:
        self.now = 1_000_000_000.0

    def later(self, seconds: float) -> None:
        self.now += seconds


@contextlib.contextmanager
def own_clock():
    """Time passes only when the test says so."""
    clock = Clock()
    with mock.patch("mcp_workbench.catalog.cache.server_cache.time", SimpleNamespace(time=lambda: clock.now)):
        yield clock
