"""HTTP requests: their head, their body read within limits, and the message in it, decoded once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from functools import lru_cache
from typing import Final, TypeVar

from msgspec import Raw
from starlette.types import Receive, Scope

from mcp_workbench.limits import Limits
from mcp_workbench.serve.http.connection import ClientConnection
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.batch import is_batch
from mcp_workbench.wire.jsonrpc import Id, Message, RpcError, Unreadable
from mcp_workbench.wire.memory_budget import Account

T = TypeVar("T", bound=Sized)
R = TypeVar("R")

_USUAL_LENGTH: Final = 256
"""Longer values are not cached, so that clients can't fill the memory with them."""


def cached_if_short(read: Callable[[T], R]) -> Callable[[T], R]:
    """Cache the results of parsing headers and paths: clients send the same ones again and again."""
    cached = lru_cache(maxsize=64)(read)
    return lambda value: cached(value) if len(value) <= _USUAL_LENGTH else read(value)


class RequestHead:
    """The method and the headers of a request; names are in lower case."""

    __slots__ = ("headers", "method", "repeated")

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.headers: dict[str, str] = {}
        """The first value of each header."""
        self.repeated: set[str] = set()
        """The names of headers that appear more than once."""
        for raw_name, raw_value in scope["headers"]:
            name = raw_name.decode("latin-1")
            if name in self.headers:
                self.repeated.add(name)
            else:
                self.headers[name] = raw_value.decode("latin-1")

    def single(self, name: str) -> str | None:
        """The value of a header that appears exactly once."""
        return self.headers.get(name) if name not in self.repeated else None


_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


class RequestRefused(Exception):
    """The request is refused before its message is read."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class ClientDisconnected(Exception):
    """The client disconnected before its request was answered."""


class HttpRequest:
    """A request that passed the guard."""

    __slots__ = ("_meta", "body", "connection", "headers", "is_batch", "message", "method", "problem", "repeated")

    def __init__(self, head: RequestHead, body: bytes, connection: ClientConnection) -> None:
        self.method, self.headers, self.repeated = head.method, head.headers, head.repeated
        self.connection = connection
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
        """The `_meta` of the message, decoded once."""
        if self._meta is None:
            self._meta = jsonrpc.members(self.message.params.get("_meta")) if self.message is not None else {}
        return self._meta

    def forget_body(self) -> None:
        """Free the body and the message, which are not needed while the client reads its response."""
        self.body = b""
        self.message = self._meta = None

    @property
    def id(self) -> Id | None:
        """The id of the message, if an error response can contain it."""
        if self.message is None:
            return jsonrpc.leading_id(self.body) if self.problem is not None else None
        return self.message.id if isinstance(self.message.id, int | str) else None

    @property
    def accepts_events(self) -> bool:
        return _accepts(self.headers.get("accept", ""))[1]

    @property
    def accepts_both(self) -> bool:
        """Whether the client accepts both JSON and event streams, as the protocol demands."""
        return all(_accepts(self.headers.get("accept", "")))

    @property
    def is_json(self) -> bool:
        """Whether the content type is JSON."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == _JSON


@cached_if_short
def _accepts(accept: str) -> tuple[bool, bool]:
    """Whether an Accept header allows JSON, and whether it allows event streams."""
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    has_any = "*/*" in kinds
    return has_any or bool(kinds & {_JSON, "application/*"}), has_any or bool(kinds & {_EVENTS, "text/*"})


async def read_body(
    head: RequestHead, connection: ClientConnection, receive: Receive, limits: Limits, account: Account | None = None
) -> bytes:
    """Read the whole body as one line; `account` counts it. Raises `RequestRefused` or `ClientDisconnected`."""
    if int(head.headers.get("content-length", 0)) > limits.http_body_bytes:  # h11 lets only digits through
        raise _too_large(limits)
    if connection.has_body:
        body, _ = await _piece(receive)
    else:
        body = await _arriving(receive, limits, account)
    if len(body) > limits.http_body_bytes:
        raise _too_large(limits)
    return one_line(body)


async def _arriving(receive: Receive, limits: Limits, account: Account | None) -> bytes:
    """Read a body as it arrives, until it ends or exceeds the limit."""
    body, is_whole = bytearray(), False
    try:
        async with asyncio.timeout(limits.http_body_seconds):
            while not is_whole and len(body) <= limits.http_body_bytes:
                piece, is_whole = await _piece(receive)
                if account is not None:
                    account.reserve(len(piece))
                body += piece
    except TimeoutError:
        raise RequestRefused(408, f"The body did not arrive within {limits.http_body_seconds:g} seconds") from None
    return bytes(body)


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """The next part of the body, and whether it is the last. Raises `ClientDisconnected`."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message.get("body", b""), not message.get("more_body", False)


def _too_large(limits: Limits) -> RequestRefused:
    return RequestRefused(413, f"The body has more than {limits.http_body_bytes} bytes")


def one_line(body: bytes) -> bytes:
    """Replace line breaks in JSON by spaces; they occur only between values."""
    return body.translate(_BREAKS) if b"\n" in body or b"\r" in body else body
