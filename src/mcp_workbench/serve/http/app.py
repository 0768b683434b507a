"""The ASGI app: it guards every request, reads it within limits, and routes it to its session or modern endpoint.

/healthz                     liveness check
/mcp                         the two meta-tools, or dynamic mode
/mcp/{toolbox}               the tools of one toolbox
/mcp/{toolbox}/{server}      one server, unchanged
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcp_workbench import logger
from mcp_workbench.config.model import find_server, find_toolbox
from mcp_workbench.errors import Overloaded, RequestError
from mcp_workbench.serve.http.guard import Guard
from mcp_workbench.serve.http.modern_endpoint import ModernEndpoint
from mcp_workbench.serve.http.request import (
    ClientDisconnected,
    HttpRequest,
    RequestHead,
    RequestRefused,
    cached_if_short,
    read_body,
)
from mcp_workbench.serve.http.responses import SESSION_ID, ResponseSender, error_response
from mcp_workbench.serve.http.sessions import HttpSession, Sessions
from mcp_workbench.surfaces.failures import as_rpc_error
from mcp_workbench.surfaces.server_info import View
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.batch import no_batch
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS
from mcp_workbench.wire.jsonrpc import Id, RpcError
from mcp_workbench.wire.memory_budget import MEMORY_SMALL_BYTES
from mcp_workbench.workbench import Workbench

METHODS: Final = ("GET", "POST", "DELETE")
_VERSION_KEY: Final = eras.PROTOCOL_VERSION.encode()


class App:
    """The ASGI application."""

    def __init__(self, workbench: Workbench, guard: Guard) -> None:
        self._workbench = workbench
        self._guard = guard
        self._limits = workbench.limits
        self._sessions = Sessions(workbench)
        self._modern_endpoints: dict[tuple[str, View], ModernEndpoint] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start, sender = time.monotonic(), ResponseSender(scope, send, self._limits.http_write_seconds)
        try:
            response = await self._answer(scope, receive, sender)
            if response is not None:
                await response(scope, receive, sender)
        except ClientDisconnected:
            sender.connection.abort()
        finally:
            if logger.log.shows("debug"):
                method, path, ms = scope["method"], scope["path"], round((time.monotonic() - start) * 1000)
                logger.debug("http", method=method, path=path, status=sender.status, ms=ms, owner=sender.owner)

    async def close(self) -> None:
        """End every session, after a short time for running requests to finish."""
        endpoints = tuple(self._modern_endpoints.values())
        seconds = self._limits.drain_seconds
        await asyncio.gather(self._sessions.close(seconds), *(endpoint.drain(seconds) for endpoint in endpoints))
        await asyncio.gather(*(endpoint.end() for endpoint in endpoints))

    async def _answer(self, scope: Scope, receive: Receive, sender: ResponseSender) -> Response | None:
        """Answer a request. The caller sends the response that this returns; None means that it was sent already."""
        parts = _parts(scope["raw_path"])
        try:
            head = RequestHead(scope)
            self._guard.check_place(head)
            if parts == ["healthz"]:
                return _health(scope["method"])
            sender.owner = self._guard.owner(head)
            sender.connection.authenticated()
            request = await self._read(head, receive, sender)
        except RequestRefused as refused:
            return _refusal(refused)
        try:
            return await self._route(request, self._view(parts), sender)
        except (RequestError, Overloaded, RpcError) as error:
            return _failure(error, request.id)

    async def _read(self, head: RequestHead, receive: Receive, sender: ResponseSender) -> HttpRequest:
        """Read a request within the limits. Raises `RequestRefused`."""
        if head.method not in METHODS:
            raise RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed", allow=", ".join(METHODS))
        body = await self._read_body(head, receive, sender) if head.method == "POST" else b""
        return HttpRequest(head, body, sender.connection)

    async def _read_body(self, head: RequestHead, receive: Receive, sender: ResponseSender) -> bytes:
        """Read the body of a request. Memory pressure closes a connection that sends a large one slowly."""
        connection = sender.connection
        if connection.has_body or int(head.headers.get("content-length", sys.maxsize)) <= MEMORY_SMALL_BYTES:
            return await read_body(head, connection, receive, self._limits)
        account = self._workbench.budget.open(f"a request of {sender.owner}", close=connection.abort)
        try:
            return await read_body(head, connection, receive, self._limits, account)
        finally:
            account.end()

    def _view(self, parts: Sequence[str] | None) -> View:
        """What a path shows. Raises `RequestError`."""
        match parts:
            case ["mcp"]:
                return View()
            case ["mcp", toolbox]:
                find_toolbox(self._workbench.config, toolbox)
                return View(toolbox)
            case ["mcp", toolbox, server]:
                find_server(self._workbench.config, toolbox, server)
                return View(toolbox, server)
            case _:
                raise RequestError("Not found", hint="Endpoints: /mcp, /mcp/{toolbox}, /mcp/{toolbox}/{server}")

    async def _route(self, request: HttpRequest, view: View, sender: ResponseSender) -> Response | None:
        """Pass a request to its session or modern endpoint. Raises `RequestError`, `Overloaded` or `RpcError`."""
        version = request.headers.get("mcp-protocol-version")
        if _is_enveloped(request) or (version is not None and version not in HANDSHAKE_VERSIONS):
            if request.is_batch:
                raise no_batch(version or "")
            return await self._modern_endpoint(view, sender.owner).handle(request, sender)
        if (session_id := request.headers.get(SESSION_ID)) is not None:
            return await self._sessions.find(session_id, view, sender.owner).handle(request, sender)
        if request.message is None or request.message.method != "initialize":
            raise RpcError(jsonrpc.INVALID_REQUEST, "The header Mcp-Session-Id is missing; begin with initialize")
        return await _greet(self._sessions.begin(view, sender.owner), request, sender)

    def _modern_endpoint(self, view: View, owner: str) -> ModernEndpoint:
        if (endpoint := self._modern_endpoints.get((owner, view))) is None:
            endpoint = self._modern_endpoints[owner, view] = ModernEndpoint(self._workbench, view, owner)
        return endpoint


def _is_enveloped(request: HttpRequest) -> bool:
    """Whether the message has the protocol version in its `_meta`, as modern messages do."""
    message = request.message
    if message is None or message.method in (None, "initialize") or _VERSION_KEY not in request.body:
        return False
    return eras.PROTOCOL_VERSION in request.meta


async def _greet(session: HttpSession, request: HttpRequest, send: Send) -> Response | None:
    """Answer the first request of a session. The session ends if the request fails."""
    try:
        return await session.handle(request, send)
    finally:
        if not session.is_greeted:
            session.abandon()


@cached_if_short
def _parts(raw: bytes) -> Sequence[str] | None:
    """The segments of a path, decoded after the split since a name may contain a slash. None if one is not UTF-8."""
    before, slash, path = raw.removeprefix(b"http://").partition(b"/")  # the absolute form, sent to proxies
    if not slash or (before and not raw.startswith(b"http://")):
        return None
    try:
        parts = [unquote_to_bytes(part).decode() for part in path.split(b"/")]
    except UnicodeDecodeError:
        return None
    return parts[:-1] if parts[-1:] == [""] else parts


def _health(method: str) -> Response:
    if method not in ("GET", "HEAD"):
        raise RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed", allow="GET")
    return Response("ok\n", media_type="text/plain")


def _refusal(refused: RequestRefused) -> Response:
    """Refuse a request and close its connection, whose remaining bytes may belong to the unread body."""
    headers = {**refused.headers, "connection": "close"}
    return error_response(RpcError(jsonrpc.INVALID_REQUEST, str(refused)), refused.status, None, headers)


def _failure(error: RequestError | Overloaded | RpcError, id_: Id | None) -> Response:
    if isinstance(error, RpcError):
        return error_response(error, HTTPStatus.BAD_REQUEST, id_)
    if isinstance(error, RequestError):
        return error_response(as_rpc_error(error), HTTPStatus.NOT_FOUND, id_)
    headers = {"retry-after": str(math.ceil(error.retry_after or 1))}
    return error_response(as_rpc_error(error), HTTPStatus.SERVICE_UNAVAILABLE, id_, headers)
