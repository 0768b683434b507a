"""What every channel has whose messages go through a `Peer`, whatever carries them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from mcp_workbench.errors import Fault, Overloaded
from mcp_workbench.servers.base import Inbound
from mcp_workbench.servers.inbox import Inbox
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.peer import Peer


class PeeredChannel(ABC):
    """The part of a `Channel` that is the same on every wire."""

    def __init__(self, peer: Peer, inbox: Inbox, account: Account) -> None:
        """`account` counts what the server makes the process hold."""
        self._account = account
        self._silence: AbstractContextManager[None] | None = None
        self.peer = inbox.peer = peer
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[Fault] = self._loop.create_future()
        account.close = self._close_for_memory

    def _throttle(self, paused: bool) -> None:  # noqa: FBT001 -- a callback's state
        """While the client does not read, the server is not read either: its silence is not its own."""
        if paused and self._silence is None:
            self._silence = self.peer.held()
            self._silence.__enter__()
        elif not paused and self._silence is not None:
            self._silence.__exit__(None, None, None)
            self._silence = None

    def _close_for_memory(self) -> None:
        fault = Overloaded("its messages took too much memory", hint="Ask for less at once, or set a larger maxMemory.")
        self.end(fault.copy_with(counts=False))  # the server may be in good health

    @abstractmethod
    async def _close(self) -> None:
        """End it and everything that belongs to it."""

    @abstractmethod
    def last_words(self) -> str: ...

    @property
    def noise(self) -> str:
        return self._inbox.noise

    def listen(self, inbound: Inbound) -> None:
        self._inbox.inbound = inbound

    def give_up(self, fault: Fault) -> None:
        self.end(fault)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
            self._closing.add_done_callback(lambda _: self._account.end())
        await asyncio.shield(self._closing)

    def end(self, fault: Fault) -> None:
        """It is of no more use: everything on it fails."""
        self.peer.close(fault)
        self._account.unwatch(self._throttle)
        if not self.ended.done():
            self.ended.set_result(fault)
            self._inbox.notices.report()
