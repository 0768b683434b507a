"""Channels to servers over HTTP, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.http.channel import open_remote
from mcp_workbench.servers.negotiate import MODERN_FIRST, Agreement, Order, negotiate
from mcp_workbench.servers.supervisor import Events, Supervisor
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.deadlines import Delivery
from mcp_workbench.wire.jsonrpc import METHOD_NOT_FOUND, RpcError
from tests.servers.real import Recorded

ABLE = Raw(b'{"elicitation":{"form":{}},"sampling":{}}')


class Heard:
    """Takes what a server starts, and answers its questions with `answer`."""

    def __init__(self, answer: Any = None) -> None:
        self.methods: list[str] = []
        self.params: list[Any] = []
        self.owners: list[object] = []
        self._answer = answer

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        self.owners.append(owner)
        self.methods.append(method)
        self.params.append({name: msgspec.json.decode(value) for name, value in params.items()})

    async def request(self, method: str, params: dict[str, Raw], owner: object) -> Raw:
        self.notification(method, params, owner)
        if self._answer is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        return Raw(msgspec.json.encode(self._answer))


def remote_server(url: str, **fields: Any) -> ServerConfig:
    return ServerConfig(name="far", toolbox="dev", target=Endpoint(url=url, **fields))


@contextlib.asynccontextmanager
async def remote(url: str, *, endpoint: dict[str, Any] | None = None, **limits: Any) -> AsyncIterator[Channel]:
    """A channel on which nothing was agreed yet."""
    server = remote_server(url, **(endpoint or {}))
    assert isinstance(server.target, Endpoint)
    channel = await open_remote(server, server.target, Limits(**limits))
    try:
        yield channel
    finally:
        await channel.close()


@contextlib.asynccontextmanager
async def agreed(
    url: str,
    heard: Heard | None = None,
    *,
    endpoint: dict[str, Any] | None = None,
    order: Order = MODERN_FIRST,
    **limits: Any,
) -> AsyncIterator[tuple[Channel, Agreement]]:
    """A channel on which a protocol was agreed."""
    async with remote(url, endpoint=endpoint, **limits) as channel:
        channel.listen(heard or Heard())
        client = Caller(version="2025-11-25", modern=False, capabilities=ABLE)
        yield channel, await negotiate(channel, Limits(**limits), client, order, is_remote=True)


async def call(
    channel: Channel,
    agreement: Agreement,
    tool: str = "echo",
    delivery: Delivery | None = None,
    /,
    **arguments: Any,
) -> Any:
    """The result of a call, parsed."""
    params, stamp = {"name": tool, "arguments": arguments}, agreement.stamp()
    result = await channel.peer.request("tools/call", params, stamp=stamp, hard_seconds=30, delivery=delivery)
    return msgspec.json.decode(result)


@contextlib.asynccontextmanager
async def remote_supervisor(url: str, *, events: Events | None = None, **limits: Any) -> AsyncIterator[Supervisor]:
    server, bounds = remote_server(url), Limits(**limits)
    assert isinstance(server.target, Endpoint)
    target = server.target

    async def opening() -> Channel:
        return await open_remote(server, target, bounds)

    supervised = Supervisor("dev/far", opening, LIBRARY, bounds, events or Recorded())
    try:
        yield supervised
    finally:
        await supervised.close()
