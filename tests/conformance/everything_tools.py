"""The everything server's tools: every kind of content, logs, progress, questions, changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import everything_rounds as rounds
from everything_reads import SOUND, embedded, picture, text
from mcp import MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Handler = Callable[[Context, Params], Awaitable[rounds.Outcome]]
Schema = dict[str, Any]

MISSING_CAPABILITY = -32021
STEP_SECONDS = 0.05
AWAY_SECONDS = 0.2
BUS = InMemorySubscriptionBus()


def with_fields(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields}


def required(**fields: Schema) -> Schema:
    return with_fields(**fields) | {"required": list(fields)}


# -- content


def content(*blocks: types.ContentBlock) -> Handler:
    async def answer(_: Context, __: Params) -> types.CallToolResult:
        return types.CallToolResult(content=list(blocks))

    return answer


async def failed(_: Context, __: Params) -> types.CallToolResult:
    return types.CallToolResult(content=[text("This tool intentionally returns an error for testing")], is_error=True)


async def echoed_region(_: Context, params: Params) -> types.CallToolResult:
    return rounds.said(f"region: {(params.arguments or {}).get('region')}")


# -- what is sent before the answer


async def log(context: Context, words: str) -> None:
    await context.session.send_log_message(  # pyright: ignore[reportDeprecated]
        "info", words, "everything", related_request_id=context.request_id
    )


async def logged(context: Context, _: Params) -> types.CallToolResult:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(context, words)
        await asyncio.sleep(STEP_SECONDS)
    return rounds.said("Three lines were logged.")


async def progressed(context: Context, _: Params) -> types.CallToolResult:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(STEP_SECONDS)
    return rounds.said("All of it is done.")


async def reconnected(context: Context, _: Params) -> types.CallToolResult:
    """Over HTTP the stream is closed in the middle, and the client has to come back for the answer."""
    await log(context, "The stream is about to be closed")
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await asyncio.sleep(AWAY_SECONDS)
    await log(context, "The client should be back")
    return rounds.said("The answer came after the stream was closed.")


# -- questions, as the client's era has them


async def answered(context: Context, params: Params, question: types.ElicitRequest | types.CreateMessageRequest) -> Any:
    """The answer; None in the modern era while it isn't there, where the tool has to be called again with it."""
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return (params.input_responses or {}).get("answer")
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    kind = types.ElicitResult if isinstance(question, types.ElicitRequest) else types.CreateMessageResult
    return await context.session.send_request(question, kind, metadata=metadata)


async def sampled(context: Context, params: Params) -> rounds.Outcome:
    question = rounds.completion((params.arguments or {})["prompt"])
    answer: types.CreateMessageResult | None = await answered(context, params, question)
    if answer is None:
        return rounds.ask(answer=question)
    words = answer.content.text if isinstance(answer.content, types.TextContent) else "no text"
    return rounds.said(f"LLM response: {words}")


async def elicit(context: Context, params: Params, message: str, schema: Schema) -> rounds.Outcome:
    form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    question = types.ElicitRequest(params=form)
    answer: types.ElicitResult | None = await answered(context, params, question)
    if answer is None:
        return rounds.ask(answer=question)
    return rounds.said(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}")


async def elicited(context: Context, params: Params) -> rounds.Outcome:
    username, email = ({"type": "string", "description": words} for words in ("User's response", "User's address"))
    message = (params.arguments or {})["message"]
    return await elicit(context, params, message, required(username=username, email=email))


async def elicited_with_defaults(context: Context, params: Params) -> rounds.Outcome:
    fields: dict[str, Schema] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicit(context, params, "Are these right?", with_fields(**fields))


def choices(*values: str) -> list[dict[str, str]]:
    return [{"const": value, "title": value.title()} for value in values]


async def elicited_with_choices(context: Context, params: Params) -> rounds.Outcome:
    sizes = ["small", "large"]
    fields: dict[str, Schema] = {
        "untitledSingle": {"type": "string", "enum": sizes},
        "titledSingle": {"type": "string", "oneOf": choices(*sizes)},
        "legacyEnum": {"type": "string", "enum": sizes, "enumNames": ["Small", "Large"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": sizes}},
        "titledMulti": {"type": "array", "items": {"anyOf": choices(*sizes)}},
    }
    return await elicit(context, params, "Please choose", with_fields(**fields))


# -- capabilities and changes


async def needs_sampling(context: Context, _: Params) -> types.CallToolResult:
    can = context.session.client_capabilities
    if can is None or can.sampling is None:
        wanted: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(code=MISSING_CAPABILITY, message="The client must declare sampling", data=wanted)
    return rounds.said("The client declared sampling.")


def changes(event: type[ToolsListChanged | PromptsListChanged]) -> Handler:
    async def publish(context: Context, _: Params) -> types.CallToolResult:
        await BUS.publish(event())
        if event is ToolsListChanged:
            await context.session.send_tool_list_changed()
        else:
            await context.session.send_prompt_list_changed()
        return rounds.said("The change was told.")

    return publish


KEYWORDS_2020: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""The keywords that the scenario `json-schema-2020-12` looks for, in the places where it looks for them."""

SCHEMAS: dict[str, Schema] = {
    "test_sampling": required(prompt={"type": "string"}),
    "test_elicitation": required(message={"type": "string"}),
    "test_x_mcp_header": with_fields(region={"type": "string", "x-mcp-header": "Region"}),
    "json_schema_2020_12_tool": KEYWORDS_2020,
}
MIXED = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
TOOLS: dict[str, Handler] = {
    "test_simple_text": content(text("This is a simple text response for testing.")),
    "test_image_content": content(picture()),
    "test_audio_content": content(types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")),
    "test_embedded_resource": content(
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": content(text("Multiple content types test:"), picture(), MIXED),
    "json_schema_2020_12_tool": content(text("Its schema is what matters.")),
    "test_error_handling": failed,
    "test_x_mcp_header": echoed_region,
    "test_tool_with_logging": logged,
    "test_logging_tool": logged,
    "test_tool_with_progress": progressed,
    "test_reconnection": reconnected,
    "test_sampling": sampled,
    "test_elicitation": elicited,
    "test_elicitation_sep1034_defaults": elicited_with_defaults,
    "test_elicitation_sep1330_enums": elicited_with_choices,
    "test_missing_capability": needs_sampling,
    "test_trigger_tool_change": changes(ToolsListChanged),
    "test_trigger_prompt_change": changes(PromptsListChanged),
    **rounds.TOOLS,
}


def schema_of(name: str) -> Schema:
    return SCHEMAS.get(name, {"type": "object", "properties": {}})


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    listed = [
        types.Tool(name=name, description=f"Fixture {name}", input_schema=schema_of(name)) for name in sorted(TOOLS)
    ]
    return types.ListToolsResult(tools=listed)


async def call_tool(context: Context, params: Params) -> rounds.Outcome:
    """A tool that isn't there is a failed call, as it is with the SDK's own high-level servers."""
    if params.name not in TOOLS:
        return types.CallToolResult(content=[text(f"Unknown tool: {params.name}")], is_error=True)
    return await TOOLS[params.name](context, params)
