"""An everything server on the SDK's high-level API, `MCPServer`, written as its users write servers.

Its tools ask the client the way most servers in the field do: `ctx.elicit`, `ctx.session.create_message`, `ctx.info`.
Those calls work in the handshake era only, which is what this server is for: whatever they do directly, they must do
through the workbench. `serving.py` has the command line.
"""

from __future__ import annotations

import high_level_asking as asking
import high_level_tools as tools
import serving
from mcp import types
from mcp.server.mcpserver import MCPServer, RequestStateSecurity
from mcp.server.streamable_http import EventStore
from starlette.types import ASGIApp

NAME = "everything-high-level"


async def nothing(_: object, __: object) -> types.EmptyResult:
    """The answer to a request that this server accepts and does nothing about."""
    return types.EmptyResult()


async def completed(_: object, argument: types.CompletionArgument, __: object) -> types.Completion:
    return types.Completion(values=[f"{argument.value}-one"], total=1, has_more=False)


def build() -> MCPServer:
    server = MCPServer(name=NAME, version="1.0", request_state_security=RequestStateSecurity.ephemeral())
    tools.add_to(server)
    asking.add_to(server)
    server.completion()(completed)
    low = server._lowlevel_server  # the high-level API has no way to register these
    low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
    return server


def over_http(events: EventStore, retry_ms: int) -> ASGIApp:
    return build().streamable_http_app(event_store=events, retry_interval=retry_ms)


if __name__ == "__main__":
    serving.main(build().run_stdio_async, over_http)
