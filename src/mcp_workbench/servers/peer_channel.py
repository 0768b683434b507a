"""The part of a channel that is the same for every transport: incoming requests, notifications, noise, and closing.

`NoticeLimits` bounds how many notifications of one server reach its client: log messages, progress and unknown ones. A
dropped one costs no more than reading it. The log says when dropping begins and, at the end of the connection, how many
were dropped. Notifications that a client needs, such as changed lists and updates of its subscriptions, are never
dropped.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import Fault, Overloaded, ProtocolViolation
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Inbound
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.exchange import PROGRESS
from mcp_workbench.wire.fairness import RateLimit
from mcp_workbench.wire.jsonrpc import ErrorBody, RpcError, Unreadable
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.peer import Peer, PeerRequest

_UNLIMITED: Final = eras.KNOWN_NOTICES - {eras.LOGGED} | {eras.ACKNOWLEDGED}
_UNIT_BYTES: Final = 1024
"""This many bytes count as one more notification."""


class NoticeLimits:
    """The rate limits of one connection. Progress has its own, so that log messages can't use it up."""

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._label = label
        self._per_second = limits.notices_per_second
        self._progress = RateLimit(limits.notices_per_second, limits.notices_burst)
        self._others = RateLimit(limits.notices_per_second, limits.notices_burst)
        self._dropped = 0

    def admits(self, method: str, size: int) -> bool:
        """Whether a notification in a message of `size` bytes is passed on."""
        if method in _UNLIMITED:
            return True
        limit = self._progress if method == PROGRESS else self._others
        if limit.admits(1 + size / _UNIT_BYTES):
            return True
        self._dropped += 1
        if self._dropped == 1:
            logger.warning(
                "a server sends too many notifications; some are dropped",
                server=self._label,
                per_second=self._per_second,
            )
        return False

    def report(self) -> None:
        """Log how many were dropped since the last report."""
        if self._dropped:
            logger.warning("notifications of a server were dropped", server=self._label, count=self._dropped)
            self._dropped = 0


NOISE_BYTES = 1024 * 1024
"""How many bytes in a row that are not messages end the connection; `Limits.noise_lines` bounds the lines."""
NOISE_SAMPLE_BYTES = 200
"""How much of the first noise line is logged."""


class Inbox:
    """Handles what a server sends other than answers: requests, notifications, and noise."""

    peer: Peer

    def __init__(
        self, label: ServerIdentifier, limits: Limits, end: Callable[[Fault], None], account: Account | None = None
    ) -> None:
        """`account` counts the server's requests."""
        self._account = account or Account()
        self._label = label
        self._limits = limits
        self._end = end
        self._too_many = RpcError(jsonrpc.INTERNAL_ERROR, f"{limits.questions} requests are being answered already")
        self._noise_lines = 0
        self._noise_bytes = 0
        self._noise_in_all = 0
        self._messages = 0
        """The number of messages from the server when the last noise came."""
        self.noise = ""
        """The beginning of the first line that was not a message; empty if there was none."""
        self.inbound: Inbound | None = None
        self.notices = NoticeLimits(label, limits)

    def admit(self, load: int, *_request: object) -> RpcError | None:
        """Refuse a request if too many are open: a flood costs no more than reading it."""
        return self._too_many if load >= self._limits.questions or self._account.is_full else None

    async def request(self, method: str, params: dict[str, Raw], line: PeerRequest) -> Raw:
        """Answer `ping`, and pass every other request to the listener."""
        if method == "ping":
            return jsonrpc.EMPTY_OBJECT
        if self.inbound is None:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {escape(method)}")
        return await self.inbound.request(method, params, line.owner)

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        if self.inbound is not None:
            self.inbound.notification(method, params, owner)

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        """Fail the request that a broken answer belongs to. Tolerate some noise; end the connection for the rest."""
        failed = self.peer.fail_request(line, lambda: violation(problem))
        if failed or self.peer.messages != self._messages:
            self._noise_lines = self._noise_bytes = 0  # a message ends a run of noise
            self._messages = self.peer.messages
        if failed:
            return
        if problem.claims:
            self._end(violation(problem))
            return
        self._noise_in_all += 1
        self._noise_lines += 1
        self._noise_bytes += len(line)
        if self._noise_in_all == 1:
            self.noise = logger.foreign(line.decode("utf-8", "replace"), NOISE_SAMPLE_BYTES)
            logger.warning("a server wrote a line that is not a message", server=self._label, sample=self.noise)
        if self._noise_lines > self._limits.noise_lines or self._noise_bytes > NOISE_BYTES:
            self._end(ProtocolViolation("it writes something other than MCP messages to its standard output"))

    def report_noise(self) -> None:
        """Log how many noise lines there were in all, unless it was only the one already shown."""
        if self._noise_in_all > 1:
            logger.warning("a server wrote lines that are not messages", server=self._label, count=self._noise_in_all)

    def complaint(self, error: ErrorBody) -> None:
        """End the connection if the server can't parse a message: a call would wait in vain, and nobody knows which.

        Ignore other errors without an id: some servers answer notifications with them.
        """
        if error.code != jsonrpc.PARSE_ERROR:
            return
        reason = logger.foreign(error.message)
        self._end(ProtocolViolation(f"it could not read a message from the workbench ({reason}, code {error.code})"))


def violation(problem: Unreadable) -> ProtocolViolation:
    return ProtocolViolation(
        f"it sent a message that can't be read ({logger.foreign(str(problem))})",
        hint="The server breaks the protocol, which only its developers can fix. Another version of it may work.",
    )


class PeeredChannel(ABC):
    """The part of a `Channel` that is the same on every wire."""

    def __init__(self, peer: Peer, inbox: Inbox, account: Account) -> None:
        """`account` counts the memory that the server's messages take."""
        self._account = account
        self._silence: AbstractContextManager[None] | None = None
        self.peer = inbox.peer = peer
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[Fault] = self._loop.create_future()
        account.close = self._close_for_memory

    def _throttle(self, paused: bool) -> None:  # noqa: FBT001 -- a callback's state
        """Stop idle timeouts while the client does not read: nothing is read from the server then."""
        if paused and self._silence is None:
            self._silence = self.peer.pause_deadlines()
            self._silence.__enter__()
        elif not paused and self._silence is not None:
            self._silence.__exit__(None, None, None)
            self._silence = None

    def _close_for_memory(self) -> None:
        fault = Overloaded("its messages took too much memory", hint="Ask for less at once, or set a larger maxMemory.")
        self.end(fault.copy_with(counts=False))  # the server may be healthy

    @abstractmethod
    async def _close(self) -> None:
        """Close the channel and release its resources."""

    def stderr_tail(self) -> str:
        return ""

    @property
    def noise(self) -> str:
        return self._inbox.noise

    def listen(self, inbound: Inbound) -> None:
        self._inbox.inbound = inbound

    def give_up(self, fault: Fault) -> None:
        self.end(fault)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._loop.create_task(self._close_once())
        await asyncio.shield(self._closing)

    async def _close_once(self) -> None:
        try:
            await self._close()
        finally:
            self._account.end()

    def end(self, fault: Fault) -> None:
        """End the channel: every request on it fails."""
        self.peer.close(fault)
        self._account.unwatch(self._throttle)
        if not self.ended.done():
            self.ended.set_result(fault)
            self._inbox.notices.report()
