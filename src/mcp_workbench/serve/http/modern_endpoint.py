"""Modern requests over HTTP. This era has no sessions: requests with one token to one URL share a `Session`."""

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
from mcp_workbench.serve.http import modern_request
from mcp_workbench.serve.http.connection import ClientConnection
from mcp_workbench.serve.http.modern_request import ModernRequest
from mcp_workbench.serve.http.request import HttpRequest
from mcp_workbench.serve.http.responses import AnswerStream, OpenStreams
from mcp_workbench.surfaces.server_info import View
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.exchange import OnProgress
from mcp_workbench.wire.jsonrpc import Envelope, Id, Params, RpcError
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.param_headers import ReceivedHeaders
from mcp_workbench.workbench import Workbench

_NEVER_DROPPED: Final = frozenset({*eras.LIST_CHANGED, eras.ACKNOWLEDGED})
"""Notifications that are sent only once, so a slow reader must get them too."""


class NoOpenRequest:
    """Stands for the missing request: outside of its requests a modern client can't be reached."""

    request_id: Id | None = None

    def notify(self, method: str, params: Params) -> None:
        """Drop the message: several clients may share the token."""
        del params
        logger.debug("dropping a message that belongs to no request", method=method)

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        del params, on_progress
        raise InputUnavailable(f"a modern client can't receive the request {method}")

    def adjourn(self) -> None:
        """Does nothing: a modern response can't be resumed."""


class OpenModernRequest(NoOpenRequest):
    """A modern request while it is answered; its notifications go to its own response stream."""

    def __init__(self, request_id: Id, stream: AnswerStream, most_unread_bytes: int, account: Account) -> None:
        self.request_id = request_id
        self._stream = stream
        self._most_unread_bytes = most_unread_bytes
        self._account = account

    def notify(self, method: str, params: Params) -> None:
        if (self._stream.unread > self._most_unread_bytes or self._account.is_paused) and method not in _NEVER_DROPPED:
            return  # soon outdated, and it must not pile up for a client that does not read
        self._stream.notify(Envelope(params, None, method).line)


class ModernEndpoint:
    """Answers the modern requests of one token to one URL."""

    def __init__(self, workbench: Workbench, view: View, owner: str) -> None:
        self._workbench = workbench
        self._view = view
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._leaving = BackgroundTasks()
        self._serving = BackgroundTasks()
        self._shed: set[asyncio.Task[None]] = set()
        """The ones that were cancelled to free memory."""
        self._open = OpenStreams()
        self._received_headers = ReceivedHeaders(workbench.limits.mirrored_tools)
        self._endpoint = self._new_endpoint()

    def _new_endpoint(self) -> ClientEndpoint:
        endpoint = ClientEndpoint(self._workbench, new_callers(self._view, self._owner), self._view, NoOpenRequest())
        account = endpoint.account
        account.label, account.cancel, account.close = f"requests of {self._owner}", self._cancel, self._open.disconnect
        return endpoint

    def _cancel(self) -> None:
        for work in self._serving:
            self._shed.add(work)
            work.add_done_callback(self._shed.discard)
            work.cancel("to free memory")

    async def handle(self, request: HttpRequest, send: Send) -> Response | None:
        """Handle an HTTP request. The caller sends the returned response; None means that it was sent already."""
        self._requests += 1
        try:
            modern = modern_request.check(request, has_tasks=self._view.has_tasks)
            if isinstance(modern, Response):
                return modern
            stream = AnswerStream(self._workbench.limits, self._endpoint.account)
            work = self._serving.start(self._answer(modern, request, stream))
            del modern  # free it: the client may take long to read the answer
            request.forget_body()
            await self._send(stream, work, request.connection, send)
            return None
        finally:
            self._requests -= 1
            self._idle_since = self._loop.time()
            if self._idle_timer is None:
                self._idle_timer = self._loop.call_later(self._workbench.limits.http_idle_seconds, self._expire)

    async def _send(
        self, stream: AnswerStream, work: asyncio.Task[None], connection: ClientConnection, send: Send
    ) -> None:
        """Send a stream until it ends; cancel the work if the connection is lost."""

        def hang_up(_: object) -> None:
            stream.lose()
            work.cancel("the client hung up")

        await self._open.run(stream, connection, send, hang_up)

    async def _answer(self, modern: ModernRequest, request: HttpRequest, stream: AnswerStream) -> None:
        """Compute the answer and put it on the stream."""
        answer: Raw | RpcError
        try:
            answer = await self._result(modern, request, stream)
        except RpcError as error:
            answer = error
        except asyncio.CancelledError:
            if stream.is_lost:
                raise
            is_shed = asyncio.current_task() in self._shed
            answer = call_shed() if is_shed else RpcError(jsonrpc.INTERNAL_ERROR, "The workbench is closing")
        except Exception as error:  # noqa: BLE001 -- a defect of ours fails only this request
            logger.error("a request failed inside the workbench", error=repr(error))
            answer = RpcError(jsonrpc.INTERNAL_ERROR, "Internal error")
        status = modern_request.status_of(answer) if isinstance(answer, RpcError) else 200
        stream.answer(Envelope(answer, modern.id).line, status)

    async def _result(self, modern: ModernRequest, request: HttpRequest, stream: AnswerStream) -> Raw:
        if modern.method == "initialize":  # the message decides the era, and initialize belongs to the other
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, "Method not found: initialize")
        if modern.method == "tools/call":
            self._received_headers.check(modern.params, request.headers, request.repeated)
        endpoint = self._endpoint
        if (overload := endpoint.overload(len(self._serving) - 1)) is not None:
            return endpoint.refusal(overload, modern.method, modern.params, modern.meta)
        line = OpenModernRequest(modern.id, stream, self._workbench.limits.http_notice_bytes, endpoint.account)
        endpoint.account.reserve(modern.size)
        try:
            result = await endpoint.request(modern.method, modern.params, line, modern.meta)
        finally:
            endpoint.account.release(modern.size)
        if modern.method == "tools/list":
            self._received_headers.learn(result)
        return result

    async def drain(self, seconds: float) -> None:
        """Give running requests a short time to finish."""
        self._endpoint.end_subscriptions()
        if serving := tuple(self._serving):
            await asyncio.wait(serving, timeout=seconds)

    async def end(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._serving.cancel()
        await asyncio.gather(self._endpoint.leave(), *self._leaving)

    def _expire(self) -> None:
        """End the shared session and its servers if it is idle; the next request gets a new one."""
        limit = self._workbench.limits.http_idle_seconds
        idle = 0.0 if self._requests or self._serving else self._loop.time() - self._idle_since
        if idle < limit:
            self._idle_timer = self._loop.call_later(limit - idle, self._expire)
            return
        logger.info("ending the idle session of modern requests", owner=self._owner)
        self._idle_timer = None
        self._leaving.start(self._endpoint.leave())
        self._endpoint = self._new_endpoint()
