"""The contract of a surface. A session has one; they differ in what they list and call, not in how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from mcp_workbench.wire.exchange import Caller, Exchange


class Surface(Protocol):
    """One way to see the workbench, for one client."""

    @property
    def changes(self) -> bool:
        """Whether the list of tools can change while the client is connected."""
        ...

    @property
    def instructions(self) -> str:
        """What a model is told at the start."""
        ...

    async def list(self, caller: Caller) -> Raw:
        """The `tools` array."""
        ...

    async def call(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        """The result of `tools/call`. What is wrong with the call is a result too."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the list changed."""
        ...

    def close(self) -> None:
        """The client is gone."""
        ...
