"""One side of an MCP session over two file descriptors; it works for clients and servers.

Guarantees: a malformed line gets an error, and reading continues. Once the input ends, our pending requests fail.
Closing flushes the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Raw

from mcp_workbench.errors import Fault, ServerExited
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.framing import LineReader, LineWriter, read_lines, write_lines
from mcp_workbench.wire.jsonrpc import ErrorBody, RpcError, Unreadable
from mcp_workbench.wire.peer import Peer, PeerRequest

FINAL_WRITE_SECONDS = 1.0
"""How long the other side may take to read its last answers."""


async def refuse(method: str, _params: dict[str, Raw], _line: PeerRequest) -> Raw:
    """Refuse every request."""
    raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method}")


class PipeConnection:
    """A `Peer` on two pipes. `answer` is called for each request of the other side."""

    def __init__(self, answer: Callable[[str, dict[str, Raw], PeerRequest], Awaitable[Raw]] = refuse) -> None:
        self._answer = answer
        self._writer = LineWriter(self._output_lost)
        self.peer = Peer(self._writer, self)
        self._reader = LineReader(self.peer.receive, self._input_ended, DEFAULTS.message_bytes, last_line=True)
        self._over = asyncio.Event()

    async def open(self, source: int, sink: int) -> None:
        """Read from `source` and write to `sink`. The connection closes both."""
        await write_lines(sink, self._writer, source=source)
        await read_lines(source, self._reader)

    async def serve(self) -> None:
        """Run until the input ends and every request is answered."""
        await self._over.wait()
        if serving := self.peer.serving:
            await asyncio.wait(serving)
        await self.close()

    async def close(self) -> None:
        """Stop reading and flush the output."""
        self._reader.close()
        self.peer.close(ServerExited("the connection is closed"))
        await self._writer.finish(FINAL_WRITE_SECONDS)

    # -- what the peer and its pipes report

    def request(self, method: str, params: dict[str, Raw], line: PeerRequest) -> Awaitable[Raw]:
        return self._answer(method, params, line)

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        """Ignored: the peer handles progress and cancellation, and no others matter here."""

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        self.peer.refuse(line, jsonrpc.refusal(problem))

    def complaint(self, error: ErrorBody) -> None:
        """Ignored: requests that get no answer end with the connection."""

    def _input_ended(self, fault: Fault | None) -> None:
        if fault is not None:
            self.peer.refuse(b"", RpcError(jsonrpc.INVALID_REQUEST, str(fault)))
        self.peer.give_up(fault or ServerExited("the other side has disconnected"))
        self._over.set()

    def _output_lost(self) -> None:
        self.peer.close(ServerExited("the other side has stopped reading"))
        self._over.set()
