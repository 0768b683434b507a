"""One client's session, in both eras and on any transport.

An endpoint reads messages and identifies the caller; a surface answers methods. Between them, a session applies the
rules of the client's era: it makes an `Exchange` of each request, parks calls that wait for a modern client's answers,
and forwards notifications and questions of servers to the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from mcp_workbench.errors import Fault, InputUnavailable, WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.early_initialize import COMPLETE, LIST_TTL_MS, discover_result, initialize_result
from mcp_workbench.serve.parked_calls import ParkedCalls
from mcp_workbench.serve.subscribers import Subscribers
from mcp_workbench.surfaces.base import Method, Surface
from mcp_workbench.surfaces.failures import as_rpc_error
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.downgrade import Projection, handshake_result
from mcp_workbench.wire.exchange import Answer, Exchange, OnProgress, OpenRequest, Question
from mcp_workbench.wire.jsonrpc import Params, RpcError
from mcp_workbench.workbench import Workbench

DYNAMIC_TTL_MS = 0
"""How long a modern client may cache a list that can change: not at all."""

Own = Callable[[Caller, OpenRequest, dict[str, Raw]], Awaitable[Raw]]

HANDSHAKE_ONLY: Final = frozenset(
    {
        "initialize",
        "ping",
        "resources/subscribe",
        "resources/unsubscribe",
        "logging/setLevel",
        "tasks/list",
        "tasks/result",
    }
)
MODERN_ONLY: Final = frozenset({"server/discover", "subscriptions/listen", "tasks/update"})
MAY_ASK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that may be answered with questions to a modern client."""
CACHED: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "skills/list"}
)
"""Methods whose results tell a modern client how long it may cache them."""
_OURS = frozenset({"name", "arguments"})


class Session:
    """Answers one client, and forwards messages of servers to it."""

    def __init__(
        self, workbench: Workbench, surface: Surface, line: OpenRequest, audience: str, limits: Limits = DEFAULTS
    ) -> None:
        self._surface = surface
        self._line = line
        self._limits = limits
        self._initialized = asyncio.Event()
        self._caller: Caller | None = None
        self._announced: dict[str, bool] = {}
        """Kinds of lists whose change was announced recently, and whether they have changed again since."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._parked_calls = ParkedCalls(limits)
        self._subscribers = Subscribers(surface, limits)
        self._handshake_methods: dict[str, Own] = {"initialize": self._initialize, "ping": self._ping}
        self._modern_methods: dict[str, Own] = {
            "server/discover": self._discover,
            "subscriptions/listen": self._subscribers.listen,
        }
        surface.on_change(self.publish)
        workbench.join(audience, self)

    def handle(
        self, caller: Caller, line: OpenRequest, method: str, params: dict[str, Raw], meta: dict[str, Raw]
    ) -> Awaitable[Raw]:
        """Answer a request. `meta` is its decoded `_meta`, which is modified. Raises `RpcError`."""
        self._caller = caller
        own = (self._modern_methods if caller.modern else self._handshake_methods).get(method)
        if own is not None:
            return _with_rpc_errors(own(caller, line, params))
        handler = None
        if method not in (HANDSHAKE_ONLY if caller.modern else MODERN_ONLY):
            handler = self._surface.method(method)
        if handler is None:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {escape(method)}")
        if not caller.modern:
            self._initialized.set()  # some clients never send `notifications/initialized`
        return self._answer(caller, line, method, handler, params, meta=meta)

    def refuse(self, caller: Caller, method: str, params: dict[str, Raw], fault: Fault) -> Raw:
        """Refuse a request that reached no server: return a result for a tool call, else raise `RpcError`."""
        if method != "tools/call":
            raise as_rpc_error(fault)
        result = self._surface.refuse_call(params, fault)
        return for_modern(result, jsonrpc.members(result)) if caller.modern else result

    def notice(self, method: str, params: dict[str, Raw]) -> None:
        """Handle a notification from the client. The peer handles cancellations and progress."""
        if method == "notifications/initialized":
            self._initialized.set()
        elif self._caller is not None:
            self._surface.notice(self._caller, method, params)

    def publish(self, kind: str) -> None:
        """Announce a changed list to a handshake client, or to the subscriptions of a modern one."""
        if kind in self._announced:
            self._announced[kind] = True  # announce it once more when the interval ends
            return
        method = f"notifications/{kind}/list_changed"
        if self._initialized.is_set():
            self._line.notify(method, {})
        self._subscribers.tell(method, {})
        self._announced[kind] = False
        interval = self._limits.announce_interval_seconds
        self._timers[kind] = asyncio.get_running_loop().call_later(interval, self._announce_again, kind)

    def _announce_again(self, kind: str) -> None:
        if self._announced.pop(kind, False):
            self.publish(kind)

    def end_subscriptions(self) -> None:
        """End all subscriptions with their results."""
        self._subscribers.end()

    def close(self) -> None:
        """Cancel everything that waits for the client, which has disconnected."""
        self._parked_calls.clear()
        for timer in self._timers.values():
            timer.cancel()

    # -- Client: messages of servers

    def tell(
        self, source: ServerIdentifier, method: str, params: dict[str, Raw], exchange: Exchange | None = None
    ) -> None:
        for translated in self._surface.translate(source, method, params):
            if (kind := eras.LIST_CHANGED.get(method)) is not None:
                self.publish(kind)
            elif exchange is not None:
                exchange.notify(method, translated)
            elif self._initialized.is_set() or self._may_log(method) or method not in eras.KNOWN_NOTICES:
                self._line.notify(method, translated)
            else:
                self._subscribers.tell(method, translated)

    def _may_log(self, method: str) -> bool:
        """Whether this is a log message for a modern client: one of its calls requested logs, but not which one."""
        return method == eras.LOGGED and self._caller is not None and self._caller.modern

    def changed(self, toolbox: str, kind: str) -> None:
        if self._surface.note_change(toolbox, kind):
            self.publish(kind)

    async def ask(
        self,
        source: ServerIdentifier,
        method: str,
        params: Params,
        on_progress: OnProgress | None,
        exchange: Exchange | None,
    ) -> Raw:
        shown_params = self._surface.question_params(source, method, dict(params))
        if shown_params is None:
            raise InputUnavailable(f"the workbench does not forward {escape(method)}")
        if exchange is not None:
            return await exchange.ask(method, shown_params, on_progress)
        if self._caller is None or not self._caller.modern:
            await self._initialized.wait()  # a server may ask as soon as it runs, before its client is ready
        return await self._line.ask(method, shown_params, on_progress)

    # -- methods of the session itself

    async def _initialize(self, caller: Caller, line: OpenRequest, params: dict[str, Raw]) -> Raw:
        del line, params
        return initialize_result(caller, await self._surface.server_info(caller))

    async def _ping(self, caller: Caller, line: OpenRequest, params: dict[str, Raw]) -> Raw:
        del caller, line, params
        return jsonrpc.EMPTY_OBJECT

    async def _discover(self, caller: Caller, line: OpenRequest, params: dict[str, Raw]) -> Raw:
        del line, params
        return discover_result(await self._surface.server_info(caller))

    # -- methods of the surface

    async def _answer(
        self,
        caller: Caller,
        line: OpenRequest,
        method: str,
        handler: Method,
        params: dict[str, Raw],
        *,
        meta: dict[str, Raw],
    ) -> Raw:
        try:
            if caller.modern and "requestState" in params and self._parked_calls.is_ours(params["requestState"]):
                exchange = self._parked_calls.resume(caller, line, method, params, meta.get(eras.PROGRESS_TOKEN))
                return self._outcome(exchange, method, params, await exchange.outcome())
            exchange = _exchange(caller, line, method, params, meta, drops_tasks=self._surface.own_lists)
            work = handler(exchange, params)
            outcome = await exchange.run(work) if caller.modern else Answer(await work)
            return self._outcome(exchange, method, params, outcome)
        except Fault as fault:  # faults that the surface does not handle itself
            return self.refuse(caller, method, params, fault)
        except WorkbenchError as error:
            raise as_rpc_error(error) from None

    def _outcome(self, exchange: Exchange, method: str, params: dict[str, Raw], outcome: Answer | Question) -> Raw:
        if isinstance(outcome, Question):
            handle = self._parked_calls.park(exchange, method, params)
            question = {"inputRequests": outcome.requests, "requestState": handle}
            return Raw(jsonrpc.encode({"resultType": eras.INPUT_REQUIRED, **question}))
        try:
            members = exchange.read(outcome.result)
        except msgspec.DecodeError as error:
            raise RpcError(jsonrpc.SERVER_FAILED, f"The server's result can't be read ({error})") from None
        if exchange.caller.modern:
            return self._for_modern(method, outcome.result, members)
        if "structuredContent" not in members and "resultType" not in members:
            return outcome.result
        return for_handshake(outcome.result, members, exchange.projection)

    def _for_modern(self, method: str, result: Raw, members: dict[str, Raw]) -> Raw:
        if method not in CACHED:
            return for_modern(result, members)
        is_fixed = method == "tools/list" and not self._surface.tools_change
        hints: dict[str, Any] = {"ttlMs": LIST_TTL_MS if is_fixed else DYNAMIC_TTL_MS, "cacheScope": "private"}
        if self._surface.own_lists and method != "resources/read":
            hints |= COMPLETE
        return for_modern(result, members, hints)


async def _with_rpc_errors(work: Awaitable[Raw]) -> Raw:
    try:
        return await work
    except WorkbenchError as error:
        raise as_rpc_error(error) from None


def for_handshake(result: Raw, members: dict[str, Raw], projection: Projection = "none") -> Raw:
    """Project a result onto the handshake era: without `resultType`, and with an object as structured content."""
    projected = handshake_result(members, projection) if "structuredContent" in members else None
    if projected is None and "resultType" not in members:
        return result
    kept = members if projected is None else projected
    return Raw(jsonrpc.encode({key: value for key, value in kept.items() if key != "resultType"}))


def for_modern(result: Raw, members: dict[str, Raw], hints: dict[str, Any] | None = None) -> Raw:
    """Complete a result for a modern client: add `resultType`, and missing cache hints."""
    is_complete = "resultType" not in members or jsonrpc.text_or_none(members["resultType"]) == "complete"
    missing = {key: value for key, value in (hints or {}).items() if is_complete and key not in members}
    if not missing and "resultType" in members:
        return result
    return Raw(jsonrpc.encode({"resultType": "complete", **missing, **members}))


def _exchange(
    caller: Caller, line: OpenRequest, method: str, params: dict[str, Raw], meta: dict[str, Raw], *, drops_tasks: bool
) -> Exchange:
    """Make the exchange of a request. Removes `_meta` from `params`, and from `meta` what servers must not get."""
    raw, token = params.pop("_meta", None), None
    if raw is not None and not meta and not jsonrpc.is_object(raw) and not jsonrpc.is_null(raw):
        raise RpcError(jsonrpc.INVALID_PARAMS, "params._meta must be an object")
    if meta:
        token = meta.pop(eras.PROGRESS_TOKEN, None)
        for key in eras.ENVELOPE & meta.keys():
            del meta[key]
        if drops_tasks:
            meta.pop(eras.RELATED_TASK, None)
    members = None
    if method == "tools/call" and len(params) > len(_OURS):
        members = {key: value for key, value in params.items() if key not in _OURS}
    return Exchange(caller, line, progress_token=token, meta=meta, members=members, may_ask=method in MAY_ASK)
