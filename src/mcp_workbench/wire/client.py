"""The client behind a session, as servers can reach it outside of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import Raw

from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange, OnProgress
from mcp_workbench.wire.jsonrpc import Params
from mcp_workbench.wire.memory_budget import Account


class Client(Protocol):
    """Who hears what a server says, as far as it is for them."""

    def tell(
        self, source: ServerIdentifier, method: str, params: dict[str, Raw], exchange: Exchange | None = None
    ) -> None:
        """Pass on a server's notification; `exchange` is the call it belongs to, if known."""
        ...

    def changed(self, toolbox: str, kind: str) -> None:
        """A list of a toolbox changed: `tools`, `prompts` or `resources`."""
        ...

    async def ask(
        self,
        source: ServerIdentifier,
        method: str,
        params: Params,
        on_progress: OnProgress | None,
        exchange: Exchange | None,
    ) -> Raw:
        """Put a server's question to a handshake client; `exchange` is the call it belongs to, if that is known."""
        ...


class ClientRef(NamedTuple):
    """The client that a router works for."""

    caller: Caller
    """It stands for every call that is made for it: they declare the same and speak the same era."""
    client: Callable[[], Client | None]
    """The client, if it listens."""
    account: Account = Account()
    """The memory that is held for it."""

    def changed(self, toolbox: str, kind: str) -> None:
        """A list changed; the client hears of it."""
        if (client := self.client()) is not None:
            client.changed(toolbox, kind)
