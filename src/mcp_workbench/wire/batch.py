"""JSON-RPC batches: arrays of messages, answered with one array. Only protocol version 2025-03-26 has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import Envelope, Id, Message, RpcError, Unreadable
from mcp_workbench.wire.memory_budget import Account

BATCH_BYTES = 32 * 1024 * 1024
"""The answers to one batch, which wait for each other: four of the largest messages."""

VERSION: Final = "2025-03-26"
BatchElement: TypeAlias = Message | RpcError
"""A message of a batch, or the error for an element that is not a message."""

_decoder = msgspec.json.Decoder(list[Raw])


def is_batch(line: bytes) -> bool:
    """Whether a line looks like a batch."""
    return line.lstrip()[:1] == b"["


def read_batch(line: bytes, version: str, most: int) -> list[BatchElement]:
    """The messages of a batch. Raises `RpcError` if it is empty, too long, or not allowed in this version."""
    if version != VERSION:
        raise no_batch(version)
    try:
        parts = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(jsonrpc.PARSE_ERROR, f"Parse error: {error}") from None
    if not parts:
        raise _invalid("a batch must have a message")
    if len(parts) > most:
        raise _invalid(f"a batch may have at most {most} messages")
    return [_read(bytes(part)) for part in parts]


def no_batch(version: str) -> RpcError:
    """The error for a batch from a client that speaks another version or has not negotiated one yet."""
    spoken = f", and this client speaks {escape(version)}" if version else ""
    return _invalid(f"only protocol version {VERSION} has batches{spoken}. Send each message on its own")


def first_request(parts: Sequence[BatchElement]) -> Id | None:
    """The id of the first request of a batch; None if it has no requests."""
    ids = (part.id for part in parts if isinstance(part, Message) and part.method is not None)
    return next((id_ for id_ in ids if id_ is not None and id_ is not UNSET), None)


def _invalid(problem: str) -> RpcError:
    return RpcError(jsonrpc.INVALID_REQUEST, f"Invalid request: {problem}")


def _read(part: bytes) -> BatchElement:
    try:
        return jsonrpc.read(part)
    except Unreadable as problem:
        return jsonrpc.refusal(problem)


_TOO_LARGE: Final = RpcError(
    jsonrpc.INTERNAL_ERROR,
    f"The answers to this batch exceed {BATCH_BYTES} bytes. Send this request on its own",
)


class BatchResponse:
    """The answers to one batch, sent as one array once all are ready.

    A cancelled request is answered with an error, since the other answers wait for the same array. An answer that
    would make the array too large for memory is replaced by an error.
    """

    def __init__(self, about: Id | None, send: Callable[[Envelope], None], account: Account | None = None) -> None:
        """`about` is the id to name in messages about the whole batch. `account` counts the waiting answers."""
        self._account = account or Account()
        self.about = about
        self._send = send
        self._lines: list[bytes] = []
        self._size = 0
        self._waiting: dict[asyncio.Task[None], Id] = {}
        self._is_complete = False

    def write(self, answer: Envelope) -> None:
        """Add an answer, either from the task that computed it or from outside of any task."""
        line = answer.line
        if self._size + len(line) > BATCH_BYTES and answer.id is not None:
            line = Envelope(_TOO_LARGE, answer.id).line
        self._size += len(line)
        self._account.reserve(len(line))
        self._lines.append(line)
        if (task := asyncio.current_task()) is not None:
            self._waiting.pop(task, None)
        self._send_if_ready()

    def wait_for(self, task: asyncio.Task[None], id_: Id) -> None:
        """Expect an answer from `task`. If the task is cancelled, an error takes its place."""
        self._waiting[task] = id_

    def complete(self) -> None:
        """Mark the batch as fully read."""
        self._is_complete = True
        self._send_if_ready()

    def ended(self, task: asyncio.Task[None]) -> None:
        """A task that `wait_for` named has ended, perhaps without an answer."""
        if (id_ := self._waiting.pop(task, None)) is not None:
            self.write(Envelope(RpcError(jsonrpc.REQUEST_CANCELLED, "Request cancelled"), id_))

    def _send_if_ready(self) -> None:
        if self._is_complete and not self._waiting and self._lines:
            lines, self._lines = self._lines, []
            self._account.release(sum(map(len, lines)))
            self._send(Envelope(about=self.about, encoded=b"[" + b",".join(lines) + b"]"))
