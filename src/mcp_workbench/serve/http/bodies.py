"""The body of a request: read whole, within its bounds, before anything is done about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from starlette.types import Message, Receive

from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.http.guard import Refused
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.jsonrpc import Id

BODY: Final = "mcp_workbench.body"
"""Where in a request's scope its whole body is."""
_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class HungUp(Exception):
    """The client is gone before it was answered."""


async def read_body(headers: Iterable[tuple[bytes, bytes]], receive: Receive, limits: Limits) -> bytes:
    """The whole body. Raises `Refused`, or `HungUp`."""
    most = limits.http_body_bytes
    too_large = Refused(413, f"The body has more than {most} bytes")
    if any(name == b"content-length" and int(value) > most for name, value in headers):  # h11 lets only digits pass
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.http_body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HungUp
                body += message.get("body", b"")
                if len(body) > most:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refused(408, f"The body did not come within {limits.http_body_seconds:g} seconds") from None


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body first, and then what comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


_SHOWN = frozenset({"name", "uri", "protocolVersion", "requestId", "cursor", "_meta"})
"""What of a request's params the SDK must know to say whether it fits its headers, and whose it is."""


def outline(body: bytes, limits: Limits) -> bytes:
    """A message without what is large in it; what is none to us is none to the SDK, which takes more for one."""
    try:
        if (envelope := _decoder.decode(body)).method and envelope.id is None:
            return b"[]"
        if len(body) <= limits.http_whole_bytes:
            return body
        members: dict[str, Any] = dict(_members.decode(body))
    except msgspec.ValidationError:
        return b"[]"
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return b"{"
    shown = {
        name: members[name] for name in ("jsonrpc", "id", "method") if name in members and _is_small(members[name])
    }
    if "params" in members:
        shown["params"] = _outlined(members["params"])
    if "result" in members:
        shown["result"] = {}
    if "error" in members:
        shown["error"] = {"code": 0, "message": ""}
    return jsonrpc.encode(shown)


def _outlined(params: msgspec.Raw) -> Any:
    if not jsonrpc.is_object(params):
        return []
    members = jsonrpc.members(params)
    return {name: raw for name, raw in members.items() if name in _SHOWN and _is_small(raw)}


def _is_small(raw: msgspec.Raw) -> bool:
    return memoryview(raw).nbytes <= DEFAULTS.http_whole_bytes


def one_line(body: bytes) -> bytes:
    """JSON without line breaks: in JSON they are only between values."""
    return body.translate(_BREAKS)


class _Envelope(msgspec.Struct):
    method: str = ""
    id: Id | msgspec.UnsetType | None = msgspec.UNSET
    params: msgspec.Raw = jsonrpc.NOTHING


class Glance(msgspec.Struct, frozen=True):
    """What must be known of a message to say who takes it."""

    method: str = ""
    id: Id | None = None
    is_modern: bool = False
    """It carries the protocol's version with it."""


_decoder = msgspec.json.Decoder(_Envelope)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def glance(body: bytes) -> Glance:
    """What the body is about; nothing where it is no message."""
    try:
        envelope = _decoder.decode(body)
        params = jsonrpc.members(envelope.params) if jsonrpc.is_present(envelope.params) else {}
        meta = jsonrpc.members(params.get("_meta"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Glance()
    is_modern = eras.PROTOCOL_VERSION in meta and envelope.method != "initialize"
    return Glance(envelope.method, None if envelope.id is msgspec.UNSET else envelope.id, is_modern)
