"""A forwarder that gives every request the bearer token which the suite has no option for.

It changes two things of a request and nothing of an answer: the token is added, and where the request names the
forwarder as its host or origin, it names the workbench instead. Any other host stays, so that it is the workbench which
refuses it. A connection of the suite is one connection to the workbench, and the end of one ends the other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine

HEAD_BYTES = 1 << 16
CHUNK_BYTES = 1 << 16


class Forwarder:
    """Requests to `port` go to the workbench on `target`, with its token."""

    def __init__(self, target: int, token: str) -> None:
        self.port = 0
        self._target = target
        self._token = token

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            there, back = await asyncio.open_connection("127.0.0.1", self._target, limit=HEAD_BYTES)
            try:
                await _first_of(self._requests(reader, back), _copy(there, writer))
            finally:
                back.close()
        writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self.rewritten(head))
            await _copy_body(head, reader, writer)
            await writer.drain()

    def rewritten(self, head: bytes) -> bytes:
        first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        own, other = b":%d" % self.port, b":%d" % self._target
        for number, line in enumerate(lines):
            name, _, value = line.partition(b":")
            if name.lower() in {b"host", b"origin"} and value.endswith(own):
                lines[number] = line.removesuffix(own) + other
        return b"\r\n".join([first, *lines, b"Authorization: Bearer " + self._token.encode(), b"", b""])


@contextlib.asynccontextmanager
async def forwarding(target: int, token: str) -> AsyncGenerator[int]:
    """The port of a forwarder to the workbench on `target`."""
    forwarder = Forwarder(target, token)
    server = await asyncio.start_server(forwarder.serve, "127.0.0.1", 0, limit=HEAD_BYTES)
    forwarder.port = server.sockets[0].getsockname()[1]
    try:
        yield forwarder.port
    finally:
        server.close()


async def _first_of(*ways: Coroutine[None, None, None]) -> None:
    """Both directions at once; when one is over, so is the other."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


async def _copy_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    headers = dict(_fields(head))
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        await _copy_chunks(reader, writer)
    elif length := int(headers.get(b"content-length", b"0")):
        writer.write(await reader.readexactly(length))


async def _copy_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    size = 1
    while size:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        writer.write(line + await reader.readexactly(size + 2))


def _fields(head: bytes) -> list[tuple[bytes, bytes]]:
    lines = head.split(b"\r\n")[1:]
    return [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
