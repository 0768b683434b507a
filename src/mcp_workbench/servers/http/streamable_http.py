"""Streamable HTTP: sends each message as a POST, passes the response to the peer, and resumes broken streams.

The response to a request holds its answer, and the messages that the server sends before the answer. When nobody waits
for the answer any more, the response is closed; a modern server takes that as a cancellation. If a response breaks off,
the rest is requested, provided that the server numbered its events. `ListenStream` keeps the one stream that belongs to
no request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import httpx2
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import Fault, MessageTooLarge, ProtocolViolation, ServerRefused, ServerUnavailable
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http import request_headers
from mcp_workbench.servers.http.client import STREAM_END_SECONDS, HttpClient
from mcp_workbench.servers.http.post_writer import Outbox, Owner, Post
from mcp_workbench.servers.http.request_headers import EVENT_ID_LENGTH, ServerSession
from mcp_workbench.servers.http.response_body import EVENTS, JSON, events_in, kind_of, one_line, read_body, read_refusal
from mcp_workbench.servers.http.status_errors import (
    BUSY,
    GONE,
    SERVER_ERROR,
    TOO_MANY,
    UNAUTHORIZED,
    error_in,
    expired,
    fault_for_rpc_error,
    fault_for_status,
    is_expired,
    not_mcp,
    says_no_session,
)
from mcp_workbench.servers.peer_channel import violation
from mcp_workbench.servers.subscriptions import RESUME_MOST_SECONDS
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Id, Unreadable
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.param_headers import SentHeaders

_MILLISECONDS: Final = 1000
BREAKS: Final = frozenset({"reset", "truncated", "timeout", "refused"})
"""Kinds of `ServerUnavailable` after which a stream can be resumed."""


class StreamPosition:
    """The position where a stream of events stopped."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.last_id = ""
        self.pause = limits.resume_seconds
        """Seconds after which the server wants the client to reconnect."""

    def note(self, event: httpx2.ServerSentEvent) -> bytes | None:
        """Record the position after an event. Returns the message in it, if there is one."""
        if event.id and len(event.id) <= EVENT_ID_LENGTH and event.id.isprintable():
            self.last_id = event.id
        if event.retry is not None and event.retry >= 0:
            self.pause = min(event.retry / _MILLISECONDS, RESUME_MOST_SECONDS)
        return one_line(event.data.encode()) if event.event == "message" and event.data else None

    def headers(self) -> dict[str, str]:
        return {"accept": EVENTS} | ({request_headers.LAST_EVENT: self.last_id} if self.last_id else {})


class ListenStream:
    """Reads the stream on which a handshake server sends what answers no request, and reopens it when it breaks off."""

    def __init__(
        self,
        client: HttpClient,
        session: ServerSession,
        label: ServerIdentifier,
        limits: Limits,
        account: Account,
        *,
        receive: Callable[[bytes], None],
        end: Callable[[Fault], None],
    ) -> None:
        self._client = client
        self._session = session
        self._label = label
        self._limits = limits
        self._account = account
        self._receive = receive
        self._end = end
        self._position = StreamPosition(limits)
        self._was_open = False
        self._pause = limits.resume_seconds

    async def run(self) -> None:
        """Read the stream until the server does not offer it or the session ends. Raises nothing."""
        while True:
            try:
                if not await self._once():
                    return
            except MessageTooLarge as fault:
                logger.warning("a server sent a message that is too large", server=self._label, reason=str(fault))
                self._position = StreamPosition(self._limits)  # resuming would bring the same message again
            except Fault as fault:
                logger.debug("a server's stream broke off", server=self._label, reason=str(fault))
            except Exception as error:  # noqa: BLE001 -- a bug of ours must not end it unnoticed
                logger.error("a stream failed inside the workbench", server=self._label, error=repr(error))
            await asyncio.sleep(max(self._pause, self._position.pause))
            self._pause = min(self._pause * 2, RESUME_MOST_SECONDS)

    async def _once(self) -> bool:
        """Read one stream to its end. Returns whether to open another. Raises the `Fault` that broke it."""
        asked = self._session.headers() | self._position.headers()
        async with self._client.exchange("GET", asked) as response:
            if response.status_code == GONE and self._was_open:
                self._end(expired())
                return False
            if response.status_code == TOO_MANY or response.status_code >= SERVER_ERROR:
                raise fault_for_status(response, "")
            if not response.is_success or kind_of(response) != EVENTS:
                logger.debug(
                    "a server offers no stream for notifications", server=self._label, status=response.status_code
                )
                return False
            self._was_open = True
            await self._follow(response)
        return True

    async def _follow(self, response: httpx2.Response) -> None:
        source = events_in(response, self._limits, self._client.share, self._account)
        async with contextlib.aclosing(source) as events:
            async for event in events:
                self._pause = self._limits.resume_seconds
                if (message := self._position.note(event)) is not None:
                    self._receive(message)


RESUME_LEAST_SECONDS = 0.05
"""The shortest pause before an answer is resumed. It doubles while resuming brings nothing new."""
RESUMES = 3
"""How many attempts in a row to resume an answer may fail."""

_LIST: Final = "tools/list"


class StreamableHttpOutbox(Outbox):
    """The outbox of streamable HTTP."""

    def __init__(
        self,
        owner: Owner,
        client: HttpClient,
        session: ServerSession,
        label: ServerIdentifier,
        limits: Limits,
        *,
        account: Account,
    ) -> None:
        super().__init__(owner, label, limits)
        self._account = account
        self._client = client
        self._session = session
        self._mirrors = SentHeaders(label, limits)

    def _notifies_cancel(self, cancelled: Id) -> bool:
        """A modern server is not told: the end of the response tells it."""
        post = self._posts.get(cancelled)
        return post.version is None if post is not None else bool(self._session.version)

    async def _exchange(self, post: Post) -> None:
        """Send a request and pass all messages of its response to the peer. Raises the `Fault` that ends it."""
        tool = post.tool
        was_known = tool is None or self._mirrors.knows(tool)
        try:
            await self._once(post)
        except ServerRefused as refusal:
            if tool is None or was_known or refusal.rpc_code != jsonrpc.HEADER_MISMATCH:
                raise
            # A cached definition does not say which headers the tool requires. Its list does, once it has passed by.
            if not self._mirrors.knows(tool):
                await self._list_tools(post)
            if not self._mirrors.knows(tool):
                raise
            await self._once(post)

    async def _once(self, post: Post) -> None:
        position = StreamPosition(self._limits)
        try:
            async with self._client.exchange("POST", self._headers(post), post.line) as response:
                await self._answer(post, response, position)
        except ServerUnavailable as fault:
            if post.version is not None or not position.last_id or fault.kind not in BREAKS:
                raise
        if self.peer.is_waiting(post.id):
            await self._resume(post, position)

    def _headers(self, post: Post) -> dict[str, str]:
        sent = {"content-type": JSON, "accept": request_headers.ACCEPT}
        if post.version is None:
            return sent if post.method == "initialize" else sent | self._session.headers()
        sent |= request_headers.modern(post.method, post.params, post.version)
        tool = post.tool
        return sent | self._mirrors.headers(tool, post.params.get("arguments")) if tool is not None else sent

    async def _answer(self, post: Post, response: httpx2.Response, position: StreamPosition) -> None:
        if not response.is_success:
            raise await self._refusal(response, post.method, post.id, named=post.version is None)
        post.is_accepted = True
        if post.method == "initialize":
            self._session.begin(response)
        kind = kind_of(response)
        if kind == EVENTS:
            await self._follow(post, response, position)
            self._adjourned(post, position)
            if self.peer.is_waiting(post.id) and (post.version is not None or not position.last_id):
                raise ServerUnavailable("its stream ended without an answer", kind="truncated")
        elif kind == JSON:
            body = one_line(await read_body(response, self._limits, self._client.share, self._account))
            await self._deliver(post, body)
            if self.peer.is_waiting(post.id):
                raise _unanswered(body)
        else:
            raise not_mcp(kind)

    def _adjourned(self, post: Post, position: StreamPosition) -> None:
        """After a stream that can be resumed, let the waiting client disconnect and resume, too."""
        if position.last_id and post.version is None and isinstance(owner := self.peer.owner_of(post.id), Exchange):
            owner.adjourn()

    async def _follow(self, post: Post, response: httpx2.Response, position: StreamPosition) -> None:
        """Pass the events of a stream to the peer until the answer, then wait a moment for its end."""
        source = events_in(response, self._limits, self._client.share, self._account)
        async with contextlib.aclosing(source) as events:
            async for event in events:
                if (message := position.note(event)) is not None:
                    await self._deliver(post, message)
                    if post.answered:
                        break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STREAM_END_SECONDS):
                    async for event in events:
                        if (message := position.note(event)) is not None:
                            self.peer.receive(message, post.owner)

    async def _resume(self, post: Post, position: StreamPosition) -> None:
        """Resume a stream until it brings the answer. Raises the `Fault` that prevents it."""
        failures, least = 0, RESUME_LEAST_SECONDS
        while self.peer.is_waiting(post.id):
            await asyncio.sleep(max(position.pause, least))
            known = position.last_id
            try:
                asked = self._session.headers() | position.headers()
                async with self._client.exchange("GET", asked) as response:
                    if not response.is_success or kind_of(response) != EVENTS:
                        raise await self._refusal(response, post.method, post.id, named=True)
                    await self._follow(post, response, position)
                    self._adjourned(post, position)
                failures = 0
            except ServerUnavailable as fault:
                failures += 1
                if fault.kind not in BREAKS or failures > RESUMES:
                    raise
            # A server may deliver a long answer in many parts, but resuming in vain must slow down.
            fruitless = position.last_id == known
            least = min(least * 2, RESUME_MOST_SECONDS) if fruitless else RESUME_LEAST_SECONDS

    async def _deliver(self, post: Post, message: bytes) -> None:
        """Pass one message to the peer."""
        if post.method == "initialize":
            self._session.agree(message)
        elif post.method == _LIST and post.version is not None:
            large = len(message) > self._limits.list_inline_bytes
            message = await asyncio.to_thread(self._mirrors.learn, message) if large else self._mirrors.learn(message)
        self.peer.receive(message, post.owner)
        post.answered = not self.peer.is_waiting(post.id)

    async def _refusal(self, response: httpx2.Response, method: str, id_: Id | None, *, named: bool) -> Fault:
        """The fault for an error status. `named`: the request named a session."""
        status = response.status_code
        if status in UNAUTHORIZED or status in BUSY:
            return fault_for_status(response, method)
        message = error_in(await read_refusal(response, self._client.share))
        if named and self._session.id and says_no_session(message, status, id_):
            self._session.id = ""
            return expired()
        if message is None:
            return fault_for_status(response, method)
        self.peer.received_at = asyncio.get_running_loop().time()
        return fault_for_rpc_error(message)

    async def _list_tools(self, post: Post) -> None:
        """List a modern server's tools, to learn which headers they require."""
        meta = {key: value for key, value in post.params["_meta"].items() if key in eras.ENVELOPE}
        cursor: dict[str, Raw] = {}
        for _ in range(self._limits.list_pages):
            seconds = self._limits.list_page_timeout_seconds
            page = await self.peer.request(_LIST, {"_meta": meta, **cursor}, hard_seconds=seconds)
            after = jsonrpc.members(page).get("nextCursor")
            if after is None or not jsonrpc.is_text(after):
                return
            cursor = {"cursor": after}

    # -- notifications and answers

    async def _send_notice(self, line: bytes) -> None:
        """Send a notification or an answer. Raises the `Fault` if the server does not accept it."""
        sent = {"content-type": JSON, "accept": request_headers.ACCEPT} | self._session.headers()
        async with self._client.exchange("POST", sent, line) as response:
            if response.is_success:
                return
            fault = await self._refusal(response, "", None, named=True)
        if is_expired(fault):
            self._owner.end(fault)
        raise fault


def _unanswered(body: bytes) -> Fault:
    """The fault for a response that does not answer the request."""
    try:
        message = jsonrpc.read(body)
    except Unreadable as problem:
        return violation(problem)
    if message.method is None and jsonrpc.is_present(message.error):
        return fault_for_rpc_error(message)
    return ProtocolViolation("its response does not answer the request")
