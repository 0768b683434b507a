"""The routes: every request is guarded, read within its bounds, and handed to whom it is for.

/healthz                     whether it runs
/mcp                         the two meta-tools, or dynamic mode
/mcp/{toolbox}               the tools of one toolbox
/mcp/{toolbox}/{server}      one server, transparently
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mcp_workbench import observe
from mcp_workbench.errors import Overloaded, RequestError, ServerNotFound, SessionNotFound, ToolboxNotFound
from mcp_workbench.nearest import nearest_or_known
from mcp_workbench.serve.http.asked import SHOWN
from mcp_workbench.serve.http.bodies import BODY, Glance, HungUp, glance, outline, read_body, replay
from mcp_workbench.serve.http.guard import Guard, Refused
from mcp_workbench.serve.http.modern import ModernFront
from mcp_workbench.serve.http.protocol import WIRE, Wire
from mcp_workbench.serve.http.sessions import HttpSession, Sessions, taken
from mcp_workbench.surfaces.forwarding import as_rpc_error
from mcp_workbench.surfaces.hello import View
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.batch import is_batch, no_batch
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS
from mcp_workbench.wire.jsonrpc import Id, RpcError
from mcp_workbench.workbench import Workbench

ROOT: Final = "mcp"
HEALTH: Final = "healthz"
METHODS: Final = ("GET", "POST", "DELETE")
Handle = Callable[[Scope, Receive, Send], Awaitable[None]]


class App:
    """Answers HTTP requests, as ASGI has them."""

    def __init__(self, workbench: Workbench, guard: Guard) -> None:
        self._workbench = workbench
        self._guard = guard
        self._limits = workbench.limits
        self._sessions = Sessions(workbench)
        self._modern: dict[tuple[str, View], ModernFront] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        sent = Sent(scope, send, self._limits.http_write_seconds)
        try:
            await self._answer(scope, receive, sent)
        except HungUp:
            sent.abort()
        finally:
            observe.debug(
                "http", method=scope["method"], path=scope["path"], status=sent.status, ms=sent.ms, owner=sent.owner
            )

    async def close(self) -> None:
        """End every session; what is under way may end by itself, for a moment."""
        fronts = tuple(self._modern.values())
        seconds = self._limits.drain_seconds
        await asyncio.gather(self._sessions.close(seconds), *(front.drain(seconds) for front in fronts))
        await asyncio.gather(*(front.end() for front in fronts))

    async def _answer(self, scope: Scope, receive: Receive, sent: Sent) -> None:
        parts = _parts(scope)
        try:
            self._guard.check_place(scope)
            if parts == [HEALTH]:
                response = _health(scope["method"])
            else:
                sent.owner = self._guard.owner(scope)
                await self._exchange(scope, receive, sent, parts)
                return
        except Refused as refused:
            response = _refusal(refused)
        await response(scope, receive, sent)

    async def _exchange(self, scope: Scope, receive: Receive, sent: Sent, parts: list[str] | None) -> None:
        """Read a request, and have it answered by whom it is for. Raises `Refused`."""
        if scope["method"] not in METHODS:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed", allow=", ".join(METHODS))
        body = b""
        if scope["method"] == "POST":
            body = await read_body(scope["headers"], receive, self._limits)
            shown = outline(body, self._limits)
            receive = replay(shown, receive)
            scope = {**scope, BODY: body, SHOWN: shown}
        about = glance(body)
        try:
            handle = self._taker(scope, self._view(parts), sent.owner, about)
        except (RequestError, Overloaded, RpcError) as error:
            await _failure(error, about.id)(scope, receive, sent)
        else:
            await handle(scope, receive, sent)

    def _view(self, parts: list[str] | None) -> View:
        """What an endpoint shows. Raises `RequestError`."""
        if not parts or parts[0] != ROOT or len(parts) > 3:  # noqa: PLR2004 -- root, toolbox, server
            raise RequestError("Not found", hint="Endpoints: /mcp, /mcp/{toolbox}, /mcp/{toolbox}/{server}")
        toolboxes = self._workbench.config.toolboxes
        if len(parts) == 1:
            return View()
        toolbox = toolboxes.get(parts[1])
        if toolbox is None:
            raise ToolboxNotFound(parts[1], hint=nearest_or_known(parts[1], toolboxes, "toolboxes"))
        if len(parts) > 2 and parts[2] not in toolbox.servers:  # noqa: PLR2004
            raise ServerNotFound(*parts[1:], hint=nearest_or_known(parts[2], toolbox.servers, "servers"))
        return View(*parts[1:])

    def _taker(self, scope: Scope, view: View, owner: str, about: Glance) -> Handle:
        """Who takes a request. Raises `RequestError`, `Overloaded`, `RpcError`."""
        version = _header(scope, b"mcp-protocol-version")
        if about.is_modern or (version is not None and version not in HANDSHAKE_VERSIONS):
            if is_batch(scope.get(BODY, b"")):
                raise no_batch(version or "")
            return self._modern_front(view, owner).handle
        given = _header(scope, b"mcp-session-id")
        if given is not None:
            session = self._sessions.find(given, view, owner)
            if session is None:
                raise SessionNotFound
            if about.method and about.id is not None and session.is_taken(about.id):
                raise taken()
            return session.handle
        if about.method != "initialize":
            raise RpcError(jsonrpc.INVALID_REQUEST, "The header Mcp-Session-Id is missing; begin with initialize")
        return _greeting(self._sessions.begin(view, owner))

    def _modern_front(self, view: View, owner: str) -> ModernFront:
        if (front := self._modern.get((owner, view))) is None:
            front = self._modern[owner, view] = ModernFront(self._workbench, view, owner)
        return front


def _greeting(session: HttpSession) -> Handle:
    """The first request of a session, which is over if it is refused."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await session.handle(scope, receive, send)
        finally:
            if not session.is_greeted:
                session.abandon()

    return handle


class Sent:
    """What is sent to a client, which is hung up on if it does not read."""

    def __init__(self, scope: Scope, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._start = time.monotonic()
        self._wire: Wire = scope["state"][WIRE]
        self.status: int | None = None
        self.owner = ""

    @property
    def ms(self) -> int:
        return round((time.monotonic() - self._start) * 1000)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        if not self._wire.is_congested:
            await self._send(message)  # which does not wait
            return
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            observe.info("a client does not read what it asked for; its connection is closed", owner=self.owner)
            self.abort()

    def abort(self) -> None:
        """Close the connection, whatever was not sent yet."""
        self._wire.abort()


def _parts(scope: Scope) -> list[str] | None:
    """The parts of the path, each decoded by itself: a name may hold anything. None where it is no text."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    before, slash, path = raw.removeprefix(b"http://").partition(b"/")  # as clients write it for a proxy
    if not slash or (before and not raw.startswith(b"http://")):
        return None
    try:
        parts = [unquote_to_bytes(part).decode() for part in path.split(b"/")]
    except UnicodeDecodeError:
        return None
    return parts[:-1] if parts[-1:] == [""] else parts


def _header(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def _health(method: str) -> Response:
    if method not in ("GET", "HEAD"):
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed", allow="GET")
    return Response("ok\n", media_type="text/plain")


def _refusal(refused: Refused) -> Response:
    """Nothing more is read on a connection whose request was not read to its end."""
    headers = {**refused.headers, "connection": "close"}
    return _error(RpcError(jsonrpc.INVALID_REQUEST, str(refused)), refused.status, None, headers)


def _failure(error: RequestError | Overloaded | RpcError, id_: Id | None) -> Response:
    if isinstance(error, RpcError):
        return _error(error, HTTPStatus.BAD_REQUEST, id_)
    if isinstance(error, RequestError):
        return _error(as_rpc_error(error), HTTPStatus.NOT_FOUND, id_)
    headers = {"retry-after": str(math.ceil(error.retry_after or 1))}
    return _error(as_rpc_error(error), HTTPStatus.SERVICE_UNAVAILABLE, id_, headers)


def _error(error: RpcError, status: int, id_: Id | None, headers: dict[str, str] | None = None) -> Response:
    return Response(jsonrpc.error_line(id_, error), status, headers, "application/json")
