"""Real servers over HTTP, as programs of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support import programs
from tests.support.reference import npm_server

PEERS = Path(__file__).parents[1] / "peers"
START_SECONDS = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.asynccontextmanager
async def _running(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def sdk_over_http(how: str = "http", peer: str = "sdk_remote_server") -> AsyncIterator[str]:
    """The address of a server on the SDK."""
    process = await programs.start([sys.executable, str(PEERS / f"{peer}.py"), how])
    async with _running(process):
        assert process.stdout is not None
        yield (await asyncio.wait_for(process.stdout.readline(), START_SECONDS)).decode().strip()
    process._transport.close()  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def everything_over_http(how: str = "streamableHttp") -> AsyncIterator[str]:
    """The address of npm's reference server, by streamable HTTP or the older transport (`sse`)."""
    entry, port = npm_server("server-everything", how), free_port()
    env = {**os.environ, **entry["env"], "PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        entry["command"], *entry["args"], env=env, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    async with _running(process):
        assert process.stderr is not None
        said = b""
        async with asyncio.timeout(START_SECONDS):
            while b"port" not in said:
                said = await process.stderr.readline()
        reading = asyncio.ensure_future(process.stderr.read())
        yield f"http://127.0.0.1:{port}/{'sse' if how == 'sse' else 'mcp'}"
    await reading
