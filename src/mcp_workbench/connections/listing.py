"""All tools of a server, page by page, within caps: an endless list is an error, not a hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

import msgspec
from msgspec import Raw

from mcp_workbench.connections.base import explained
from mcp_workbench.errors import CallTimeout, ListTimeout, ListTooLarge, ProtocolViolation, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import METHOD_NOT_FOUND, Params


class Requests(Protocol):
    """Anything that a list can be asked of."""

    def request(
        self, method: str, params: Params, exchange: Exchange | None = None, *, hard_seconds: float = 0
    ) -> Awaitable[Raw]: ...


class _Page(msgspec.Struct, rename="camel"):
    tools: list[Raw]
    next_cursor: str | None = None


async def list_tools(server: Requests, limits: Limits) -> list[Raw]:
    """Every definition as the server sent it, in its order. Raises a `Fault`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.list_total_timeout_seconds
    tools: list[Raw] = []
    cursors: set[str] = set()
    size = 0
    params: Params = {}
    for _ in range(limits.list_pages):
        raw = await _page(server, params, min(limits.list_page_timeout_seconds, deadline - loop.time()))
        size += memoryview(raw).nbytes
        page = _read(raw)
        tools += page.tools
        if len(tools) > limits.list_tools or size > limits.list_bytes:
            raise ListTooLarge(f"its list of tools is over {limits.list_tools} tools or {limits.list_bytes} bytes")
        if page.next_cursor is None:
            return tools
        if page.next_cursor in cursors:
            raise ListTooLarge("its list of tools repeats itself without end")
        cursors.add(page.next_cursor)
        params = {"cursor": page.next_cursor}
    raise ListTooLarge(f"its list of tools does not end within {limits.list_pages} pages")


async def _page(server: Requests, params: Params, seconds: float) -> Raw:
    if seconds <= 0:
        raise ListTimeout("it did not list all of its tools in time")
    try:
        return await server.request("tools/list", params, hard_seconds=seconds)
    except CallTimeout:
        raise ListTimeout(f"it did not answer tools/list within {seconds:.3g} s") from None
    except ServerRefused as refusal:
        if refusal.rpc_code == METHOD_NOT_FOUND:
            return Raw(b'{"tools":[]}')
        raise explained(refusal) from None


def _read(raw: Raw) -> _Page:
    try:
        return msgspec.json.decode(raw, type=_Page)
    except (msgspec.DecodeError, RecursionError):
        raise ProtocolViolation("its list of tools is not one") from None
