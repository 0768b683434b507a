"""A driver for the official Python client, in each of its modes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import driver
import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

Json = dict[str, Any]
MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


class Official:
    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def session(self) -> ClientSession:
        return self._client.session

    @property
    def version(self) -> str:
        return self._client.protocol_version

    async def list_tools(self) -> types.ListToolsResult:
        return await self._client.list_tools(cache_mode="bypass")

    async def call_tool(
        self, name: str, arguments: Json, meta: Json | None, progress: Callable[..., Awaitable[None]] | None
    ) -> types.CallToolResult:
        return await self._client.call_tool(name, arguments, progress_callback=progress, meta=meta)


@contextlib.asynccontextmanager
async def connect(script: Json, host: driver.Host) -> AsyncGenerator[Official]:
    able = host.capabilities
    async with (
        httpx2.AsyncClient(headers=script.get("headers"), timeout=driver.STEP_SECONDS) as http,
        Client(
            target(script, http),
            mode=MODES[script["mode"]],
            elicitation_callback=host.elicit if "elicitation" in able else None,
            sampling_callback=host.sample if "sampling" in able else None,
            list_roots_callback=host.roots if "roots" in able else None,
            message_handler=host.hear,
        ) as client,
    ):
        yield Official(client)


def target(script: Json, http: httpx2.AsyncClient) -> Any:
    if "url" in script:
        return streamable_http_client(script["url"], http_client=http)
    command, *arguments = script["server"]
    return StdioServerParameters(command=command, args=arguments, env=script["env"])


if __name__ == "__main__":
    driver.main(connect)
