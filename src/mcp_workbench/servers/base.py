"""What a connection to a server looks like to the rest of the program, whatever carries it."""

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
    """A server's JSON-RPC error as a reason fit to be shown: its message without secrets, and its code."""
    message = logger.foreign(str(refusal), REFUSAL_LENGTH) or "an error without a message"
    code = refusal.rpc_code
    return ServerRefused(f"{message} (code {code})", rpc_code=code, data=refusal.data, hint=hint)


class Inbound(Protocol):
    """Handles the requests and notifications that a server sends.

    `owner` is the `owner` of the request on whose response stream a message came; None if the wire does not tell.
    """

    def notification(self, method: str, params: dict[str, Raw], owner: object = None) -> None:
        """Take note. Called in the order of arrival."""
        ...

    async def request(self, method: str, params: dict[str, Raw], owner: object = None) -> Raw:
        """Answer the server. Raises `RpcError` to refuse."""
        ...


class Channel(Protocol):
    """An open wire to one server: a peer to make requests of, and an end."""

    @property
    def peer(self) -> Peer:
        """Our end of the wire: what we ask the server, and what we know of it."""
        ...

    @property
    def ended(self) -> asyncio.Future[Fault]:
        """Resolves when the wire is of no more use, with the reason."""
        ...

    def listen(self, inbound: Inbound) -> None:
        """Hand what the server starts to `inbound`, in order."""
        ...

    @property
    def noise(self) -> str:
        """How the first line begins that was no message; empty where there was none."""
        ...

    def give_up(self, fault: Fault) -> None:
        """The server is of no more use: everything on the wire fails with `fault`."""
        ...

    def last_words(self) -> str:
        """The end of what it said beside the protocol, fit to be shown; may be empty."""
        ...

    def close(self) -> Coroutine[Any, Any, None]:
        """End it and everything that belongs to it. Safe to call twice."""
        ...
