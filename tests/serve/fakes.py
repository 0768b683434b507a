"""A surface of a few lines, and a client that talks to a session without a wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw

from mcp_workbench.errors import Fault, Overloaded
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.callers import Callers
from mcp_workbench.serve.session import Session
from mcp_workbench.surfaces.base import Method, require_first_page
from mcp_workbench.surfaces.proxy import read_call
from mcp_workbench.surfaces.server_info import ServerInfo
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange, OnProgress
from mcp_workbench.workbench import Workbench
from tests.surfaces.benches import config_of

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


class FakeSurface:
    """`echo` tells what it got, `ask` asks questions, `raw` answers with the bytes it was given."""

    def __init__(self, *, changes: bool = True) -> None:
        self.tools_change = changes
        self.own_lists = True
        self.exchanges: list[Exchange] = []
        self.cancelled: list[str] = []
        self.noticed: list[str] = []
        self.notify: Callable[[str], None] = lambda _kind: None
        self._methods: dict[str, Method] = {
            "tools/list": self.list,
            "tools/call": self.call,
            # Methods that only one era has: the session must not let the other one reach them.
            "logging/setLevel": self.of_one_era,
            "tasks/update": self.of_one_era,
        }

    async def server_info(self, caller: Caller) -> ServerInfo:
        del caller
        return ServerInfo({"tools": {"listChanged": True} if self.tools_change else {}}, "how to")

    def method(self, name: str) -> Method | None:
        return self._methods.get(name)

    async def list(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        require_first_page(params)
        tool = {"name": "modern" if exchange.caller.modern else "handshake"}
        return Raw(json.dumps({"tools": [tool]}).encode())

    async def of_one_era(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        raise AssertionError((exchange.caller, params))

    async def call(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        name, arguments = read_call(params)
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
                case "ask_and_fail":
                    await exchange.ask("elicitation/create", {"name": "first"})
                    raise Overloaded("too many")
                case "progress":
                    exchange.notify("notifications/progress", {"progressToken": "ours", "progress": 1})
                    return _text("done")
                case "wait":
                    return await asyncio.get_running_loop().create_future()
            return _text(bytes(arguments).decode() or "nothing")
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        return Raw(json.dumps({"refused": read_call(params)[0], "because": str(fault)}).encode())

    def on_change(self, notify: Callable[[str], None]) -> None:
        self.notify = notify

    def note_change(self, toolbox: str, kind: str) -> bool:
        del kind
        return toolbox == "seen"

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        del method
        return [params] if source.toolbox == "seen" else []

    def question_params(self, source: ServerIdentifier, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        return None if method == "vendor/hidden" else {**params, "server": source.server}

    def notice(self, caller: Caller, method: str, params: dict[str, Raw]) -> None:
        del caller, params
        self.noticed.append(method)

    async def subscribe(self, caller: Caller, uri: str) -> bool:
        del caller
        return uri.startswith("file:")

    def unsubscribe(self, caller: Caller, uri: str) -> None:
        """Nothing is kept."""

    async def watch_task(self, caller: Caller, task: str) -> bool:
        del caller, task
        return False

    def unwatch_task(self, caller: Caller, task: str) -> None:
        """There are none."""


def _text(value: str) -> Raw:
    return Raw(json.dumps({"content": [{"type": "text", "text": value}]}).encode())


class FakeLine:
    def __init__(self, request_id: int | str | None) -> None:
        self.request_id = request_id
        self.told: list[tuple[str, Any]] = []

    def notify(self, method: str, params: Any) -> None:
        self.told.append((method, json.loads(jsonrpc.encode(params))))

    async def ask(self, method: str, params: Any, on_progress: OnProgress | None = None) -> Raw:
        del on_progress
        return Raw(json.dumps({"asked": [method, params]}).encode())


class Client:
    """What a front does for one connection: callers and a session."""

    def __init__(self, surface: FakeSurface | None = None, limits: Limits = DEFAULTS) -> None:
        self.surface = surface or FakeSurface()
        self.line = FakeLine(None)
        self.callers = Callers("client")
        self.workbench = Workbench(config_of({}), limits=limits)
        self.session = Session(self.workbench, self.surface, self.line, self.callers.audience, limits)
        self.last_line = self.line
        self._count = 0

    async def raw(self, method: str, params: dict[str, Any] | None = None) -> bytes:
        """The result of a request as bytes. Raises `RpcError`."""
        self._count += 1
        self.last_line = FakeLine(self._count)
        given = {key: Raw(json.dumps(value).encode()) for key, value in (params or {}).items()}
        meta = jsonrpc.members(given.get("_meta"))
        caller = self.callers.of(method, given, meta)
        return bytes(await self.session.handle(caller, self.last_line, method, given, meta))

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return json.loads(await self.raw(method, params))

    async def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        result = await self.send("initialize", {"protocolVersion": version, "capabilities": capabilities})
        self.session.notice("notifications/initialized", {})
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
