"""A server of the modern era on the official SDK: questions, progress, logs, resources, a prompt and completion.

    modern_sdk_server.py [NAME]

NAME stands in its texts. It has no handshake: `initialize` is refused, and by the SDK all that follows it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from typing import Any

from mcp import MCPDeprecationWarning, MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged

Context = ServerRequestContext[Any, Any]

NAME = (*sys.argv[1:], "modern_sdk")[0]
STATE = f'of {NAME}: é "\n'
BAD_PARAMS = -32602
BUS = InMemorySubscriptionBus()
CHANGES = {"tools": ToolsListChanged, "prompts": PromptsListChanged, "resources": ResourcesListChanged}
ADDED: dict[str, list[str]] = {kind: [] for kind in CHANGES}
OBJECT: dict[str, Any] = {"type": "object"}
TOOLS = ("echo", "ask", "count", "log", "change", "touch", "fail")
RESOURCE = f"test://{NAME}/a"
ITEM = f"test://{NAME}/item/"


def text(value: str, structured: dict[str, Any] | None = None, *, is_error: bool = False) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=value)]
    return types.CallToolResult(content=content, structured_content=structured, is_error=is_error)


def raw(value: Any) -> Any:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


# -- tools


async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    names = (*TOOLS, *ADDED["tools"])
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=OBJECT) for name in names])


async def call_tool(
    context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return text(json.dumps(arguments), {"server": NAME, "arguments": arguments})
        case "ask":
            return ask(params, arguments.get("kind", "form"))
        case "fail":
            return text(f"failed by {NAME}", is_error=True)
        case name if name in ADDED["tools"]:
            return text(f"{name} of {NAME}")
        case name:
            return await notify(context, name, arguments)


async def notify(context: Context, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """The tools that send notifications."""
    match name:
        case "count":
            for step in range(1, 4):
                await context.session.report_progress(step, 3, f"step {step} of {NAME}")
            return text(f"counted by {NAME}")
        case "log":
            await log(context)
            return text(f"logged by {NAME}")
        case "change":
            return await change(arguments.get("kind", "tools"))
        case "touch":
            await BUS.publish(ResourceUpdated(uri=arguments["uri"]))
            return text(f"touched {arguments['uri']}")
        case _:
            raise MCPError(code=BAD_PARAMS, message=f"Unknown tool: {name}")


def ask(params: types.CallToolRequestParams, kind: str) -> types.CallToolResult | types.InputRequiredResult:
    """One question; the retry must bring its state back as it was."""
    answers = params.input_responses or {}
    if "k1" not in answers:
        return types.InputRequiredResult(input_requests={"k1": question(kind)}, request_state=STATE)
    if params.request_state != STATE:
        raise MCPError(code=BAD_PARAMS, message="The requestState is not the one that was given")
    answer = raw(answers["k1"])
    return text(json.dumps(answer), {"kind": kind, "answer": answer, "server": NAME})


def question(kind: str) -> types.InputRequest:
    message = f"{NAME} asks"
    match kind:
        case "form":
            schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
            form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
            return types.ElicitRequest(params=form)
        case "url":
            page = types.ElicitRequestURLParams(message=message, url=f"https://example.com/{NAME}")
            return types.ElicitRequest(params=page)
        case "sampling":
            said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=message))
            return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[said], max_tokens=10))
        case "roots":
            return types.ListRootsRequest()
        case _:
            raise MCPError(code=BAD_PARAMS, message=f"Unknown kind: {kind}")


async def log(context: Context) -> None:
    levels: tuple[types.LoggingLevel, ...] = ("debug", "info", "error")
    for level in levels:
        await context.session.send_log_message(level, f"{level} from {NAME}", NAME)  # pyright: ignore[reportDeprecated]


async def change(kind: str) -> types.CallToolResult:
    if kind not in CHANGES:
        raise MCPError(code=BAD_PARAMS, message=f"Unknown kind: {kind}")
    number = len(ADDED[kind]) + 1
    name = f"test://{NAME}/added/{number}" if kind == "resources" else f"added_{number}"
    ADDED[kind].append(name)
    await BUS.publish(CHANGES[kind]())
    return text(f"added {name}", {"added": name, "server": NAME})


# -- resources


async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    uris = (RESOURCE, *ADDED["resources"])
    return types.ListResourcesResult(resources=[types.Resource(uri=uri, name=uri) for uri in uris])


async def list_templates(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template=ITEM + "{id}", name="item")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri != RESOURCE and uri not in ADDED["resources"] and not uri.startswith(ITEM):
        raise MCPError(code=BAD_PARAMS, message=f"{NAME} has no such resource", data={"uri": uri})
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=f"{uri} read from {NAME}")])


# -- prompts and completion


async def list_prompts(_: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    greet = types.Prompt(name="greet", arguments=[types.PromptArgument(name="who", required=True)])
    return types.ListPromptsResult(prompts=[greet, *(types.Prompt(name=name) for name in ADDED["prompts"])])


async def get_prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    if params.name != "greet" and params.name not in ADDED["prompts"]:
        raise MCPError(code=BAD_PARAMS, message=f"Unknown prompt: {params.name}")
    said = f"Hello {(params.arguments or {}).get('who')} from {NAME}"
    content = types.TextContent(type="text", text=said)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [f"{params.argument.value}{end}" for end in ("-one", "-two", f"-{NAME}")]
    if params.context:
        values.append(json.dumps(raw(params.context)))
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def set_level(_: Context, __: types.SetLevelRequestParams) -> types.EmptyResult:
    """It is there so that the capability is declared; the SDK goes by the level of the request."""
    return types.EmptyResult()


async def refuse_handshake(context: Context, call_next: Any) -> Any:
    if context.method == "initialize":
        raise MCPError(code=-32022, message="Unsupported protocol version", data={"supported": ["2026-07-28"]})
    return await call_next(context)


async def serve() -> None:
    server = Server(
        NAME,
        version="1.0",
        instructions=f"Use {NAME}.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    server.middleware.append(refuse_handshake)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(serve())


if __name__ == "__main__":
    main()
