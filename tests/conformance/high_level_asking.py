"""The high-level server's tools and prompt that ask the client.

Those of the handshake era await the answer in the middle of the call, and report what went wrong as text, as the
SDK's examples do. Those of the modern era return the question and are called again with the answer.
"""

from __future__ import annotations

import json
from typing import Any

import everything_rounds as rounds
from everything_reads import text
from mcp import types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Outcome = str | types.InputRequiredResult
SIZES = ["small", "large"]
TITLED = [{"const": size, "title": size.title()} for size in SIZES]


class Address(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's address")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


class Choices(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    untitled_single: str = Field(json_schema_extra={"enum": SIZES})
    titled_single: str = Field(json_schema_extra={"oneOf": TITLED})
    legacy_enum: str = Field(json_schema_extra={"enum": SIZES, "enumNames": ["Small", "Large"]})
    untitled_multi: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": SIZES}})
    titled_multi: list[str] = Field(json_schema_extra={"items": {"anyOf": TITLED}})


# -- in the middle of a call


async def test_sampling(prompt: str, ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=text(prompt))
    try:
        answer = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
            messages=[message], max_tokens=50, related_request_id=ctx.request_id
        )
    except Exception as error:  # noqa: BLE001 -- the tool reports it to the client
        return f"Sampling failed: {error}"
    words = answer.content.text if isinstance(answer.content, types.TextContent) else "no text"
    return f"LLM response: {words}"


async def elicited(ctx: Context, message: str, schema: type[BaseModel]) -> str:
    try:
        answer = await ctx.elicit(message, schema)
    except Exception as error:  # noqa: BLE001 -- the tool reports it to the client
        return f"Elicitation failed: {error}"
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"Elicitation completed: action={answer.action}, content={content}"


async def test_elicitation(message: str, ctx: Context) -> str:
    return await elicited(ctx, message, Address)


async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    return await elicited(ctx, "Are these right?", Defaults)


async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    return await elicited(ctx, "Please choose", Choices)


# -- by calling again


def answers(ctx: Context) -> dict[str, Any]:
    return dict(ctx.input_responses or {})


async def test_input_required_result_elicitation(ctx: Context) -> Outcome:
    name = rounds.filled(answers(ctx), "user_name", "name")
    return f"Good day, {name}." if name else rounds.ask(user_name=rounds.form("Who is there?", name="string"))


async def test_input_required_result_sampling(ctx: Context) -> Outcome:
    answer = answers(ctx).get("capital_question")
    if isinstance(answer, types.CreateMessageResult) and isinstance(answer.content, types.TextContent):
        return f"The model answered: {answer.content.text}"
    return rounds.ask(capital_question=rounds.completion("Which city is the capital of France?"))


async def test_input_required_result_list_roots(ctx: Context) -> Outcome:
    answer = answers(ctx).get("client_roots")
    if isinstance(answer, types.ListRootsResult):
        return f"Roots: {len(answer.roots)}"
    return rounds.ask(client_roots=types.ListRootsRequest())


async def test_input_required_result_request_state(ctx: Context) -> Outcome:
    if ctx.request_state == "asked once" and "confirm" in answers(ctx):
        return "state-ok"
    return rounds.ask("asked once", confirm=rounds.form("Is that right?", ok="boolean"))


async def test_input_required_result_multiple_inputs(ctx: Context) -> Outcome:
    questions: dict[str, types.InputRequest] = {
        "user_name": rounds.form("Who is there?", name="string"),
        "greeting": rounds.completion("Greet somebody."),
        "client_roots": types.ListRootsRequest(),
    }
    if questions.keys() <= answers(ctx).keys():
        return "Everything was answered."
    return rounds.ask("three at once", **questions)


async def test_input_required_result_multi_round(ctx: Context) -> Outcome:
    """A name, then a colour; the state holds what was learnt so far."""
    known: dict[str, str] = json.loads(ctx.request_state or "{}")
    name = known.get("name") or (rounds.filled(answers(ctx), "step1", "name") if ctx.request_state else None)
    if not name:
        return rounds.ask(json.dumps({}), step1=rounds.form("Who is there?", name="string"))
    colour = rounds.filled(answers(ctx), "step2", "color") if "name" in known else None
    if not colour:
        return rounds.ask(json.dumps({"name": name}), step2=rounds.form("Which colour?", color="string"))
    return f"{name} chose {colour}."


async def test_input_required_result_tampered_state(ctx: Context) -> Outcome:
    if ctx.request_state is None:
        return rounds.ask("guarded", confirm=rounds.form("Is that right?", ok="boolean"))
    return f"The state came back: {ctx.request_state}"


async def test_input_required_result_capabilities(ctx: Context) -> Outcome:
    can = ctx.client_capabilities or types.ClientCapabilities()
    questions: dict[str, types.InputRequest] = {}
    if can.sampling is not None:
        questions["sample"] = rounds.completion("Greet somebody.")
    if can.elicitation is not None:
        questions["ask"] = rounds.form("Who is there?", name="string")
    return rounds.ask("by capability", **questions)


async def test_streaming_elicitation(ctx: Context) -> Outcome:
    """Progress first, so that there is a stream, on which no request may stand."""
    await ctx.report_progress(1, 2, "about to ask")
    return await test_input_required_result_elicitation(ctx)


async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | types.InputRequiredResult:
    words = rounds.filled(answers(ctx), "user_context", "context")
    if words is None:
        return rounds.ask(user_context=rounds.form("What is it about?", context="string"))
    return [UserMessage(content=text(f"It is about this: {words}"))]


TOOLS = (
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_tampered_state,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
)


def add_to(server: MCPServer) -> None:
    for function in TOOLS:
        server.tool(description=f"Fixture {function.__name__}")(function)
    server.prompt(description="Fixture test_input_required_result_prompt")(test_input_required_result_prompt)
