"""A channel with a negotiated protocol: builds requests for the server's era and bridges to the client's era.

A modern server's question goes unchanged to a modern client, and as a request to a handshake client
(`input_required.py`). A handshake server's question goes to the call that it belongs to, whose exchange knows the era
of its client (`questions.py`). For a modern client, a handshake server's URL elicitation error becomes a question
(`url_elicitation.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

from msgspec import Raw

from mcp_workbench.errors import CallTimeout, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.input_required import answer_questions, is_question
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.servers.questions import Questions
from mcp_workbench.servers.url_elicitation import Pages
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.deadlines import Delivery
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params, RpcError


class Connection:
    """An open connection to one server."""

    def __init__(
        self, channel: Channel, agreement: Agreement, slots: Slots, limits: Limits, *, takes_turns: bool = False
    ) -> None:
        """For `slots` and `takes_turns` see `Questions`."""
        self.channel = channel
        self.agreement = agreement
        self._limits = limits
        self._level: str | None = None
        self._tasks = BackgroundTasks()
        self.began = asyncio.get_running_loop().time()
        self.questions = Questions(channel, slots, limits, takes_turns=takes_turns)
        self.pages = Pages(self.questions, limits)

    @property
    def age_seconds(self) -> float:
        """The time since the protocol was negotiated."""
        return asyncio.get_running_loop().time() - self.began

    def request(
        self,
        method: str,
        params: Params,
        exchange: Exchange | None = None,
        *,
        caller: Caller | None = None,
        idle_seconds: float = 0,
        hard_seconds: float = 0,
        lenient: bool = False,
        delivery: Delivery | None = None,
    ) -> Coroutine[Any, Any, Raw]:
        """Like `Peer.request`, with the metadata that the server's era requires.

        A modern server gets the declared capabilities of `caller`, or of the caller of `exchange`, in every request.
        """
        level, on_progress = self._level, None
        if exchange is not None:
            caller = exchange.caller
            if exchange.progress_token is not None:
                on_progress = exchange.progressed
            if caller.log_level is not None:
                level = caller.log_level
        stamp = None
        if self.agreement.modern:
            stamp = self.agreement.stamp(level, caller.capabilities if caller is not None else None)
        return self.channel.peer.request(
            method,
            params,
            on_progress,
            stamp=stamp,
            owner=exchange,
            idle_seconds=idle_seconds,
            hard_seconds=hard_seconds,
            lenient=lenient,
            delivery=delivery,
        )

    async def forward(
        self, method: str, params: Params, exchange: Exchange | None, delivery: Delivery | None = None
    ) -> Raw:
        """Make a client's request, within the deadlines of a call, and translate between the eras if they differ.

        `delivery` is about the first attempt. Those that follow a question are never made again.
        """
        if exchange is None:
            return await self._send(method, params, None, delivery)
        if self.agreement.modern != exchange.caller.modern:
            params = _for_other_era(params, exchange)
        if self.questions.takes_turns:
            await self.questions.turn(exchange)
        answering = self.questions.begin(exchange)
        try:
            began = asyncio.get_running_loop().time()
            if answering or self.questions.settled_at > began:
                await self.questions.settle(exchange, answering)
                began = asyncio.get_running_loop().time()
            if exchange.caller.log_level is not None and not self.agreement.modern:
                await self._use_level(exchange.caller.log_level)
            try:
                result = await self._send(method, params, exchange, delivery)
            except ServerRefused as refusal:
                result = await self._visit_pages(refusal, method, params, exchange, began)
            if not self.agreement.modern:
                return _without_type(result) if exchange.caller.modern else result
            if not is_question(result):
                return result
            send = partial(self._send, method, exchange=exchange)
            return await answer_questions(result, params, exchange, send, self._limits, began=began)
        except (asyncio.CancelledError, CallTimeout):
            self.questions.withdraw(exchange)
            raise
        finally:
            self.questions.end(exchange)

    async def _visit_pages(
        self, refusal: ServerRefused, method: str, params: Params, exchange: Exchange, began: float
    ) -> Raw:
        """Ask a modern client to open the pages that a refusal names, and retry. Raises the refusal otherwise."""
        pages = () if self.agreement.modern else self.pages.pages_to_open(refusal, exchange)
        if not pages:
            raise refusal
        return await self.pages.visit(pages, exchange, partial(self._send, method, params, exchange), began=began)

    def set_level(self, level: str) -> None:
        """Set the minimum level of the server's log messages."""
        self._tasks.start(self._use_level(level))

    async def _use_level(self, level: str) -> None:
        """Send the level if it changed. Ignore a refusal: the server then sends what it likes."""
        if level == self._level:
            return
        self._level = level
        if not self.agreement.modern and "logging" in self.agreement.offers:
            seconds = self._limits.list_page_timeout_seconds
            with contextlib.suppress(ServerRefused, CallTimeout):
                await self.channel.peer.request("logging/setLevel", {"level": level}, hard_seconds=seconds)

    def _send(
        self, method: str, params: Params, exchange: Exchange | None, delivery: Delivery | None = None
    ) -> Coroutine[Any, Any, Raw]:
        return self.request(
            method,
            params,
            exchange,
            idle_seconds=self._limits.call_idle_timeout_seconds,
            hard_seconds=self._limits.call_hard_timeout_seconds,
            delivery=delivery,
        )


def _without_type(result: Raw) -> Raw:
    """Remove `resultType` from a handshake server's result: a modern client would interpret it."""
    if not jsonrpc.is_object(result):
        return result
    members = jsonrpc.members(result)
    return Raw(jsonrpc.encode(members)) if members.pop("resultType", None) is not None else result


def _for_other_era(params: Params, exchange: Exchange) -> Params:
    """The params of a request for a server of the other era. Raises `RpcError`.

    A handshake server issues no `requestState`, so a request with one is not a valid retry. Tasks differ between the
    eras; the protocol says that a server without tasks ignores `task`, so it is dropped.
    """
    if exchange.caller.modern and ("requestState" in params or "inputResponses" in params):
        raise RpcError(jsonrpc.INVALID_PARAMS, "requestState is unknown or has expired; send the request without it")
    return {key: value for key, value in params.items() if key != "task"} if "task" in params else params
