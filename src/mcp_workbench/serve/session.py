"""One client: what its requests mean, in either era, on any front.

A front reads messages and knows who sent them; a surface knows which tools there are. Between them
a session answers the protocol's methods, makes an `Exchange` of each call, and keeps what outlives a
request: calls that wait for a modern client's answer, and its subscriptions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.greeting import COMPLETE, discover_result, initialize_result
from mcp_workbench.shown import shown
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.eras import LIST_CHANGED
from mcp_workbench.wire.exchange import Answer, Caller, Exchange, Line, Question
from mcp_workbench.wire.jsonrpc import RpcError

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

Method = Callable[[Caller, Line, dict[str, Raw]], Awaitable[Raw]]


class Parked(msgspec.Struct, frozen=True):
    """A call that waits for its client's answer."""

    exchange: Exchange
    principal: str
    name: str
    timer: asyncio.TimerHandle


class Session:
    """Answers one client."""

    def __init__(self, surface: Surface, line: Line, limits: Limits = DEFAULTS) -> None:
        self._surface = surface
        self._line = line
        self._limits = limits
        self._greeted = False
        self._parked: dict[str, Parked] = {}
        self._subscribers: set[Line] = set()
        self._subscriptions_over = asyncio.Event()
        shared = {"tools/list": self._list_tools, "tools/call": self._call_tool}
        self._handshake_methods: dict[str, Method] = {
            "initialize": self._initialize,
            "ping": self._ping,
            **shared,
        }
        self._modern_methods: dict[str, Method] = {
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            **shared,
        }
        surface.watch(self.publish)

    def handle(self, caller: Caller, line: Line, method: str, params: dict[str, Raw]) -> Awaitable[Raw]:
        """The result of a request. Raises `RpcError`."""
        handler = (self._modern_methods if caller.modern else self._handshake_methods).get(method)
        if handler is None:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {shown(method)}")
        return handler(caller, line, params)

    def notice(self, method: str) -> None:
        """A notification from the client; cancellations are the peer's business."""
        if method == "notifications/initialized":
            self._greeted = True

    def publish(self) -> None:
        """The list of tools changed: tell a handshake client, and every modern subscription."""
        if self._greeted:
            self._line.notify(LIST_CHANGED, {})
        for line in self._subscribers:
            line.notify(LIST_CHANGED, {"_meta": {eras.SUBSCRIPTION_ID: line.request_id}})

    def end_subscriptions(self) -> None:
        """Answer every subscription: there will be no more to tell."""
        self._subscriptions_over.set()

    def close(self) -> None:
        """The client is gone, and so is everybody who waited for it."""
        self._surface.close()
        for handle in tuple(self._parked):
            self._expire(handle)

    # -- methods

    async def _initialize(self, caller: Caller, line: Line, params: dict[str, Raw]) -> Raw:
        del line, params
        return initialize_result(caller, self._surface.instructions, changes=self._surface.changes)

    async def _ping(self, caller: Caller, line: Line, params: dict[str, Raw]) -> Raw:
        del caller, line, params
        return jsonrpc.EMPTY_OBJECT

    async def _discover(self, caller: Caller, line: Line, params: dict[str, Raw]) -> Raw:
        del caller, line, params
        return discover_result(self._surface.instructions, self._limits, changes=self._surface.changes)

    async def _list_tools(self, caller: Caller, line: Line, params: dict[str, Raw]) -> Raw:
        del line
        if not _is_absent(params.get("cursor")):
            raise RpcError(jsonrpc.INVALID_PARAMS, "Invalid cursor: the list has one page")
        tools = await self._surface.list(caller)
        if not caller.modern:
            return _result(tools=tools)
        ttl = self._limits.dynamic_ttl_ms if self._surface.changes else self._limits.list_ttl_ms
        return _result(tools=tools, ttlMs=ttl, cacheScope="private", **COMPLETE)

    async def _call_tool(self, caller: Caller, line: Line, params: dict[str, Raw]) -> Raw:
        name = params.get("name", jsonrpc.NOTHING)
        if not jsonrpc.is_text(name):
            raise RpcError(jsonrpc.INVALID_PARAMS, "params.name must be a string")
        tool = jsonrpc.text(name)
        if caller.modern and "requestState" in params:
            exchange = self._resume(caller, line, tool, params)
            return self._outcome(exchange, tool, await exchange.outcome())
        exchange = _exchange(caller, line, params)
        work = self._surface.call(exchange, tool, params.get("arguments", jsonrpc.NOTHING))
        return self._outcome(exchange, tool, await exchange.run(work))

    async def _listen(self, caller: Caller, line: Line, params: dict[str, Raw]) -> Raw:
        """A subscription lasts until it is cancelled; it is told of what can change, and was asked for."""
        del caller
        wanted = _object(params.get("notifications", jsonrpc.NOTHING), "params.notifications")
        subscribed = self._surface.changes and bytes(wanted.get("toolsListChanged", b"")) == b"true"
        honoured = {"toolsListChanged": True} if subscribed else {}
        meta = {eras.SUBSCRIPTION_ID: line.request_id}
        line.notify(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
        try:
            if subscribed:
                self._subscribers.add(line)
            await self._subscriptions_over.wait()
        finally:
            self._subscribers.discard(line)
        return _result(resultType="complete", _meta=meta)

    # -- questions to a modern client

    def _outcome(self, exchange: Exchange, name: str, outcome: Answer | Question) -> Raw:
        if isinstance(outcome, Answer):
            return for_era(outcome.result, modern=exchange.caller.modern)
        handle = os.urandom(24).hex()
        timer = asyncio.get_running_loop().call_later(self._limits.question_seconds, self._expire, handle)
        self._parked[handle] = Parked(exchange, exchange.caller.principal, name, timer)
        return _result(resultType="input_required", inputRequests=outcome.requests, requestState=handle)

    def _resume(self, caller: Caller, line: Line, name: str, params: dict[str, Raw]) -> Exchange:
        """The parked call that a client comes back to: its own, for the same tool, and once."""
        state = params["requestState"]
        handle = jsonrpc.text(state) if jsonrpc.is_text(state) else ""
        parked = self._parked.get(handle)
        if parked is None or parked.principal != caller.principal or parked.name != name:
            raise RpcError(jsonrpc.INVALID_PARAMS, "requestState is unknown or has expired; call the tool again")
        answers = _object(params.get("inputResponses", jsonrpc.EMPTY_OBJECT), "params.inputResponses")
        del self._parked[handle]
        parked.timer.cancel()
        parked.exchange.attach(line, answers, jsonrpc.members(params.get("_meta")).get(eras.PROGRESS_TOKEN))
        return parked.exchange

    def _expire(self, handle: str) -> None:
        if (parked := self._parked.pop(handle, None)) is not None:
            parked.timer.cancel()
            parked.exchange.cancel("the client did not answer")


def for_era(result: Raw, *, modern: bool) -> Raw:
    """A result as the client's era wants it: with `resultType`, or without. Nothing else is touched."""
    members = jsonrpc.fields(result)
    if modern == ("resultType" in members):
        return result
    if modern:
        return Raw(jsonrpc.encode({"resultType": "complete", **members}))
    del members["resultType"]
    return Raw(jsonrpc.encode(members))


def _exchange(caller: Caller, line: Line, params: dict[str, Raw]) -> Exchange:
    """A call, with what of its `_meta` is for the server and the token that is for us."""
    raw = params.get("_meta")
    if raw is None or _is_absent(raw):
        return Exchange(caller, line)
    meta = _object(raw, "params._meta")
    token = meta.pop(eras.PROGRESS_TOKEN, None)
    travels = {key: value for key, value in meta.items() if not key.startswith(eras.RESERVED)}
    return Exchange(caller, line, progress_token=token, meta=travels)


def _is_absent(raw: Raw | None) -> bool:
    """Some clients write null for what they do not send."""
    return raw is None or jsonrpc.is_null(raw)


def _object(raw: Raw, what: str) -> dict[str, Raw]:
    if not jsonrpc.is_object(raw):
        raise RpcError(jsonrpc.INVALID_PARAMS, f"{what} must be an object")
    return jsonrpc.fields(raw)


def _result(**members: Any) -> Raw:
    return Raw(jsonrpc.encode(members))
