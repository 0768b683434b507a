"""The contract of a surface. A session has one; they differ in what they show, not in how it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Raw

from mcp_workbench.errors import Fault
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.routing.requests import ForwardedRequest
from mcp_workbench.surfaces.failures import rpc_errors
from mcp_workbench.surfaces.hello import Hello
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange
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

    async def hello(self, caller: Caller) -> Hello:
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
