"""The default surface: the two meta-tools. Their definitions change only with the configuration.

`descriptions.py` has the definitions, `open_response.py` renders the responses of `open_toolbox`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from mcp_workbench.errors import (
    CallFailed,
    Fault,
    InvalidToolIdentifier,
    RequestError,
    ToolsNotFound,
    UnknownToolName,
    WorkbenchError,
)
from mcp_workbench.identity import EVERY_TOOLBOX, ServerIdentifier, ToolIdentifier
from mcp_workbench.routing.requests import ToolCall
from mcp_workbench.surfaces.aggregate import Aggregate, AggregateSurface
from mcp_workbench.surfaces.arguments import NoToolbox, OpenArguments, named_parts, read_open, read_use
from mcp_workbench.surfaces.base import Scope, require_first_page
from mcp_workbench.surfaces.descriptions import OPEN_TOOLBOX, USE_TOOL, definitions
from mcp_workbench.surfaces.failures import as_result, as_rpc_error
from mcp_workbench.surfaces.server_info import ServerInfo, static_info
from mcp_workbench.text.sanitize import NAMES_SHOWN, escape
from mcp_workbench.text.suggest import NEAREST_SHOWN, known_names, nearest_tools
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import QUESTIONS, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.workbench import Workbench

if TYPE_CHECKING:
    from mcp_workbench.catalog.snapshot import Found, Opened
    from mcp_workbench.routing.router import Router
    from mcp_workbench.surfaces.corrections import Corrections

MIGRATION = "Tool names changed in 0.11.0: see docs/migration.md"
OLD_METATOOLS = {f"workbench_{name}": name for name in (OPEN_TOOLBOX, USE_TOOL)}
"""The names of the meta-tools before 0.10, with their current names."""


class ProxySurface(AggregateSurface):
    """Lists `open_toolbox` and `use_tool`, and the prompts and resources of open toolboxes."""

    tools_change = False
    own_lists = True

    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench
        self._scope = Scope(lambda: workbench.config.toolboxes)
        super().__init__(Aggregate(workbench, self._scope))
        self.definitions = definitions(workbench.config)
        """The definitions of the two tools, which name the toolboxes."""
        self._notify: Callable[[str], None] = lambda _kind: None
        self._methods |= {"tools/call": self.call_tool, "tools/list": self._list_tools}

    async def server_info(self, caller: Caller) -> ServerInfo:
        del caller
        return static_info(self.workbench.config)

    def note_change(self, toolbox: str, kind: str) -> bool:
        return self.renew() if kind == "tools" else self._scope.has_shown(toolbox)

    def on_change(self, notify: Callable[[str], None]) -> None:
        self._notify = notify

    def question_params(self, source: ServerIdentifier, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        del source
        return params if method in QUESTIONS else None

    async def watch_task(self, caller: Caller, task: str) -> bool:
        del caller, task
        return False

    def unwatch_task(self, caller: Caller, task: str) -> None:
        """Do nothing: this surface has no tasks."""

    async def _list_tools(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        del exchange
        require_first_page(params)
        return Raw(jsonrpc.encode({"tools": self.definitions}))

    def note_opened(self, caller: Caller, toolbox: str) -> None:
        """Add the prompts and resources of an opened toolbox to a handshake client's lists."""
        if caller.modern or not self._scope.open(toolbox):
            return
        router = self.workbench.at(caller)
        for kind in ("prompts", "resources"):
            if any(server.toolbox == toolbox for server in router.declaring(kind)):
                self._notify(kind)

    # -- the two tools

    def renew(self) -> bool:
        """Update the definitions from the current configuration. Returns whether they changed."""
        before, self.definitions = self.definitions, definitions(self.workbench.config)
        return [bytes(one) for one in before] != [bytes(one) for one in self.definitions]

    async def call_tool(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        """Answer a call of a meta-tool. Errors become results."""
        name, arguments = read_call(params)
        try:
            if name == USE_TOOL:
                return await relay(self.workbench, *read_use(arguments), exchange)
            if name == OPEN_TOOLBOX:
                return await self._open(exchange, arguments)
            raise _unknown(name)
        except WorkbenchError as error:
            if isinstance(error, RequestError):
                with contextlib.suppress(Fault):  # without corrections if this client can have no connections
                    error = await self._with_corrections(error, exchange, name, arguments)
            return as_result(error, named=named_parts(arguments))

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        """The result of a meta-tool call that reached no server; see `Surface.refuse_call`."""
        name, arguments = read_call(params)
        if name == USE_TOOL:
            with contextlib.suppress(RequestError):
                return as_result(CallFailed(read_use(arguments)[0], fault))
        return as_result(fault, named=named_parts(arguments))

    async def _open(self, exchange: Exchange, arguments: Raw) -> Raw:
        try:
            request = read_open(arguments)
        except NoToolbox as error:
            hint = error.hint or known_names(self.workbench.config.toolboxes, "toolboxes")
            raise error.copy_with(hint=hint) from None
        router = self.workbench.at(exchange.caller)
        # Only responses need it, and the answer to `initialize` need not wait for it.
        from mcp_workbench.surfaces import open_response  # noqa: PLC0415

        limits = self.workbench.limits
        if request.toolbox == EVERY_TOOLBOX:
            searched = await router.search_all(request.query, request.limit)
            async with self.workbench.rendering(exchange.caller) as renderer:
                return await open_response.matches(searched, request, limits, renderer)
        if request.tools:
            await self._check_known(router, request)
        opened = await router.open(request.toolbox, exchange)
        self.note_opened(exchange.caller, opened.toolbox)
        if request.query:
            searched = await router.search(request.query, request.toolbox, request.limit)
            async with self.workbench.rendering(exchange.caller) as renderer:
                answered = await open_response.matches(searched, request, limits, renderer, opened)
        else:
            found = _chosen(opened, request.tools) if request.tools else opened.found
            if not request.tools and request.detail is None:
                request = request._replace(detail=self.workbench.config.open_detail)
            async with self.workbench.rendering(exchange.caller) as renderer:
                answered = await open_response.opened(opened, found, request, limits, renderer)
        if (recorder := self.workbench.record()) is not None and self.workbench.config.tool_mode == "proxy":
            definitions = (len(tool.raw) for _, tool in opened.found)
            recorder.opened(exchange.caller.audience, opened.toolbox, definitions, len(answered))
        return answered

    async def _check_known(self, router: Router, request: OpenArguments) -> None:
        """Refuse names that no server of the toolbox has before starting one. Raises `ToolsNotFound`."""
        known = await router.known_toolbox(request.toolbox)
        if known is None:
            return
        try:
            _chosen(known, request.tools)
        except ToolsNotFound:
            await router.recheck((request.toolbox,), "tools")
            _chosen(await router.known_toolbox(request.toolbox) or known, request.tools)

    async def corrections(self, exchange: Exchange) -> Corrections:
        """Corrections of mistaken calls, from the tools that are known without starting a server."""
        from mcp_workbench.surfaces.corrections import Corrections  # noqa: PLC0415 -- only mistakes need it

        router = self.workbench.at(exchange.caller)
        await router.recall()
        return Corrections(self.workbench.config, router.catalog)

    async def _with_corrections(
        self, error: RequestError, exchange: Exchange, name: str, arguments: Raw
    ) -> RequestError:
        """Add to an error the calls to send instead."""
        corrections = await self.corrections(exchange)
        is_old = name in OLD_METATOOLS or corrections.is_old_name(name, arguments)
        lines = corrections.of_call(OLD_METATOOLS.get(name, name), arguments)
        # With a whole call to send, the hint about the parts of an identifier is superfluous.
        is_corrected = isinstance(error, InvalidToolIdentifier) and any(line.startswith("Send: ") for line in lines)
        hints = [MIGRATION if is_old else "", "" if is_corrected else error.hint, *lines]
        return error.copy_with(hint="\n".join(dict.fromkeys(hint for hint in hints if hint)))


def _unknown(name: str) -> UnknownToolName:
    if name in OLD_METATOOLS:
        return UnknownToolName(f"Tool '{name}' not found: it is called {OLD_METATOOLS[name]}")
    return UnknownToolName(f"Tool '{escape(name)}' not found: the tools here are {OPEN_TOOLBOX} and {USE_TOOL}")


def _chosen(opened: Opened, names: Sequence[str]) -> list[Found]:
    """The tools with these names, from all servers. Raises `ToolsNotFound`."""
    by_name: dict[str, list[Found]] = {}
    for found in opened.found:
        by_name.setdefault(found[0].tool, []).append(found)
    if missing := [name for name in names if name not in by_name]:
        near = {name: nearest_tools(name, by_name)[:1] for name in missing[:NEAREST_SHOWN]}
        hints = [f"Did you mean '{escape(names[0])}'?" for names in near.values() if names]
        failed = [f"Server '{escape(one.server)}' failed: {one.fault}" for one in opened.failed[:NAMES_SHOWN]]
        hint = "\n".join([" ".join([*hints, known_names(by_name, "tools")]), *failed])
        raise ToolsNotFound(opened.toolbox, missing, hint=hint)
    return [found for name in names for found in by_name[name]]


def read_call(params: dict[str, Raw]) -> tuple[str, Raw]:
    """Read the name and the arguments of a `tools/call`. Raises `RpcError`."""
    name = jsonrpc.text_or_none(params.get("name"))
    if name is None:
        raise jsonrpc.RpcError(jsonrpc.INVALID_PARAMS, "params.name must be a string")
    return name, params.get("arguments", jsonrpc.NOTHING)


async def relay(workbench: Workbench, identifier: ToolIdentifier, arguments: Raw, exchange: Exchange) -> Raw:
    """Call a tool for a client. Errors that the client itself must act on stay JSON-RPC errors."""
    exchange.members.pop("task", None)  # tasks are not offered here, so the protocol says to ignore it
    try:
        return await workbench.at(exchange.caller).calls.call(ToolCall(identifier, arguments, exchange))
    except CallFailed as error:
        if error.refusal is not None and _is_for_client(error.refusal.rpc_code, exchange.caller):
            raise as_rpc_error(error, modern=exchange.caller.modern) from None
        raise
    except Fault as fault:  # this client can have no connections: too many clients, or the workbench is closing
        raise CallFailed(identifier, fault) from None


def _is_for_client(code: int, caller: Caller) -> bool:
    """Whether an error asks a modern client for a capability, or the user of a handshake client to visit a page."""
    if caller.modern:
        return code == jsonrpc.MISSING_CLIENT_CAPABILITY
    return code == jsonrpc.URL_ELICITATION_REQUIRED and "elicitation/create" in caller.answers
