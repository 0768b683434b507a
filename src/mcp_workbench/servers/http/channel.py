"""A remote server: the part of its channel that is the same for all transports, and streamable HTTP in either era.

Guarantees: what one request meets, be it a status, a broken connection or a message that is too large, fails that
request alone; the end of a session ends the channel, and a request that was refused for it may be made again;
`close` leaves no task and no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod

import httpx2

from mcp_workbench import logger
from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.errors import Fault, ProtocolViolation, ServerUnavailable, ShuttingDown
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.http.client import HttpClient, is_within, trusted
from mcp_workbench.servers.http.login import auth_for
from mcp_workbench.servers.http.post_writer import GOODBYE_SECONDS, Outbox, Owner, Post
from mcp_workbench.servers.http.request_headers import ServerSession
from mcp_workbench.servers.http.response_body import EVENTS, JSON, events_in, kind_of, one_line
from mcp_workbench.servers.http.status_errors import by_status, not_mcp
from mcp_workbench.servers.http.streamable_http import Listening, Posting
from mcp_workbench.servers.peer_channel import Inbox, PeeredChannel, violation
from mcp_workbench.wire.jsonrpc import ErrorBody, Unreadable
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.peer import Peer


class RemoteInbox(Inbox):
    """As on stdio, but each message came on a wire of its own, whose request fails by itself."""

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        if not self.peer.fail_request(line, lambda: violation(problem)):
            logger.debug("a remote server sent something that is no message", server=self._label)

    def complaint(self, error: ErrorBody) -> None:
        """It is about the request that it answers, and fails that."""


class RemoteChannel(PeeredChannel):
    """A `Channel` over HTTP."""

    def __init__(
        self, client: HttpClient, label: ServerIdentifier, limits: Limits, account: Account | None = None
    ) -> None:
        """`account` is the memory of the client that it works for."""
        account = self._account = (account or Account()).open(f"server {label}")
        self._client = client
        self._label = label
        self._limits = limits
        self._stream: asyncio.Task[None] | None = None
        outbox = self._outbox = self._make_outbox()
        inbox = RemoteInbox(label, limits, self.end, account)
        peer = Peer(
            outbox,
            inbox,
            answers_always=False,
            admit=inbox.admit,
            passes=inbox.notices.admits,
            over=outbox.over,
            share=client.share,
            account=account,
        )
        super().__init__(peer, inbox, account)
        account.watch(self._throttle)
        outbox.peer = self.peer

    # -- what each transport does in its own way

    @abstractmethod
    def _make_outbox(self) -> Outbox: ...

    def greeted(self) -> None:
        """The handshake is complete."""

    async def _say_goodbye(self) -> None:
        """Tell the server that this is the end. Raises the `Fault` that prevents it."""

    # -- Channel

    def last_words(self) -> str:
        return ""

    async def _close(self) -> None:
        self.end(ShuttingDown("the connection was closed"))
        await self._outbox.stopped()
        if self._stream is not None:
            await asyncio.wait((self._stream,), timeout=GOODBYE_SECONDS)
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._say_goodbye()
        except (Fault, TimeoutError) as error:
            logger.debug("a session was left to expire", server=self._label, reason=str(error))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._client.close()

    def end(self, fault: Fault) -> None:
        super().end(fault)
        self._outbox.stop()
        if self._stream is not None:
            self._stream.cancel()


class HttpChannel(RemoteChannel):
    """Streamable HTTP. Nothing is contacted before the first request."""

    def __init__(
        self, client: HttpClient, label: ServerIdentifier, limits: Limits, account: Account | None = None
    ) -> None:
        self._session = ServerSession()
        super().__init__(client, label, limits, account)

    def _make_outbox(self) -> Outbox:
        return Posting(self, self._client, self._session, self._label, self._limits, account=self._account)

    def greeted(self) -> None:
        """Hear what the server says by itself."""
        if self._stream is None and not self.ended.done():
            listening = Listening(
                self._client,
                self._session,
                self._label,
                self._limits,
                self._account,
                receive=self.peer.receive,
                end=self.end,
            )
            self._stream = self._loop.create_task(listening.run())

    async def _say_goodbye(self) -> None:
        if self._session.id:
            async with self._client.exchange("DELETE", self._session.headers()):
                pass


class SseOutbox(Outbox):
    """Sends to the address that the server named on its stream."""

    def __init__(self, owner: Owner, client: HttpClient, label: ServerIdentifier, limits: Limits) -> None:
        super().__init__(owner, label, limits)
        self._client = client
        self.address: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()

    async def _exchange(self, post: Post) -> None:
        await self._post(post.line, post.method)

    async def _tell(self, line: bytes) -> None:
        await self._post(line, "")

    async def _post(self, line: bytes, method: str) -> None:
        url = await asyncio.shield(self.address)
        async with self._client.exchange("POST", {"content-type": JSON}, line, url=url) as response:
            if not response.is_success:
                raise by_status(response, method)


class SseChannel(RemoteChannel):
    """HTTP with SSE. The stream is asked for at once, and everything waits for it."""

    _outbox: SseOutbox

    def __init__(
        self, client: HttpClient, label: ServerIdentifier, limits: Limits, account: Account | None = None
    ) -> None:
        super().__init__(client, label, limits, account)
        self._stream = self._loop.create_task(self._run())

    def _make_outbox(self) -> SseOutbox:
        return SseOutbox(self, self._client, self._label, self._limits)

    async def _run(self) -> None:
        """Follow the stream to its end, which ends the channel. Raises nothing."""
        try:
            await self._once()
            fault: Fault = ServerUnavailable("its stream ended", kind="reset", hint="The next call opens it again.")
        except Fault as problem:
            fault = problem
        except Exception as error:  # noqa: BLE001 -- a defect of ours must not leave every call waiting
            logger.error("a stream failed inside the workbench", server=self._label, error=repr(error))
            fault = ServerUnavailable("the workbench could not read its stream", kind="internal")
        self.end(fault)

    async def _once(self) -> None:
        """The stream to its end. Raises the `Fault` that breaks it."""
        async with self._client.exchange("GET", {"accept": EVENTS}) as response:
            if not response.is_success:
                raise by_status(response, "initialize")
            if kind_of(response) != EVENTS:
                raise not_mcp(kind_of(response))
            await self._follow(response)

    async def _follow(self, response: httpx2.Response) -> None:
        source = events_in(response, self._limits, self._client.share, self._account)
        async with contextlib.aclosing(source) as events:
            async for event in events:
                if event.event == "endpoint" and not self._outbox.address.done():
                    self._outbox.address.set_result(self._checked(event.data))
                elif event.event == "message" and event.data:
                    self.peer.receive(one_line(event.data.encode()))

    def _checked(self, named: str) -> httpx2.URL:
        """The address for what the server is told. Raises `ProtocolViolation` where it is another server's."""
        try:
            url = self._client.url.join(named.strip())
        except httpx2.InvalidURL:
            raise ProtocolViolation("the address that it names for messages is none") from None
        if not is_within(url, self._client.url):
            raise ProtocolViolation("it names another server for messages, which is not followed")
        return url


trusted()  # reading the certificates takes as long as loading the library


async def open_remote(
    server: ServerConfig, endpoint: Endpoint, limits: Limits, account: Account | None = None
) -> Channel:
    """A wire to a remote server. Raises the `Fault` that prevents it."""
    label = server.identifier
    client = HttpClient(endpoint, limits, auth=auth_for(server, limits))
    if endpoint.transport == "sse":
        return SseChannel(client, label, limits, account)
    return HttpChannel(client, label, limits, account)
