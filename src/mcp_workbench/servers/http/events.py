"""Streams of server-sent events, read as the HTML standard says, and within bounds.

A line may end with CR, LF or both, and counts as soon as it ends. What a hostile stream can have of us is a bounded
amount of memory, and short turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Final

import httpx2

from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.unpacking import EVENTS_IN_TURN
from mcp_workbench.wire.fairness import FairShare
from mcp_workbench.wire.memory_budget import Account

_MARK: Final = b"\xef\xbb\xbf"
_PAUSE: Final = rb"[0-9]{1,12}"
_LINES_IN_TURN: Final = 500
_LINE_SECONDS: Final = 0.5e-6
"""What it takes to read a line."""


class TooLarge(Exception):
    """An event is more than a message may be."""


class _Lines:
    """Puts lines together from pieces."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._line = bytearray()
        self._after_return = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that end in a piece. Raises `TooLarge`."""
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
            self._after_return = False
        if b"\r" in piece:
            self._after_return = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        elif piece:
            self._after_return = False
        first, *rest = piece.split(b"\n")
        if not rest:
            self._keep(first)
            return []
        self._line += first
        lines = [self._taken(), *rest]
        self._keep(lines.pop())
        return self._without_mark(lines)

    def _keep(self, part: bytes) -> None:
        self._line += part
        if len(self._line) > self._most:
            raise TooLarge

    def _taken(self) -> bytes:
        line = bytes(self._line)
        self._line = bytearray()
        return line

    @property
    def size(self) -> int:
        """The bytes of the line that has not ended."""
        return len(self._line)

    def _without_mark(self, lines: list[bytes]) -> list[bytes]:
        if self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_MARK)
        return lines


class _Events:
    """Puts events together from lines."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._last_id = ""
        self._begin()

    def _begin(self) -> None:
        self._data = bytearray()
        self._event = ""
        self._retry: int | None = None
        self.size = 0
        """The bytes of the event that has not ended."""
        self._is_begun = False

    def feed(self, lines: list[bytes]) -> Iterator[httpx2.ServerSentEvent]:
        """The events that end in these lines. Raises `TooLarge`."""
        for line in lines:
            if line:
                self._take(line)
            elif self._is_begun:
                yield self._ended()

    def _ended(self) -> httpx2.ServerSentEvent:
        data = self._data[:-1].decode("utf-8", "replace")
        event = httpx2.ServerSentEvent(self._event or "message", data, self._last_id, self._retry)
        self._begin()
        return event

    def _take(self, line: bytes) -> None:
        if line.startswith(b":"):
            return
        self.size += len(line)
        if self.size > self._most:
            raise TooLarge
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += value + b"\n"
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and re.fullmatch(_PAUSE, value):
            self._retry = int(value)
        else:
            return
        self._is_begun = True


async def events_of(
    pieces: AsyncGenerator[bytes], limits: Limits, share: FairShare, account: Account
) -> AsyncGenerator[httpx2.ServerSentEvent]:
    """The events of a stream, as they come; its lines are charged to `share`. Raises `TooLarge`.

    `account` counts an event while it arrives. Nothing is read while the client is paused.
    """
    lines, events = _Lines(limits.message_bytes), _Events(limits.message_bytes)
    told = held = 0
    try:
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                await account.unpaused()
                ended = lines.feed(piece)
                for first in range(0, len(ended), _LINES_IN_TURN):
                    some = ended[first : first + _LINES_IN_TURN]
                    for event in events.feed(some):
                        yield event
                        await share.turn()
                        told += 1
                        if told % EVENTS_IN_TURN == 0:
                            await asyncio.sleep(0)
                    share.charge(len(some) * _LINE_SECONDS)
                    await share.turn()
                if (now := lines.size + events.size) != held:
                    account.change(now - held)
                    held = now
    finally:
        account.release(held)
