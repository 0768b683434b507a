"""A server on the official SDK for people at a terminal: typed parameters, a form, media, a failure.

desk_server.py
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from mcp import types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

Context = ServerRequestContext[Any, Any]

TYPED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Which file."},
        "limit": {"type": "integer", "minimum": 1},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object"},
        "color": {"$ref": "#/$defs/Color"},
        "until": {"type": ["string", "null"]},
    },
    "required": ["path"],
    "$defs": {"Color": {"enum": ["red", "light green", "blue:ish"]}},
}
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Yours"},
        "age": {"type": "integer"},
        "color": {"type": "string", "enum": ["red", "green"]},
        "news": {"type": "boolean", "default": False},
    },
    "required": ["name", "age"],
}
PICTURE = base64.b64encode(b"x" * 1500).decode()


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    schemas: dict[str, dict[str, Any]] = {"typed": TYPED, "form": {}, "media": {}, "fail": {}, "say": {}}
    hints = types.ToolAnnotations(read_only_hint=True, destructive_hint=False)
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=name,
                description=f"Shows {name} things. And more of it.\n\nSee also: nothing.",
                input_schema={"type": "object", **schema},
                annotations=hints if name == "typed" else None,
            )
            for name, schema in schemas.items()
        ]
    )


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
    match params.name:
        case "form":
            return await form(context, params)
        case "media":
            return types.CallToolResult(content=media())
        case "fail":
            return text("it went wrong", is_error=True)
        case "say":
            return text(str((params.arguments or {}).get("text")))
        case _:
            return text(json.dumps(params.arguments or {}))


async def form(context: Context, params: types.CallToolRequestParams) -> Any:
    """The person's answer, as the era has it."""
    if context.protocol_version < "2026":
        answer = await context.session.elicit_form("Who are you?", FORM)
        return text(json.dumps(answer.model_dump(by_alias=True, mode="json", exclude_none=True)))
    answers = params.input_responses or {}
    if "who" not in answers:
        asked = types.ElicitRequestFormParams(message="Who are you?", requested_schema=FORM)
        return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=asked)}, request_state="s")
    return text(json.dumps(answers["who"].model_dump(by_alias=True, mode="json", exclude_none=True)))


def text(value: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)], is_error=is_error)


def media() -> list[types.ContentBlock]:
    note = types.TextResourceContents(uri="desk://note", text="a note", mime_type="text/plain")
    return [
        types.TextContent(type="text", text="before"),
        types.ImageContent(type="image", data=PICTURE, mime_type="image/png"),
        types.ResourceLink(type="resource_link", name="more", uri="desk://more", mime_type="text/csv", size=2_500_000),
        types.EmbeddedResource(type="resource", resource=note),
    ]


async def serve() -> None:
    server = Server("desk", version="1.0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    asyncio.run(serve())


if __name__ == "__main__":
    main()
