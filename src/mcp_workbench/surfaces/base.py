"""The contract of a surface, and the parts that several surfaces share: paging, forwarding and scope.

A session has one surface. Lists are split into pages by their size; only the items of the requested page are rendered,
so the work for a request does not grow with the list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Raw

from mcp_workbench.errors import Fault
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.requests import ForwardedRequest
from mcp_workbench.surfaces.failures import rpc_errors
from mcp_workbench.surfaces.server_info import ServerInfo
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.fairness import Renderer
from mcp_workbench.wire.jsonrpc import Params, RpcError

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router


Method: TypeAlias = Callable[[Exchange, dict[str, Raw]], Coroutine[Any, Any, Raw]]
"""Answers a request. Its arguments are the exchange and the members of `params` except `_meta`. Raises `RpcError`."""


def read_text(params: dict[str, Raw], member: str) -> str:
    """Read a member that must be a string. Raises `RpcError`."""
    value = jsonrpc.text_or_none(params.get(member))
    if value is None:
        raise RpcError(jsonrpc.INVALID_PARAMS, f"{member} must be a string")
    return value


def require_first_page(params: dict[str, Raw]) -> None:
    """Check that a request asks for the only page of a list. Raises `RpcError`."""
    cursor = params.get("cursor")
    if cursor is not None and not jsonrpc.is_null(cursor):
        raise RpcError(jsonrpc.INVALID_PARAMS, "Invalid cursor: the list has one page")


async def forward(router: Router, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
    """Forward a request to a server and return its unchanged result. Raises `RpcError`."""
    with rpc_errors(server, method, modern=exchange.caller.modern):
        result = await router.calls.call(ForwardedRequest(server, method, params, exchange))
    router.links.remember(server, result)
    return result


class Surface(Protocol):
    """One client's view of the workbench."""

    @property
    def tools_change(self) -> bool:
        """Whether the list of tools can change while the configuration stays the same."""
        ...

    @property
    def own_lists(self) -> bool:
        """Whether the workbench makes the lists. A single server's lists pass through."""
        ...

    async def server_info(self, caller: Caller) -> ServerInfo:
        """The answer to the client's first request. Raises `RpcError`."""
        ...

    def method(self, name: str) -> Method | None:
        """The handler of a method; None if this surface does not have the method."""
        ...

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        """The result of a `tools/call` that reached no server, with the parts of the tool's identifier that are known.

        Raises `RpcError` if the call names no tool.
        """
        ...

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        """The params of a server's notification as the client sees them: none, or one for each name of a resource."""
        ...

    def question_params(self, source: ServerIdentifier, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The params of a server's question as the client sees them; None if this surface can't ask it."""
        ...

    def note_change(self, toolbox: str, kind: str) -> bool:
        """Take note that a list of a toolbox changed. Returns whether a list that this client sees changed."""
        ...

    def on_change(self, notify: Callable[[str], None]) -> None:
        """Register a callback for the kinds of lists that a call of this client changes."""
        ...

    def notice(self, caller: Caller, method: str, params: dict[str, Raw]) -> None:
        """Forward a client's notification to the servers that need it."""
        ...

    async def subscribe(self, caller: Caller, uri: str) -> bool:
        """Subscribe the client to changes of a resource. Returns whether that succeeded."""
        ...

    def unsubscribe(self, caller: Caller, uri: str) -> None: ...

    async def watch_task(self, caller: Caller, task: str) -> bool:
        """Subscribe a modern client to a task's progress. Returns whether that succeeded."""
        ...

    def unwatch_task(self, caller: Caller, task: str) -> None: ...


_ADDED_BYTES: Final = 512
"""Estimate of the bytes that rendering adds to an item: a joined name, a title and its source."""


class ListedItem(NamedTuple):
    """An item of a list that is rendered on demand."""

    raw: Raw
    """The item as its server sent it."""
    render: Callable[[], Raw] | None = None
    """Renders the item for the client; None if the client gets `raw`."""

    @property
    def size(self) -> int:
        """An estimate of its bytes on a page."""
        return len(self.raw) + (_ADDED_BYTES if self.render is not None else 0)

    def shown(self) -> Raw:
        return self.raw if self.render is None else self.render()


async def page(
    member: str, items: Sequence[ListedItem], params: dict[str, Raw], limits: Limits, renderer: Renderer
) -> Raw:
    """Render the page that `params` request. Raises `RpcError` if the cursor is invalid."""
    start, end = _bounds(items, params, limits.page_bytes)
    shown = [entry async for entry in renderer.each(items[start:end], ListedItem.shown)]
    following = {"nextCursor": str(end)} if end < len(items) else {}
    return Raw(jsonrpc.encode({member: shown, **following}))


def _bounds(items: Sequence[ListedItem], params: dict[str, Raw], most_bytes: int) -> tuple[int, int]:
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


def _end(items: Sequence[ListedItem], start: int, most_bytes: int) -> int:
    """The end of the page that begins at `start`: as many items as fit, but at least one."""
    end, size = start, 0
    while end < len(items) and (end == start or size <= most_bytes):
        size += items[end].size
        end += 1
    return end


class Scope:
    """The toolboxes whose prompts and resources a client sees.

    A handshake client sees those that it opened. A modern client sees all, since a call must not change its lists.
    """

    def __init__(self, toolboxes: Callable[[], Collection[str]], *, all_open: bool = False) -> None:
        """`toolboxes` returns the toolboxes that are configured now."""
        self._toolboxes = toolboxes
        self._opened = dict.fromkeys(toolboxes() if all_open else ())
        self._all_seen = False

    def of(self, caller: Caller) -> tuple[str, ...]:
        """The toolboxes that this caller sees, in the order of the configuration."""
        self._all_seen = self._all_seen or caller.modern
        return tuple(name for name in self._toolboxes() if caller.modern or name in self._opened)

    def all(self) -> tuple[str, ...]:
        """Every toolbox that this client can use, open or not."""
        return tuple(self._toolboxes())

    def allows(self, toolbox: str) -> bool:
        """Whether this client can use a toolbox, open or not."""
        return toolbox in self._toolboxes()

    def open(self, toolbox: str) -> bool:
        """Open a toolbox. Returns whether it was closed before."""
        if toolbox in self._opened:
            return False
        self._opened[toolbox] = None
        return True

    def has_shown(self, toolbox: str) -> bool:
        """Whether the client has seen the contents of a toolbox, and so is notified of changes."""
        return self._all_seen or toolbox in self._opened
