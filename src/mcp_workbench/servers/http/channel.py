"""A remote server: the part of its channel that is the same for all transports, and streamable HTTP in either era.

Guarantees: what one request meets, be it a status, a broken connection or a message that is too large, fails that
request alone; the end of a session ends the channel, and a request that was refused for it may be made again;
`close` leaves no task and no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod

from mcp_workbench import logger
from mcp_workbench.errors import Fault, ShuttingDown
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.client import Client
from mcp_workbench.servers.http.inbox import RemoteInbox
from mcp_workbench.servers.http.outbox import GOODBYE_SECONDS, Outbox
from mcp_workbench.servers.http.posting import Posting
from mcp_workbench.servers.http.session import Session
from mcp_workbench.servers.http.streams import Listening
from mcp_workbench.servers.peered import PeeredChannel
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.peer import Peer


class RemoteChannel(PeeredChannel):
    """A `Channel` over HTTP."""

    def __init__(self, client: Client, label: ServerIdentifier, limits: Limits, account: Account | None = None) -> None:
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
        seconds = GOODBYE_SECONDS
        await self._outbox.stopped()
        if self._stream is not None:
            await asyncio.wait((self._stream,), timeout=seconds)
        try:
            async with asyncio.timeout(seconds):
                await self._say_goodbye()
        except (Fault, TimeoutError) as error:
            logger.debug("a session was left to end by itself", server=self._label, reason=str(error))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._client.close()

    def end(self, fault: Fault) -> None:
        super().end(fault)
        self._outbox.stop()
        if self._stream is not None:
            self._stream.cancel()


class HttpChannel(RemoteChannel):
    """Streamable HTTP. Nothing is contacted before the first request."""

    def __init__(self, client: Client, label: ServerIdentifier, limits: Limits, account: Account | None = None) -> None:
        self._session = Session()
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
