"""Serves the fixture servers that are written in Python, over stdio or HTTP, from one definition each.

A program speaks on stdin and stdout. With `--http PORT` it listens on 127.0.0.1:PORT, at /mcp, and prints its address
when it does; with `--handshake-only` it does so without the modern era.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable

import uvicorn
from mcp import MCPDeprecationWarning, types
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

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


def without_the_modern_era(app: ASGIApp) -> ASGIApp:
    """The same as a server that was never told of the modern era: it knows no such version."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        versions = [value for name, value in scope.get("headers", ()) if name == b"mcp-protocol-version"]
        if any(version.decode() in MODERN_PROTOCOL_VERSIONS for version in versions):
            await PlainTextResponse("Bad Request: Unsupported protocol version", 400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return refuse


async def serve_http(app: ASGIApp, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as listening:
        host, bound = listening.getsockname()
        print(f"http://{host}:{bound}/mcp", flush=True)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(settings).serve([listening])


def main(over_stdio: Callable[[], Awaitable[None]], over_http: Callable[[EventStore, int], ASGIApp]) -> None:
    """Run a server as the command line says; `over_http` gets an event store and the retry interval in milliseconds."""
    parser = argparse.ArgumentParser(description="An MCP server for the conformance suite.")
    parser.add_argument("--http", type=int, metavar="PORT", help="listen there, at /mcp; 0 for any free port")
    parser.add_argument("--handshake-only", action="store_true", help="with --http: refuse what is of the modern era")
    given = parser.parse_args()
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    asyncio.run(_serve(given, over_stdio, over_http))


async def _serve(
    given: argparse.Namespace,
    over_stdio: Callable[[], Awaitable[None]],
    over_http: Callable[[EventStore, int], ASGIApp],
) -> None:
    if given.http is None:
        await over_stdio()
        return
    app = over_http(Events(), RETRY_MS)
    await serve_http(without_the_modern_era(app) if given.handshake_only else app, given.http)
