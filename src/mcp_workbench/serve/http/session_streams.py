"""Routes the messages of one handshake session to its response streams, and replays them after a disconnect.

Guarantees: messages keep their order, unread and stored bytes are limited, and a client that lost its connection can
resume a stream from the events that are still stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from starlette.types import Message

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.responses import EventStream, event, primer
from mcp_workbench.wire.jsonrpc import NOTHING, Envelope, Id
from mcp_workbench.wire.memory_budget import Account

HTTP_RETRY_MS = 1000
"""How long a client should wait before it resumes a broken stream."""

StreamKey: TypeAlias = Id | None
"""Identifies a stream of a session: the id of its request, or None for the stream that belongs to no request."""


class StoredEvent(NamedTuple):
    """An event as it was sent."""

    number: int
    stream: StreamKey
    parts: tuple[bytes, ...]
    size: int
    is_primer: bool = False
    is_last: bool = False
    """Whether it is the answer, which ends its stream."""


class EventLog:
    """The latest events of a session, limited in number and size."""

    def __init__(self, limits: Limits, account: Account | None = None) -> None:
        """`account` counts the stored bytes."""
        self._limits = limits
        self._account = account or Account()
        self._events: deque[StoredEvent] = deque()
        self._bytes = 0
        self._last_number = 0

    def add(self, stream: StreamKey, line: bytes, *, is_last: bool) -> StoredEvent:
        """Store a message as an event."""
        self._last_number += 1
        parts = event(str(self._last_number), line)
        return self._store(StoredEvent(self._last_number, stream, parts, sum(map(len, parts)), is_last=is_last))

    def prime(self, stream: StreamKey) -> StoredEvent:
        """Store the event that tells a client how to resume a stream."""
        self._last_number += 1
        data = primer(str(self._last_number), HTTP_RETRY_MS)
        return self._store(StoredEvent(self._last_number, stream, (data,), len(data), is_primer=True))

    def is_primed(self, stream: StreamKey) -> bool:
        """Whether the client was told how to resume a stream."""
        return any(stored.is_primer and stored.stream == stream for stored in self._events)

    def find(self, event_id: str) -> StoredEvent | None:
        """The event with this id, if it is still stored."""
        return next((stored for stored in self._events if str(stored.number) == event_id), None)

    def after(self, last_event: StoredEvent) -> list[StoredEvent]:
        """The later events of the same stream."""
        return [
            stored
            for stored in self._events
            if stored.number > last_event.number and stored.stream == last_event.stream and not stored.is_primer
        ]

    def clear(self) -> None:
        """Forget every event, so that no stream can be resumed."""
        self._account.keep(-self._bytes)
        self._events.clear()
        self._bytes = 0

    def _store(self, added: StoredEvent) -> StoredEvent:
        before = self._bytes
        self._events.append(added)
        self._bytes += added.size
        while len(self._events) > self._limits.http_events or (
            self._bytes > self._limits.http_event_bytes and len(self._events) > 1
        ):
            self._bytes -= self._events.popleft().size
        self._account.keep(self._bytes - before)
        return added


HTTP_QUEUED_MESSAGES = 64
"""Messages that belong to no request and are queued while the client has no stream open for them; the latest stay."""

_FIRST_WITH_PRIMERS: Final = "2025-11-25"


class SessionStreams:
    """The `Writer` of a session's peer.

    A message goes to the stream of its request. If that connection is lost, the message is stored until the client
    resumes the stream. A message that belongs to no request is queued until the client opens a stream with GET.
    """

    def __init__(
        self,
        limits: Limits,
        head: Message,
        on_answer: Callable[[Id], None],
        on_dropped: Callable[[Id], None],
        account: Account | None = None,
    ) -> None:
        """`on_dropped` gets the ids of queued requests that were dropped. `account` counts unread and stored bytes."""
        self._limits = limits
        self._account = account or Account()
        self._head = head
        self._on_answer = on_answer
        self._on_dropped = on_dropped
        self._log = EventLog(limits, self._account)
        self._open: dict[StreamKey, EventStream] = {}
        self._queued: deque[Envelope] = deque()
        self.unread_bytes = self._queued_bytes = self._notice_bytes = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self.is_closed = False

    # -- Writer

    @property
    def congested(self) -> bool:
        return not self._drained.is_set()

    async def drained(self) -> None:
        await self._drained.wait()

    def write(self, envelope: Envelope) -> None:
        if self.is_closed or (envelope.may_drop and self._has_unread_notices()):
            return
        if envelope.may_drop:
            self._notice_bytes += len(envelope.line)
        about = envelope.about
        if about is not None and envelope.is_answer:
            self._on_answer(about)
        if about is None and None not in self._open:
            self._queue(envelope)
        else:
            self._log_and_send(envelope)

    def _has_unread_notices(self) -> bool:
        """Whether many notifications are unread, which delays the answers behind them."""
        if not self.unread_bytes:
            self._notice_bytes = 0
        return self._notice_bytes > self._limits.unread_notice_bytes or self.congested

    def sent(self, size: int) -> None:
        """Note that the client has read this many bytes, or will never get them."""
        self.unread_bytes -= size
        self._account.was_read(size)
        if self.unread_bytes <= self._limits.write_buffer_bytes:
            self._drained.set()
        if self.is_closed and not self.unread_bytes:
            self._account.end()

    def close(self) -> None:
        """End every stream: the session is over."""
        self.is_closed = True
        for stream in self._open.values():
            stream.close()
        self._open.clear()
        self._log.clear()
        self._queued.clear()
        self._drained.set()

    def hand_over(self, account: Account) -> None:
        """Move the unread bytes to another account, which ends when they are read."""
        self._account.was_read(self.unread_bytes)
        account.wrote(self.unread_bytes)
        self._account = account

    def shed(self) -> None:
        """Drop stored events and queued messages to free memory."""
        self._log.clear()
        while self._queued:
            self._drop_oldest()

    # -- streams

    def is_open(self, key: StreamKey) -> bool:
        return key in self._open

    def open(self, key: StreamKey, version: str | None = None) -> EventStream:
        """Open a stream. Its first event tells clients whose version supports it how to resume."""
        can_resume = key is not None and version is not None and version >= _FIRST_WITH_PRIMERS
        stream = self._open[key] = self._new(self._log.prime(key).parts if can_resume else ())
        if key is None:
            self._send_queued()
        return stream

    def resume(self, event_id: str) -> tuple[StreamKey, EventStream]:
        """Resume a stream after an event; the new connection replaces the old one. An unknown stream ends at once."""
        last_event = self._log.find(event_id)
        stream = self._new(())
        if last_event is None or last_event.is_last:
            stream.close()
            return None, stream
        if (former := self._open.pop(last_event.stream, None)) is not None:
            former.lose()
        self._open[last_event.stream] = stream
        for stored in self._log.after(last_event):
            self._send(stream, stored)
        if last_event.stream is None:
            self._send_queued()
        return last_event.stream, stream

    def leave(self, key: StreamKey, stream: EventStream) -> None:
        """The connection of a stream is lost; later events are stored for a client that resumes it."""
        if self._open.get(key) is stream:
            del self._open[key]
        stream.lose()

    def adjourn(self, request: Id) -> None:
        """End the stream of a request, if the client was told how to resume it."""
        if self._log.is_primed(request) and (stream := self._open.pop(request, None)) is not None:
            stream.close()

    def _new(self, first: Iterable[bytes]) -> EventStream:
        return EventStream(self._limits, self._head, first, self.sent)

    def _log_and_send(self, envelope: Envelope) -> None:
        key = envelope.about
        event = self._log.add(key, envelope.line, is_last=key is not None and envelope.is_answer)
        if (stream := self._open.get(key)) is not None:
            self._send(stream, event)

    def _send(self, stream: EventStream, event: StoredEvent) -> None:
        self.unread_bytes += event.size
        self._account.wrote(event.size)
        if self.unread_bytes > self._limits.write_buffer_bytes:
            self._drained.clear()
        stream.put(event.parts, event.size, is_last=event.is_last)

    def _queue(self, envelope: Envelope) -> None:
        size = len(envelope.line)
        envelope.content = NOTHING  # keep only the encoded bytes, since only they are counted
        self._queued.append(envelope)
        self._queued_bytes += size
        self._account.keep(size)
        while len(self._queued) > HTTP_QUEUED_MESSAGES or self._queued_bytes > self._limits.http_event_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        dropped = self._queued.popleft()
        self._queued_bytes -= len(dropped.line)
        self._account.keep(-len(dropped.line))
        if dropped.is_request and dropped.id is not None:
            self._on_dropped(dropped.id)

    def _send_queued(self) -> None:
        self._account.keep(-self._queued_bytes)
        queued, self._queued, self._queued_bytes = self._queued, deque[Envelope](), 0
        for envelope in queued:
            self._log_and_send(envelope)
