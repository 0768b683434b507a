"""Bodies of responses, within bounds: what is decoded counts, not what travels."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import httpx2
import msgspec

from mcp_workbench.errors import MessageTooLarge
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.events import TooLarge, events_of
from mcp_workbench.servers.http.unpacking import unpacked
from mcp_workbench.wire.fairness import FairShare
from mcp_workbench.wire.memory_budget import Account

REFUSAL_BYTES = 64 * 1024
"""How much of the body of a refusal is read in search of a JSON-RPC error."""

JSON = "application/json"
EVENTS = "text/event-stream"


def kind_of(response: httpx2.Response) -> str:
    """The media type, without its parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def too_large(limits: Limits) -> MessageTooLarge:
    return MessageTooLarge(f"it sent a message of more than {limits.message_bytes} bytes")


async def read_body(
    response: httpx2.Response, limits: Limits, share: FairShare, account: Account | None = None
) -> bytes:
    """The whole body, decoded. Raises `MessageTooLarge` as soon as it is more than a message may be.

    `account` counts it while it arrives. Nothing is read while the client is paused.
    """
    account = account or Account()
    pieces = bytearray()
    try:
        async with contextlib.aclosing(unpacked(response, share)) as source:
            async for piece in source:
                await account.unpaused()
                account.reserve(len(piece))
                pieces += piece
                if len(pieces) > limits.message_bytes:
                    raise too_large(limits)
        return bytes(pieces)
    finally:
        account.release(len(pieces))


async def read_refusal(response: httpx2.Response, share: FairShare) -> bytes:
    """The body of a refusal, or nothing where it is longer than an error of ours would be."""
    pieces = bytearray()
    async with contextlib.aclosing(unpacked(response, share)) as source:
        async for piece in source:
            pieces += piece
            if len(pieces) > REFUSAL_BYTES:
                return b""
    return bytes(pieces)


async def events_in(
    response: httpx2.Response, limits: Limits, share: FairShare, account: Account | None = None
) -> AsyncGenerator[httpx2.ServerSentEvent]:
    """The events of a stream, as they come. Raises `MessageTooLarge` for one that is more than a message may be.

    For `account` see `read_body`.
    """
    pieces = unpacked(response, share)
    try:
        async with contextlib.aclosing(events_of(pieces, limits, share, account or Account())) as source:
            async for event in source:
                yield event
    except TooLarge:
        raise too_large(limits) from None


def one_line(data: bytes) -> bytes:
    """The same JSON without line breaks, digit for digit; what is no JSON is left to who reads it."""
    data = data.strip()
    if b"\n" not in data and b"\r" not in data:
        return data
    try:
        return msgspec.json.format(data, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return data.replace(b"\n", b" ").replace(b"\r", b" ")
