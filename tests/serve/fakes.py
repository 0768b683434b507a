"""A surface of a few lines, and a client that talks to a session without a wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.callers import Callers
from mcp_workbench.serve.session import Session
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Caller, Exchange

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


class FakeSurface:
    """`echo` tells what it got, `ask` asks questions, `raw` answers with the bytes it was given."""

    def __init__(self, *, changes: bool = True) -> None:
        self.changes = changes
        self.instructions = "how to"
        self.exchanges: list[Exchange] = []
        self.cancelled: list[str] = []
        self.closed = False
        self.changed: Callable[[], None] = lambda: None

    async def list(self, caller: Caller) -> Raw:
        return Raw(json.dumps([{"name": "modern" if caller.modern else "handshake"}]).encode())

    async def call(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        self.exchanges.append(exchange)
        try:
            match name:
                case "raw":
                    return jsonrpc.fields(arguments)["result"]
                case "ask":
                    names = json.loads(bytes(arguments))["names"]
                    answers = [exchange.ask("elicitation/create", {"name": name}) for name in names]
                    return _text(json.dumps([json.loads(bytes(answer)) for answer in await asyncio.gather(*answers)]))
                case "twice":
                    first = await exchange.ask("elicitation/create", {"name": "first"})
                    second = await exchange.ask("elicitation/create", {"name": "second"})
                    return _text(json.dumps([json.loads(bytes(first)), json.loads(bytes(second))]))
                case "progress":
                    exchange.notify("notifications/progress", {"progressToken": "ours", "progress": 1})
                    return _text("done")
                case "wait":
                    return await asyncio.get_running_loop().create_future()
            return _text(bytes(arguments).decode() or "nothing")
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    def close(self) -> None:
        self.closed = True


def _text(value: str) -> Raw:
    return Raw(json.dumps({"content": [{"type": "text", "text": value}]}).encode())


class FakeLine:
    def __init__(self, request_id: int | str | None) -> None:
        self.request_id = request_id
        self.told: list[tuple[str, Any]] = []

    def notify(self, method: str, params: Any) -> None:
        self.told.append((method, json.loads(jsonrpc.encode(params))))

    async def ask(self, method: str, params: Any) -> Raw:
        return Raw(json.dumps({"asked": [method, params]}).encode())


class Client:
    """What a front does for one connection: callers and a session."""

    def __init__(self, surface: FakeSurface | None = None, limits: Limits = DEFAULTS) -> None:
        self.surface = surface or FakeSurface()
        self.line = FakeLine(None)
        self.callers = Callers()
        self.session = Session(self.surface, self.line, limits)
        self.last_line = self.line
        self._count = 0

    async def raw(self, method: str, params: dict[str, Any] | None = None) -> bytes:
        """The result of a request as bytes. Raises `RpcError`."""
        self._count += 1
        self.last_line = FakeLine(self._count)
        given = {key: Raw(json.dumps(value).encode()) for key, value in (params or {}).items()}
        caller = self.callers.of(method, given)
        return bytes(await self.session.handle(caller, self.last_line, method, given))

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return json.loads(await self.raw(method, params))

    async def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        result = await self.send("initialize", {"protocolVersion": version, "capabilities": capabilities})
        self.session.notice("notifications/initialized")
        return result

    async def modern(self, method: str, params: dict[str, Any] | None = None, **capabilities: Any) -> Any:
        """A request with the envelope of the modern era."""
        given = params or {}
        return await self.send(method, {**given, "_meta": {**envelope(**capabilities), **given.get("_meta", {})}})


def envelope(version: Any = MODERN, **capabilities: Any) -> dict[str, Any]:
    return {
        f"{PREFIX}protocolVersion": version,
        f"{PREFIX}clientCapabilities": capabilities,
        f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
    }
