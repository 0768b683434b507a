"""Handshake sessions over HTTP: each is one client, as on stdio, whose messages come and go on many requests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable
from http import HTTPStatus

from msgspec import Raw
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcp_workbench import observe
from mcp_workbench.errors import Fault, InputUnavailable, Overloaded, ShuttingDown
from mcp_workbench.serve.front import PeerFront
from mcp_workbench.serve.greeting import new_callers
from mcp_workbench.serve.http import sdk
from mcp_workbench.serve.http.asked import Asked, asked, is_usual
from mcp_workbench.serve.http.bodies import BODY, one_line
from mcp_workbench.serve.http.protocol import WIRE
from mcp_workbench.serve.http.written import StreamWriter
from mcp_workbench.surfaces.hello import View
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.batch import first_request, is_batch
from mcp_workbench.wire.exchange import Line
from mcp_workbench.wire.jsonrpc import Id, RpcError
from mcp_workbench.workbench import Workbench


def taken() -> RpcError:
    """The error for a request whose id is already in use."""
    return RpcError(jsonrpc.INVALID_REQUEST, "A request with this id is still being answered")


class HttpSession(PeerFront):
    """One client of the handshake era."""

    def __init__(self, workbench: Workbench, view: View, owner: str) -> None:
        limits = workbench.limits
        self.id = secrets.token_hex(limits.http_session_bytes)
        self.view = view
        self.owner = owner
        self._limits = limits
        self._unanswered: dict[str, Id] = {}
        """Requests whose stream is still owed an answer, by what the transport takes for their id."""
        self._coming: set[str] = set()
        """The same for requests that wait until they are taken."""
        self._reading: Id | None = None
        self._transport = sdk.Transport(self.id, limits)
        self._writer = StreamWriter(limits, self._transport, self._answered, self._unsaid)
        super().__init__(workbench, new_callers(view, owner), view, self._writer)
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._idle: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._open = asyncio.Event()
        self._is_ending = False
        self._life = self._loop.create_task(self._live())
        self.over: asyncio.Task[None] = self._life

    # -- requests

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request of the client."""
        await self._open.wait()
        self._requests += 1
        self._stay()
        listener = self._loop.create_task(self._until_listening()) if scope["method"] == "GET" else None
        try:
            request = asked(scope) if scope["method"] == "POST" else None
            if request is None and scope["method"] == "POST" and is_batch(scope[BODY]) and is_usual(scope):
                request = self._batched(one_line(scope[BODY]))
            if isinstance(request, Response):
                await request(scope, receive, send)
            elif request is None or not await self._reply(request, send, scope["state"][WIRE].lost):
                await self._transport.handle_request(scope, receive, send)
        finally:
            if listener is not None:
                listener.cancel()
            self._is_ending = self._is_ending or self._transport.is_terminated  # by DELETE
            self._requests -= 1
            self._rest()

    async def _reply(self, request: Asked, send: Send, lost: asyncio.Future[None]) -> bool:
        """Answer a request until its connection is lost; False where the session ended before it was taken."""
        if self._writer.congested and not await self._turn(str(request.id)):
            return False
        reply = self._transport.open_reply(request, self._writer.sent)

        def leave(_: object = None) -> None:
            self._transport.close_reply(request, reply)

        lost.add_done_callback(leave)
        try:
            # A batch gets an answer for each of its requests, even for a cancelled one.
            self._take(sdk.Incoming(request.line, None if request.is_batch else request.id))
            await reply.run(send)
        finally:
            lost.remove_done_callback(leave)
            leave()
        return True

    def _batched(self, line: bytes) -> Asked | Response:
        """A batch as one request with one response stream; or the response to a batch without requests."""
        try:
            batch = self.read_batch(line)
        except RpcError as error:
            return _bad_request(error)
        first = first_request(batch)
        if first is not None:
            return Asked(first, line, None, is_batch=True) if not self.is_taken(first) else _bad_request(taken())
        for part in batch:
            if isinstance(part, RpcError):
                return _bad_request(part)
        self._peer.receive_batch(batch)
        return Response(status_code=HTTPStatus.ACCEPTED)

    async def _turn(self, key: str) -> bool:
        """Wait until the client reads what it was sent; whether its session goes on then."""
        self._coming.add(key)
        try:
            await self._writer.drained()
        finally:
            self._coming.discard(key)
        return self.is_open

    def is_taken(self, request: Id) -> bool:
        """Whether a request with this id is being answered."""
        key = str(request)
        return key in self._unanswered or key in self._coming or self._transport.is_taken(request)

    @property
    def is_open(self) -> bool:
        """Whether it takes requests."""
        return not (self._is_ending or self._life.done())

    @property
    def is_greeted(self) -> bool:
        return self._callers.is_greeted

    async def _until_listening(self) -> None:
        while not self._transport.is_listening:  # noqa: ASYNC110 -- the SDK has no event for it
            await asyncio.sleep(self._limits.http_listen_poll_seconds)
        self._writer.listening()

    # -- Handler of the client's Peer, where it differs

    def adjourn(self, request: Id) -> None:
        self._transport.adjourn(request)

    def request(self, method: str, params: Raw, line: Line) -> Awaitable[Raw]:
        try:
            return super().request(method, params, line)
        except RpcError:
            self._is_ending = self._is_ending or not self.is_greeted  # whose greeting is refused must begin anew
            raise

    async def _greeted(self, work: Awaitable[Raw]) -> Raw:
        try:
            return await super()._greeted(work)
        except BaseException:
            self._is_ending = True
            raise

    def refuse(self, line: bytes, error: RpcError) -> None:
        if self._reading is None:
            super().refuse(line, error)
        else:  # the transport could read it, and keeps its stream open for the answer
            self._writer.write(jsonrpc.error_line(self._reading, error), self._reading)

    # -- its life

    async def _live(self) -> None:
        """Take in the client's messages until the session ends."""
        try:
            async with self._transport.streams() as (reading, writing):
                pump = self._loop.create_task(self._writer.pump(writing))
                self._open.set()
                try:
                    while (message := await sdk.incoming(reading)) is not None:
                        self._take(message)
                        await self._writer.drained()
                finally:
                    pump.cancel()
        finally:
            self._open.set()
            self._close(ShuttingDown("The session is over"))
            await self._workbench.leave(self._callers.audience)

    def _take(self, message: sdk.Incoming) -> None:
        self._reading = message.request
        if message.request is not None:
            self._unanswered[str(message.request)] = message.request
        self._peer.receive(message.line)
        if message.cancels is not None and self._unanswered.get(str(message.cancels)) == message.cancels:
            error = RpcError(jsonrpc.REQUEST_CANCELLED, "Request cancelled")
            self._writer.write(jsonrpc.error_line(message.cancels, error), message.cancels)

    def _answered(self, about: Id) -> None:
        self._unanswered.pop(str(about), None)

    def _unsaid(self, line: bytes) -> None:
        """A message that nobody came for is given up; if it was a question, whoever asked is told."""
        message = jsonrpc.read(line)
        if isinstance(message.id, int):
            self._peer.fail(message.id, InputUnavailable("its client listens to no questions outside of its calls"))

    def abandon(self) -> None:
        """End it, without waiting for that."""
        self._is_ending = True
        self._life.cancel()

    async def drain(self, seconds: float) -> None:
        """Let what is under way end by itself, for a moment."""
        self._session.end_subscriptions()
        if serving := self._peer.serving:
            await asyncio.wait(serving, timeout=seconds)

    async def end(self) -> None:
        """End the session, and all that was started for it."""
        self._is_ending = True
        self._close(ShuttingDown("The session is over"))
        await self._transport.terminate()
        await asyncio.wait((self._life,))

    def _close(self, fault: Fault) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._peer.close(fault)
        self._session.close()
        self._writer.close()

    # -- a session that nobody uses

    def _stay(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    @property
    def idle_seconds(self) -> float:
        """For how long nobody has used it; 0 while somebody does."""
        is_idle = self._idle is not None and not self._peer.serving
        return self._loop.time() - self._idle_since if is_idle else 0.0

    def _rest(self) -> None:
        if not self._requests and not self._life.done():
            self._stay()
            self._idle_since = self._loop.time()
            self._idle = self._loop.call_later(self._limits.http_idle_seconds, self._expire)

    def _expire(self) -> None:
        if self._peer.serving:  # a call goes on, though its client hung up; it may come back for the answer
            self._rest()
        else:
            observe.info("a session was idle and is over", owner=self.owner)
            self.abandon()


def _bad_request(error: RpcError) -> Response:
    return Response(jsonrpc.error_line(None, error), HTTPStatus.BAD_REQUEST, None, "application/json")


class Sessions:
    """All handshake sessions."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._all: dict[str, HttpSession] = {}

    def __len__(self) -> int:
        return len(self._all)

    def find(self, session: str, view: View, owner: str) -> HttpSession | None:
        """The session, if it is this owner's and of this endpoint; to others it does not exist."""
        found = self._all.get(session)
        is_theirs = found is not None and found.is_open and found.owner == owner and found.view == view
        return found if is_theirs else None

    def begin(self, view: View, owner: str) -> HttpSession:
        """A new session. Raises `Overloaded`."""
        limits = self._workbench.limits
        every = [session for session in self._all.values() if session.is_open]
        own = [session for session in every if session.owner == owner]
        if len(own) >= limits.http_owner_sessions or len(every) >= limits.http_sessions:
            longest = max(own, key=lambda session: session.idle_seconds, default=None)
            if longest is None or longest.idle_seconds < limits.http_left_seconds:
                raise Overloaded(
                    f"{len(own)} sessions are open with this token, {len(every)} in all",
                    hint="End one (DELETE), or wait until one was idle for long enough.",
                )
            observe.info("a session was left and is over, since another begins", owner=owner)
            longest.abandon()
        session = HttpSession(self._workbench, view, owner)
        self._all[session.id] = session
        session.over.add_done_callback(lambda _: self._all.pop(session.id, None))
        return session

    async def close(self, drain_seconds: float) -> None:
        """End all of them; what is under way may end by itself, for a moment."""
        sessions = tuple(self._all.values())
        await asyncio.gather(*(session.drain(drain_seconds) for session in sessions))
        await asyncio.gather(*(session.end() for session in sessions))
