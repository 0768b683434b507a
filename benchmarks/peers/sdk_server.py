"""A server on the official SDK: `sdk_server.py TOOLS`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

sys.path.append(str(Path(__file__).parents[1]))
from raw_server import tools

LISTED = [types.Tool.model_validate(tool) for tool in tools(int(sys.argv[1]))]


async def list_tools(context: object, params: object) -> types.ListToolsResult:
    del context, params
    return types.ListToolsResult(tools=LISTED)


async def main() -> None:
    server = Server("sdk", on_list_tools=list_tools)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


asyncio.run(main())
