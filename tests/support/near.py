"""Several clients of one workbench in this process, each on pipes of its own, as `Wire`s."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from typing import Any, cast

from mcp_workbench import Workbench
from mcp_workbench.serve.early_initialize import Greeting, new_callers
from mcp_workbench.serve.stdio import StdioEndpoint
from mcp_workbench.surfaces.server_info import View
from tests.support.wire import LINE_BYTES, Era, Json, Wire


class Near:
    """What a `Wire` needs of a process, for a front that runs here."""

    def __init__(self, run: asyncio.Task[int], stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self._run = run
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = asyncio.StreamReader()
        self.stderr.feed_eof()
        self._transport = stdin.transport

    @property
    def returncode(self) -> int | None:
        return self._run.result() if self._run.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._run)

    def send_signal(self, number: int) -> None:
        """There is no process to be ended."""
        del number


@contextlib.asynccontextmanager
async def near(workbench: Workbench, view: View, era: Era, capabilities: Json) -> AsyncGenerator[Wire]:
    """A client past its handshake, at a front of its own."""
    source, to_front = os.pipe()
    from_front, sink = os.pipe()
    run = asyncio.create_task(_serve(workbench, view, source, sink))
    process = Near(run, await _writer(to_front), await _reader(from_front))
    wire = Wire(cast("Any", process), era)
    wire.capabilities = capabilities
    try:
        if era == "handshake":
            await wire.handshake(capabilities=capabilities)
        yield wire
    finally:
        await wire.close()


async def _serve(workbench: Workbench, view: View, source: int, sink: int) -> int:
    front = StdioEndpoint(workbench, Greeting(new_callers(view)), view)
    try:
        return await front.run(source, sink)
    finally:
        await front.close()


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    pipe = os.fdopen(descriptor, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
