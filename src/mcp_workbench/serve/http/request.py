"""One HTTP request of a client. Its headers are folded once, and the message in its body is decoded once."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Raw
from starlette.types import Receive

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.guard import Refused
from mcp_workbench.serve.http.head import Head, cached_if_short
from mcp_workbench.serve.http.protocol import Connection
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.batch import is_batch
from mcp_workbench.wire.jsonrpc import Id, Message, RpcError, Unreadable
from mcp_workbench.wire.memory_budget import Account

_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


class HungUp(Exception):
    """The client is gone before it was answered."""


class HttpRequest:
    """A request that passed the guard."""

    __slots__ = ("_meta", "body", "headers", "is_batch", "message", "method", "problem", "repeated", "wire")

    def __init__(self, head: Head, body: bytes, wire: Connection) -> None:
        self.method, self.headers, self.repeated = head.method, head.headers, head.repeated
        self.wire = wire
        """The connection that it came on."""
        self.body = body
        self._meta: dict[str, Raw] | None = None
        self.message: Message | None = None
        self.problem: RpcError | None = None
        """The error if the body is not a message. A batch has neither message nor problem."""
        self.is_batch = is_batch(body)
        if self.method == "POST" and not self.is_batch:
            self._read()

    def _read(self) -> None:
        try:
            self.message = jsonrpc.read(self.body)
        except Unreadable as problem:
            self.problem = jsonrpc.refusal(problem)

    @property
    def meta(self) -> dict[str, Raw]:
        """The `_meta` of its message, decoded once."""
        if self._meta is None:
            self._meta = jsonrpc.members(self.message.params.get("_meta")) if self.message is not None else {}
        return self._meta

    def forget_body(self) -> None:
        """Let go of the body: whoever answers it has what it needs, and the client may take long to read the answer."""
        self.body = b""
        self.message = self._meta = None

    @property
    def id(self) -> Id | None:
        """The id of the message, as far as an error can name it."""
        if self.message is None:
            return jsonrpc.leading_id(self.body) if self.problem is not None else None
        return self.message.id if isinstance(self.message.id, int | str) else None

    @property
    def accepts_events(self) -> bool:
        return _accepts(self.headers.get("accept", ""))[1]

    @property
    def accepts_both(self) -> bool:
        """Whether the client takes an answer as JSON and as a stream of events, as the protocol demands."""
        return all(_accepts(self.headers.get("accept", "")))

    @property
    def is_json(self) -> bool:
        """Whether the body claims to be JSON."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == _JSON


@cached_if_short
def _accepts(accept: str) -> tuple[bool, bool]:
    """Whether JSON, and whether events are accepted; wildcards count."""
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    has_any = "*/*" in kinds
    return has_any or bool(kinds & {_JSON, "application/*"}), has_any or bool(kinds & {_EVENTS, "text/*"})


async def read_body(
    head: Head, wire: Connection, receive: Receive, limits: Limits, account: Account | None = None
) -> bytes:
    """The whole body on one line, which `account` counts while it arrives. Raises `Refused`, or `HungUp`."""
    if int(head.headers.get("content-length", 0)) > limits.http_body_bytes:  # h11 lets only digits pass
        raise _too_large(limits)
    if wire.has_body:
        body, _ = await _piece(receive)
    else:
        body = await _arriving(receive, limits, account)
    if len(body) > limits.http_body_bytes:
        raise _too_large(limits)
    return one_line(body)


async def _arriving(receive: Receive, limits: Limits, account: Account | None) -> bytes:
    """A body that is not there yet, or its beginning if it is too large."""
    body, is_whole = bytearray(), False
    try:
        async with asyncio.timeout(limits.http_body_seconds):
            while not is_whole and len(body) <= limits.http_body_bytes:
                piece, is_whole = await _piece(receive)
                if account is not None:
                    account.reserve(len(piece))
                body += piece
    except TimeoutError:
        raise Refused(408, f"The body did not come within {limits.http_body_seconds:g} seconds") from None
    return bytes(body)


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """A part of the body, and whether it is the last. Raises `HungUp`."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise HungUp
    return message.get("body", b""), not message.get("more_body", False)


def _too_large(limits: Limits) -> Refused:
    return Refused(413, f"The body has more than {limits.http_body_bytes} bytes")


def one_line(body: bytes) -> bytes:
    """JSON without line breaks: in JSON they are only between values."""
    return body.translate(_BREAKS) if b"\n" in body or b"\r" in body else body
