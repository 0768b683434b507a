"""Lists of ours, in pages: one in nearly every case, more where a message would get too large."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import RpcError


def page(member: str, items: Sequence[Raw], params: dict[str, Raw], limits: Limits) -> Raw:
    """The page that `params` ask for. Raises `RpcError` for a cursor that no page ends with."""
    cursor = params.get("cursor")
    wanted = "0" if cursor is None or jsonrpc.is_null(cursor) else jsonrpc.text_or_none(cursor)
    start = 0
    while True:
        end = _end(items, start, limits.page_bytes)
        if str(start) == wanted:
            following = {"nextCursor": str(end)} if end < len(items) else {}
            return Raw(jsonrpc.encode({member: items[start:end], **following}))
        if end >= len(items):
            raise RpcError(jsonrpc.INVALID_PARAMS, "Invalid cursor")
        start = end


def _end(items: Sequence[Raw], start: int, most_bytes: int) -> int:
    """Where the page that begins at `start` ends: at least one item, and no more than fit."""
    end, size = start, 0
    while end < len(items) and (end == start or size <= most_bytes):
        size += memoryview(items[end]).nbytes
        end += 1
    return end
