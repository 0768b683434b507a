"""Calls of one client to its servers: a contract, its implementation and two wrappers.

    RecordedCalls → RetriedCalls → DirectCalls → the server

Each wrapper passes requests on to the next one and adds one thing. Each can be left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from mcp_workbench.activity.recorder import Recorder
from mcp_workbench.catalog import linked_resources
from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.linked_resources import Links
from mcp_workbench.errors import (
    CallFailed,
    ConnectFailed,
    Fault,
    ProtocolViolation,
    ServerRefused,
    ShuttingDown,
    ToolNotFound,
)
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.pool import ServerPool
from mcp_workbench.routing.requests import ForwardedRequest, Request, ToolCall
from mcp_workbench.routing.server_handle import ServerHandle
from mcp_workbench.routing.server_lists import ServerLists
from mcp_workbench.servers.base import explained
from mcp_workbench.servers.supervisor import ServerClosed
from mcp_workbench.text.suggest import nearest_and_known
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params

_MAY_BE_GONE = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS)
"""Codes with which servers refuse a call of a tool that they do not have."""


class Calls(Protocol):
    """Makes calls."""

    async def call(self, request: Request) -> Raw:
        """Make a call and return the server's result, an object.

        Raises `RequestError` if there is no such tool or server, and `ConnectFailed` if the server can't be reached. If
        the server fails, raises `CallFailed` for a tool call, else the `Fault` itself.
        """
        ...


class DirectCalls:
    """Finds the tool, starts its server if needed, and sends the request in one of the server's slots."""

    def __init__(self, pool: ServerPool, links: Links, limits: Limits) -> None:
        """`links` collects the resources that results name."""
        self._pool = pool
        self._links = links
        self._limits = limits

    async def call(self, request: Request) -> Raw:
        if isinstance(request, ForwardedRequest):
            return await self._forward(request)
        tool, exchange = request.identifier, request.exchange
        handle = self._pool.handles.get(tool.toolbox, {}).get(tool.server) or self._pool.handle(tool)
        listing = handle.lists.tools.kept.value
        if listing is None or (definition := listing.tools.get(tool.tool)) is None:
            definition = await self._pool.wait_for(exchange, (handle.config,), find_tool(handle.lists, tool))
        params: dict[str, Any] = {"name": tool.tool, "arguments": request.arguments}
        if exchange is not None:
            params |= exchange.members
            if exchange.meta:
                params["_meta"] = exchange.meta
        if handle.supervisor.current is None:
            await self._pool.wait_for(exchange, (handle.config,), self._pool.connect(tool))
        result = await self._send(request, handle, definition, params)
        if handle.features is not None and "resources" in handle.features:
            self._note_links(ServerIdentifier(tool.toolbox, tool.server), result, exchange)
        if exchange is not None and not exchange.caller.modern:
            current = handle.supervisor.current
            is_modern = current is not None and current.agreement.modern  # only modern servers send bare values
            exchange.projection = "schema" if definition.wraps_output else "value" if is_modern else "none"
        return result

    async def _send(self, request: ToolCall, handle: ServerHandle, definition: Definition, params: Params) -> Raw:
        tool, exchange = request.identifier, request.exchange
        try:
            result = await handle.supervisor.forward("tools/call", params, exchange)
        except ServerRefused as refusal:
            hint = ""
            if refusal.rpc_code in _MAY_BE_GONE:
                await check_gone(handle.lists, tool, self._limits.refresh_wait_seconds)
            if refusal.rpc_code == jsonrpc.INVALID_PARAMS:
                from mcp_workbench.catalog.rendering.signature import parameters  # noqa: PLC0415 -- only errors need it

                hint = f"Its parameters: {parameters(definition)}"
            raise CallFailed(tool, explained(refusal, hint), refusal) from None
        except Fault as fault:
            raise CallFailed(tool, fault) from None
        if not jsonrpc.is_object(result):
            raise CallFailed(tool, ProtocolViolation("its result is not an object"))
        if (is_error := _members(result, exchange).get("isError")) is not None and jsonrpc.is_true(is_error):
            lists = handle.lists
            if not lists.tools.is_live or (known := lists.tools.kept.value) is None or tool.tool not in known.tools:
                await check_gone(lists, tool, self._limits.refresh_wait_seconds)
        return result

    async def _forward(self, request: ForwardedRequest) -> Raw:
        handle, exchange, params = self._pool.handle(request.server), request.exchange, request.params
        if exchange.meta:
            params = {**params, "_meta": exchange.meta}
        if handle.supervisor.current is None:
            await self._pool.wait_for(exchange, (handle.config,), self._pool.connect(request.server))
        result = await handle.supervisor.forward(request.method, params, exchange)
        if not jsonrpc.is_object(result):
            raise ProtocolViolation("its result is not an object")
        return result

    def _note_links(self, server: ServerIdentifier, result: Raw, exchange: Exchange | None) -> None:
        """Collect the resources that a result names: in its content, and as a UI in its `_meta`."""
        self._links.remember(server, result)
        if exchange is not None and (meta := _members(result, exchange).get("_meta")) is not None:
            with contextlib.suppress(msgspec.DecodeError):  # nested too deep; the client gets an error
                self._links.add(server, linked_resources.ui_uris(meta))


class Configured(Protocol):
    """Has the current configuration."""

    config: Any


class RetriedCalls:
    """Repeats a request if a new configuration closed its server before the request was sent."""

    def __init__(self, calls: Calls, pool: Configured) -> None:
        self._calls = calls
        self._pool = pool

    async def call(self, request: Request) -> Raw:
        while True:
            before = self._pool.config
            try:
                return await self._calls.call(request)
            except (ConnectFailed, CallFailed, ShuttingDown) as error:
                if before is self._pool.config or not _is_unsent(error):
                    raise


class RecordedCalls:
    """Records each tool call for `status` and `logs`."""

    def __init__(self, calls: Calls, recorder: Recorder) -> None:
        self._calls = calls
        self._recorder = recorder

    async def call(self, request: Request) -> Raw:
        if isinstance(request, ToolCall):
            tool, given = request.identifier, request.arguments
        elif request.method == "tools/call":
            name = jsonrpc.text_or_none(request.params.get("name")) or "?"
            tool = ToolIdentifier(request.server.toolbox, request.server.server, name)
            given = request.params.get("arguments", jsonrpc.NOTHING)
        else:
            return await self._calls.call(request)
        noted = self._recorder.began(tool)
        try:
            result = await self._calls.call(request)
        except BaseException as error:
            self._recorder.failed(noted, given, error)
            raise
        self._recorder.ended(noted, given, result, _members(result, request.exchange))
        return result


def _members(result: Raw, exchange: Exchange | None) -> dict[str, Raw]:
    """The members of a result; empty if it is nested too deep, for which the client gets an error."""
    try:
        return jsonrpc.fields(result) if exchange is None else exchange.read(result)
    except msgspec.DecodeError:
        return {}


def _is_unsent(error: ConnectFailed | CallFailed | ShuttingDown) -> bool:
    """Whether the server was closed before the request was sent."""
    fault = error if isinstance(error, Fault) else error.fault
    return isinstance(fault, ShuttingDown if isinstance(error, ConnectFailed) else ServerClosed)


async def find_tool(lists: ServerLists, identifier: ToolIdentifier) -> Definition:
    """Find a tool, listing the server's tools if needed. Raises `ToolNotFound` or `ConnectFailed`."""
    listing = lists.tools.kept.value
    if listing is None or not lists.is_settled:
        try:
            listing = await lists.list_tools()
        except Fault as fault:
            raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
    if identifier.tool not in listing.tools:
        listing = await lists.recheck_tools() or listing
    if (definition := listing.tools.get(identifier.tool)) is None:
        raise ToolNotFound(identifier, hint=nearest_and_known(identifier.tool, listing.tools, "tools"))
    return definition


async def check_gone(lists: ServerLists, identifier: ToolIdentifier, seconds: float) -> None:
    """After a failed call, list again. Raises `ToolNotFound` if the server no longer has the tool."""
    try:
        async with asyncio.timeout(seconds):
            listing = await lists.tools.fresh()
    except (Fault, TimeoutError):
        return
    if identifier.tool not in listing.tools:
        near = nearest_and_known(identifier.tool, listing.tools, "tools")
        raise ToolNotFound(identifier, hint=f"Its server no longer has it. {near}")
