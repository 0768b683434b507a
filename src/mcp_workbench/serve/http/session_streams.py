"""Routes the messages of one handshake session to its streams, in order, and bounds how much waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from starlette.types import Message

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.event_log import Event, EventLog, StreamKey
from mcp_workbench.serve.http.event_stream import EventStream
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.batch import is_batch
from mcp_workbench.wire.jsonrpc import Id
from mcp_workbench.wire.memory_budget import Account

_FIRST_WITH_PRIMERS: Final = "2025-11-25"


class SessionStreams:
    """The `Writer` of a session's peer.

    A message goes onto the stream of the request that it belongs to. If the client left that stream, the message is
    kept until the client resumes it. A message that belongs to no request waits for the stream of a GET.
    """

    def __init__(
        self,
        limits: Limits,
        head: Message,
        on_answer: Callable[[Id], None],
        on_dropped: Callable[[bytes], None],
        account: Account | None = None,
    ) -> None:
        """`on_dropped` gets messages that no client came for. `account` counts what waits for the client."""
        self._limits = limits
        self._account = account or Account()
        self._head = head
        self._on_answer = on_answer
        self._on_dropped = on_dropped
        self._log = EventLog(limits, self._account)
        self._open: dict[StreamKey, EventStream] = {}
        self._held: deque[bytes] = deque()
        self._bytes = self._held_bytes = self._notice_bytes = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self.is_closed = False

    # -- Writer

    @property
    def congested(self) -> bool:
        return not self._drained.is_set()

    async def drained(self) -> None:
        await self._drained.wait()

    def write(self, line: bytes, about: Id | None = None) -> None:
        if self.is_closed:
            return
        is_last = is_answer(line, about)
        if about is not None and is_last:
            self._on_answer(about)
        if about is None and None not in self._open:
            self._hold(line)
        else:
            self._put(about, line, is_last=is_last)

    def write_notice(self, line: bytes, about: Id | None = None) -> None:
        """As `LineWriter.write_notice`."""
        if not self._bytes:
            self._notice_bytes = 0
        if self._notice_bytes <= self._limits.unread_notice_bytes and not self.congested:
            self._notice_bytes += len(line)
            self.write(line, about)

    def sent(self, size: int) -> None:
        """So many bytes of what was written wait no longer."""
        self._bytes -= size
        self._account.was_read(size)
        if self._bytes <= self._limits.write_buffer_bytes:
            self._drained.set()
        if self.is_closed and not self._bytes:
            self._account.end()

    def close(self) -> None:
        """End every stream: the session is over."""
        self.is_closed = True
        for stream in self._open.values():
            stream.close()
        self._open.clear()
        self._log.clear()
        self._held.clear()
        self._drained.set()

    def hand_over(self, account: Account) -> None:
        """Count what the client still has to read in another account, which ends when that is read."""
        self._account.was_read(self._bytes)
        account.wrote(self._bytes)
        self._account = account

    @property
    def unread(self) -> int:
        """The bytes that the client has not read."""
        return self._bytes

    def shed(self) -> None:
        """Drop what is kept for a client that comes back."""
        self._log.clear()
        while self._held:
            self._drop()

    # -- streams

    def is_open(self, key: StreamKey) -> bool:
        return key in self._open

    def open(self, key: StreamKey, version: str | None = None) -> EventStream:
        """A new stream. A client of a version that can resume it is told how."""
        can_resume = key is not None and version is not None and version >= _FIRST_WITH_PRIMERS
        stream = self._open[key] = self._new(self._log.prime(key).parts if can_resume else ())
        if key is None:
            self._release()
        return stream

    def resume(self, event_id: str) -> tuple[StreamKey, EventStream]:
        """The rest of a stream, on a new connection that replaces the old one. One that is unknown ends at once."""
        seen = self._log.find(event_id)
        stream = self._new(())
        if seen is None or seen.is_last:
            stream.close()
            return None, stream
        if (former := self._open.pop(seen.stream, None)) is not None:
            former.lose()
        self._open[seen.stream] = stream
        for one in self._log.after(seen):
            self._send(stream, one)
        if seen.stream is None:
            self._release()
        return seen.stream, stream

    def leave(self, key: StreamKey, stream: EventStream) -> None:
        """The connection of a stream is gone; what still comes is kept for a client that resumes it."""
        if self._open.get(key) is stream:
            del self._open[key]
        stream.lose()

    def adjourn(self, request: Id) -> None:
        """End the stream of a request, if its client was told how to ask for the rest."""
        if self._log.is_primed(request) and (stream := self._open.pop(request, None)) is not None:
            stream.close()

    def _new(self, first: Iterable[bytes]) -> EventStream:
        return EventStream(self._limits, self._head, first, self.sent)

    def _put(self, key: StreamKey, line: bytes, *, is_last: bool) -> None:
        event = self._log.add(key, line, is_last=is_last)
        if (stream := self._open.get(key)) is not None:
            self._send(stream, event)

    def _send(self, stream: EventStream, event: Event) -> None:
        self._bytes += event.size
        self._account.wrote(event.size)
        if self._bytes > self._limits.write_buffer_bytes:
            self._drained.clear()
        stream.put(event.parts, event.size, is_last=event.is_last)

    def _hold(self, line: bytes) -> None:
        self._held.append(line)
        self._held_bytes += len(line)
        self._account.keep(len(line))
        while len(self._held) > self._limits.http_held or self._held_bytes > self._limits.http_event_bytes:
            self._drop()

    def _drop(self) -> None:
        dropped = self._held.popleft()
        self._held_bytes -= len(dropped)
        self._account.keep(-len(dropped))
        self._on_dropped(dropped)

    def _release(self) -> None:
        self._account.keep(-self._held_bytes)
        held, self._held, self._held_bytes = self._held, deque[bytes](), 0
        for line in held:
            self._put(None, line, is_last=False)


def is_answer(line: bytes, about: Id | None) -> bool:
    """Whether a message of ours answers the request `about`, or the batch whose first request that is."""
    if about is None:
        return False
    if is_batch(line):
        return True
    head = jsonrpc.encode({"jsonrpc": "2.0", "id": about})[:-1]
    return line.startswith((head + b',"result"', head + b',"error"'))
