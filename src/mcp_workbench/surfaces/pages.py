"""Lists of ours, in pages: one in nearly every case, more where a message would get too large.

Only the items of the page are rendered, so the work for a request does not grow with the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import Raw

from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.fairness import Renderer
from mcp_workbench.wire.jsonrpc import RpcError

_ADDED_BYTES: Final = 512
"""What rendering adds to an item at most, in nearly every case: another name, a title and where it is from."""


class Listed(NamedTuple):
    """An item of a list."""

    raw: Raw
    """As its server sent it."""
    render: Callable[[], Raw] | None = None
    """Makes what the client sees, if that is not the same."""

    @property
    def size(self) -> int:
        """Its bytes on a page, without rendering it."""
        return len(self.raw) + (_ADDED_BYTES if self.render is not None else 0)

    def shown(self) -> Raw:
        return self.raw if self.render is None else self.render()


async def page(member: str, items: Sequence[Listed], params: dict[str, Raw], limits: Limits, renderer: Renderer) -> Raw:
    """The page that `params` ask for. Raises `RpcError` for a cursor that no page ends with."""
    start, end = _bounds(items, params, limits.page_bytes)
    shown = [entry async for entry in renderer.each(items[start:end], Listed.shown)]
    following = {"nextCursor": str(end)} if end < len(items) else {}
    return Raw(jsonrpc.encode({member: shown, **following}))


def _bounds(items: Sequence[Listed], params: dict[str, Raw], most_bytes: int) -> tuple[int, int]:
    cursor = params.get("cursor")
    wanted = "0" if cursor is None or jsonrpc.is_null(cursor) else jsonrpc.text_or_none(cursor)
    start = 0
    while True:
        end = _end(items, start, most_bytes)
        if str(start) == wanted:
            return start, end
        if end >= len(items):
            raise RpcError(jsonrpc.INVALID_PARAMS, "Invalid cursor")
        start = end


def _end(items: Sequence[Listed], start: int, most_bytes: int) -> int:
    """Where the page that begins at `start` ends: at least one item, and no more than fit."""
    end, size = start, 0
    while end < len(items) and (end == start or size <= most_bytes):
        size += items[end].size
        end += 1
    return end
