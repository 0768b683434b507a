"""The everything server's questions in the modern era: tools and a prompt that answer `input_required` first."""

from __future__ import annotations

import json
from typing import Any

from mcp import types
from mcp.server import ServerRequestContext

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Outcome = types.CallToolResult | types.InputRequiredResult
Answers = dict[str, Any]


def said(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


def form(message: str, **fields: str) -> types.ElicitRequest:
    """A question whose fields are all required; their values are JSON Schema types."""
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def completion(prompt: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=50))


def ask(state: str | None = None, **questions: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=questions, request_state=state)


def filled(answers: Answers, key: str, field: str) -> str | None:
    """What a form brought for a field; None where there is no such answer, or it is none."""
    answer = answers.get(key)
    content = answer.content if isinstance(answer, types.ElicitResult) else None
    value = (content or {}).get(field)
    return value if isinstance(value, str) else None


def answers_of(params: Params | types.GetPromptRequestParams) -> Answers:
    return dict(params.input_responses or {})


async def name_by_form(_: Context, params: Params) -> Outcome:
    name = filled(answers_of(params), "user_name", "name")
    return said(f"Good day, {name}.") if name else ask(user_name=form("Who is there?", name="string"))


async def word_by_sampling(_: Context, params: Params) -> Outcome:
    answer = answers_of(params).get("capital_question")
    if isinstance(answer, types.CreateMessageResult) and isinstance(answer.content, types.TextContent):
        return said(f"The model answered: {answer.content.text}")
    return ask(capital_question=completion("Which city is the capital of France?"))


async def roots_counted(_: Context, params: Params) -> Outcome:
    answer = answers_of(params).get("client_roots")
    if isinstance(answer, types.ListRootsResult):
        return said(f"Roots: {len(answer.roots)}")
    return ask(client_roots=types.ListRootsRequest())


async def state_brought_back(_: Context, params: Params) -> Outcome:
    if params.request_state == "asked once" and "confirm" in answers_of(params):
        return said("state-ok")
    return ask("asked once", confirm=form("Is that right?", ok="boolean"))


async def three_at_once(_: Context, params: Params) -> Outcome:
    questions: dict[str, types.InputRequest] = {
        "user_name": form("Who is there?", name="string"),
        "greeting": completion("Greet somebody."),
        "client_roots": types.ListRootsRequest(),
    }
    if questions.keys() <= answers_of(params).keys():
        return said("Everything was answered.")
    return ask("three at once", **questions)


async def two_rounds(_: Context, params: Params) -> Outcome:
    """A name, then a colour; the state holds what was learnt so far."""
    known: dict[str, str] = json.loads(params.request_state or "{}")
    answers = answers_of(params)
    name = known.get("name") or (filled(answers, "step1", "name") if params.request_state else None)
    if not name:
        return ask(json.dumps({}), step1=form("Who is there?", name="string"))
    colour = filled(answers, "step2", "color") if "name" in known else None
    if not colour:
        return ask(json.dumps({"name": name}), step2=form("Which colour?", color="string"))
    return said(f"{name} chose {colour}.")


async def state_guarded(_: Context, params: Params) -> Outcome:
    """A state that was tampered with never comes here: the SDK's boundary refuses it."""
    if params.request_state is None:
        return ask("guarded", confirm=form("Is that right?", ok="boolean"))
    return said(f"The state came back: {params.request_state}")


async def only_what_the_client_can(context: Context, _: Params) -> Outcome:
    can = context.session.client_capabilities or types.ClientCapabilities()
    questions: dict[str, types.InputRequest] = {}
    if can.sampling is not None:
        questions["sample"] = completion("Greet somebody.")
    if can.elicitation is not None:
        questions["ask"] = form("Who is there?", name="string")
    return ask("by capability", **questions)


async def streamed_question(context: Context, params: Params) -> Outcome:
    """Progress first, so that there is a stream, on which no request may stand."""
    await context.session.report_progress(1, 2, "about to ask")
    return await name_by_form(context, params)


async def prompt_by_form(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    words = filled(answers_of(params), "user_context", "context")
    if words is None:
        return ask(user_context=form("What is it about?", context="string"))
    content = types.TextContent(type="text", text=f"It is about this: {words}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


TOOLS = {
    "test_input_required_result_elicitation": name_by_form,
    "test_input_required_result_sampling": word_by_sampling,
    "test_input_required_result_list_roots": roots_counted,
    "test_input_required_result_request_state": state_brought_back,
    "test_input_required_result_multiple_inputs": three_at_once,
    "test_input_required_result_multi_round": two_rounds,
    "test_input_required_result_tampered_state": state_guarded,
    "test_input_required_result_capabilities": only_what_the_client_can,
    "test_streaming_elicitation": streamed_question,
}
