"""A TCP proxy that spoils what passes through it, one way at a time: towards the client.

`latency`: each piece waits. `slow_close`: the end waits. `timeout`: nothing passes, and nothing ends. `reset`: the
connection is reset after some bytes. `slicer`: pieces of one byte. `limit`: the connection ends after some bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

CHUNK = 65_536
SECONDS = 0.2
BYTES = 40
"""Within the head of any response."""

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


async def latency(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(CHUNK):
        await asyncio.sleep(SECONDS)
        writer.write(data)


async def slow_close(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
    await asyncio.sleep(SECONDS)


async def timeout(reader: Reader, writer: Writer) -> None:
    del reader, writer
    await asyncio.Event().wait()


async def slicer(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(CHUNK):
        for number in range(len(data)):
            writer.write(data[number : number + 1])
            await writer.drain()
            await asyncio.sleep(0)


async def limit(reader: Reader, writer: Writer) -> None:
    writer.write(await reader.read(BYTES))


async def reset(reader: Reader, writer: Writer) -> None:
    writer.write(await reader.read(BYTES))
    await writer.drain()
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


TOXICS: dict[str, Callable[[Reader, Writer], Awaitable[None]]] = {
    one.__name__: one for one in (latency, slow_close, timeout, slicer, limit, reset)
}


class Proxy:
    """A running proxy; `toxic` can be changed while it runs, for connections from then on."""

    def __init__(self, target: int) -> None:
        self.toxic = ""
        self.port = 0
        self._target = target

    async def serve(self, reader: Reader, writer: Writer) -> None:
        with contextlib.suppress(OSError):
            there, towards = await asyncio.open_connection("127.0.0.1", self._target)
            spoil = TOXICS.get(self.toxic, _copy)
            both = [asyncio.ensure_future(_copy(reader, towards)), asyncio.ensure_future(spoil(there, writer))]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in both:
                    one.cancel()
                await asyncio.gather(*both, return_exceptions=True)
                towards.close()
                writer.close()


async def _copy(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()


@contextlib.asynccontextmanager
async def proxy(target: int) -> AsyncIterator[Proxy]:
    """A proxy to a port of this machine."""
    running = Proxy(target)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
