"""Calls that wait for a modern client's answers to questions.

The client got questions instead of a result, and a handle to resume the call with. The handle is opaque. It is valid
once, for a limited time, for the same principal and the same request.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.limits import Limits
from mcp_workbench.serve.callers import canonical
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange, OpenRequest
from mcp_workbench.wire.jsonrpc import RpcError

HANDLE_BYTES = 24
"""Random bytes in the handle of a parked call, so that it can't be guessed."""

MARK: Final = "mcp-workbench."
"""The prefix of our handles. Any other `requestState` belongs to a server and is passed on to it."""

Request: TypeAlias = tuple[str, bytes]
"""Identifies a request: its method and canonical params, without the members that a retry adds."""
_ADDED = ("_meta", "inputResponses", "requestState")


def same_request(method: str, params: dict[str, Raw]) -> Request:
    """The identity of a request, which its retry shares."""
    return method, canonical(jsonrpc.encode({key: value for key, value in params.items() if key not in _ADDED}))


class ParkedCall(msgspec.Struct, frozen=True):
    """A waiting call, and the principal and request that may resume it."""

    exchange: Exchange
    principal: str
    request: Request
    timer: asyncio.TimerHandle


class ParkedCalls:
    """The calls of one client that wait for its answers."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._parked: dict[str, ParkedCall] = {}

    def park(self, exchange: Exchange, method: str, params: dict[str, Raw]) -> str:
        """Keep a call, and return the handle for its client."""
        if len(self._parked) >= self._limits.parked:
            self._expire(next(iter(self._parked)))
        handle = MARK + os.urandom(HANDLE_BYTES).hex()
        timer = asyncio.get_running_loop().call_later(self._limits.question_seconds, self._expire, handle)
        self._parked[handle] = ParkedCall(exchange, exchange.caller.principal, same_request(method, params), timer)
        return handle

    def is_ours(self, state: Raw) -> bool:
        """Whether a `requestState` is a handle of ours, known or not."""
        text = jsonrpc.text_or_none(state)
        return text is None or text.startswith(MARK)

    def resume(
        self, caller: Caller, line: OpenRequest, method: str, params: dict[str, Raw], progress_token: Raw | None = None
    ) -> Exchange:
        """Resume a call with the client's answers. Raises `RpcError`."""
        handle = jsonrpc.text_or_none(params["requestState"]) or ""
        parked = self._parked.get(handle)
        is_theirs = parked is not None and parked.principal == caller.principal
        if parked is None or not is_theirs or parked.request != same_request(method, params):
            raise RpcError(
                jsonrpc.INVALID_PARAMS, "requestState is unknown or has expired; send the request without it"
            )
        answers = params.get("inputResponses", jsonrpc.EMPTY_OBJECT)
        if not jsonrpc.is_object(answers):
            raise RpcError(jsonrpc.INVALID_PARAMS, "params.inputResponses must be an object")
        del self._parked[handle]
        parked.timer.cancel()
        parked.exchange.attach(line, jsonrpc.fields(answers), progress_token)
        return parked.exchange

    def clear(self) -> None:
        """Cancel all calls: the client has disconnected."""
        for handle in tuple(self._parked):
            self._expire(handle)

    def _expire(self, handle: str) -> None:
        if (parked := self._parked.pop(handle, None)) is not None:
            parked.timer.cancel()
            parked.exchange.cancel("the client did not answer")
