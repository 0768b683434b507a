"""One side of an MCP session over two file descriptors.

Guarantees: a bad line gets an error and the next line is read; once the input has ended, no request of ours waits for
an answer; closing writes what was answered. It does not know which side it is on.
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
"""How long the other side may still read its last answers."""


async def refuse(method: str, _params: dict[str, Raw], _line: PeerRequest) -> Raw:
    """Answers the requests to a side that answers none."""
    raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method}")


class PipeConnection:
    """A `Peer` with its pipes; `answer` is called for each request of the other side."""

    def __init__(self, answer: Callable[[str, dict[str, Raw], PeerRequest], Awaitable[Raw]] = refuse) -> None:
        self._answer = answer
        self._writer = LineWriter(self._output_lost)
        self.peer = Peer(self._writer, self)
        self._reader = LineReader(self.peer.receive, self._input_ended, DEFAULTS.message_bytes, last_line=True)
        self._over = asyncio.Event()

    async def open(self, source: int, sink: int) -> None:
        """Read from `source` and write to `sink`, and own both."""
        await write_lines(sink, self._writer, source=source)
        await read_lines(source, self._reader)

    async def serve(self) -> None:
        """Until the input has ended, and what was asked before is answered."""
        await self._over.wait()
        if serving := self.peer.serving:
            await asyncio.wait(serving)
        await self.close()

    async def close(self) -> None:
        """Stop reading and write what is left."""
        self._reader.close()
        self.peer.close(ServerExited("the connection is closed"))
        await self._writer.finish(FINAL_WRITE_SECONDS)

    # -- what the peer and its pipes report

    def request(self, method: str, params: dict[str, Raw], line: PeerRequest) -> Awaitable[Raw]:
        return self._answer(method, params, line)

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        """Ignored: progress and cancellations are for the peer, and nothing else concerns us."""

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        self.peer.refuse(line, jsonrpc.refusal(problem))

    def complaint(self, error: ErrorBody) -> None:
        """Ignored: requests that get no answer end with the connection."""

    def _input_ended(self, fault: Fault | None) -> None:
        if fault is not None:
            self.peer.refuse(b"", RpcError(jsonrpc.INVALID_REQUEST, str(fault)))
        self.peer.give_up(fault or ServerExited("the other side has left"))
        self._over.set()

    def _output_lost(self) -> None:
        self.peer.close(ServerExited("the other side reads nothing more"))
        self._over.set()
