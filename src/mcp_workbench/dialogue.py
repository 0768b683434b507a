"""What a server starts by itself, and the way to the client that it is for.

A connection belongs to one client (or to several that can't be asked), so nothing can reach another one.
A handshake client is told and asked at any time. A modern one only hears what belongs to a request of
its own, and is asked by answering one: a question that comes between calls waits for the next.
"""

from __future__ import annotations

import asyncio

from msgspec import UNSET, Raw

from mcp_workbench.connections.connection import Connection
from mcp_workbench.errors import Fault, InputUnavailable, ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.shown import shown
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import QUESTIONS
from mcp_workbench.wire.client import Client, Seat
from mcp_workbench.wire.exchange import PROGRESS, OnProgress, Withdrawn
from mcp_workbench.wire.jsonrpc import RpcError


class Dialogue:
    """One server's words to one client."""

    def __init__(self, source: ServerIdentifier, seat: Seat, limits: Limits) -> None:
        self._source = source
        self._caller = seat.caller
        self._client = seat.client
        self._limits = limits
        self._open = 0

    @property
    def is_asking(self) -> bool:
        """Whether the client has not answered yet what the server asks."""
        return self._open > 0

    # -- notifications

    def notified(self, connection: Connection, method: str, params: dict[str, Raw]) -> None:
        """Pass on what the server says. What no client can be told apart for is dropped."""
        fields = _without_subscription(params)
        if method == eras.LOGGED and self._caller.modern:
            level = jsonrpc.text_or_none(fields.get("level"))
            listener = next((one for one in connection.questions.calls if one.caller.wants(level)), None)
            if listener is not None and self._caller.audience:
                listener.notify(method, fields)
        elif (client := self._client()) is not None:
            client.tell(self._source, method, fields)

    # -- questions

    async def asked(self, connection: Connection, method: str, params: Raw) -> Raw:
        """The client's answer to the server's question. Raises `RpcError`."""
        client = self._client()
        undeclared = method not in self._caller.answers and (method in QUESTIONS or self._caller.modern)
        if client is None or undeclared:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {shown(method)}")
        if self._open >= self._limits.questions:
            raise RpcError(jsonrpc.INTERNAL_ERROR, f"{self._limits.questions} questions are open already")
        self._open += 1
        try:
            async with asyncio.timeout(self._limits.question_seconds):
                return await self._put(connection, client, method, jsonrpc.members(params))
        except TimeoutError:
            raise RpcError(jsonrpc.INTERNAL_ERROR, "The client did not answer in time") from None
        except Withdrawn:
            raise RpcError(jsonrpc.INTERNAL_ERROR, "The call that it belongs to was cancelled") from None
        except ServerRefused as refusal:
            data = Raw(refusal.data) if refusal.data else UNSET
            raise RpcError(refusal.rpc_code, str(refusal), data) from None
        except InputUnavailable as error:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, str(error)) from None
        except Fault as error:
            raise RpcError(jsonrpc.INTERNAL_ERROR, str(error)) from None
        finally:
            self._open -= 1

    async def _put(self, connection: Connection, client: Client, method: str, params: dict[str, Raw]) -> Raw:
        if not self._caller.modern:
            on_progress = _back_to(connection, jsonrpc.members(params.get("_meta")).get(eras.PROGRESS_TOKEN))
            calls = connection.questions.calls
            call = next(iter(calls)) if len(calls) == 1 else None
            return await connection.questions.ask(call, client.ask(self._source, method, params, on_progress, call))
        return await connection.questions.put(method, params)


def _back_to(connection: Connection, token: Raw | None) -> OnProgress | None:
    """Progress of the client's answer goes to the server, under the token that it gave."""
    if token is None:
        return None
    return lambda fields: connection.channel.notify(PROGRESS, {**fields, eras.PROGRESS_TOKEN: token})


def _without_subscription(fields: dict[str, Raw]) -> dict[str, Raw]:
    """The mark of our own subscription at a modern server is none of the client's business."""
    meta = jsonrpc.members(fields.get("_meta"))
    if meta.pop(eras.SUBSCRIPTION_ID, None) is not None:
        fields = {key: value for key, value in fields.items() if key != "_meta"}
        if meta:
            fields["_meta"] = Raw(jsonrpc.encode(meta))
    return fields
