"""The surface of dynamic mode: the two meta-tools, and native tools with joined names.

The protocol gives a tool one string as its name, so a tool has a joined name here, which a table resolves. A handshake
client's list grows when it opens a toolbox. A call must not change a modern client's list, so that has the tools of
every toolbox from the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec import Raw

from mcp_workbench.catalog.rendering import render
from mcp_workbench.config.model import Config
from mcp_workbench.errors import CallFailed, ConnectFailed, Fault, RequestError, UnknownToolName, WorkbenchError
from mcp_workbench.identity import NameTable, ToolIdentifier, has_joined_form, joined_name, tools_once_named
from mcp_workbench.surfaces.arguments import read_tool_arguments
from mcp_workbench.surfaces.base import ListedItem, page
from mcp_workbench.surfaces.descriptions import OPEN_TOOLBOX, USE_TOOL
from mcp_workbench.surfaces.failures import as_result
from mcp_workbench.surfaces.proxy import OLD_METATOOLS, ProxySurface, read_call, relay
from mcp_workbench.surfaces.server_info import ServerInfo, with_extensions
from mcp_workbench.text.sanitize import NAMES_SHOWN, escape, slashed
from mcp_workbench.text.suggest import JOINED_MATCHES_SHOWN, nearest_tools
from mcp_workbench.wire.caller import Caller, Key
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.workbench import Workbench

FORM = "{toolbox}__{server}__{tool} (note: double underscores between all components)"
MIGRATION = "Tool names changed in 0.5.0: see docs/migration.md"


class DynamicSurface(ProxySurface):
    """Lists the two meta-tools, then the tools of the open toolboxes."""

    tools_change = True

    def __init__(self, workbench: Workbench) -> None:
        super().__init__(workbench)
        self._names = NameTable[ToolIdentifier]()
        self._complete: dict[Key, Config] = {}
        self._methods |= {"tools/call": self._call_tool, **self._aggregate.skills.methods}

    async def server_info(self, caller: Caller) -> ServerInfo:
        return with_extensions(await super().server_info(caller), self._aggregate.extensions(caller))

    async def _list_tools(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        if exchange.caller.modern:
            await self._open_all(exchange)
        await self._aggregate.resources.learn_apps(exchange.caller)
        async with self.workbench.rendering(exchange.caller) as renderer:
            tools = [*map(ListedItem, self.definitions), *await self._native_tools(exchange.caller)]
            return await page("tools", tools, params, self.workbench.limits, renderer)

    async def _call_tool(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        name, arguments = read_call(params)
        if name in (OPEN_TOOLBOX, USE_TOOL, *OLD_METATOOLS):
            return await self.call_tool(exchange, params)
        caller = exchange.caller
        if self.resolve(name) is None:
            self._register(caller)
        is_complete = self._complete.get(caller.key) is self.workbench.config
        if self.resolve(name) is None and caller.modern and not is_complete:
            await self._open_all(exchange)  # a modern client may know the tool from an earlier connection
        if self.resolve(name) is None and has_joined_form(name):
            await self.workbench.at(caller).recheck(self._scope.of(caller), "tools")
            self._register(caller)
        return await self._call_native(exchange, name, arguments)

    def resolve(self, name: str) -> ToolIdentifier | None:
        """The tool that is registered under a joined name, if any."""
        return self._names.resolve(name)

    def note_change(self, toolbox: str, kind: str) -> bool:
        is_renewed = kind == "tools" and self.renew()
        return is_renewed or self._scope.has_shown(toolbox)

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        identifier = self.resolve(read_call(params)[0])
        if identifier is None:
            return super().refuse_call(params, fault)
        return _failed(identifier, CallFailed(identifier, fault))

    # -- lists

    async def _native_tools(self, caller: Caller) -> list[ListedItem]:
        seen = self._scope.of(caller)
        present = self.workbench.at(caller).catalog.present()
        tools = {tool: definition for tool, definition in present if tool.toolbox in seen}
        entries = await self._aggregate.resources.with_readable_apps(caller, tools)
        named = [one for one in entries.items() if self._names.register(one[0])]
        return [ListedItem(definition.raw, partial(render.native, tool, definition)) for tool, definition in named]

    def note_opened(self, caller: Caller, toolbox: str) -> None:
        """Add the tools of a toolbox that was opened, at least in part. A modern client has them already."""
        if caller.modern or self._scope.has_shown(toolbox):
            return
        super().note_opened(caller, toolbox)
        self._register(caller)
        self._notify("tools")

    async def _open_all(self, exchange: Exchange) -> None:
        """Open every toolbox, within the open deadline. Tools of failed servers are absent until these recover."""
        caller, config = exchange.caller, self.workbench.config
        await self.workbench.at(caller).list_tools(config.toolboxes, exchange)
        self._complete[caller.key] = config
        self._register(caller)

    def _register(self, caller: Caller) -> None:
        seen = self._scope.of(caller)
        for identifier in self.workbench.at(caller).catalog.known():
            if identifier.toolbox in seen:
                self._names.register(identifier)

    # -- calls by joined name

    async def _call_native(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        identifier = self.resolve(name)
        if identifier is None:
            return as_result(await self._unknown(exchange, name, arguments), prefix="Error: ")
        try:
            return await relay(self.workbench, identifier, read_tool_arguments(arguments), exchange)
        except WorkbenchError as error:
            return _failed(identifier, error)

    async def _unknown(self, exchange: Exchange, name: str, arguments: Raw) -> RequestError:
        corrections = await self.corrections(exchange)
        once = tools_once_named(name, self.workbench.at(exchange.caller).catalog.known())
        is_old = any(joined_name(tool) != name for tool in once)
        names = [joined for tool in corrections.tools_of(name) if self.resolve(joined := joined_name(tool)) == tool]
        calls = [f"Call: {joined}" for joined in names[:JOINED_MATCHES_SHOWN]]
        calls = calls or corrections.of_native(name, arguments)
        if is_old or not has_joined_form(name):
            text = f"Invalid tool name format '{escape(name)}'. Expected format: {FORM}"
            hints = [*(calls or corrections.of_call(name, arguments)), *([MIGRATION] if is_old else [])]
        else:
            text = f"Tool name '{escape(name)}' not found"
            hints = calls or [self._where_to_look(exchange.caller, name)]
        return UnknownToolName(text, hint="\n".join(hints))

    def _where_to_look(self, caller: Caller, name: str) -> str:
        near = [f"'{other}'" for other in nearest_tools(name, self._names)]
        closed = [escape(toolbox) for toolbox in _closed(self.workbench.config, self._scope.of(caller))]
        hints = [f"Did you mean {' or '.join(near)}?"] if near else []
        if closed:
            hints.append(f"Not open: {', '.join(closed[:NAMES_SHOWN])}. Call open_toolbox first.")
        return " ".join(hints)


def _failed(identifier: ToolIdentifier, error: WorkbenchError) -> Raw:
    where = f"[{slashed(*identifier.parts())}] " if isinstance(error, CallFailed | ConnectFailed) else ""
    return as_result(error, prefix=f"{where}Error: ", named=identifier.params())


def _closed(config: Config, opened: Iterable[str]) -> list[str]:
    return [toolbox for toolbox in config.toolboxes if toolbox not in opened]
