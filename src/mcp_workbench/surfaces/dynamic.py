"""Native tools beside the two meta-tools, for hosts that want them.

The protocol gives a tool one string, so here a tool has a joined name, made by one function and
resolved by one table. A handshake client's list grows when it opens a toolbox. A modern client's
list must not change by a call, so it has the tools of every toolbox from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Raw

from mcp_workbench.catalog import render
from mcp_workbench.config.model import Config
from mcp_workbench.errors import CallFailed, ConnectFailed, RequestError, UnknownToolName, WorkbenchError
from mcp_workbench.identity import NameTable, ToolIdentifier, has_joined_form, joined_name, tools_once_named
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.nearest import nearest_names
from mcp_workbench.shown import shown
from mcp_workbench.surfaces import results
from mcp_workbench.surfaces.arguments import read_tool_arguments
from mcp_workbench.surfaces.metatools import OPEN_TOOLBOX, USE_TOOL, MetaTools, relay
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Caller, Exchange
from mcp_workbench.workbench import Workbench

FORM = "{toolbox}__{server}__{tool} (note: double underscores between all components)"
MIGRATION = "Tool names changed in 0.5.0: see docs/migration.md"


class DynamicSurface:
    """The two meta-tools, then the tools of what is open."""

    changes = True

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._metatools = MetaTools(workbench, on_opened=self._toolbox_opened)
        self._names = NameTable()
        self._opened: dict[str, None] = {}
        self._has_all = False
        self._changed: Callable[[], None] = lambda: None
        self._stop = workbench.on_change(self._catalog_changed)

    @property
    def instructions(self) -> str:
        return self._metatools.instructions

    async def list(self, caller: Caller) -> Raw:
        if caller.modern:
            await self._open_all()
        return Raw(jsonrpc.encode([*self._metatools.definitions, *self._native_tools()]))

    async def call(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        if name in (OPEN_TOOLBOX, USE_TOOL):
            return await self._metatools.call(exchange, name, arguments)
        if self.resolve(name) is None and exchange.caller.modern and not self._has_all:
            await self._open_all()  # A modern client may call what it knows from an earlier connection.
        return await self._call_native(exchange, name, arguments)

    def resolve(self, name: str) -> ToolIdentifier | None:
        """The tool that is registered under a joined name."""
        return self._names.resolve(name)

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def close(self) -> None:
        self._stop()

    # -- what is listed

    def _native_tools(self) -> Iterable[Raw]:
        for identifier, definition in self._workbench.catalog.present():
            if identifier.toolbox in self._opened and self._names.register(identifier):
                yield render.native(identifier, definition)

    def _toolbox_opened(self, caller: Caller, toolbox: str) -> None:
        """An open that succeeded, even in part, adds its tools; a modern client has them anyway."""
        if toolbox not in self._opened and not caller.modern:
            self._opened[toolbox] = None
            self._register()
            self._changed()

    async def _open_all(self) -> None:
        """Open every toolbox, within the open deadline; what fails is absent until it heals."""
        await self._workbench.list_all()
        self._opened = dict.fromkeys(self._workbench.config.toolboxes)
        self._has_all = True
        self._register()

    def _register(self) -> None:
        for identifier in self._workbench.known():
            if identifier.toolbox in self._opened:
                self._names.register(identifier)

    def _catalog_changed(self, toolbox: str) -> None:
        if toolbox in self._opened:
            self._register()
            self._changed()

    # -- what a joined name calls

    async def _call_native(self, exchange: Exchange, name: str, arguments: Raw) -> Raw:
        identifier = self.resolve(name)
        if identifier is None:
            return results.failure(self._unknown(name), prefix="Error: ")
        try:
            return await relay(self._workbench, identifier, read_tool_arguments(arguments), exchange)
        except (CallFailed, ConnectFailed) as error:
            place = "/".join(shown(part) for part in identifier.parts())
            return results.failure(error, prefix=f"[{place}] Error: ", named=identifier.params())
        except WorkbenchError as error:
            return results.failure(error, prefix="Error: ", named=identifier.params())

    def _unknown(self, name: str) -> RequestError:
        once = [tool for tool in tools_once_named(name, self._workbench.known()) if joined_name(tool) != name]
        if once or not has_joined_form(name):
            new_names = [f"Call: {joined_name(identifier)}" for identifier in once[: DEFAULTS.joined_matches_shown]]
            return UnknownToolName(
                f"Invalid tool name format '{shown(name)}'. Expected format: {FORM}",
                hint="\n".join([*new_names, MIGRATION]),
            )
        return UnknownToolName(f"Tool name '{shown(name)}' not found", hint=self._where_to_look(name))

    def _where_to_look(self, name: str) -> str:
        near = [f"'{other}'" for other in nearest_names(name, self._names)]
        closed = [shown(toolbox) for toolbox in _closed(self._workbench.config, self._opened)]
        hints = [f"Did you mean {' or '.join(near)}?"] if near else []
        if closed:
            hints.append(f"Not open: {', '.join(closed[: DEFAULTS.names_shown])}. Call open_toolbox first.")
        return " ".join(hints)


def _closed(config: Config, opened: Iterable[str]) -> list[str]:
    return [toolbox for toolbox in config.toolboxes if toolbox not in opened]
