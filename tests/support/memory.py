"""Servers in this process: what they offer is a table, what they are asked is a list, and nothing is started."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple
from unittest import mock

from msgspec import Raw

from mcp_workbench.config.model import ServerConfig
from mcp_workbench.errors import Fault, ServerExited, ServerRefused, ShuttingDown
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Inbound
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import OnProgress
from mcp_workbench.workbench import Workbench
from tests.surfaces.benches import config_of

EVERYTHING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "tasks": {"list": {}},
}
LISTEN = "subscriptions/listen"


class MemoryServer:
    """Answers with its name, unless `methods` say otherwise: a value, a fault, or a function of the params."""

    def __init__(
        self,
        name: str = "s",
        *,
        modern: bool = False,
        tools: Iterable[str] = ("t",),
        prompts: Iterable[str] = (),
        resources: Iterable[str] = (),
        templates: Iterable[str] = (),
        capabilities: Mapping[str, Any] = EVERYTHING,
    ) -> None:
        self.modern = modern
        self.channels: list[MemoryChannel] = []
        self.requests: list[tuple[str, Any]] = []
        self.events: list[str] = []
        """Requests and their cancellations, in order."""
        refusal = ServerRefused("Method not found", rpc_code=jsonrpc.METHOD_NOT_FOUND)
        hello = {"capabilities": capabilities, "serverInfo": {"name": name, "version": "1"}}
        self.methods: dict[str, Any] = {
            "initialize": refusal if modern else {"protocolVersion": "2025-11-25", **hello},
            "server/discover": {"supportedVersions": ["2026-07-28"], **hello} if modern else refusal,
            "tools/list": {"tools": [{"name": tool, "inputSchema": {}} for tool in tools]},
            "prompts/list": {"prompts": [{"name": prompt} for prompt in prompts]},
            "resources/list": {"resources": [{"uri": uri, "name": name} for uri in resources]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": one, "name": one} for one in templates]},
            "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": name}]},
            "prompts/get": lambda params: {"messages": [], "description": f"{name}:{params['name']}"},
            "tools/call": lambda params: {"content": [{"type": "text", "text": f"{name}:{params['name']}"}]},
            LISTEN: never,
        }

    async def open(self) -> MemoryChannel:
        """A new connection, as if the server had been started."""
        channel = MemoryChannel(self)
        self.channels.append(channel)
        return channel

    @property
    def starts(self) -> int:
        return len(self.channels)

    def asked(self, method: str) -> list[Any]:
        """The params of every request of this method."""
        return [params for name, params in self.requests if name == method]

    def say(self, method: str, **params: Any) -> None:
        """Notify, on the last connection."""
        self.channels[-1].inbound.notification(method, _raw(params))

    async def ask(self, method: str, **params: Any) -> Any:
        """Ask, on the last connection."""
        return json.loads(bytes(await self.channels[-1].inbound.request(method, _raw(params))))


class Unsent(NamedTuple):
    """An answer of a method: its request fails before it reaches the server."""

    fault: Fault


class MemoryChannel:
    """One connection to such a server."""

    inbound: Inbound

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self.told: list[tuple[str, Any]] = []
        self.holds: list[object] = []
        self.congested = False
        self.peer: Any = self
        self.received_at = 0.0
        self.has_paused_deadlines = False
        self.ended: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()

    async def request(self, method: str, params: Any, on_progress: OnProgress | None = None, **options: Any) -> Raw:
        del on_progress
        if stamp := options.get("stamp"):
            params = jsonrpc.with_meta(params, stamp)
        given = json.loads(jsonrpc.encode(params))
        self._server.requests.append((method, given))
        self._server.events.append(method)
        unknown = ServerRefused("Method not found", rpc_code=jsonrpc.METHOD_NOT_FOUND)
        answer = self._server.methods.get(method, unknown)
        try:
            if callable(answer):
                answer = answer(given)
            if inspect.isawaitable(answer):
                answer = await self._while_it_lasts(answer)
        except asyncio.CancelledError:
            self._server.events.append(f"cancelled {method}")
            raise
        self.received_at = asyncio.get_running_loop().time()
        if isinstance(answer, Unsent):
            if (delivery := options.get("delivery")) is not None:
                delivery.was_sent = False
            raise answer.fault
        if isinstance(answer, Fault):
            raise answer
        return Raw(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def notify(self, method: str, params: Any) -> None:
        self.told.append((method, json.loads(jsonrpc.encode(params))))

    def listen(self, inbound: Inbound) -> None:
        self.inbound = inbound

    @contextlib.contextmanager
    def pause_deadlines(self, owner: object = None) -> Generator[None]:
        self.holds.append(owner)
        try:
            yield
        finally:
            self.holds.remove(owner)

    @property
    def noise(self) -> str:
        return ""

    def stderr_tail(self) -> str:
        return ""

    def end(self) -> None:
        """The server dies."""
        self.give_up(ServerExited("it died"))

    def give_up(self, fault: Fault) -> None:
        if not self.ended.done():
            self.ended.set_result(fault)

    async def close(self) -> None:
        """Whoever waits for an answer is told, as on a real wire."""
        self.give_up(ShuttingDown("the connection was closed"))

    async def _while_it_lasts(self, answer: Awaitable[Any]) -> Any:
        task = asyncio.ensure_future(answer)
        try:
            await asyncio.wait((task, self.ended), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else self.ended.result()
        finally:
            task.cancel()


async def never(params: Any) -> Any:
    """No answer, ever."""
    del params
    await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def serving(toolboxes: Mapping[str, Mapping[str, MemoryServer]], **limits: Any) -> AsyncIterator[Workbench]:
    """A workbench in front of these servers."""

    async def opened(config: ServerConfig, *_: object) -> MemoryChannel:
        return await toolboxes[config.toolbox][config.name].open()

    known = {toolbox: {server: ["t"] for server in servers} for toolbox, servers in toolboxes.items()}
    with mock.patch("mcp_workbench.routing.server_handle.open_channel", opened):
        async with Workbench(config_of(known), limits=Limits(**limits)) as workbench:
            yield workbench


def _raw(params: dict[str, Any]) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in params.items()}


def rejected(method: str) -> Callable[[Any], Any]:
    """A method that must not be called."""

    def handle(params: Any) -> Any:
        raise AssertionError((method, params))

    return handle
