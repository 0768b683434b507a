"""Handshake sessions over HTTP: each is one client, as on stdio, with messages spread over many HTTP requests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import TypeAlias

from msgspec import Raw
from starlette.responses import Response
from starlette.types import Send

from mcp_workbench import logger
from mcp_workbench.errors import InputUnavailable, Overloaded, SessionNotFound, ShuttingDown
from mcp_workbench.serve.early_initialize import new_callers
from mcp_workbench.serve.endpoint import PeerEndpoint
from mcp_workbench.serve.http import responses
from mcp_workbench.serve.http.connection import ClientConnection
from mcp_workbench.serve.http.request import ClientDisconnected, HttpRequest
from mcp_workbench.serve.http.responses import EventStream, OpenStreams, stream_head
from mcp_workbench.serve.http.session_streams import SessionStreams, StreamKey
from mcp_workbench.surfaces.failures import as_rpc_error
from mcp_workbench.surfaces.server_info import View
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.background import in_background
from mcp_workbench.wire.batch import BatchElement, first_request
from mcp_workbench.wire.exchange import OpenRequest
from mcp_workbench.wire.jsonrpc import Envelope, Id, Message, RpcError
from mcp_workbench.wire.memory_budget import trim
from mcp_workbench.wire.peer import CANCELLED
from mcp_workbench.workbench import Workbench

HTTP_TRIM_SECONDS = 1.0
"""Delay after the end of a session until freed memory is returned to the system, once for all sessions that end
meanwhile."""
HTTP_SESSION_BYTES = 24
"""Random bytes in the id of a session, so that it can't be guessed."""

Streaming: TypeAlias = tuple[StreamKey, EventStream]
"""A stream to be sent, and its key."""


class HttpSession(PeerEndpoint):
    """One client of the handshake era."""

    def __init__(self, workbench: Workbench, view: View, owner: str) -> None:
        limits = workbench.limits
        self.id = secrets.token_hex(HTTP_SESSION_BYTES)
        self.view = view
        self.owner = owner
        self._limits = limits
        self._headers = {responses.SESSION_ID: self.id}
        self._unanswered: set[Id] = set()
        """Requests without an answer."""
        self._waiting: set[Id] = set()
        """Requests held back until the client reads its responses."""
        head = stream_head((responses.SESSION_ID.encode(), self.id.encode()))
        self._open = OpenStreams()
        callers = new_callers(view, owner)
        account = workbench.account(callers.audience)
        self._streams = SessionStreams(limits, head, self._unanswered.discard, self._question_dropped, account)
        account.label, account.shed, account.close = f"a session of {owner}", self._streams.shed, self._open.disconnect
        super().__init__(workbench, callers, view, self._streams)
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._idle: asyncio.TimerHandle | None = None
        self._idle_since = self._loop.time()
        self.is_open = True
        """Whether it accepts requests."""
        self._end_requested = asyncio.Event()
        self.ended: asyncio.Task[None] = self._loop.create_task(self._run())

    # -- requests

    async def handle(self, request: HttpRequest, send: Send) -> Response | None:
        """Handle an HTTP request. The caller sends the returned response; None means that it was sent already."""
        self._requests += 1
        try:
            answer = await self._post(request) if request.method == "POST" else self._other(request)
            if isinstance(answer, Response):
                return answer
            request.forget_body()
            await self._send(*answer, request.connection, send)
            return None
        finally:
            self._requests -= 1
            self._idle_since = self._loop.time()
            if self._idle is None and self.is_open:
                self._idle = self._loop.call_later(self._limits.http_idle_seconds, self._expire)

    def _other(self, request: HttpRequest) -> Response | Streaming:
        if request.method == "GET":
            return self._listen(request)
        self.abandon()
        self._streams.close()
        return self._accepted(HTTPStatus.OK)

    async def _post(self, request: HttpRequest) -> Response | Streaming:
        if not request.accepts_both:
            return responses.not_acceptable("application/json", "text/event-stream", headers=self._headers)
        if not request.is_json:
            return responses.unsupported_type(self._headers)
        if request.is_batch:
            return await self._batch(request)
        message = request.message
        if message is None or (message.method is not None and message.id is None):
            return self._refused(request.problem or RpcError(jsonrpc.INVALID_REQUEST, "A request needs an id"))
        if message.method is not None and isinstance(message.id, int | str):
            return await self._request(message.id, message, request)
        await self._wait_until_read(request)
        self._peer.take(message, len(request.body))
        self._end_cancelled(message)
        return self._accepted(HTTPStatus.ACCEPTED)

    async def _request(self, id_: Id, message: Message, request: HttpRequest) -> Response | Streaming:
        if (refused := await self._admit(id_, request)) is not None:
            return refused
        stream = self._streams.open(id_, _version(message, request))
        self._unanswered.add(id_)
        self._peer.take(message, len(request.body))
        return id_, stream

    async def _batch(self, request: HttpRequest) -> Response | Streaming:
        """Handle a batch: it gets one response stream if it contains a request, else an acknowledgement."""
        try:
            batch = self.read_batch(request.body)
        except RpcError as error:
            return self._refused(error)
        first = first_request(batch)
        if first is None:
            if (problem := next((part for part in batch if isinstance(part, RpcError)), None)) is not None:
                return self._refused(problem)
            await self._wait_until_read(request)
            self._take_batch(batch)
            return self._accepted(HTTPStatus.ACCEPTED)
        if (refused := await self._admit(first, request)) is not None:
            return refused
        stream = self._streams.open(first)
        self._take_batch(batch)
        return first, stream

    def _take_batch(self, batch: Sequence[BatchElement]) -> None:
        self._peer.receive_batch(batch)
        for part in batch:
            if isinstance(part, Message):
                self._end_cancelled(part)

    def _listen(self, request: HttpRequest) -> Response | Streaming:
        """Open the stream for messages that belong to no request, or resume a broken stream."""
        if not request.accepts_events:
            return responses.not_acceptable("text/event-stream", headers=self._headers)
        if last := request.headers.get("last-event-id"):
            return self._streams.resume(last)
        if self._streams.is_open(None):
            conflict = RpcError(jsonrpc.INVALID_REQUEST, "Conflict: this session already has an open stream")
            return responses.error_response(conflict, HTTPStatus.CONFLICT, headers=self._headers)
        return None, self._streams.open(None)

    async def _send(self, key: StreamKey, stream: EventStream, connection: ClientConnection, send: Send) -> None:
        """Send a stream until it ends or its connection is lost."""
        try:
            await self._open.run(stream, connection, send, lambda _: self._streams.leave(key, stream))
        finally:
            self._streams.leave(key, stream)

    async def _wait_until_read(self, request: HttpRequest) -> None:
        """Backpressure: wait until the client has read enough of its responses.

        The waiting request counts towards the memory budget. Raises `ClientDisconnected`.
        """
        if not self.account.is_paused:
            return
        account = self._workbench.budget.open(f"a request of {self.owner}", request.connection.abort)
        account.reserve(len(request.body))
        try:
            with in_background(self.account.unpaused()) as was_read:
                await asyncio.wait((was_read, request.connection.lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            account.end()
        if request.connection.lost.done():
            raise ClientDisconnected

    async def _admit(self, id_: Id, request: HttpRequest) -> Response | None:
        """Wait until a request can be handled; returns the response if it is refused."""
        if self.is_taken(id_):
            error = RpcError(jsonrpc.INVALID_REQUEST, "A request with this id is still being answered")
            return self._refused(error, id_)
        if self.account.is_paused:
            self._waiting.add(id_)
            try:
                await self._wait_until_read(request)
            finally:
                self._waiting.discard(id_)
        if self.is_open:
            return None
        return responses.error_response(as_rpc_error(SessionNotFound()), HTTPStatus.NOT_FOUND, id_)

    def is_taken(self, request: Id) -> bool:
        """Whether a request with this id is being answered."""
        return request in self._unanswered or request in self._waiting or self._streams.is_open(request)

    def _end_cancelled(self, message: Message) -> None:
        """Answer a cancelled request with an error: in this era only an answer ends a stream."""
        if message.method != CANCELLED:
            return
        cancelled = jsonrpc.id_or_none(message.params.get("requestId"))
        if cancelled in self._unanswered:
            error = RpcError(jsonrpc.REQUEST_CANCELLED, "Request cancelled")
            self._streams.write(Envelope(error, cancelled, about=cancelled))

    def _refused(self, error: RpcError, id_: Id | None = None) -> Response:
        return responses.error_response(error, HTTPStatus.BAD_REQUEST, id_, self._headers)

    def _accepted(self, status: HTTPStatus) -> Response:
        return Response(status_code=status, headers=self._headers)

    # -- overrides of PeerEndpoint

    def adjourn(self, request: Id) -> None:
        self._streams.adjourn(request)

    def request(
        self, method: str, params: dict[str, Raw], line: OpenRequest, meta: dict[str, Raw] | None = None
    ) -> Awaitable[Raw]:
        try:
            return super().request(method, params, line, meta)
        except RpcError:
            if not self.is_greeted:
                self.abandon()  # after a failed initialize the client starts a new session
            raise

    async def _greeted(self, work: Awaitable[Raw]) -> Raw:
        try:
            return await super()._greeted(work)
        except BaseException:
            self.abandon()  # also if the client disconnected: no other request would end the session
            raise

    def _question_dropped(self, question: Id) -> None:
        """Fail a question that the client did not fetch in time."""
        if isinstance(question, int):
            self._peer.fail(question, InputUnavailable("the client has no stream open for questions outside of calls"))

    # -- life cycle

    @property
    def is_greeted(self) -> bool:
        return self._callers.handshake is not None

    async def _run(self) -> None:
        try:
            await self._end_requested.wait()
        finally:
            self.is_open = False
            self._close()
            await self._workbench.leave(self._callers.audience)

    def abandon(self) -> None:
        """Start to end the session, without waiting."""
        self.is_open = False
        self._end_requested.set()

    async def drain(self, seconds: float) -> None:
        """Give running requests a short time to finish."""
        self._session.end_subscriptions()
        if serving := self._peer.serving:
            await asyncio.wait(serving, timeout=seconds)

    async def end(self) -> None:
        """End the session and everything that was started for it."""
        self.abandon()
        await asyncio.wait((self.ended,))

    def _close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._peer.close(ShuttingDown("The session has ended"))
        self._session.close()
        self._streams.close()
        if self._streams.unread_bytes:
            self._streams.hand_over(self._workbench.budget.open(self.account.label, self._open.disconnect))
        self.account.end()

    # -- idle sessions

    @property
    def idle_seconds(self) -> float:
        """Seconds since its last use; 0 during a request or a call, whose client may reconnect."""
        return 0.0 if self._requests or self._peer.serving else self._loop.time() - self._idle_since

    def _expire(self) -> None:
        if (left := self._limits.http_idle_seconds - self.idle_seconds) > 0:
            self._idle = self._loop.call_later(left, self._expire)
        else:
            logger.info("ending an idle session", owner=self.owner)
            self.abandon()


def _version(message: Message, request: HttpRequest) -> str | None:
    """The protocol version in the header of a request or in `initialize`."""
    if message.method == "initialize":
        return jsonrpc.text_or_none(message.params.get("protocolVersion"))
    return request.headers.get("mcp-protocol-version")


class Sessions:
    """The handshake sessions of all clients."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._all: dict[str, HttpSession] = {}
        self._loop = asyncio.get_running_loop()
        self._trimming: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    def find(self, session_id: str, view: View, owner: str) -> HttpSession:
        """The session, if it belongs to this owner and endpoint. Raises `SessionNotFound`."""
        session = self._all.get(session_id)
        if session is None or not session.is_open or session.owner != owner or session.view != view:
            raise SessionNotFound
        return session

    def begin(self, view: View, owner: str) -> HttpSession:
        """Start a session. Ends the owner's longest idle one if there are too many. Raises `Overloaded`."""
        limits = self._workbench.limits
        open_sessions = [session for session in self._all.values() if session.is_open]
        own = [session for session in open_sessions if session.owner == owner]
        if len(own) >= limits.http_owner_sessions or len(open_sessions) >= limits.http_sessions:
            longest = max(own, key=lambda session: session.idle_seconds, default=None)
            if longest is None or longest.idle_seconds < limits.http_left_seconds:
                raise Overloaded(
                    f"{len(own)} sessions are open with this token, {len(open_sessions)} in all",
                    hint="End a session with DELETE, or wait until one has been idle long enough to be replaced.",
                )
            logger.info("ending an idle session to make room for a new one", owner=owner)
            longest.abandon()
        session = HttpSession(self._workbench, view, owner)
        self._all[session.id] = session
        session.ended.add_done_callback(lambda _: self._forget(session.id))
        return session

    def _forget(self, session: str) -> None:
        self._all.pop(session, None)
        if self._trimming is None:
            self._trimming = self._loop.call_later(HTTP_TRIM_SECONDS, self._trim)

    def _trim(self) -> None:
        """Return the memory of sessions that ended to the system."""
        self._trimming = None
        trim()

    async def close(self, drain_seconds: float) -> None:
        """End all sessions, after a short time for running requests to finish."""
        if self._trimming is not None:
            self._trimming.cancel()
        sessions = tuple(self._all.values())
        await asyncio.gather(*(session.drain(drain_seconds) for session in sessions))
        await asyncio.gather(*(session.end() for session in sessions))
