"""The default surface: two tools, whatever is behind them. Only another configuration changes what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw

from mcp_workbench.errors import Fault
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Method, one_page
from mcp_workbench.surfaces.hello import Hello, static_hello
from mcp_workbench.surfaces.metatools import MetaTools
from mcp_workbench.surfaces.scope import Scope
from mcp_workbench.surfaces.shelf import Shelf, ShelfSurface
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import QUESTIONS, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.workbench import Workbench


class ProxySurface(ShelfSurface):
    """`open_toolbox` and `use_tool`; prompts and resources of what is open."""

    tools_change = False
    own_lists = True

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._scope = Scope(lambda: workbench.config.toolboxes)
        super().__init__(Shelf(workbench, self._scope))
        self._metatools = MetaTools(workbench, on_opened=self._opened)
        self._changed: Callable[[str], None] = lambda _kind: None
        self._methods: dict[str, Method] = {
            "tools/call": self._metatools.call_tool,
            "tools/list": self._list_tools,
            **self._shelf.methods,
        }

    async def hello(self, caller: Caller) -> Hello:
        del caller
        return static_hello(self._workbench.config)

    def method(self, name: str) -> Method | None:
        return self._methods.get(name)

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        return self._shelf.translate(source, method, params)

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        return self._metatools.refuse_call(params, fault)

    def changed(self, toolbox: str, kind: str) -> bool:
        return self._metatools.renew() if kind == "tools" else self._scope.has_shown(toolbox)

    def watch(self, changed: Callable[[str], None]) -> None:
        self._changed = changed

    def question(self, source: ServerIdentifier, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        del source
        return params if method in QUESTIONS else None

    async def watch_task(self, caller: Caller, task: str) -> bool:
        del caller, task
        return False

    def unwatch_task(self, caller: Caller, task: str) -> None:
        """There are none."""

    async def _list_tools(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        del exchange
        one_page(params)
        return Raw(jsonrpc.encode({"tools": self._metatools.definitions}))

    def _opened(self, caller: Caller, toolbox: str) -> None:
        """Its prompts and resources appear for a client whose lists may grow."""
        if caller.modern or not self._scope.open(toolbox):
            return
        for kind in new_kinds(self._workbench, caller, (toolbox,)):
            self._changed(kind)


def new_kinds(workbench: Workbench, caller: Caller, toolboxes: Iterable[str]) -> list[str]:
    """The kinds of lists that these toolboxes add something to."""
    router = workbench.at(caller)
    return [
        kind
        for kind in ("prompts", "resources")
        if any(server.toolbox in toolboxes for server in router.declaring(kind))
    ]
