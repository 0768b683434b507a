"""A server as authors write it with the official SDK: it speaks both eras, but can ask its client in a handshake only.

    both_eras_server.py stdio|http

Over HTTP it prints its address.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from typing import Any

import uvicorn
from mcp import MCPDeprecationWarning
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("both", log_level="ERROR")


class Answer(BaseModel):
    answer: str


@server.tool()
async def whoami(ctx: Context[Any, Any]) -> str:
    """The era and version that it is spoken to in, and its process."""
    return f"{ctx.request_context.protocol_version} {os.getpid()}"


@server.tool()
async def elicit(ctx: Context[Any, Any]) -> str:
    result = await ctx.elicit("Really?", Answer)
    return f"{result.action} {result.data.answer}" if result.action == "accept" else result.action


@server.tool()
async def sample(ctx: Context[Any, Any]) -> str:
    said = SamplingMessage(role="user", content=TextContent(type="text", text="hello"))
    result = await ctx.session.create_message([said], max_tokens=5)  # pyright: ignore[reportDeprecated]
    return str(getattr(result.content, "text", ""))


@server.tool()
async def roots(ctx: Context[Any, Any]) -> str:
    result = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated]
    return " ".join(str(root.uri) for root in result.roots)


@server.tool()
async def log(ctx: Context[Any, Any]) -> str:
    await ctx.info("noted")  # pyright: ignore[reportDeprecated]
    return "logged"


@server.tool()
async def grow(name: str, ctx: Context[Any, Any]) -> str:
    server.add_tool(whoami, name=name)
    await ctx.session.send_tool_list_changed()
    return "grown"


def main() -> None:
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # uvicorn sets it for sockets of its own only
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
