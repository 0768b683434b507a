"""The official SDK's low-level server, forwarding raw to one stdio server: `sdk_proxy.py COMMAND [ARGUMENT...]`.

The quickest way through the SDK: a middleware answers before any model is built, and the
connection downstream is a bare dispatcher. It is made in the background, so it delays no handshake.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.types import ListToolsResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FORWARDED = frozenset({"tools/list", "tools/call"})


class Downstream:
    """One connection, opened and closed by the same task."""

    def __init__(self, command: str, args: list[str]) -> None:
        self._parameters = StdioServerParameters(command=command, args=args)
        self._ready = anyio.Event()
        self._dispatcher: Any = None

    async def run(self) -> None:
        async with stdio_client(self._parameters) as (read, write):
            self._dispatcher = JSONRPCDispatcher(read, write)
            async with ClientSession(dispatcher=self._dispatcher) as session:
                await session.initialize()
                self._ready.set()
                await anyio.sleep_forever()

    async def forward(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        if ctx.method not in FORWARDED:
            return await call_next(ctx)
        await self._ready.wait()
        return await self._dispatcher.send_raw_request(ctx.method, dict(ctx.params or {}), {})


async def list_tools(_ctx: Any, _params: Any) -> ListToolsResult:
    """Never reached; registered because capabilities are read off the handlers."""
    return ListToolsResult(tools=[])


async def serve(command: str, args: list[str]) -> None:
    downstream = Downstream(command, args)
    server = Server("bench", on_list_tools=list_tools)
    server.middleware[:] = [downstream.forward]
    async with anyio.create_task_group() as tasks, stdio_server() as (read, write):
        tasks.start_soon(downstream.run)
        await server.run(read, write, server.create_initialization_options())
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1], sys.argv[2:])
