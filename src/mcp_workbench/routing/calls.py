"""Calls of tools and other requests, of one client to one server each.

A call is checked before anything is started or contacted, recorded where somebody keeps a record, and made again where
another configuration came before it was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench.catalog import apps
from mcp_workbench.catalog.links import Links
from mcp_workbench.catalog.snapshot import Catalog
from mcp_workbench.connections.base import explained
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
from mcp_workbench.nearest import nearest_and_known
from mcp_workbench.record.recorder import Recorder
from mcp_workbench.routing.pool import ServerPool
from mcp_workbench.routing.server_handle import ServerHandle
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params

_MAY_BE_GONE = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS)
"""How servers refuse a call of a tool that they do not have."""


class Calls:
    """What one client has servers do."""

    def __init__(
        self, pool: ServerPool, catalog: Catalog, links: Links, limits: Limits, recorder: Recorder | None
    ) -> None:
        """`links` takes note of the resources that results name."""
        self._pool = pool
        self._catalog = catalog
        self._links = links
        self._limits = limits
        self._recorder = recorder

    async def relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None) -> Raw:
        """Call a tool, on behalf of a client: what the server says meanwhile goes to `exchange`."""
        work = partial(self._relay, identifier, arguments, exchange)
        return await self._done(work, exchange, identifier, arguments)

    async def _relay(self, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange | None) -> Raw:
        config = self._pool.configured(identifier.toolbox, identifier.server)
        handle = self._pool.of(config)
        if (definition := self._catalog.tool(identifier)) is None:
            await self._pool.meanwhile(exchange, (config,), self._check_tool(identifier, handle))
            definition = self._catalog.tool(identifier)
        params: dict[str, Any] = {"name": identifier.tool, "arguments": arguments}
        if exchange is not None:
            params |= exchange.members
            if exchange.meta:
                params["_meta"] = exchange.meta
        if handle.supervisor.current is None:
            await self._pool.meanwhile(exchange, (config,), self._reach(identifier, handle))
        result = await self._call(identifier, handle, params, exchange)
        if handle.offers("resources"):
            self._note_links(ServerIdentifier(identifier.toolbox, identifier.server), result, exchange)
        if exchange is not None and not exchange.caller.modern:
            exchange.projection = handle.projection(definition)
        return result

    def _note_links(self, server: ServerIdentifier, result: Raw, exchange: Exchange | None) -> None:
        """Record the resources that a result names: in its content, and as a UI in its `_meta`."""
        self._links.remember(server, result)
        if exchange is None:
            return
        with contextlib.suppress(msgspec.DecodeError):  # nested too deep; its client gets an error
            if (meta := exchange.read(result).get("_meta")) is not None:
                self._links.add(server, apps.ui_uris(meta))

    async def _call(
        self, identifier: ToolIdentifier, handle: ServerHandle, params: Params, exchange: Exchange | None
    ) -> Raw:
        """The result as the server gave it. Raises `CallFailed`, or `ToolNotFound` where the tool is gone."""
        try:
            result = await handle.supervisor.forward("tools/call", params, exchange)
        except ServerRefused as refusal:
            if refusal.rpc_code in _MAY_BE_GONE:
                await self._check_gone(identifier, handle)
            raise CallFailed(identifier, self._explained(identifier, refusal), refusal) from None
        except Fault as fault:
            raise CallFailed(identifier, fault) from None
        if not jsonrpc.is_object(result):
            raise CallFailed(identifier, ProtocolViolation("its result is not an object"))
        is_doubtful = not handle.lists.tools.is_live or self._catalog.tool(identifier) is None
        if is_doubtful and jsonrpc.is_true(jsonrpc.fields(result).get("isError")):
            await self._check_gone(identifier, handle)
        return result

    def _explained(self, identifier: ToolIdentifier, refusal: ServerRefused) -> ServerRefused:
        """The server's error, and the tool's signature where it refused the arguments."""
        definition = self._catalog.tool(identifier)
        if refusal.rpc_code != jsonrpc.INVALID_PARAMS or definition is None:
            return explained(refusal)
        from mcp_workbench.catalog.rendering.signature import parameters  # noqa: PLC0415 -- only errors need it

        return explained(refusal, hint=f"Its parameters: {parameters(definition)}")

    async def forward(self, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
        """Any request of a client to one server. Raises `ConnectFailed`, or the `Fault` that it ended in."""
        work = partial(self._forward, server, method, params, exchange)
        if self._recorder is None or method != "tools/call":
            return await self._on_newest(work)
        tool = ToolIdentifier(server.toolbox, server.server, jsonrpc.text_or_none(params.get("name")) or "?")
        return await self._done(work, exchange, tool, params.get("arguments", jsonrpc.NOTHING))

    async def _forward(self, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
        handle = self._pool.handle(server)
        if exchange.meta:
            params = {**params, "_meta": exchange.meta}
        if handle.supervisor.current is None:
            config = self._pool.configured(server.toolbox, server.server)
            await self._pool.meanwhile(exchange, (config,), self._pool.connect(server))
        result = await handle.forward(method, params, exchange)
        if not jsonrpc.is_object(result):
            raise ProtocolViolation("its result is not an object")
        return result

    async def _done(
        self,
        work: Callable[[], Coroutine[Any, Any, Raw]],
        exchange: Exchange | None,
        call: ToolIdentifier,
        given: Raw,
    ) -> Raw:
        """Do what is a call, and have it recorded."""
        recorder = self._recorder
        if recorder is None:
            return await self._on_newest(work)
        noted = recorder.began(call)
        try:
            result = await self._on_newest(work)
        except BaseException as error:
            recorder.failed(noted, given, error)
            raise
        try:
            members = jsonrpc.fields(result) if exchange is None else exchange.read(result)
        except msgspec.DecodeError:  # nested too deep, which is told to its client
            members = {}
        recorder.ended(noted, given, result, members)
        return result

    async def _on_newest(self, work: Callable[[], Coroutine[Any, Any, Raw]]) -> Raw:
        """Do it, and again where another configuration came before it was sent to the server."""
        while True:
            before = self._pool.config
            try:
                return await work()
            except (ConnectFailed, CallFailed, ShuttingDown) as error:
                if before is self._pool.config or not _is_unsent(error):
                    raise

    # -- whether a tool exists

    async def _check_tool(self, identifier: ToolIdentifier, handle: ServerHandle) -> None:
        """The catalog does not have it: it does not exist, or its server has not listed yet."""
        listing = self._catalog.listing(identifier.toolbox, identifier.server)
        if listing is None or not handle.lists.is_settled:
            try:
                listing = await handle.lists.list_tools()
            except Fault as fault:
                raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
        if identifier.tool not in listing.tools:
            listing = await handle.lists.recheck_tools() or listing
        if identifier.tool not in listing.tools:
            raise ToolNotFound(identifier, hint=nearest_and_known(identifier.tool, listing.tools, "tools"))

    async def _check_gone(self, identifier: ToolIdentifier, handle: ServerHandle) -> None:
        """A call failed. If that is because its server no longer has the tool: raises `ToolNotFound`."""
        try:
            async with asyncio.timeout(self._limits.refresh_wait_seconds):
                listing = await handle.lists.tools.fresh()
        except (Fault, TimeoutError):
            return
        if identifier.tool not in listing.tools:
            near = nearest_and_known(identifier.tool, listing.tools, "tools")
            raise ToolNotFound(identifier, hint=f"Its server no longer has it. {near}")

    async def _reach(self, identifier: ToolIdentifier, handle: ServerHandle) -> None:
        """See that the server runs, before a slot of it is taken."""
        try:
            await handle.reach()
        except Fault as fault:
            raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None


def _is_unsent(error: ConnectFailed | CallFailed | ShuttingDown) -> bool:
    """Whether a server was closed before a request was sent to it."""
    fault = error if isinstance(error, Fault) else error.fault
    return isinstance(fault, ShuttingDown) and (isinstance(error, ConnectFailed) or not fault.was_sent)
