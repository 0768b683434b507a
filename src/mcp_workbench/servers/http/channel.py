"""Channels to remote servers: streamable HTTP in both eras, and the 2024 transport, HTTP with SSE.

Guarantees: an error status, a broken connection or an oversized or unreadable message fails only its own request. The
end of a session ends the channel, and a request that was refused for it may be repeated. `close` leaves no task and no
socket.

The 2024 transport has one stream for all messages of the server, and an address for ours. A request is answered on the
stream, so the end of the stream is the end of the channel. Importing this module loads the HTTP library.
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
from mcp_workbench.servers.http.client import HttpClient, is_within, tls_context
from mcp_workbench.servers.http.login import auth_for
from mcp_workbench.servers.http.post_writer import GOODBYE_SECONDS, Outbox, Owner, Post
from mcp_workbench.servers.http.request_headers import ServerSession
from mcp_workbench.servers.http.response_body import EVENTS, JSON, events_in, kind_of, one_line
from mcp_workbench.servers.http.status_errors import fault_for_status, not_mcp
from mcp_workbench.servers.http.streamable_http import ListenStream, StreamableHttpOutbox
from mcp_workbench.servers.peer_channel import Inbox, PeeredChannel, violation
from mcp_workbench.wire.jsonrpc import ErrorBody, Unreadable
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.peer import Peer


class RemoteInbox(Inbox):
    """An inbox for messages that each come on the response of their own request, which alone fails with them."""

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        if not self.peer.fail_request(line, lambda: violation(problem)):
            logger.debug("a remote server sent something that is not a message", server=self._label)

    def complaint(self, error: ErrorBody) -> None:
        """Ignore it: the error belongs to one request, and fails that request."""


class RemoteChannel(PeeredChannel):
    """A `Channel` over HTTP."""

    def __init__(
        self, client: HttpClient, label: ServerIdentifier, limits: Limits, account: Account | None = None
    ) -> None:
        """`account` is the memory account of the client."""
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

    # -- what differs between the transports

    @abstractmethod
    def _make_outbox(self) -> Outbox: ...

    def greeted(self) -> None:
        """The handshake is complete."""

    async def _say_goodbye(self) -> None:
        """End the session at the server. Raises the `Fault` that prevents it."""

    # -- Channel

    async def _close(self) -> None:
        self.end(ShuttingDown("the connection was closed"))
        await self._outbox.wait_stopped()
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
    """Streamable HTTP. It does not contact the server before the first request."""

    def _make_outbox(self) -> Outbox:
        self._session = ServerSession()
        return StreamableHttpOutbox(self, self._client, self._session, self._label, self._limits, account=self._account)

    def greeted(self) -> None:
        """Open the stream for messages that answer no request."""
        if self._stream is None and not self.ended.done():
            listening = ListenStream(
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
    """Posts messages to the address that the server announced on its stream."""

    def __init__(self, owner: Owner, client: HttpClient, label: ServerIdentifier, limits: Limits) -> None:
        super().__init__(owner, label, limits)
        self._client = client
        self.address: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()

    async def _exchange(self, post: Post) -> None:
        await self._post(post.line, post.method)

    async def _send_notice(self, line: bytes) -> None:
        await self._post(line, "")

    async def _post(self, line: bytes, method: str) -> None:
        url = await asyncio.shield(self.address)
        async with self._client.exchange("POST", {"content-type": JSON}, line, url=url) as response:
            if not response.is_success:
                raise fault_for_status(response, method)


class SseChannel(RemoteChannel):
    """HTTP with SSE. It opens the stream at once, and every message waits for its first event."""

    _outbox: SseOutbox

    def __init__(
        self, client: HttpClient, label: ServerIdentifier, limits: Limits, account: Account | None = None
    ) -> None:
        super().__init__(client, label, limits, account)
        self._stream = self._loop.create_task(self._run())

    def _make_outbox(self) -> SseOutbox:
        return SseOutbox(self, self._client, self._label, self._limits)

    async def _run(self) -> None:
        """Read the stream to its end, and then end the channel. Raises nothing."""
        try:
            await self._once()
            fault: Fault = ServerUnavailable("its stream ended", kind="reset", hint="The next call opens it again.")
        except Fault as problem:
            fault = problem
        except Exception as error:  # noqa: BLE001 -- a bug of ours must not leave every call waiting
            logger.error("a stream failed inside the workbench", server=self._label, error=repr(error))
            fault = ServerUnavailable("the workbench could not read its stream", kind="internal")
        self.end(fault)

    async def _once(self) -> None:
        """Read the stream to its end. Raises the `Fault` that breaks it."""
        async with self._client.exchange("GET", {"accept": EVENTS}) as response:
            if not response.is_success:
                raise fault_for_status(response, "initialize")
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
        """The absolute address for our messages. Raises `ProtocolViolation` if it belongs to another server."""
        try:
            url = self._client.url.join(named.strip())
        except httpx2.InvalidURL:
            raise ProtocolViolation("the address that it announces for messages is not valid") from None
        if not is_within(url, self._client.url):
            raise ProtocolViolation(
                "it announces another server's address for messages, which the workbench does not use"
            )
        return url


tls_context()  # read the certificates now, in the thread that imports this: it takes as long as loading the library


async def open_remote(
    server: ServerConfig, endpoint: Endpoint, limits: Limits, account: Account | None = None
) -> Channel:
    """Open a channel to a remote server. Raises the `Fault` that prevents it."""
    label = server.identifier
    client = HttpClient(endpoint, limits, auth=auth_for(server, limits))
    if endpoint.transport == "sse":
        return SseChannel(client, label, limits, account)
    return HttpChannel(client, label, limits, account)
