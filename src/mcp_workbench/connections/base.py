"""What a connection to a server looks like to the rest of the program, whatever carries it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.errors import Fault, ServerRefused
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params


def explained(refusal: ServerRefused) -> ServerRefused:
    """A server's JSON-RPC error as a reason fit to be shown: its message without secrets, and its code."""
    message = observe.foreign(str(refusal), DEFAULTS.stderr_tail_bytes) or "an error without a message"
    return ServerRefused(f"{message} (code {refusal.rpc_code})", rpc_code=refusal.rpc_code, data=refusal.data)


class Channel(Protocol):
    """An open wire to one server: requests, notifications, an end."""

    @property
    def ended(self) -> asyncio.Future[Fault]:
        """Resolves when the wire is of no more use, with the reason."""
        ...

    def request(
        self,
        method: str,
        params: Params,
        exchange: Exchange | None = None,
        *,
        idle_seconds: float = 0,
        hard_seconds: float = 0,
        cancellable: bool = True,
    ) -> Coroutine[Any, Any, Raw]:
        """Send a request, return its raw result; what the server says meanwhile goes to `exchange`."""
        ...

    def notify(self, method: str, params: Params) -> None: ...

    def listen(self, on_notification: Callable[[str, Raw], None]) -> None:
        """Hand the server's own notifications to `on_notification`, in order."""
        ...

    async def close(self) -> None:
        """End it and everything that belongs to it. Safe to call twice."""
        ...
