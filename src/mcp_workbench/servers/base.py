"""The contract of a channel to one server, independent of the transport."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import Fault, ServerRefused
from mcp_workbench.wire.jsonrpc import REFUSAL_LENGTH
from mcp_workbench.wire.peer import Peer


def explained(refusal: ServerRefused, hint: str = "") -> ServerRefused:
    """A copy of a server's JSON-RPC error to show to people: its message with secrets redacted, and its code."""
    message = logger.foreign(str(refusal), REFUSAL_LENGTH) or "an error without a message"
    code = refusal.rpc_code
    return ServerRefused(f"{message} (code {code})", rpc_code=code, data=refusal.data, hint=hint)


class Inbound(Protocol):
    """Handles the requests and notifications that a server sends.

    `owner` is the owner of the request on whose response stream a message came, or None if the transport does not tell.
    """

    def notification(self, method: str, params: dict[str, Raw], owner: object = None) -> None:
        """Handle a notification. Called in the order of arrival."""
        ...

    async def request(self, method: str, params: dict[str, Raw], owner: object = None) -> Raw:
        """Answer the server. Raises `RpcError` to refuse."""
        ...


class Channel(Protocol):
    """An open connection to one server: the peer for its messages, and its end."""

    @property
    def peer(self) -> Peer:
        """Our end of the connection: it sends our requests and receives the answers."""
        ...

    @property
    def ended(self) -> asyncio.Future[Fault]:
        """Resolves when the channel can no longer be used, with the reason."""
        ...

    def listen(self, inbound: Inbound) -> None:
        """Pass the requests and notifications of the server to `inbound`, in order."""
        ...

    @property
    def noise(self) -> str:
        """The beginning of the first line that was not a message; empty if there was none."""
        ...

    def give_up(self, fault: Fault) -> None:
        """Fail every request on the channel with `fault`, and end it."""
        ...

    def stderr_tail(self) -> str:
        """The last lines of the server's stderr, redacted; may be empty."""
        ...

    def close(self) -> Coroutine[Any, Any, None]:
        """Close the channel and release its resources. Safe to call twice."""
        ...
