"""Streams of events: where one stopped, when it is asked for again, and the one that belongs to no request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import httpx2

from mcp_workbench import logger
from mcp_workbench.errors import Fault, MessageTooLarge
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http import headers
from mcp_workbench.servers.http.bodies import EVENTS, events_in, kind_of, one_line
from mcp_workbench.servers.http.client import Client
from mcp_workbench.servers.http.refusals import GONE, SERVER_ERROR, TOO_MANY, by_status, expired
from mcp_workbench.servers.http.session import EVENT_ID_LENGTH, Session
from mcp_workbench.servers.subscriptions import RESUME_MOST_SECONDS
from mcp_workbench.wire.memory_budget import Account

_MILLISECONDS: Final = 1000
BREAKS: Final = frozenset({"reset", "truncated", "timeout", "refused"})
"""Kinds of `ServerUnavailable` after which a stream may go on elsewhere."""


class Tail:
    """Where a stream of events stopped."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.last_id = ""
        self._pause = limits.resume_seconds

    def note(self, event: httpx2.ServerSentEvent) -> bytes | None:
        """Take note of an event; the message in it, if it holds one."""
        if event.id and len(event.id) <= EVENT_ID_LENGTH and event.id.isprintable():
            self.last_id = event.id
        if event.retry is not None and event.retry >= 0:
            self._pause = min(event.retry / _MILLISECONDS, RESUME_MOST_SECONDS)
        return one_line(event.data.encode()) if event.event == "message" and event.data else None

    @property
    def pause(self) -> float:
        """Seconds after which the server wants to be asked for the rest."""
        return self._pause

    def headers(self) -> dict[str, str]:
        return {"accept": EVENTS} | ({headers.LAST_EVENT: self.last_id} if self.last_id else {})


class Listening:
    """The stream of what a handshake server says by itself: opened once, and again when it breaks off."""

    def __init__(
        self,
        client: Client,
        session: Session,
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
        self._tail = Tail(limits)
        self._was_open = False
        self._pause = limits.resume_seconds

    async def run(self) -> None:
        """Until the server does not offer it, or its session is over. Raises nothing."""
        while True:
            try:
                if not await self._once():
                    return
            except MessageTooLarge as fault:
                logger.warning("a server sent a message that is too large", server=self._label, reason=str(fault))
                self._tail = Tail(self._limits)  # asking for the rest would bring the same again
            except Fault as fault:
                logger.debug("a server's stream broke off", server=self._label, reason=str(fault))
            except Exception as error:  # noqa: BLE001 -- a defect of ours must not end it unnoticed
                logger.error("a stream failed inside the workbench", server=self._label, error=repr(error))
            await asyncio.sleep(max(self._pause, self._tail.pause))
            self._pause = min(self._pause * 2, RESUME_MOST_SECONDS)

    async def _once(self) -> bool:
        """One stream to its end; False where there will be no other. Raises the `Fault` that broke it."""
        asked = self._session.headers() | self._tail.headers()
        async with self._client.exchange("GET", asked) as response:
            if response.status_code == GONE and self._was_open:
                self._end(expired())
                return False
            if response.status_code == TOO_MANY or response.status_code >= SERVER_ERROR:
                raise by_status(response, "")
            if not response.is_success or kind_of(response) != EVENTS:
                logger.debug("a server has no stream of its own", server=self._label, status=response.status_code)
                return False
            self._was_open = True
            await self._follow(response)
        return True

    async def _follow(self, response: httpx2.Response) -> None:
        seen = events_in(response, self._limits, self._client.share, self._account)
        async with contextlib.aclosing(seen) as events:
            async for event in events:
                self._pause = self._limits.resume_seconds
                if (message := self._tail.note(event)) is not None:
                    self._receive(message)
