"""A server on the official SDK that has everything which the conformance suite asks for, over stdio and over HTTP.

    everything_server.py              speaks on stdin and stdout
    everything_server.py --http PORT  listens on 127.0.0.1:PORT, at /mcp; prints its address when it does
    everything_server.py --http PORT --handshake-only

Both are the same definitions, so that what differs through the workbench is the workbench's doing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import socket
import sys
import warnings
from typing import Any

import everything_reads as reads
import everything_tools as tools
import uvicorn
from mcp import MCPDeprecationWarning, types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import ListenHandler
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

NAME = "everything"
RETRY_MS = 100


class Events(EventStore):
    """All events of this run, by their number, with the stream of each."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._sent: dict[str, tuple[str, types.JSONRPCMessage | None]] = {}

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        number = str(next(self._numbers))
        self._sent[number] = (stream_id, message)
        return number

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if last_event_id not in self._sent:
            return None
        wanted, _ = self._sent[last_event_id]
        for number, (stream, message) in list(self._sent.items()):
            if stream == wanted and message is not None and int(number) > int(last_event_id):
                await send_callback(EventMessage(message, number))
        return wanted


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


def without_the_modern_era(app: ASGIApp) -> ASGIApp:
    """The same as a server that was never told of the modern era: it knows no such version."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        versions = [value for name, value in scope.get("headers", ()) if name == b"mcp-protocol-version"]
        if any(version.decode() in MODERN_PROTOCOL_VERSIONS for version in versions):
            await PlainTextResponse("Bad Request: Unsupported protocol version", 400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return refuse


async def serve_http(port: int, *, handshake_only: bool) -> None:
    app: ASGIApp = build().streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
    if handshake_only:
        app = without_the_modern_era(app)
    with socket.create_server(("127.0.0.1", port)) as listening:
        host, bound = listening.getsockname()
        print(f"http://{host}:{bound}/mcp", flush=True)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(settings).serve([listening])


def main() -> None:
    parser = argparse.ArgumentParser(description="An MCP server with everything that the conformance suite asks for.")
    parser.add_argument("--http", type=int, metavar="PORT", help="listen there, at /mcp; 0 for any free port")
    parser.add_argument("--handshake-only", action="store_true", help="with --http: refuse what is of the modern era")
    given = parser.parse_args()
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    serving = serve_stdio() if given.http is None else serve_http(given.http, handshake_only=given.handshake_only)
    asyncio.run(serving)


if __name__ == "__main__":
    main()
