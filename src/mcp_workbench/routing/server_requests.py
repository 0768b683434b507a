"""Routes a server's notifications and requests to the client that they are for.

A connection belongs to one client, or to several with the same token. A message that belongs to a call goes only to
that call's client. A message that can't be attributed goes to the session's own stream, which modern clients over HTTP
don't have. A handshake client takes notifications and requests at any time. A modern client gets only messages that
belong to one of its requests, and questions only in the response to one: a question between calls waits for the next.
"""

from __future__ import annotations

import asyncio

from msgspec import UNSET, Raw

from mcp_workbench.errors import Fault, InputUnavailable, ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.connection import Connection
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import QUESTIONS
from mcp_workbench.wire.exchange import PROGRESS, Client, ClientRef, OnProgress, Withdrawn
from mcp_workbench.wire.jsonrpc import RpcError


class ServerRequests:
    """The notifications and requests of one server to one client."""

    def __init__(self, source: ServerIdentifier, client_ref: ClientRef, limits: Limits) -> None:
        self._source = source
        self._caller = client_ref.caller
        self._client = client_ref.client
        self._limits = limits
        self._open = 0

    @property
    def is_asking(self) -> bool:
        """Whether the client still has to answer a question of the server."""
        return self._open > 0

    # -- notifications

    def notified(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> None:
        """Pass on a notification, to its call if that is known. For `owner` see `Inbound`."""
        if method == eras.ELICITED:
            connection.pages.completed(params)
        if (client := self._client()) is None:
            return
        fields = _without_subscription(params)
        if method == eras.LOGGED and self._caller.modern:
            self._logged(connection, client, fields, owner)
        elif method in eras.SUBSCRIBED or (method == eras.ELICITED and self._caller.modern):
            client.tell(self._source, method, fields)
        else:
            client.tell(self._source, method, fields, connection.questions.call_of(owner))

    def _logged(self, connection: Connection, client: Client, fields: dict[str, Raw], owner: object) -> None:
        """Pass on a log message to a modern client, whose calls each set a log level.

        A modern server logs only for calls that set a level, so only those can be its origin.
        """
        level = jsonrpc.text_or_none(fields.get("level"))
        calls = connection.questions.calls
        wanting = [call for call in calls if call.caller.wants(level)]
        call = connection.questions.call_of(owner, among=wanting if connection.agreement.modern else calls)
        if call in wanting or (call is None and owner is None and wanting):
            client.tell(self._source, eras.LOGGED, fields, call)

    # -- questions

    async def asked(self, connection: Connection, method: str, params: dict[str, Raw], owner: object = None) -> Raw:
        """Ask the client, and return its answer. Raises `RpcError`. For `owner` see `Inbound`."""
        client = self._client()
        undeclared = method not in self._caller.answers and (method in QUESTIONS or self._caller.modern)
        if client is None or undeclared:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {escape(method)}")
        if self._caller.modern and not self._caller.allows(method, params):
            raise RpcError(jsonrpc.INVALID_PARAMS, "The client did not declare this mode of elicitation")
        if self._open >= self._limits.questions:
            raise RpcError(jsonrpc.INTERNAL_ERROR, f"{self._limits.questions} questions are open already")
        self._open += 1
        try:
            async with asyncio.timeout(self._limits.question_seconds):
                return await self._put(connection, client, method, params, owner)
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

    async def _put(
        self, connection: Connection, client: Client, method: str, params: dict[str, Raw], owner: object
    ) -> Raw:
        if not self._caller.modern:
            on_progress = _back_to(connection, jsonrpc.members(params.get("_meta")).get(eras.PROGRESS_TOKEN))
            call = connection.questions.call_of(owner)
            return await connection.questions.ask(call, client.ask(self._source, method, params, on_progress, call))
        return await connection.questions.put(method, params, owner)


def _back_to(connection: Connection, token: Raw | None) -> OnProgress | None:
    """Pass on the client's progress with its answer to the server, under the server's token."""
    if token is None:
        return None
    return lambda fields: connection.channel.peer.notify(PROGRESS, {**fields, eras.PROGRESS_TOKEN: token})


def _without_subscription(fields: dict[str, Raw]) -> dict[str, Raw]:
    """Remove the id of our own subscription, which means nothing to the client."""
    meta = jsonrpc.members(fields.get("_meta"))
    if meta.pop(eras.SUBSCRIPTION_ID, None) is not None:
        fields = {key: value for key, value in fields.items() if key != "_meta"}
        if meta:
            fields["_meta"] = Raw(jsonrpc.encode(meta))
    return fields
