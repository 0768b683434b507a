"""A driver for the client of FastMCP 4, which runs in a virtualenv of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import driver
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import types
from mcp.client.session import ClientSession

Json = dict[str, Any]
MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


class FastMCP:
    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    @property
    def session(self) -> ClientSession:
        return self._client.session

    @property
    def version(self) -> str:
        return self._client.session.protocol_version or ""

    async def list_tools(self) -> types.ListToolsResult:
        return await self._client.list_tools_mcp(cache_mode="bypass")

    async def call_tool(
        self, name: str, arguments: Json, meta: Json | None, progress: Callable[..., Awaitable[None]] | None
    ) -> types.CallToolResult:
        return await self._client.call_tool_mcp(name, arguments, progress_handler=progress, meta=meta)


@contextlib.asynccontextmanager
async def connect(script: Json, host: driver.Host) -> AsyncGenerator[FastMCP]:
    able = host.capabilities
    client = Client(
        transport(script),
        mode=MODES[script["mode"]],
        elicitation_handler=(lambda _, __, params, context: host.elicit(context, params))
        if "elicitation" in able
        else None,
        sampling_handler=(lambda _, params, context: host.sample(context, params)) if "sampling" in able else None,
        roots=(lambda context: roots(host, context)) if "roots" in able else None,
        message_handler=host.hear,
        cache=False,
    )
    async with client:
        yield FastMCP(client)


async def roots(host: driver.Host, context: Any) -> list[types.Root]:
    return (await host.roots(context)).roots


def transport(script: Json) -> StreamableHttpTransport | StdioTransport:
    if "url" in script:
        return StreamableHttpTransport(script["url"], headers=script.get("headers"))
    command, *arguments = script["server"]
    return StdioTransport(command, arguments, env=script["env"], keep_alive=False)


if __name__ == "__main__":
    driver.main(connect)
