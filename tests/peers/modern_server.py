"""A server of both eras on the official SDK: a few tools, one of which makes the list grow."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

Context = ServerRequestContext[Any, Any]

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
BUS = InMemorySubscriptionBus()
TOOLS = [
    types.Tool(name="echo", title="Echo", description="Send the text back.", input_schema=SCHEMA),
    types.Tool(name="grow", description="Add a tool to this server.", input_schema={"type": "object"}),
    types.Tool(name="fail", description="Answer with an error of its own.", input_schema={"type": "object"}),
    types.Tool(name="count", description="Report progress three times.", input_schema={"type": "object"}),
]


def text(value: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)], is_error=is_error)


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    match params.name:
        case "grow":
            TOOLS.append(types.Tool(name=f"grown_{len(TOOLS)}", input_schema={"type": "object"}))
            await BUS.publish(ToolsListChanged())
            await context.session.send_tool_list_changed()
            return text("grown")
        case "fail":
            return text("it failed by itself", is_error=True)
        case "count":
            for step in range(1, 4):
                await context.session.report_progress(step, 3, f"step {step}")
            return text("counted")
        case name if name in {tool.name for tool in TOOLS}:
            return text((params.arguments or {}).get("text", name))
    raise MCPError(code=-32602, message=f"Unknown tool: {params.name}")


async def serve() -> None:
    server = Server(
        "modern",
        version="1.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    asyncio.run(serve())


if __name__ == "__main__":
    main()
