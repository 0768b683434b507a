"""A server on the official SDK, the same over stdio and over HTTP, in both eras.

    sdk_remote_server.py stdio|http|json|handshake

Over HTTP it prints its address. `json` answers with JSON instead of streams, `handshake` refuses the modern era.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import warnings
from typing import Any

import uvicorn
from mcp import MCPDeprecationWarning, MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

Context = ServerRequestContext[Any, Any]

BUS = InMemorySubscriptionBus()
REGION = {"type": "string", "x-mcp-header": "Region", "description": "Where"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "echo": {"type": "object", "properties": {"text": {"type": "string"}}},
    "where": {"type": "object", "properties": {"region": REGION}},
    "wait": {"type": "object"},
    "waited": {"type": "object"},
    "count": {"type": "object"},
    "ask": {"type": "object"},
    "sample": {"type": "object"},
    "change": {"type": "object"},
    "fail": {"type": "object"},
    "shout": {"type": "object"},
}
ROOMS: dict[str, asyncio.Barrier] = {}
EVENTS: list[str] = []


def text(value: str, structured: dict[str, Any] | None = None) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)], structured_content=structured)


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=schema) for name, schema in SCHEMAS.items()])


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
    arguments = params.arguments or {}
    match params.name:
        case "echo" | "where":
            return text(json.dumps(arguments), {"arguments": arguments, "é": [1, 2.5, None]})
        case "wait":
            return await wait()
        case "waited":
            return text(" ".join(EVENTS))
        case name:
            return await talk(context, params, name)


async def talk(context: Context, params: types.CallToolRequestParams, name: str) -> Any:
    """The tools that need their client."""
    match name:
        case "count":
            for step in range(1, 4):
                await context.session.report_progress(step, 3, f"step {step}")
            return text("counted")
        case "ask":
            return await ask(context, params)
        case "sample":
            said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="hello"))
            answer = await context.session.create_message([said], max_tokens=5)  # pyright: ignore[reportDeprecated]
            return text(answer.model_dump_json(by_alias=True, exclude_none=True))
        case "change":
            return await change(context)
        case "shout":
            return await shout(context, params.arguments or {})
        case _:
            raise MCPError(code=-32602, message=f"Unknown tool: {name}", data={"name": name})


async def wait() -> types.CallToolResult:
    EVENTS.append("began")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        EVENTS.append("cancelled")
        raise
    return text("waited")


async def ask(context: Context, params: types.CallToolRequestParams) -> Any:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    if context.protocol_version < "2026":
        answer = await context.session.elicit_form("Yes?", schema)
        return text(json.dumps(answer.content))
    answers = params.input_responses or {}
    if "k" not in answers:
        form = types.ElicitRequestFormParams(message="Yes?", requested_schema=schema)
        return types.InputRequiredResult(input_requests={"k": types.ElicitRequest(params=form)}, request_state="s")
    return text(json.dumps(answers["k"].model_dump(by_alias=True, mode="json", exclude_none=True)["content"]))


async def shout(context: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    """Log a word, once as many calls as `together` says are in the same `room`."""
    word, room = arguments["word"], ROOMS.setdefault(arguments["room"], asyncio.Barrier(arguments["together"]))
    await room.wait()
    await context.session.send_log_message(  # pyright: ignore[reportDeprecated]
        "info", word, related_request_id=context.request_id
    )
    await room.wait()
    return text(word)


async def change(context: Context) -> types.CallToolResult:
    SCHEMAS[f"added_{len(SCHEMAS)}"] = {"type": "object"}
    await BUS.publish(ToolsListChanged())
    await context.session.send_tool_list_changed()
    return text("changed")


async def set_level(_: Context, __: types.SetLevelRequestParams) -> types.EmptyResult:
    """It is there so that the capability is declared."""
    return types.EmptyResult()


def main() -> None:
    how = sys.argv[1]
    server = Server(
        "sdk",
        version="1.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    if how == "stdio":
        asyncio.run(on_stdio(server))
        return
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # uvicorn sets it for sockets of its own only
    app = server.streamable_http_app(json_response=how == "json")
    config = uvicorn.Config(
        handshake_only(app) if how == "handshake" else app, log_level="error", timeout_graceful_shutdown=1
    )
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


def handshake_only(app: Any) -> Any:
    """As SDKs did before the modern era: a version that they do not know is a bad request."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if dict(scope.get("headers", [])).get(b"mcp-protocol-version", b"") < b"2026":
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 400, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"Unsupported protocol version"})

    return guarded


async def on_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(read, write, options)


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    main()
