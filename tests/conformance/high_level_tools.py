"""The high-level server's tools that ask nothing, its resources and its prompts."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated

from everything_reads import PICTURE, SOUND, embedded, picture, text
from everything_tools import AWAY_SECONDS, KEYWORDS_2020, MISSING_CAPABILITY, MIXED, STEP_SECONDS
from mcp import MCPError, types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from pydantic import Field

# -- content


def test_simple_text() -> str:
    return "This is a simple text response for testing."


def test_image_content() -> list[types.ImageContent]:
    return [picture()]


def test_audio_content() -> list[types.AudioContent]:
    return [types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")]


def test_embedded_resource() -> list[types.EmbeddedResource]:
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


def test_multiple_content_types() -> list[types.TextContent | types.ImageContent | types.EmbeddedResource]:
    return [text("Multiple content types test:"), picture(), MIXED]


def test_error_handling() -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


def echoed_region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "none") -> str:
    return f"region: {region}"


def json_schema_2020_12_tool() -> str:
    return "Its schema is what matters."


# -- what is sent before the answer


async def test_tool_with_logging(ctx: Context) -> str:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(words)  # pyright: ignore[reportDeprecated]
        await asyncio.sleep(STEP_SECONDS)
    return "Three lines were logged."


async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(STEP_SECONDS)
    return "All of it is done."


async def test_reconnection(ctx: Context) -> str:
    await ctx.info("The stream is about to be closed")  # pyright: ignore[reportDeprecated]
    await ctx.close_sse_stream()
    await asyncio.sleep(AWAY_SECONDS)
    await ctx.info("The client should be back")  # pyright: ignore[reportDeprecated]
    return "The answer came after the stream was closed."


# -- capabilities and changes


async def test_missing_capability(ctx: Context) -> str:
    can = ctx.client_capabilities
    if can is None or can.sampling is None:
        wanted = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(code=MISSING_CAPABILITY, message="The client must declare sampling", data=wanted)
    return "The client declared sampling."


async def test_trigger_tool_change(ctx: Context) -> str:
    ctx.mcp_server.add_tool(test_simple_text, name="test_dynamic_tool")
    ctx.mcp_server.remove_tool("test_dynamic_tool")
    await ctx.notify_tools_changed()
    return "The change was told."


async def test_trigger_prompt_change(ctx: Context) -> str:
    ctx.mcp_server.add_prompt(Prompt.from_function(test_simple_prompt, name="test_dynamic_prompt"))
    ctx.mcp_server.remove_prompt("test_dynamic_prompt")
    await ctx.notify_prompts_changed()
    return "The change was told."


# -- resources and prompts


def static_text() -> str:
    return "This is the content of the static text resource."


def static_binary() -> bytes:
    return base64.b64decode(PICTURE)


def watched() -> str:
    return "Somebody may watch this."


def of_template(id: str) -> str:  # noqa: A002 -- the name in the template
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def test_simple_prompt() -> list[UserMessage]:
    return [UserMessage(content=text("This is a simple prompt for testing."))]


def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    return [UserMessage(content=text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]


def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 -- the suite's name
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(content=resource), UserMessage(content=text("Please process the embedded resource above."))]


def test_prompt_with_image() -> list[UserMessage]:
    return [UserMessage(content=picture()), UserMessage(content=text("Please analyze the image above."))]


TOOLS = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    json_schema_2020_12_tool,
    test_tool_with_logging,
    test_tool_with_progress,
    test_reconnection,
    test_missing_capability,
    test_trigger_tool_change,
    test_trigger_prompt_change,
)
RENAMED = {"test_logging_tool": test_tool_with_logging, "test_x_mcp_header": echoed_region}
RESOURCES = {
    "test://static-text": static_text,
    "test://static-binary": static_binary,
    "test://watched-resource": watched,
    "test://template/{id}/data": of_template,
}
PROMPTS = (test_simple_prompt, test_prompt_with_arguments, test_prompt_with_embedded_resource, test_prompt_with_image)


def add_to(server: MCPServer) -> None:
    for function in TOOLS:
        server.tool(description=f"Fixture {function.__name__}")(function)
    for name, function in RENAMED.items():
        server.tool(name=name, description=f"Fixture {name}")(function)
    for uri, read in RESOURCES.items():
        server.resource(uri, description=f"Fixture {uri}")(read)
    for function in PROMPTS:
        server.prompt(description=f"Fixture {function.__name__}")(function)
    tool = server._tool_manager.get_tool("json_schema_2020_12_tool")  # there is no public way to give a schema
    assert tool is not None
    tool.parameters = KEYWORDS_2020
