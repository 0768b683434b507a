"""The transparent surface of one server: every method, also unknown ones and tasks, as if the client had started it.

The workbench only translates between the eras, applies the server's `toolFilters`, and keeps what a restart would lose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.config.model import ServerConfig
from mcp_workbench.errors import CallFailed, Fault, ToolNotFound, WorkbenchError
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.routing.requests import ForwardedRequest
from mcp_workbench.routing.server_handle import ServerHandle
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.surfaces.aggregate import read_level
from mcp_workbench.surfaces.arguments import read_tool_arguments
from mcp_workbench.surfaces.base import ListedItem, Method, forward, page, read_text
from mcp_workbench.surfaces.failures import as_result, as_rpc_error, is_refused, rpc_errors
from mcp_workbench.surfaces.proxy import read_call
from mcp_workbench.surfaces.server_info import ServerInfo
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.downgrade import handshake_tools
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router

_HANDSHAKE_HELLO: Final = frozenset({"protocolVersion", "capabilities", "serverInfo", "instructions"})
_MODERN_HELLO: Final = frozenset({"supportedVersions", "capabilities", "instructions"})
"""The members of the answer to the first request that we set ourselves; all others pass through."""


class ServerSurface:
    """One server of a toolbox."""

    tools_change = True
    own_lists = False

    def __init__(self, workbench: Workbench, server: ServerIdentifier) -> None:
        self._workbench = workbench
        self._server = server
        self._is_handshake = False
        self._first = self._entry()
        self._entries: dict[str, ServerConfig | None] = {}
        """The configuration at the client's last notification of a change, by kind of list."""
        self._offers: Collection[str] = ()
        self._subscribed: set[str] = set()
        """The URIs that a handshake client subscribed to. Subscribing twice has no effect."""
        self._methods: dict[str, Method] = {
            "tools/call": self._call_tool,
            "tools/list": self._list_tools,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
        }

    async def server_info(self, caller: Caller) -> ServerInfo:
        """The server's own answer, translated to the client's era."""
        self._is_handshake = not caller.modern
        connection = await self._connection(caller)
        agreement = connection.agreement
        self._offers = agreement.offers
        said = jsonrpc.members(agreement.hello)
        info = said.get("serverInfo") or jsonrpc.members(said.get("_meta")).get(eras.SERVER_INFO)
        others = _others(said, connection) if agreement.modern == caller.modern else {}
        return ServerInfo(
            _bridged(agreement, modern=caller.modern), said.get("instructions", ""), info or eras.SELF, others
        )

    def _entry(self) -> ServerConfig | None:
        """The server's current configuration."""
        toolbox = self._workbench.config.toolboxes.get(self._server.toolbox)
        return toolbox.servers.get(self._server.server) if toolbox is not None else None

    @property
    def _is_filtered(self) -> bool:
        entry = self._entry()
        return entry is not None and bool(entry.tool_filters)

    def method(self, name: str) -> Method | None:
        if name == "tools/list" and self._is_filtered:
            return self._list_filtered
        return self._methods.get(name) or partial(self._pass, name)

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        if method == eras.RESOURCE_UPDATED and self._is_handshake and not self._watches(params.get("uri")):
            return []  # a modern server may still report a resource after the client unsubscribed
        return [params] if source == self._server else []

    def _watches(self, raw: Raw | None) -> bool:
        uri = jsonrpc.text_or_none(raw) or ""
        return any(uri == watched or uri.startswith(f"{watched}/") for watched in self._subscribed)

    def question_params(self, source: ServerIdentifier, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Forward every question: the client knows what it declared."""
        del source, method
        return params

    def note_change(self, toolbox: str, kind: str) -> bool:
        """Report a change only if the configuration replaced the server: its own notifications pass through."""
        entry = self._entry()
        is_replaced = toolbox == self._server.toolbox and entry != self._entries.get(kind, self._first)
        self._entries[kind] = entry
        return is_replaced and kind in self._offers

    def on_change(self, notify: Callable[[str], None]) -> None:
        """Do nothing: calls change no list."""

    def notice(self, caller: Caller, method: str, params: dict[str, Raw]) -> None:
        for router in self._workbench.routers(caller.audience):
            if (handle := router.pool.find(self._server)) is not None:
                handle.tell(method, params)

    async def subscribe(self, caller: Caller, uri: str) -> bool:
        try:
            await self._workbench.at(caller).pool.handle(self._server).subscribe(uri)
        except WorkbenchError:
            return False
        return True

    def unsubscribe(self, caller: Caller, uri: str) -> None:
        if (handle := self._existing(caller)) is not None:
            handle.unsubscribe(uri)

    async def watch_task(self, caller: Caller, task: str) -> bool:
        try:
            return await self._workbench.at(caller).pool.handle(self._server).watch_task(task)
        except WorkbenchError:
            return False

    def unwatch_task(self, caller: Caller, task: str) -> None:
        if (handle := self._existing(caller)) is not None:
            handle.unwatch_task(task)

    def _existing(self, caller: Caller) -> ServerHandle | None:
        router = self._workbench.find(caller)
        return router.pool.find(self._server) if router is not None else None

    # -- methods

    async def _pass(self, method: str, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        """Forward any method. Tasks differ between the eras, so they pass only if client and server share one."""
        if method.startswith("tasks/"):
            agreement = await self._agreement(exchange.caller)
            if agreement.modern != exchange.caller.modern:
                raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {escape(method)}")
        return await forward(self._workbench.at(exchange.caller), self._server, method, params, exchange)

    async def _call_tool(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        """The server's result or error. A failure to reach it becomes a result that a model can read."""
        name, arguments = read_call(params)
        tool = ToolIdentifier(self._server.toolbox, self._server.server, name or "?")
        router = self._workbench.at(exchange.caller)
        try:
            if self._is_filtered:
                return await self._workbench.relay(tool, read_tool_arguments(arguments), exchange)
            return await self._forward_call(router, tool, params, exchange)
        except ToolNotFound as error:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"{error}. {error.hint}") from None
        except WorkbenchError as error:
            if is_refused(error):
                raise as_rpc_error(error, modern=exchange.caller.modern) from None
            failed = CallFailed(tool, error) if isinstance(error, Fault) else error
            return as_result(failed, named=tool.params())

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        tool = ToolIdentifier(self._server.toolbox, self._server.server, read_call(params)[0] or "?")
        return as_result(CallFailed(tool, fault))

    def _is_projected(self, caller: Caller) -> bool:
        """Whether results are projected, because a handshake client uses a modern server."""
        return not caller.modern and (handle := self._existing(caller)) is not None and handle.speaks_modern

    async def _forward_call(
        self, router: Router, tool: ToolIdentifier, params: dict[str, Raw], exchange: Exchange
    ) -> Raw:
        result = await router.calls.call(ForwardedRequest(self._server, "tools/call", params, exchange))
        if self._is_projected(exchange.caller):
            exchange.projection = "schema" if await self._wraps_output(router, tool, result) else "value"
        return result

    async def _wraps_output(self, router: Router, tool: ToolIdentifier, result: Raw) -> bool:
        """Whether the tool's output schema is wrapped. It is looked up only if the value does not decide."""
        if not jsonrpc.is_object(jsonrpc.members(result).get("structuredContent", jsonrpc.NOTHING)):
            return False
        try:
            listing = await router.pool.handle(self._server).lists.list_tools()
        except WorkbenchError as error:  # the call succeeded: pass its result on anyway
            logger.info("a tool's output schema is unknown", server=tool.server, code=error.code)
            return False
        return (definition := listing.tools.get(tool.tool)) is not None and definition.wraps_output

    async def _list_tools(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        result = await self._pass("tools/list", exchange, params)
        if not self._is_projected(exchange.caller):
            return result
        from mcp_workbench.catalog.output_schemas import is_compilable  # noqa: PLC0415 -- few servers need it

        return handshake_tools(result, is_compilable)

    async def _list_filtered(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        with rpc_errors(self._server, "tools/list", modern=exchange.caller.modern):
            listing = await self._workbench.at(exchange.caller).pool.handle(self._server).lists.list_tools()
        tools = [ListedItem(tool.raw) for tool in listing.tools.values()]
        async with self._workbench.rendering(exchange.caller) as renderer:
            return await page("tools", tools, params, self._workbench.limits, renderer)

    async def _subscribe(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        uri = read_text(params, "uri")
        handle = self._existing(exchange.caller)
        if uri in self._subscribed and handle is not None and handle.subscriptions.watches(uri):
            return jsonrpc.EMPTY_OBJECT
        limits = self._workbench.limits
        if len(uri) > limits.uri_length or len(self._subscribed) >= limits.subscriptions:
            bounds = f"at most {limits.subscriptions}, of {limits.uri_length} characters each"
            raise RpcError(jsonrpc.INVALID_PARAMS, f"Too many subscriptions, or a URI is too long ({bounds})")
        with rpc_errors(self._server, "resources/subscribe", modern=exchange.caller.modern):
            await self._workbench.at(exchange.caller).pool.handle(self._server).subscribe(uri)
        self._subscribed.add(uri)
        return jsonrpc.EMPTY_OBJECT

    async def _unsubscribe(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        uri = read_text(params, "uri")
        if uri in self._subscribed:
            self._subscribed.discard(uri)
            self.unsubscribe(exchange.caller, uri)
        return jsonrpc.EMPTY_OBJECT

    async def _set_level(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        agreement = await self._agreement(exchange.caller)
        if "logging" not in agreement.offers:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, "Method not found: logging/setLevel")
        self._workbench.at(exchange.caller).pool.set_level(read_level(params))
        return jsonrpc.EMPTY_OBJECT

    async def _agreement(self, caller: Caller) -> Agreement:
        return (await self._connection(caller)).agreement

    async def _connection(self, caller: Caller) -> Connection:
        try:
            return await self._workbench.at(caller).pool.connect(self._server)
        except WorkbenchError as error:
            raise as_rpc_error(error) from None


def _others(said: dict[str, Raw], connection: Connection) -> dict[str, Raw]:
    """The other members of a server's answer. An expired time to live becomes 0."""
    known = _MODERN_HELLO if connection.agreement.modern else _HANDSHAKE_HELLO
    others = {name: value for name, value in said.items() if name not in known}
    if "ttlMs" in others and connection.age_seconds * 1000 >= (jsonrpc.number_or_none(others["ttlMs"]) or 0):
        others["ttlMs"] = Raw(b"0")
    return others


def _bridged(agreement: Agreement, *, modern: bool) -> dict[str, Any]:
    """The server's capabilities for a client. If their eras differ, tasks are left out, since they differ too."""
    capabilities = dict(agreement.offers)
    if agreement.modern == modern:
        return capabilities
    capabilities.pop("tasks", None)
    extensions = capabilities.get("extensions")
    if isinstance(extensions, dict):
        known = cast("dict[str, Any]", extensions)
        capabilities["extensions"] = {key: value for key, value in known.items() if key != eras.TASKS}
    return capabilities
