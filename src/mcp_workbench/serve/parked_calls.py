"""Calls that wait for a modern client's answer.

The client got a question instead of a result, with a handle to come back with. The handle says nothing
to anybody; it is good for the same principal, the same request, once, and for a while.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange, OpenRequest
from mcp_workbench.wire.jsonrpc import RpcError

HANDLE_BYTES = 24
"""Random bytes in the handle of a parked call: nobody guesses it."""

MARK: Final = "mcp-workbench."
"""How a handle of ours begins. Other states are a server's own, and passed on to it."""

Request: TypeAlias = tuple[str, bytes]
"""Which request: the method, and what it says, but for what a retry adds."""
_ADDED = ("_meta", "inputResponses", "requestState")


def same_request(method: str, params: dict[str, Raw]) -> Request:
    """A retry has the same, however it is written."""
    said = Raw(jsonrpc.encode({key: value for key, value in params.items() if key not in _ADDED}))
    try:
        return method, msgspec.json.encode(msgspec.json.decode(said), order="sorted")
    except (msgspec.DecodeError, RecursionError):
        return method, bytes(said)


class ParkedCall(msgspec.Struct, frozen=True):
    """A call, who may come back to it, and with what."""

    exchange: Exchange
    principal: str
    request: Request
    timer: asyncio.TimerHandle


class ParkedCalls:
    """The calls of one client that wait for it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._parked: dict[str, ParkedCall] = {}

    def park(self, exchange: Exchange, method: str, params: dict[str, Raw]) -> str:
        """Keep a call; the handle for its client."""
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
        """The call that a client comes back to, with its answers. Raises `RpcError`."""
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
        """The client is gone: nobody will answer."""
        for handle in tuple(self._parked):
            self._expire(handle)

    def _expire(self, handle: str) -> None:
        if (parked := self._parked.pop(handle, None)) is not None:
            parked.timer.cancel()
            parked.exchange.cancel("the client did not answer")
