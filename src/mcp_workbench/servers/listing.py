"""Reads a server's list page by page, within limits: an endless list is an error, not a hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Raw

from mcp_workbench.errors import CallTimeout, ListTimeout, ListTooLarge, ProtocolViolation, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import explained
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT, METHOD_NOT_FOUND, Params


class Requests(Protocol):
    """Anything that sends requests to a server."""

    def request(
        self,
        method: str,
        params: Params,
        *,
        caller: Caller | None = None,
        hard_seconds: float = 0,
        lenient: bool = False,
    ) -> Awaitable[Raw]: ...


class Listed(NamedTuple):
    """A whole list."""

    items: list[Raw]
    """The raw items, in the server's order."""
    ttl_seconds: float | None
    """The time to live that the server states; None if it states none."""


class _Page(msgspec.Struct, rename="camel"):
    next_cursor: str | None = None
    ttl_ms: Raw = jsonrpc.NOTHING


async def list_items(
    server: Requests, method: str, member: str, limits: Limits, *, caller: Caller | None = None
) -> Listed:
    """Read all items, and the shortest time to live that a page states. Raises a `Fault`.

    `member` is the key of the items in a page of `method`: `tools`, `prompts`, `resources` or `resourceTemplates`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.list_total_timeout_seconds
    items: list[Raw] = []
    ttl_seconds: float | None = None
    cursors: set[str] = set()
    size = 0
    params: Params = {}
    for _ in range(limits.list_pages):
        seconds = min(limits.list_page_timeout_seconds, deadline - loop.time())
        raw = await _page(server, method, params, caller, seconds)
        size += memoryview(raw).nbytes
        page, cursor, ttl = _read(raw, method, member)
        items += page
        ttl_seconds = min((one for one in (ttl, ttl_seconds) if one is not None), default=None)
        if len(items) > limits.list_tools or size > limits.list_bytes:
            raise ListTooLarge(
                f"its answer to {method} is over {limits.list_tools} {member} or {limits.list_bytes} bytes"
            )
        if cursor is None:
            return Listed(items, ttl_seconds)
        if cursor in cursors:
            raise ListTooLarge(f"its answer to {method} repeats itself without end")
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise ListTooLarge(f"its answer to {method} does not end within {limits.list_pages} pages")


async def _page(server: Requests, method: str, params: Params, caller: Caller | None, seconds: float) -> Raw:
    if seconds <= 0:
        raise ListTimeout(f"it did not answer all of {method} in time")
    try:
        # Lenient: an item that is nested too deeply is withheld later, and the others are kept.
        return await server.request(method, params, caller=caller, hard_seconds=seconds, lenient=True)
    except CallTimeout:
        raise ListTimeout(f"it did not answer {method} within {seconds:.3g} s") from None
    except ServerRefused as refusal:
        if refusal.rpc_code == METHOD_NOT_FOUND:
            return EMPTY_OBJECT
        raise explained(refusal) from None


def _read(raw: Raw, method: str, member: str) -> tuple[list[Raw], str | None, float | None]:
    """The items of a page, the cursor of the next page, and the time to live."""
    try:
        page = msgspec.json.decode(raw, type=_Page)
        if raw is EMPTY_OBJECT:
            return [], None, None
        items = msgspec.json.decode(jsonrpc.fields(raw)[member], type=list[Raw])
        return items, page.next_cursor, _seconds(page.ttl_ms)
    except (msgspec.DecodeError, RecursionError, KeyError):
        raise ProtocolViolation(f"its answer to {method} is not a list") from None


def _seconds(ttl_ms: Raw) -> float | None:
    """A time to live in seconds: a negative one counts as 0, anything but a number as missing."""
    number = jsonrpc.number_or_none(ttl_ms)
    return None if number is None else max(0.0, number / 1000)
