"""The last events of one handshake session, for a client whose connection broke."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.event_stream import event, primer
from mcp_workbench.wire.jsonrpc import Id
from mcp_workbench.wire.memory_budget import Account

HTTP_RETRY_MS = 1000
"""How long a client should wait before it asks for a broken stream again."""

StreamKey: TypeAlias = Id | None
"""Which stream of a session: the request that it answers, or None for the stream that belongs to no request."""


class Event(NamedTuple):
    """One event, as it was written."""

    number: int
    stream: StreamKey
    parts: tuple[bytes, ...]
    size: int
    is_primer: bool = False
    is_last: bool = False
    """Whether it ends its stream: the answer."""


class EventLog:
    """Keeps events within bounds, the newest last."""

    def __init__(self, limits: Limits, account: Account | None = None) -> None:
        """`account` counts what is kept."""
        self._limits = limits
        self._account = account or Account()
        self._kept: deque[Event] = deque()
        self._bytes = 0
        self._last = 0

    def add(self, stream: StreamKey, line: bytes, *, is_last: bool) -> Event:
        """Keep a message as an event."""
        self._last += 1
        parts = event(str(self._last), line)
        return self._keep(Event(self._last, stream, parts, sum(map(len, parts)), is_last=is_last))

    def prime(self, stream: StreamKey) -> Event:
        """The event that tells a client how to resume a stream."""
        self._last += 1
        data = primer(str(self._last), HTTP_RETRY_MS)
        return self._keep(Event(self._last, stream, (data,), len(data), is_primer=True))

    def is_primed(self, stream: StreamKey) -> bool:
        """Whether the client was told how to resume a stream."""
        return any(one.is_primer and one.stream == stream for one in self._kept)

    def find(self, event_id: str) -> Event | None:
        """The event with this id, if it is still kept."""
        return next((one for one in self._kept if str(one.number) == event_id), None)

    def after(self, seen: Event) -> list[Event]:
        """The events that followed on the same stream."""
        return [
            one for one in self._kept if one.number > seen.number and one.stream == seen.stream and not one.is_primer
        ]

    def clear(self) -> None:
        """Forget every event: a client whose connection breaks gets no more of them."""
        self._account.keep(-self._bytes)
        self._kept.clear()
        self._bytes = 0

    def _keep(self, added: Event) -> Event:
        before = self._bytes
        self._kept.append(added)
        self._bytes += added.size
        while len(self._kept) > self._limits.http_events or (
            self._bytes > self._limits.http_event_bytes and len(self._kept) > 1
        ):
            self._bytes -= self._kept.popleft().size
        self._account.keep(self._bytes - before)
        return added
