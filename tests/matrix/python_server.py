"""A server of the matrix on the high-level API of the official Python SDK, which speaks both eras.

It has the tools of `server.mjs`, written as users of this SDK write them. `tests/conformance/serving.py` has the
command line.
"""

from __future__ import annotations

import json
from typing import Any

from mcp import MCPError, types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventStore
from mcp.shared.exceptions import UrlElicitationRequiredError
from pydantic import BaseModel
from starlette.types import ASGIApp

from tests.conformance import serving

PAGE = "https://example.org/consent"
REFUSED = -32050
SENT: set[str] = set()
"""Callers that were sent to a page before."""


class Name(BaseModel):
    name: str


class Counted(BaseModel):
    n: int


# -- in the middle of a call


async def form(mark: str, ctx: Context) -> str:
    answer = await ctx.elicit(f"{mark} asks", Name)
    return f"Answered: {answer.model_dump_json()}"


async def url(mark: str, ctx: Context) -> str:
    answer = await ctx.elicit_url(f"{mark} sends", PAGE, f"{mark}-page")
    if answer.action == "accept":
        await ctx.session.send_elicit_complete(f"{mark}-page", related_request_id=ctx.request_id)
    return f"Answered: {answer.model_dump_json()}"


async def sample(mark: str, ctx: Context) -> str:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=f"{mark} samples"))
    answer = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
        messages=[message], max_tokens=20, related_request_id=ctx.request_id
    )
    return f"Answered: {answer.model_dump_json()}"


async def roots(mark: str, ctx: Context) -> str:  # noqa: ARG001 -- every tool that asks has a mark
    answer = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated]
    return f"Answered: {answer.model_dump_json()}"


# -- by calling again


def again(ctx: Context, request: types.InputRequest) -> str | types.InputRequiredResult:
    answer = (ctx.input_responses or {}).get("answer")
    if answer is None:
        return types.InputRequiredResult(input_requests={"answer": request})
    return f"Answered: {answer.model_dump_json()}"


async def form_again(mark: str, ctx: Context) -> str | types.InputRequiredResult:
    schema = Name.model_json_schema()
    params = types.ElicitRequestFormParams(message=f"{mark} asks again", requested_schema=schema)
    return again(ctx, types.ElicitRequest(params=params))


async def url_again(mark: str, ctx: Context) -> str | types.InputRequiredResult:
    params = types.ElicitRequestURLParams(message=f"{mark} sends again", url=PAGE)
    return again(ctx, types.ElicitRequest(params=params))


async def sample_again(mark: str, ctx: Context) -> str | types.InputRequiredResult:
    content = types.TextContent(type="text", text=f"{mark} again samples")
    message = types.SamplingMessage(role="user", content=content)
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=20)
    return again(ctx, types.CreateMessageRequest(params=params))


async def roots_again(mark: str, ctx: Context) -> str | types.InputRequiredResult:  # noqa: ARG001 -- as above
    return again(ctx, types.ListRootsRequest())


# -- what it says


async def log(mark: str, ctx: Context) -> str:
    await ctx.info(f"{mark} one")  # pyright: ignore[reportDeprecated]
    await ctx.warning(f"{mark} two")  # pyright: ignore[reportDeprecated]
    return "Logged"


async def progress(mark: str, ctx: Context) -> str:
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3, f"{mark} {step}")
    return "Reported"


async def change(name: str, ctx: Context) -> str:
    ctx.mcp_server.add_tool(lambda: name, name=name, description="Added")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "Changed"


async def restore(name: str, ctx: Context) -> str:
    ctx.mcp_server.remove_tool(name)
    return "Restored"


# -- results and errors


def object_() -> Counted:
    return Counted(n=1)


def array() -> list[int]:
    return [1, 2]


def number() -> float:
    return 0.5


def annotated(odd: dict[str, Any] | None = None) -> str:
    return json.dumps(odd)


def fails() -> str:
    raise RuntimeError("It failed")


def refuses() -> str:
    raise MCPError(code=REFUSED, message="It refuses", data={"because": ["of", "this"]})


async def needs_page(mark: str) -> str:
    """The first time, the caller is sent to a page by an error."""
    if mark in SENT:
        return "Visited"
    SENT.add(mark)
    page = types.ElicitRequestURLParams(message=f"{mark} sends by an error", url=PAGE, elicitation_id=f"{mark}-page")
    raise UrlElicitationRequiredError([page])


ASKING = (form, url, sample, roots, form_again, url_again, sample_again, roots_again, needs_page)
OTHERS = (log, progress, change, restore, object_, array, number, annotated, fails, refuses)


def build() -> MCPServer:
    server = MCPServer(name="matrix-python", version="1")
    for function in (*ASKING, *OTHERS):
        name = function.__name__.rstrip("_")
        server.tool(name=name, description=f"The tool {name}")(function)
    return server


def over_http(events: EventStore, retry_ms: int) -> ASGIApp:
    return build().streamable_http_app(event_store=events, retry_interval=retry_ms)


if __name__ == "__main__":
    serving.main(build().run_stdio_async, over_http)
