"""The default surface: two tools, whatever is behind them. Its list never changes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from mcp_workbench.surfaces.metatools import MetaTools
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Caller, Exchange
from mcp_workbench.workbench import Workbench


class ProxySurface:
    """`open_toolbox` and `use_tool`."""

    changes = False

    def __init__(self, workbench: Workbench) -> None:
        self._metatools = MetaTools(workbench)
        self._list = Raw(jsonrpc.encode(self._metatools.definitions))

    @property
    def instructions(self) -> str:
        return self._metatools.instructions

    async def list(self, caller: Caller) -> Raw:  # noqa: ARG002 -- the same for everyone
        return self._list

    async def call(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        return await self._metatools.call(exchange, name, arguments)

    def watch(self, changed: Callable[[], None]) -> None:
        """Nothing ever changes."""

    def close(self) -> None:
        """Nothing is held."""
