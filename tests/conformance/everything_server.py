"""A server on the SDK's low-level API that has everything which the conformance suite asks for.

Both transports serve the same definitions, so that what differs through the workbench is the workbench's doing.
`serving.py` has the command line.
"""

from __future__ import annotations

from typing import Any

import everything_reads as reads
import everything_tools as tools
import serving
from mcp import types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventStore
from mcp.server.subscriptions import ListenHandler
from starlette.types import ASGIApp

NAME = "everything"


async def set_level(_: tools.Context, __: types.SetLevelRequestParams) -> types.EmptyResult:
    """Lines are few, so all of them are sent at any level."""
    return types.EmptyResult()


class Everything(Server[Any]):
    """The HTTP application asks for the options itself, so the announcements of changes are declared here."""

    def create_initialization_options(self, *_: Any, **__: Any) -> Any:
        changes = NotificationOptions(prompts_changed=True, tools_changed=True)
        return super().create_initialization_options(changes)


def build() -> Server[Any]:
    server = Everything(
        NAME,
        version="1.0",
        instructions="Call what the suite calls.",
        get_tool_input_schema=tools.schema_of,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_list_resources=reads.list_resources,
        on_list_resource_templates=reads.list_templates,
        on_read_resource=reads.read_resource,
        on_subscribe_resource=reads.subscribe,
        on_unsubscribe_resource=reads.subscribe,
        on_subscriptions_listen=ListenHandler(tools.BUS),
        on_list_prompts=reads.list_prompts,
        on_get_prompt=reads.get_prompt,
        on_completion=reads.complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server


async def serve_stdio() -> None:
    server = build()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http(events: EventStore, retry_ms: int) -> ASGIApp:
    return build().streamable_http_app(event_store=events, retry_interval=retry_ms)


if __name__ == "__main__":
    serving.main(serve_stdio, over_http)
