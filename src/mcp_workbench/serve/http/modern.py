"""Modern requests over HTTP: no session of the protocol; what a token does at one endpoint shares one `Session`."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Raw
from starlette.responses import Response
from starlette.types import Send

from mcp_workbench import logger
from mcp_workbench.errors import InputUnavailable
from mcp_workbench.serve.early_initialize import new_callers
from mcp_workbench.serve.endpoint import ClientEndpoint, call_shed
from mcp_workbench.serve.http import envelope
from mcp_workbench.serve.http.envelope import ModernRequest
from mcp_workbench.serve.http.event_stream import AnswerStream, OpenStreams
from mcp_workbench.serve.http.protocol import Connection
from mcp_workbench.serve.http.request import HttpRequest
from mcp_workbench.surfaces.server_info import View
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.exchange import OnProgress
from mcp_workbench.wire.jsonrpc import Envelope, Id, Params, RpcError
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.param_headers import ReceivedHeaders
from mcp_workbench.workbench import Workbench

_KEPT: Final = frozenset({*eras.LIST_CHANGED, eras.ACKNOWLEDGED})
"""Notifications that are sent once, and not dropped for a client that reads slowly."""


class StreamLine:
    """A modern request while it is open: notifications go onto its own stream."""

    def __init__(self, request_id: Id, stream: AnswerStream, most_bytes: int, account: Account) -> None:
        self.request_id = request_id
        self._stream = stream
        self._most = most_bytes
        self._account = account

    def notify(self, method: str, params: Params) -> None:
        if (self._stream.unread > self._most or self._account.is_paused) and method not in _KEPT:
            return  # It is about to be outdated, and must not pile up for a client that does not read.
        self._stream.notify(Envelope(params, None, method).line)

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        del params, on_progress
        raise InputUnavailable(f"a modern client can't be asked {method} while it waits")

    def adjourn(self) -> None:
        """A modern response is not resumed."""


class Nowhere:
    """Outside of its requests a modern client can't be reached."""

    request_id = None

    def notify(self, method: str, params: Params) -> None:
        """Drop a message that belongs to no request: several clients may share a token."""
        del params
        logger.debug("a message that belongs to no request was dropped", method=method)

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        del params, on_progress
        raise InputUnavailable(f"its client can't be asked {method} outside of a call")

    def adjourn(self) -> None:
        """There is no response."""


class ModernFront:
    """The modern requests of one token at one endpoint."""

    def __init__(self, workbench: Workbench, view: View, owner: str) -> None:
        self._workbench = workbench
        self._view = view
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._last = 0.0
        self._look: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._shed: set[asyncio.Task[None]] = set()
        """Those that were cancelled to free memory."""
        self._open = OpenStreams()
        self._mirrored = ReceivedHeaders(workbench.limits.mirrored_tools)
        self._front = self._new_front()

    def _new_front(self) -> ClientEndpoint:
        front = ClientEndpoint(self._workbench, new_callers(self._view, self._owner), self._view, Nowhere())
        account = front.account
        account.label, account.cancel, account.close = f"requests of {self._owner}", self._cancel, self._open.disconnect
        return front

    def _cancel(self) -> None:
        for work in tuple(self._serving):
            self._shed.add(work)
            work.add_done_callback(self._shed.discard)
            work.cancel("to free memory")

    async def handle(self, request: HttpRequest, send: Send) -> Response | None:
        """Handle one HTTP request; what it returns is still to be sent."""
        self._requests += 1
        try:
            asked = envelope.checked(request, has_tasks=self._view.has_tasks)
            if isinstance(asked, Response):
                return asked
            stream = AnswerStream(self._workbench.limits, self._front.account)
            work = self._loop.create_task(self._answer(asked, request, stream))
            del asked  # the client may take long to read the answer
            request.forget_body()
            await self._send(stream, work, request.wire, send)
            return None
        finally:
            self._requests -= 1
            self._last = self._loop.time()
            if self._look is None:
                self._look = self._loop.call_later(self._workbench.limits.http_idle_seconds, self._rest)

    async def _send(self, stream: AnswerStream, work: asyncio.Task[None], wire: Connection, send: Send) -> None:
        """Send the stream of an answer until it ends or its connection is lost."""
        self._serving.add(work)
        work.add_done_callback(self._serving.discard)

        def hang_up(_: object) -> None:
            stream.lose()
            work.cancel("the client hung up")

        await self._open.run(stream, wire, send, hang_up)

    async def _answer(self, asked: ModernRequest, request: HttpRequest, stream: AnswerStream) -> None:
        """Compute the answer and put it onto the stream."""
        answer: Raw | RpcError
        try:
            answer = await self._result(asked, request, stream)
        except RpcError as error:
            answer = error
        except asyncio.CancelledError:
            if stream.is_lost:
                raise
            is_shed = asyncio.current_task() in self._shed
            answer = call_shed() if is_shed else RpcError(jsonrpc.INTERNAL_ERROR, "The workbench is closing")
        except Exception as error:  # noqa: BLE001 -- a defect of ours ends this request and no other
            logger.error("a request failed inside the workbench", error=repr(error))
            answer = RpcError(jsonrpc.INTERNAL_ERROR, "Internal error")
        status = envelope.status_of(answer) if isinstance(answer, RpcError) else 200
        stream.answer(Envelope(answer, asked.id).line, status)

    async def _result(self, asked: ModernRequest, request: HttpRequest, stream: AnswerStream) -> Raw:
        if asked.method == "initialize":  # it belongs to the handshake era; here each request has its own era
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, "Method not found: initialize")
        if asked.method == "tools/call":
            self._mirrored.check(asked.params, request.headers, request.repeated)
        front = self._front
        if (overload := front.overload(len(self._serving) - 1)) is not None:
            return front.refusal(overload, asked.method, asked.params, asked.meta)
        line = StreamLine(asked.id, stream, self._workbench.limits.http_notice_bytes, front.account)
        front.account.reserve(asked.size)
        try:
            result = await front.request(asked.method, asked.params, line, asked.meta)
        finally:
            front.account.release(asked.size)
        if asked.method == "tools/list":
            self._mirrored.learn(result)
        return result

    async def drain(self, seconds: float) -> None:
        """Let what is under way end by itself, for a moment."""
        self._front.end_subscriptions()
        if self._serving:
            await asyncio.wait(self._serving, timeout=seconds)

    async def end(self) -> None:
        if self._look is not None:
            self._look.cancel()
        for work in tuple(self._serving):
            work.cancel("the workbench is closing")
        await asyncio.gather(self._front.leave(), *self._leaving)

    def _rest(self) -> None:
        """End what nobody used for long, and its servers; the next request begins anew."""
        limit = self._workbench.limits.http_idle_seconds
        idle = 0.0 if self._requests or self._serving else self._loop.time() - self._last
        if idle < limit:
            self._look = self._loop.call_later(limit - idle, self._rest)
            return
        logger.info("what modern requests shared was idle and is over", owner=self._owner)
        self._look = None
        leaving = self._loop.create_task(self._front.leave())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        self._front = self._new_front()
