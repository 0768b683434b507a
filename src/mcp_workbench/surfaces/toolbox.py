"""The surface of one toolbox: its tools, prompts and resources under their own names, and its tasks.

If two servers share a name, both get joined names. A task's id consists of the server's name and the server's own id,
so two servers' tasks can't be confused; it needs no table and outlives a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import render
from mcp_workbench.catalog.rendering.budget import INSTRUCTIONS_SHARE, fitted
from mcp_workbench.config.model import Config
from mcp_workbench.errors import CallFailed, Fault, WorkbenchError
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier, native_names
from mcp_workbench.surfaces.aggregate import Aggregate, AggregateSurface
from mcp_workbench.surfaces.arguments import read_tool_arguments
from mcp_workbench.surfaces.base import ListedItem, Method, Scope, forward, page, read_text, require_first_page
from mcp_workbench.surfaces.failures import as_result, as_rpc_error, is_refused
from mcp_workbench.surfaces.proxy import read_call
from mcp_workbench.surfaces.server_info import ServerInfo, tasks_capability, toolbox_info, with_extensions
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import QUESTIONS, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench

_MARK = ":"
_BY_ID = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update")


class Tasks:
    """Forwards requests about tasks to their servers. In one toolbox, a server's name identifies it."""

    def __init__(self, workbench: Workbench, toolbox: str) -> None:
        self._workbench = workbench
        self._toolbox = toolbox
        self.methods: dict[str, Method] = {"tasks/list": self._list}
        self.methods |= {method: self._by_id(method) for method in _BY_ID}

    def shown(self, source: ServerIdentifier, params: dict[str, Any]) -> dict[str, Any]:
        """Replace the task ids in a result, a notification or a question with those that the client sees."""
        members = _renamed(params, source)
        if task := jsonrpc.members(members.get("task")):
            members["task"] = _renamed(task, source)
        meta: dict[str, Any] = jsonrpc.members(members.get("_meta"))
        if related := jsonrpc.members(meta.get(eras.RELATED_TASK)):
            members["_meta"] = {**meta, eras.RELATED_TASK: _renamed(related, source)}
        return members

    def shown_result(self, source: ServerIdentifier, result: Raw) -> Raw:
        """Replace the task ids in a result. Other results keep their bytes."""
        text = bytes(result)
        if b"taskId" not in text and b"\\u" not in text:  # JSON may write a name with escapes
            return result
        return Raw(jsonrpc.encode(self.shown(source, jsonrpc.fields(result))))

    def find(self, shown_id: str) -> tuple[ServerIdentifier, str]:
        """The server of a task, and its own id. Raises `RpcError`."""
        server, mark, own = shown_id.partition(_MARK)
        identifier = ServerIdentifier(self._toolbox, unquote(server))
        toolbox = self._workbench.config.toolboxes.get(self._toolbox)
        if not mark or toolbox is None or identifier.server not in toolbox.servers:
            raise RpcError(jsonrpc.INVALID_PARAMS, "Task not found")
        return identifier, own

    async def watch(self, caller: Caller, task: str) -> bool:
        try:
            server, own = self.find(task)
            return await self._workbench.at(caller).pool.handle(server).watch_task(own)
        except (RpcError, WorkbenchError):
            return False

    def unwatch(self, caller: Caller, task: str) -> None:
        with suppress(RpcError):  # the server may not be configured any more
            server, own = self.find(task)
            router = self._workbench.find(caller)
            if router is not None and (handle := router.pool.find(server)) is not None:
                handle.unwatch_task(own)

    def _by_id(self, method: str) -> Method:
        async def handle(exchange: Exchange, params: dict[str, Raw]) -> Raw:
            if exchange.caller.modern:
                exchange.caller.require_tasks()
            server, own = self.find(read_text(params, "taskId"))
            router = self._workbench.at(exchange.caller)
            if (await router.pool.connect(server)).agreement.modern != exchange.caller.modern:
                raise RpcError(jsonrpc.INVALID_PARAMS, "Task not found")
            result = await forward(router, server, method, {**params, "taskId": own}, exchange)
            return self.shown_result(server, result)

        return handle

    async def _list(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        """List the tasks of all running servers. Others have none."""
        require_first_page(params)
        from mcp_workbench.servers.listing import list_items  # noqa: PLC0415 -- few clients list tasks

        router = self._workbench.at(exchange.caller)
        tasks: list[dict[str, Any]] = []
        for server in router.offering("tasks"):
            try:
                connection = await router.pool.connect(server)
                listed = await list_items(connection, "tasks/list", "tasks", self._workbench.limits)
            except WorkbenchError as error:
                logger.debug("a server's tasks are missing", server=server, code=error.code)
                continue
            tasks += [self.shown(server, jsonrpc.members(task)) for task in listed.items]
        return Raw(jsonrpc.encode({"tasks": tasks}))


def _renamed(members: dict[str, Any], source: ServerIdentifier) -> dict[str, Any]:
    own = jsonrpc.text_or_none(members.get("taskId"))
    if own is None:
        return dict(members)
    return {**members, "taskId": f"{quote(source.server, safe='')}{_MARK}{own}"}


class ToolboxSurface(AggregateSurface):
    """Serves one toolbox as if it were a single server."""

    tools_change = True
    own_lists = True

    def __init__(self, workbench: Workbench, toolbox: str) -> None:
        self._workbench = workbench
        self._toolbox = toolbox
        super().__init__(Aggregate(workbench, Scope(lambda: (toolbox,), all_open=True), native_prompts=True))
        self._tasks = Tasks(workbench, toolbox)
        self._names: dict[str, ToolIdentifier] = {}
        self._learnt_from: Config | None = None
        self._has_listed = False
        self._methods |= {"tools/call": self._call_tool, "tools/list": self._list_tools}
        self._methods |= {**self._aggregate.skills.methods, **self._tasks.methods}

    async def watch_task(self, caller: Caller, task: str) -> bool:
        return await self._tasks.watch(caller, task)

    def unwatch_task(self, caller: Caller, task: str) -> None:
        self._tasks.unwatch(caller, task)

    async def server_info(self, caller: Caller) -> ServerInfo:
        """The answer to the first request, from what is known of the servers without starting any."""
        toolbox, limits = self._workbench.config.toolboxes.get(self._toolbox), self._workbench.limits
        known = self._workbench.at(caller).handles(toolbox) if toolbox is not None else {}
        instructions = {server: handle.instructions for server, handle in known.items() if handle.instructions}
        share = limits.open_budget_tokens // INSTRUCTIONS_SHARE
        # A capability can't be added later in a session, so tasks are declared unless every server is known to have
        # none. Each tool declares whether it supports them.
        has_tasks = any(handle.may_have_tasks(modern=caller.modern) for handle in known.values())
        tasks = tasks_capability(modern=caller.modern) if has_tasks else {}
        info = toolbox_info(toolbox, fitted(instructions, share), tasks)
        return with_extensions(info, self._aggregate.extensions(caller))

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        if method in eras.TASK_CHANGED:
            return [self._tasks.shown(source, params)]
        return super().translate(source, method, params)

    def question_params(self, source: ServerIdentifier, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        return self._tasks.shown(source, params) if method in QUESTIONS else None

    def note_change(self, toolbox: str, kind: str) -> bool:
        return toolbox == self._toolbox and (kind != "tools" or self._has_listed)

    def on_change(self, notify: Callable[[str], None]) -> None:
        """Do nothing: calls change no list."""

    async def _list_tools(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        self._has_listed = True  # first of all: the client must hear of changes from now on
        await self._learn(exchange.caller)
        await self._aggregate.resources.learn_apps(exchange.caller)
        async with self._workbench.rendering(exchange.caller) as renderer:
            catalog = self._workbench.at(exchange.caller).catalog
            present = {tool: definition for tool, definition in catalog.present() if tool.toolbox == self._toolbox}
            present = await self._aggregate.resources.with_readable_apps(exchange.caller, present)
            tools = [_listed(name, tool, present[tool]) for name, tool in native_names(present).items()]
            return await page("tools", tools, params, self._workbench.limits, renderer)

    async def _call_tool(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        name, arguments = read_call(params)
        if name not in self._names or self._learnt_from is not self._workbench.config:
            await self._learn(exchange.caller)
        if name not in self._names:
            await self._workbench.at(exchange.caller).recheck((self._toolbox,), "tools")
            await self._learn(exchange.caller)
        if (tool := self._names.get(name)) is None:
            raise RpcError(jsonrpc.INVALID_PARAMS, self._unknown(name))
        try:
            result = await self._workbench.relay(tool, read_tool_arguments(arguments), exchange)
        except WorkbenchError as error:
            if is_refused(error):
                raise as_rpc_error(error, modern=exchange.caller.modern) from None
            return as_result(error, named=tool.params())
        return self._tasks.shown_result(ServerIdentifier(tool.toolbox, tool.server), result)

    def refuse_call(self, params: dict[str, Raw], fault: Fault) -> Raw:
        tool = self._names.get(read_call(params)[0])
        return as_result(fault if tool is None else CallFailed(tool, fault), named={"toolbox": self._toolbox})

    def _unknown(self, name: str) -> str:
        shared = [known for known, tool in self._names.items() if tool.tool == name]
        if shared:
            return f"Several servers have a tool '{escape(name)}'. Call one of: {', '.join(shared)}"
        return f"Tool '{escape(name)}' not found. {nearest_or_known(name, self._names, 'tools')}"

    async def _learn(self, caller: Caller) -> None:
        """Fetch the lists of all servers, within the open deadline: they decide which names are shared."""
        router = self._workbench.at(caller)
        await router.list_tools((self._toolbox,))
        self._learnt_from = self._workbench.config
        self._names = native_names(tool for tool in router.catalog.known() if tool.toolbox == self._toolbox)


def _listed(name: str, tool: ToolIdentifier, definition: Definition) -> ListedItem:
    """A tool as its server sent it, unless it has a joined name."""
    return ListedItem(definition.raw, None if name == tool.tool else partial(render.native, tool, definition))
