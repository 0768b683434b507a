"""The body of a response, unpacked: in small pieces, between which everybody else has a turn.

A few bytes may stand for a thousand times as many, and only who reads them knows how much is too much. What follows
the end of what was packed is not looked at, and not kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import httpx2

from mcp_workbench.wire.fairness import FairShare

BODY_PIECE_BYTES = 64 * 1024
"""How much of a packed body is unpacked at once: what a socket gives, and a few milliseconds of reading."""
EVENTS_IN_TURN = 100
"""Events of a stream that are read before others have a turn."""

_WINDOWS: Final = {
    "gzip": zlib.MAX_WBITS | 16,
    "x-gzip": zlib.MAX_WBITS | 16,
    "deflate": zlib.MAX_WBITS,
}
_BARE: Final = -zlib.MAX_WBITS
_LAYERS: Final = 2
_PIECE_SECONDS: Final = 10e-6
"""What a chunk of a response is charged, however small: reading it takes 30 µs."""


class _Unpacker:
    """One layer."""

    def __init__(self, name: str, most: int) -> None:
        self._most = most
        self._zlib = zlib.decompressobj(_WINDOWS[name])
        self._may_be_bare = name == "deflate"
        """By the standard it has a header, and some servers leave that out."""

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """What it unpacks to, in pieces. Raises `httpx2.DecodingError`."""
        piece = self._first(packed)
        while piece:
            yield piece
            piece = self._next(self._zlib.unconsumed_tail)

    def _first(self, packed: bytes) -> bytes:
        if not self._may_be_bare:
            return self._next(packed)
        self._may_be_bare = False
        try:
            return self._next(packed)
        except httpx2.DecodingError:
            self._zlib = zlib.decompressobj(_BARE)
            return self._next(packed)

    def _next(self, packed: bytes) -> bytes:
        if self._zlib.eof:
            return b""
        try:
            return self._zlib.decompress(packed, self._most)
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None


async def unpacked(response: httpx2.Response, share: FairShare) -> AsyncGenerator[bytes]:
    """The pieces of a body, charged to the share of its server.

    Raises `httpx2.DecodingError` for what was packed otherwise than we ask for.
    """
    layers = _layers(response)
    turn, least = 0, BODY_PIECE_BYTES // EVENTS_IN_TURN  # a piece of one byte takes its time, too
    async with contextlib.aclosing(response.aiter_raw()) as source:
        async for packed in source:
            share.charge(_PIECE_SECONDS)
            await share.turn()
            for piece in _through(packed, layers):
                if piece:
                    yield piece
                turn += max(len(piece), least)
                if turn >= BODY_PIECE_BYTES:
                    turn = 0
                    await asyncio.sleep(0)


def _layers(response: httpx2.Response) -> list[_Unpacker]:
    """The last one that was put on comes off first."""
    said = response.headers.get("content-encoding", "").lower().split(",")
    names = [name for one in said if (name := one.strip()) not in ("", "identity")]
    if len(names) > _LAYERS or not _WINDOWS.keys() >= set(names):
        raise httpx2.DecodingError("it is packed in a way that was not asked for")
    return [_Unpacker(name, BODY_PIECE_BYTES) for name in reversed(names)]


def _through(data: bytes, layers: Sequence[_Unpacker]) -> Iterator[bytes]:
    """What comes out of all layers; also nothing, where others should have a turn."""
    if not layers:
        yield data
        return
    for piece in layers[0].feed(data):
        yield from _through(piece, layers[1:])
        yield b""
