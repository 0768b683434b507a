"""Reads response bodies and streams of server-sent events, within bounds on the decompressed size.

Decompression runs in small pieces, and other tasks run in between: a few bytes may expand a thousandfold. Data after
the end of the compressed stream is ignored. Events follow the HTML standard: a line may end with CR, LF or both, and
counts as soon as it ends. A hostile stream can take only a bounded amount of memory, and only short turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import httpx2
import msgspec

from mcp_workbench.errors import MessageTooLarge
from mcp_workbench.limits import Limits
from mcp_workbench.wire.fairness import FairShare
from mcp_workbench.wire.memory_budget import Account

BODY_PIECE_BYTES = 64 * 1024
"""How much of a body is decompressed at once: about one read from a socket, and a few milliseconds of parsing."""
EVENTS_IN_TURN = 100
"""Events of a stream to read before other tasks run."""

_WINDOWS: Final = {
    "gzip": zlib.MAX_WBITS | 16,
    "x-gzip": zlib.MAX_WBITS | 16,
    "deflate": zlib.MAX_WBITS,
}
_BARE: Final = -zlib.MAX_WBITS
_LAYERS: Final = 2
_PIECE_SECONDS: Final = 10e-6
"""What each chunk of a response is charged, even a small one: reading it takes 30 µs."""


class _Decompressor:
    """Decompresses one content encoding."""

    def __init__(self, name: str, most: int) -> None:
        self._most = most
        self._zlib = zlib.decompressobj(_WINDOWS[name])
        self._may_be_bare = name == "deflate"
        """`deflate` has a header by the standard, but some servers omit it."""

    def feed(self, compressed: bytes) -> Iterator[bytes]:
        """The decompressed data, in pieces. Raises `httpx2.DecodingError`."""
        piece = self._first(compressed)
        while piece:
            yield piece
            piece = self._next(self._zlib.unconsumed_tail)

    def _first(self, compressed: bytes) -> bytes:
        if not self._may_be_bare:
            return self._next(compressed)
        self._may_be_bare = False
        try:
            return self._next(compressed)
        except httpx2.DecodingError:
            self._zlib = zlib.decompressobj(_BARE)
            return self._next(compressed)

    def _next(self, compressed: bytes) -> bytes:
        if self._zlib.eof:
            return b""
        try:
            return self._zlib.decompress(compressed, self._most)
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None


async def decompressed(response: httpx2.Response, share: FairShare) -> AsyncGenerator[bytes]:
    """The decompressed pieces of a body, charged to the share of its server.

    Raises `httpx2.DecodingError` for a content encoding that we did not accept.
    """
    layers = _layers(response)
    turn, least = 0, BODY_PIECE_BYTES // EVENTS_IN_TURN  # a small piece takes time, too
    async with contextlib.aclosing(response.aiter_raw()) as source:
        async for compressed in source:
            share.charge(_PIECE_SECONDS)
            await share.turn()
            for piece in _decompress(compressed, layers):
                if piece:
                    yield piece
                turn += max(len(piece), least)
                if turn >= BODY_PIECE_BYTES:
                    turn = 0
                    await asyncio.sleep(0)


def _layers(response: httpx2.Response) -> list[_Decompressor]:
    """The decompressors, in the order to apply them: the reverse of the header."""
    said = response.headers.get("content-encoding", "").lower().split(",")
    names = [name for one in said if (name := one.strip()) not in ("", "identity")]
    if len(names) > _LAYERS or not _WINDOWS.keys() >= set(names):
        raise httpx2.DecodingError("it has a content encoding that was not accepted")
    return [_Decompressor(name, BODY_PIECE_BYTES) for name in reversed(names)]


def _decompress(data: bytes, layers: Sequence[_Decompressor]) -> Iterator[bytes]:
    """The output of all layers. Empty pieces give the caller a chance to let other tasks run."""
    if not layers:
        yield data
        return
    for piece in layers[0].feed(data):
        yield from _decompress(piece, layers[1:])
        yield b""


_MARK: Final = b"\xef\xbb\xbf"
_PAUSE: Final = rb"[0-9]{1,12}"
_LINES_IN_TURN: Final = 500
_LINE_SECONDS: Final = 0.5e-6
"""The time to parse a line."""
_EVENT_SECONDS: Final = 2e-6
"""The time to hand over an event, even a small one."""


class _Lines:
    """Splits pieces into lines."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._line = bytearray()
        self._after_return = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that end in this piece. Raises `MessageTooLarge`."""
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
            self._after_return = False
        if b"\r" in piece:
            self._after_return = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        elif piece:
            self._after_return = False
        first, *rest = piece.split(b"\n")
        self._line += first
        lines: list[bytes] = []
        if rest:
            lines = [bytes(self._line), *rest]
            self._line = bytearray(lines.pop())
            if self._at_start:
                self._at_start = False
                lines[0] = lines[0].removeprefix(_MARK)
        if len(self._line) > self._limits.message_bytes:
            raise too_large(self._limits)
        return lines

    @property
    def size(self) -> int:
        """The bytes of the line that has not ended yet."""
        return len(self._line)


class _Events:
    """Parses lines into events."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last_id = ""
        self._begin()

    def _begin(self) -> None:
        self._data = bytearray()
        self._event = ""
        self._retry: int | None = None
        self.size = 0
        """The bytes of the event that has not ended yet."""
        self._is_begun = False

    def feed(self, lines: list[bytes]) -> Iterator[httpx2.ServerSentEvent]:
        """The events that end in these lines. Raises `MessageTooLarge`."""
        for line in lines:
            if line:
                self._take(line)
            elif self._is_begun:
                yield self._finish_event()

    def _finish_event(self) -> httpx2.ServerSentEvent:
        data = self._data[:-1].decode("utf-8", "replace")
        event = httpx2.ServerSentEvent(self._event or "message", data, self._last_id, self._retry)
        self._begin()
        return event

    def _take(self, line: bytes) -> None:
        if line.startswith(b":"):
            return
        self.size += len(line)
        if self.size > self._limits.message_bytes:
            raise too_large(self._limits)
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


async def events_in(
    response: httpx2.Response, limits: Limits, share: FairShare, account: Account | None = None
) -> AsyncGenerator[httpx2.ServerSentEvent]:
    """The events of a stream, as they come; its lines are charged to `share`. Raises `MessageTooLarge`.

    `account` counts an event while it arrives. Nothing is read while the client is paused.
    """
    account = account or Account()
    pieces, lines, events = decompressed(response, share), _Lines(limits), _Events(limits)
    count = held = 0
    try:
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                await account.unpaused()
                ended = lines.feed(piece)
                for first in range(0, len(ended), _LINES_IN_TURN):
                    some = ended[first : first + _LINES_IN_TURN]
                    for event in events.feed(some):
                        yield event
                        share.charge(_EVENT_SECONDS)
                        await share.turn()
                        count += 1
                        if count % EVENTS_IN_TURN == 0:
                            await asyncio.sleep(0)
                    share.charge(len(some) * _LINE_SECONDS)
                    await share.turn()
                if (now := lines.size + events.size) != held:
                    account.change(now - held)
                    held = now
    finally:
        account.release(held)


REFUSAL_BYTES = 64 * 1024
"""How much of the body of an error response is searched for a JSON-RPC error."""

JSON = "application/json"
EVENTS = "text/event-stream"


def kind_of(response: httpx2.Response) -> str:
    """The media type, without its parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def too_large(limits: Limits) -> MessageTooLarge:
    return MessageTooLarge(f"it sent a message of more than {limits.message_bytes} bytes")


async def read_body(
    response: httpx2.Response, limits: Limits, share: FairShare, account: Account | None = None
) -> bytes:
    """The whole body, decompressed. Raises `MessageTooLarge` as soon as it exceeds the limit of a message.

    `account` counts it while it arrives. Nothing is read while the client is paused.
    """
    account = account or Account()
    pieces = bytearray()
    try:
        async with contextlib.aclosing(decompressed(response, share)) as source:
            async for piece in source:
                await account.unpaused()
                account.reserve(len(piece))
                pieces += piece
                if len(pieces) > limits.message_bytes:
                    raise too_large(limits)
        return bytes(pieces)
    finally:
        account.release(len(pieces))


async def read_refusal(response: httpx2.Response, share: FairShare) -> bytes:
    """The body of an error response; empty if it is too long to be a JSON-RPC error."""
    pieces = bytearray()
    async with contextlib.aclosing(decompressed(response, share)) as source:
        async for piece in source:
            pieces += piece
            if len(pieces) > REFUSAL_BYTES:
                return b""
    return bytes(pieces)


def one_line(data: bytes) -> bytes:
    """The same JSON on one line, with its numbers unchanged. Anything else is left for the reader to refuse."""
    data = data.strip()
    if b"\n" not in data and b"\r" not in data:
        return data
    try:
        return msgspec.json.format(data, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return data.replace(b"\n", b" ").replace(b"\r", b" ")
