"""The contract of a surface. A session has one; they differ in what they show, not in how it is asked for."""

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
"""Answers a request: the call, and the members of its `params` but for `_meta`. Raises `RpcError`."""


def one_page(params: dict[str, Raw]) -> None:
    """A list of ours has one page. Raises `RpcError` for any other."""
    cursor = params.get("cursor")
    if cursor is not None and not jsonrpc.is_null(cursor):
        raise RpcError(jsonrpc.INVALID_PARAMS, "Invalid cursor: the list has one page")


async def forward(router: Router, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
    """The server's result, as it gave it. Raises `RpcError`: the server's own error, or why there is none."""
    with rpc_errors(server, method, modern=exchange.caller.modern):
        result = await router.calls.call(ForwardedRequest(server, method, params, exchange))
    router.links.remember(server, result)
    return result


class Surface(Protocol):
    """One way to see the workbench, for one client."""

    @property
    def tools_change(self) -> bool:
        """Whether the list of tools changes by itself, and not only when the configuration does."""
        ...

    @property
    def own_lists(self) -> bool:
        """Whether its lists are the workbench's own, and not one server's."""
        ...

    async def hello(self, caller: Caller) -> ServerInfo:
        """What the client is told at the start. Raises `RpcError`."""
        ...

    def method(self, name: str) -> Method | None:
        """What answers a method; None where there is no such method here."""
        ...

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        """The result of a `tools/call` that reached no server; it names the tool as far as the call does.

        Raises `RpcError` if the call names no tool.
        """
        ...

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        """A server's notification as its client shall see it: once, not at all, or once per name of a resource."""
        ...

    def question(self, source: ServerIdentifier, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The params of a server's question as its client shall see them; None where it can't be asked here."""
        ...

    def changed(self, toolbox: str, kind: str) -> bool:
        """A list of a toolbox changed: whether one that this client sees did."""
        ...

    def watch(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with a kind when something that the client did changed a list."""
        ...

    def notice(self, caller: Caller, method: str, params: dict[str, Raw]) -> None:
        """A client's notification that servers may want to hear."""
        ...

    async def subscribe(self, caller: Caller, uri: str) -> bool:
        """Have the client told of changes of a resource; whether that is possible."""
        ...

    def unsubscribe(self, caller: Caller, uri: str) -> None: ...

    async def watch_task(self, caller: Caller, task: str) -> bool:
        """Have a modern client told of a task's progress; whether that is possible."""
        ...

    def unwatch_task(self, caller: Caller, task: str) -> None: ...


_ADDED_BYTES: Final = 512
"""What rendering adds to an item at most, in nearly every case: another name, a title and where it is from."""


class ListedItem(NamedTuple):
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


async def page(
    member: str, items: Sequence[ListedItem], params: dict[str, Raw], limits: Limits, renderer: Renderer
) -> Raw:
    """The page that `params` ask for. Raises `RpcError` for a cursor that no page ends with."""
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
    """Where the page that begins at `start` ends: at least one item, and no more than fit."""
    end, size = start, 0
    while end < len(items) and (end == start or size <= most_bytes):
        size += items[end].size
        end += 1
    return end


class Scope:
    """A handshake client sees what it opened. A modern client's lists must not change by a call: it sees all."""

    def __init__(self, toolboxes: Callable[[], Collection[str]], *, all_open: bool = False) -> None:
        """`toolboxes` are those that there are now."""
        self._toolboxes = toolboxes
        self._opened = dict.fromkeys(toolboxes() if all_open else ())
        self._all_seen = False

    def of(self, caller: Caller) -> tuple[str, ...]:
        """What this caller sees, in the order of the configuration."""
        self._all_seen = self._all_seen or caller.modern
        return tuple(name for name in self._toolboxes() if caller.modern or name in self._opened)

    def all(self) -> tuple[str, ...]:
        """Every toolbox that this client can use, open or not."""
        return tuple(self._toolboxes())

    def allows(self, toolbox: str) -> bool:
        """Whether it is there for this client at all, open or not."""
        return toolbox in self._toolboxes()

    def open(self, toolbox: str) -> bool:
        """Add a toolbox; whether it is new."""
        if toolbox in self._opened:
            return False
        self._opened[toolbox] = None
        return True

    def has_shown(self, toolbox: str) -> bool:
        """Whether the client has seen what is in it, and so is told when that changes."""
        return self._all_seen or toolbox in self._opened
