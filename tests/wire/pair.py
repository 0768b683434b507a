"""Two peers on a wire in memory: what one writes the other receives, in order, in the next turn of the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from mcp_workbench.wire.exchange import OpenRequest
from mcp_workbench.wire.jsonrpc import Envelope, ErrorBody, Id, RpcError, Unreadable, encode
from mcp_workbench.wire.peer import Peer

Answering = Callable[[dict[str, Raw], OpenRequest], Awaitable[Raw]]


class MemoryWriter:
    """Remembers what was written, and delivers it if there is somebody to deliver to."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.concerns: list[Id | None] = []
        """Which request of the other side each line is about."""
        self.congested = False
        self.is_closed = False
        self.deliver: Callable[[bytes], None] | None = None
        self._drained = asyncio.Event()

    async def drained(self) -> None:
        await self._drained.wait()

    def drain(self) -> None:
        """The other side has read."""
        self.congested = False
        self._drained.set()

    def write(self, envelope: Envelope) -> None:
        if envelope.may_drop and self.congested:
            return
        self.lines.append(envelope.line)
        self.concerns.append(envelope.about)
        if self.deliver is not None:
            asyncio.get_running_loop().call_soon(self.deliver, envelope.line)

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def of(self, method: str) -> list[dict[str, Any]]:
        """What was sent with this method."""
        return [message for message in self.sent if message.get("method") == method]


class Recorder:
    """A handler: methods are functions in a table, the rest is written down."""

    def __init__(self) -> None:
        self.methods: dict[str, Answering] = {}
        self.notifications: list[tuple[str, Any]] = []
        self.broken: list[bytes] = []
        self.complaints: list[ErrorBody] = []
        self.started: list[str] = []

    async def request(self, method: str, params: dict[str, Raw], line: OpenRequest) -> Raw:
        self.started.append(method)
        if method not in self.methods:
            raise RpcError(-32601, f"Method not found: {method}")
        return await self.methods[method](params, line)

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        del owner
        self.notifications.append((method, {name: json.loads(bytes(value)) for name, value in params.items()}))

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        del problem
        self.broken.append(line)

    def complaint(self, error: ErrorBody) -> None:
        self.complaints.append(error)


class End:
    """One end: its peer, its handler, what it wrote."""

    def __init__(self, *, answers_always: bool = True) -> None:
        self.writer = MemoryWriter()
        self.handler = Recorder()
        self.peer = Peer(self.writer, self.handler, answers_always=answers_always)

    def receive(self, **message: Any) -> None:
        """As if the other side had sent this."""
        self.peer.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())


def pair() -> tuple[End, End]:
    """Two ends of one wire."""
    left, right = End(), End()
    left.writer.deliver = right.peer.receive
    right.writer.deliver = left.peer.receive
    return left, right


async def echo(params: dict[str, Raw], line: OpenRequest) -> Raw:
    del line
    return Raw(encode(params))


async def settle(turns: int = 10) -> None:
    """Let everything that is ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)
