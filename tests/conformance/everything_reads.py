"""What the everything server has to read: resources, a template, prompts, and completion for them."""

from __future__ import annotations

import json
import re
from typing import Any

from everything_rounds import prompt_by_form
from mcp import MCPError, types
from mcp.server import ServerRequestContext

Context = ServerRequestContext[Any, Any]
Page = types.PaginatedRequestParams | None

BAD_PARAMS = -32602
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
TEMPLATE = "test://template/{id}/data"
OF_TEMPLATE = re.compile(r"test://template/([^/]+)/data")
RESOURCES = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", PICTURE),
    "test://watched-resource": ("text/plain", "Somebody may watch this."),
}
PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def picture() -> types.ImageContent:
    return types.ImageContent(type="image", data=PICTURE, mime_type="image/png")


def embedded(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return types.EmbeddedResource(type="resource", resource=contents)


# -- resources


async def list_resources(_: Context, __: Page) -> types.ListResourcesResult:
    listed = [
        types.Resource(uri=uri, name=uri.removeprefix("test://"), description=f"Fixture {uri}", mime_type=kind)
        for uri, (kind, _) in RESOURCES.items()
    ]
    return types.ListResourcesResult(resources=listed)


async def list_templates(_: Context, __: Page) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template=TEMPLATE, name="template", description="Data for an id", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    return types.ReadResourceResult(contents=[_contents(uri)])


def _contents(uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    if found := OF_TEMPLATE.fullmatch(uri):
        number = found[1]
        data = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=data)
    if uri not in RESOURCES:
        raise MCPError(code=BAD_PARAMS, message="Resource not found", data={"uri": uri})
    kind, content = RESOURCES[uri]
    if kind.startswith("text/"):
        return types.TextResourceContents(uri=uri, mime_type=kind, text=content)
    return types.BlobResourceContents(uri=uri, mime_type=kind, blob=content)


async def subscribe(_: Context, params: types.SubscribeRequestParams | types.UnsubscribeRequestParams) -> Any:
    """Nothing of it ever changes, so there is nothing to keep; but what isn't there can't be watched."""
    _contents(str(params.uri))
    return types.EmptyResult()


# -- prompts


async def list_prompts(_: Context, __: Page) -> types.ListPromptsResult:
    def prompt(name: str, arguments: tuple[str, ...]) -> types.Prompt:
        described = [types.PromptArgument(name=one, description=f"The {one}", required=True) for one in arguments]
        return types.Prompt(name=name, description=f"Fixture {name}", arguments=described)

    return types.ListPromptsResult(prompts=[prompt(name, arguments) for name, arguments in PROMPTS.items()])


async def get_prompt(
    _: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    if params.name == "test_input_required_result_prompt":
        return await prompt_by_form(params)
    given = params.arguments or {}
    if missing := [name for name in PROMPTS.get(params.name, ()) if name not in given]:
        raise MCPError(code=BAD_PARAMS, message=f"Missing arguments: {', '.join(missing)}")
    messages = [types.PromptMessage(role="user", content=content) for content in _said(params.name, given)]
    return types.GetPromptResult(messages=messages)


def _said(name: str, given: dict[str, str]) -> list[types.ContentBlock]:
    match name:
        case "test_simple_prompt":
            return [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            return [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
            return [resource, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            return [picture(), text("Please analyze the image above.")]
        case _:
            raise MCPError(code=BAD_PARAMS, message=f"Unknown prompt: {name}")


async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [f"{params.argument.value}{end}" for end in ("-one", "-two")]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))
