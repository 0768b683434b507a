"""The transport of 2024: one stream for all that the server says, and an address for what it is told.

A request is answered on the stream, so the stream is the connection: its end is the end of the channel.
"""

from __future__ import annotations

import asyncio
import contextlib

import httpx2

from mcp_workbench import logger
from mcp_workbench.errors import Fault, ProtocolViolation, ServerUnavailable
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.bodies import EVENTS, JSON, events_in, kind_of, one_line
from mcp_workbench.servers.http.channel import RemoteChannel
from mcp_workbench.servers.http.client import Client, is_within
from mcp_workbench.servers.http.outbox import Outbox, Owner, Post
from mcp_workbench.servers.http.refusals import by_status, not_mcp
from mcp_workbench.wire.background import consume_exception
from mcp_workbench.wire.memory_budget import Account


class SseOutbox(Outbox):
    """Sends to the address that the server named on its stream."""

    def __init__(self, owner: Owner, client: Client, label: ServerIdentifier, limits: Limits) -> None:
        super().__init__(owner, label, limits)
        self._client = client
        self.address: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()
        self.address.add_done_callback(consume_exception)

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

    def __init__(self, client: Client, label: ServerIdentifier, limits: Limits, account: Account | None = None) -> None:
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
        seen = events_in(response, self._limits, self._client.share, self._account)
        async with contextlib.aclosing(seen) as events:
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
