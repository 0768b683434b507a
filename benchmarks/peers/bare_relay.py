"""The floor for a gateway on stdio: an asyncio relay that passes lines on and reads none of them.

bare_relay.py COMMAND [ARGUMENT ...]
"""

from __future__ import annotations

import asyncio
import sys

LINE_BYTES = 1 << 24


async def main() -> None:
    loop = asyncio.get_running_loop()
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*sys.argv[1:], stdin=pipe, stdout=pipe, limit=LINE_BYTES)
    if server.stdin is None or server.stdout is None:
        raise SystemExit("the server has no pipes")
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    answers = asyncio.create_task(relay(server.stdout, writer))
    await relay(reader, server.stdin)
    server.stdin.close()
    await answers
    await server.wait()


async def relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while line := await source.readline():
        sink.write(line)
        await sink.drain()


if __name__ == "__main__":
    asyncio.run(main())
