"""Handshake sessions over HTTP: each is one client, as on stdio, whose messages come and go on many requests."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec import Raw
from starlette.types import Receive, Scope, Send

from mcp_workbench import observe
from mcp_workbench.errors import Fault, InputUnavailable, Overloaded, ShuttingDown
from mcp_workbench.limits import Limits
from mcp_workbench.serve.front import PeerFront, refusal
from mcp_workbench.serve.greeting import new_callers
from mcp_workbench.serve.http import sdk
from mcp_workbench.surfaces.hello import View
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Line
from mcp_workbench.wire.jsonrpc import Id, RpcError, Unreadable
from mcp_workbench.workbench import Workbench

REQUEST_CANCELLED = -32800
"""What ends the stream of a cancelled request, as by the SDK: in this era only an answer does."""


class StreamWriter:
    """Carries messages to the SDK's transport, in order and within bounds.

    What belongs to no request waits while the client has no stream open for it.
    """

    def __init__(self, limits: Limits, on_answer: Callable[[Id], None], on_dropped: Callable[[bytes], None]) -> None:
        self._limits = limits
        self._on_answer = on_answer
        self._on_dropped = on_dropped
        self._queue: deque[tuple[bytes, Id | None]] = deque()
        self._held: deque[bytes] = deque()
        self._bytes = self._held_bytes = 0
        self._ready = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self.is_closed = False

    @property
    def congested(self) -> bool:
        return not self._drained.is_set()

    async def drained(self) -> None:
        await self._drained.wait()

    def write(self, line: bytes, about: Id | None = None) -> None:
        if self.is_closed:
            return
        if about is not None and sdk.is_answer(line, about):
            self._on_answer(about)
        self._queue.append((line, about))
        self._bytes += len(line)
        if self._bytes > self._limits.write_buffer_bytes:
            self._drained.clear()
        self._ready.set()

    async def pump(self, writing: sdk.Writing, transport: sdk.Transport) -> None:
        """Hand over what is written, as fast as the client reads."""
        while True:
            await self._ready.wait()
            if self._held and transport.is_listening:
                self._release()
            while self._queue:
                line, about = self._queue.popleft()
                if about is None and not transport.is_listening:
                    self._hold(line)
                else:
                    await writing.send(sdk.outgoing(line, about))
                self._bytes -= len(line)
                if self._bytes <= self._limits.write_buffer_bytes:
                    self._drained.set()
            self._ready.clear()

    def listening(self) -> None:
        """The client opened the stream for what belongs to no request."""
        self._ready.set()

    def close(self) -> None:
        self.is_closed = True
        self._drained.set()

    @property
    def is_empty(self) -> bool:
        """Whether all that was written for a request was handed over."""
        return not self._queue

    def _hold(self, line: bytes) -> None:
        self._held.append(line)
        self._held_bytes += len(line)
        while len(self._held) > self._limits.http_held or self._held_bytes > self._limits.http_event_bytes:
            dropped = self._held.popleft()
            self._held_bytes -= len(dropped)
            self._on_dropped(dropped)

    def _release(self) -> None:
        self._queue.extendleft((line, None) for line in reversed(self._held))
        self._bytes += self._held_bytes
        self._held.clear()
        self._held_bytes = 0


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
        self._reading: Id | None = None
        self._writer = StreamWriter(limits, self._answered, self._unsaid)
        super().__init__(workbench, new_callers(view, owner), view, self._writer)
        self._transport = sdk.Transport(self.id, limits)
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._idle: asyncio.TimerHandle | None = None
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
            await self._transport.handle_request(scope, receive, send)
        finally:
            if listener is not None:
                listener.cancel()
            self._is_ending = self._is_ending or self._transport.is_terminated  # by DELETE
            self._requests -= 1
            self._rest()

    def is_taken(self, request: Id) -> bool:
        """Whether a request with this id is being answered."""
        return str(request) in self._unanswered or self._transport.is_taken(request)

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

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        if self._reading is None:
            super().unreadable(line, problem)
        else:  # the transport could read it, and keeps its stream open for the answer
            self._writer.write(jsonrpc.error_line(self._reading, refusal(problem)), self._reading)

    # -- its life

    async def _live(self) -> None:
        """Take in the client's messages until the session ends."""
        try:
            async with self._transport.streams() as (reading, writing):
                pump = self._loop.create_task(self._writer.pump(writing, self._transport))
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
            error = RpcError(REQUEST_CANCELLED, "Request cancelled")
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

    def _rest(self) -> None:
        if not self._requests and not self._life.done():
            self._stay()
            self._idle = self._loop.call_later(self._limits.http_idle_seconds, self._expire)

    def _expire(self) -> None:
        if self._peer.serving:  # a call goes on, though its client hung up; it may come back for the answer
            self._rest()
        else:
            observe.info("a session was idle and is over", owner=self.owner)
            self.abandon()


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
        own = sum(session.owner == owner for session in self._all.values())
        if own >= limits.http_owner_sessions or len(self._all) >= limits.http_sessions:
            raise Overloaded(
                f"{own} sessions are open with this token, {len(self._all)} in all",
                hint="End one (DELETE), or wait until one was idle for long enough.",
            )
        session = HttpSession(self._workbench, view, owner)
        self._all[session.id] = session
        session.over.add_done_callback(lambda _: self._all.pop(session.id, None))
        return session

    async def close(self, drain_seconds: float) -> None:
        """End all of them; what is under way may end by itself, for a moment."""
        sessions = tuple(self._all.values())
        await asyncio.gather(*(session.drain(drain_seconds) for session in sessions))
        await asyncio.gather(*(session.end() for session in sessions))
