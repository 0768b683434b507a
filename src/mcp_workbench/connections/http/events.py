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

_MARK: Final = b"\xef\xbb\xbf"
_PAUSE: Final = rb"[0-9]{1,12}"


class TooLarge(Exception):
    """An event is more than a message may be."""


class _Lines:
    """Puts lines together from pieces."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
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
        lines = [self._taken() + first, *rest]
        self._keep(lines.pop())
        return self._without_mark(lines)

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most:
            raise TooLarge

    def _taken(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line

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
        self._data: list[bytes] = []
        self._event = ""
        self._retry: int | None = None
        self._size = 0
        self._is_begun = False

    def feed(self, lines: list[bytes]) -> Iterator[httpx2.ServerSentEvent]:
        """The events that end in these lines. Raises `TooLarge`."""
        for line in lines:
            if line:
                self._take(line)
            elif self._is_begun:
                yield self._ended()

    def _ended(self) -> httpx2.ServerSentEvent:
        data = b"\n".join(self._data).decode("utf-8", "replace")
        event = httpx2.ServerSentEvent(self._event or "message", data, self._last_id, self._retry)
        self._begin()
        return event

    def _take(self, line: bytes) -> None:
        if line.startswith(b":"):
            return
        self._size += len(line)
        if self._size > self._most:
            raise TooLarge
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and re.fullmatch(_PAUSE, value):
            self._retry = int(value)
        else:
            return
        self._is_begun = True


async def events_of(pieces: AsyncGenerator[bytes], limits: Limits) -> AsyncGenerator[httpx2.ServerSentEvent]:
    """The events of a stream, as they come. Raises `TooLarge`."""
    lines, events = _Lines(limits.message_bytes), _Events(limits.message_bytes)
    told = 0
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            for event in events.feed(lines.feed(piece)):
                yield event
                told += 1
                if told % limits.events_in_turn == 0:
                    await asyncio.sleep(0)
