"""Modern requests over HTTP: no session of the protocol; what a token does at one endpoint shares one `Session`."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from mcp_workbench import observe
from mcp_workbench.errors import InputUnavailable
from mcp_workbench.serve.front import Front
from mcp_workbench.serve.greeting import new_callers
from mcp_workbench.serve.http import sdk
from mcp_workbench.serve.http.bodies import BODY, one_line
from mcp_workbench.serve.http.schemas import MirroredTools, check_name
from mcp_workbench.surfaces.hello import View
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.exchange import OnProgress
from mcp_workbench.wire.jsonrpc import Id, Params, RpcError, Unreadable
from mcp_workbench.workbench import Workbench

_SPLICE = "mcp_workbench.splice"
_ABOUT_TASKS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
"""Requests of the tasks extension. Their `Mcp-Name` is the task's id, which the SDK does not check."""
_KEPT = frozenset({*eras.LIST_CHANGED, eras.ACKNOWLEDGED})


class Splice:
    """Puts raw JSON into a response where the SDK wrote a mark that stands for it, so that not a digit is lost."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._raw: dict[bytes, bytes] = {}

    def mark(self, raw: bytes) -> dict[str, Any]:
        """What stands for `raw` until the response is sent."""
        mark = {"mcp-workbench": secrets.token_hex(16)}
        self._raw[jsonrpc.encode(mark)] = one_line(raw)
        return mark

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message  # until its length is known
            return
        body = message.get("body", b"")
        for mark, raw in self._raw.items():
            body = body.replace(mark, raw, 1)
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(_sized(start, len(body)))
        await self._send({**message, "body": body})


def _sized(start: Message, length: int) -> Message:
    headers = [(name, str(length).encode() if name == b"content-length" else value) for name, value in start["headers"]]
    return {**start, "headers": headers}


class StreamLine:
    """A modern request while it is open: notifications go onto its own stream."""

    def __init__(self, request_id: Id, sink: sdk.Sink | None, most_bytes: int) -> None:
        self.request_id = request_id
        self._sink = sink
        self._most = most_bytes
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._pump: asyncio.Task[None] | None = None

    def notify(self, method: str, params: Params) -> None:
        if self._sink is None or (self._bytes > self._most and method not in _KEPT):
            return  # It is about to be outdated, and must not pile up for a client that does not read.
        event = b"event: message\r\ndata: " + jsonrpc.notification_line(method, params) + b"\r\n\r\n"
        self._queue.append(event)
        self._bytes += len(event)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._send())

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        del params, on_progress
        raise InputUnavailable(f"a modern client can't be asked {method} while it waits")

    def adjourn(self) -> None:
        """A modern response is not resumed."""

    async def flush(self) -> None:
        """Until all was sent: nothing comes after the answer."""
        if self._pump is not None:
            await asyncio.wait((self._pump,))

    def close(self) -> None:
        self._sink = None
        if self._pump is not None:
            self._pump.cancel()

    async def _send(self) -> None:
        while self._queue and self._sink is not None:
            event = self._queue.popleft()
            try:
                await self._sink.send(event)
            except sdk.SINK_GONE:
                self._sink = None
            self._bytes -= len(event)


class Nowhere:
    """Outside of its requests a modern client can't be reached."""

    request_id = None

    def notify(self, method: str, params: Params) -> None:
        """Drop a message that belongs to no request: several clients may share a token."""
        del params
        observe.debug("a message that belongs to no request was dropped", method=method)

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        del params, on_progress
        raise InputUnavailable(f"its client can't be asked {method} outside of a call")

    def adjourn(self) -> None:
        """There is no response."""


class ModernFront(Front):
    """What is done with one token at one endpoint."""

    def __init__(self, workbench: Workbench, view: View, owner: str) -> None:
        super().__init__(workbench, new_callers(view, owner), view, Nowhere())
        self._view = view
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._last = 0.0
        self._look: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Future[Raw]] = set()
        self._mirrored = MirroredTools(workbench.limits.mirrored_tools)
        self._server = sdk.modern_server(self._answer, _none)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        splice = Splice(send)
        self._requests += 1
        try:
            await sdk.handle_modern(self._server, {**scope, _SPLICE: splice}, receive, splice.send)
        finally:
            self._requests -= 1
            self._last = self._loop.time()
            if self._look is None:
                self._look = self._loop.call_later(self._workbench.limits.http_idle_seconds, self._rest)

    async def drain(self, seconds: float) -> None:
        """Let what is under way end by itself, for a moment."""
        self._session.end_subscriptions()
        if self._serving:
            await asyncio.wait(self._serving, timeout=seconds)

    async def end(self) -> None:
        if self._look is not None:
            self._look.cancel()
        for work in tuple(self._serving):
            work.cancel("the workbench is closing")
        self._session.close()
        await asyncio.gather(self._workbench.leave(self._callers.audience), *self._leaving)

    def _rest(self) -> None:
        """What nobody used for long ends, and its servers with it; the next request begins anew."""
        limit = self._workbench.limits.http_idle_seconds
        idle = 0.0 if self._requests or self._serving else self._loop.time() - self._last
        if idle < limit:
            self._look = self._loop.call_later(limit - idle, self._rest)
            return
        observe.info("what modern requests shared was idle and is over", owner=self._owner)
        self._look = None
        self._session.close()
        leaving = self._loop.create_task(self._workbench.leave(self._callers.audience))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        super().__init__(self._workbench, new_callers(self._view, self._owner), self._view, Nowhere())

    async def _answer(self, request: Request, sink: sdk.Sink | None) -> dict[str, Any]:
        """The SDK's middleware: the mark of the result. Raises `RpcError`."""
        splice: Splice = request.scope[_SPLICE]
        try:
            result = await self._result(request.scope[BODY], request.headers, sink)
        except RpcError as error:
            if error.data is not msgspec.UNSET:
                error.data = splice.mark(jsonrpc.encode(error.data))
            raise
        except Exception as error:  # noqa: BLE001 -- the SDK would swallow a defect of ours
            observe.error("a request failed inside the workbench", error=repr(error))
            raise RpcError(jsonrpc.INTERNAL_ERROR, "Internal error") from None
        return splice.mark(bytes(result))

    async def _result(self, body: bytes, headers: Mapping[str, str], sink: sdk.Sink | None) -> Raw:
        try:
            message = jsonrpc.read(one_line(body))
        except Unreadable as problem:
            raise jsonrpc.refusal(problem) from None
        if message.method is None or not isinstance(message.id, int | str):
            raise RpcError(jsonrpc.INVALID_REQUEST, "A request needs an id and a method")
        if message.method == "initialize":  # each request has its own era here: it is a method that there is not
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, "Method not found: initialize")
        if message.method == "tools/call":
            self._mirrored.check(message.params, headers)
        elif message.method in _ABOUT_TASKS and self._view.has_tasks:
            check_name(headers, jsonrpc.members(message.params), "taskId")
        refused = self.admit(len(self._serving), message.method, message.params)
        if isinstance(refused, RpcError):
            raise refused
        if refused is not None:
            return refused
        line = StreamLine(message.id, sink, self._workbench.limits.http_notice_bytes)
        try:
            result = await self._done(self.request(message.method, message.params, line))
            await line.flush()
        finally:
            line.close()
        if message.method == "tools/list":
            self._mirrored.learn(result)
        return result

    async def _done(self, work: Awaitable[Raw]) -> Raw:
        """The result. Where the client hangs up, the work is cancelled once, and ends in its own time.

        Under the SDK's scopes whatever is awaited after a cancellation is cancelled again.
        """
        task = asyncio.ensure_future(work)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.add_done_callback(_ignore)
            task.cancel("the client hung up")
            raise
        if task.cancelled():
            raise RpcError(jsonrpc.INTERNAL_ERROR, "The workbench is closing")
        return task.result()


def _none(_name: str) -> None:
    """The SDK is shown no schemas: it does not see all of what it would have to compare."""


def _ignore(task: asyncio.Future[Raw]) -> None:
    """Nobody waits for it any more."""
    if not task.cancelled():
        task.exception()
