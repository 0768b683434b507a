"""Tasks of several servers, under ids that name the server: two servers' tasks can't be confused.

An id is made of the server's name and its own id and needs no table, so it outlives a connection.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Method, forward, one_page
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench

_MARK = ":"
_BY_ID = ("tasks/get", "tasks/result", "tasks/cancel", "tasks/update")


class Tasks:
    """Passes requests about a task to the server that has it. One toolbox is served, so a server's name is enough."""

    def __init__(self, workbench: Workbench, toolbox: str) -> None:
        self._workbench = workbench
        self._toolbox = toolbox
        self.methods: dict[str, Method] = {"tasks/list": self._list}
        self.methods |= {method: self._by_id(method) for method in _BY_ID}

    def shown(self, source: ServerIdentifier, params: dict[str, Any]) -> dict[str, Any]:
        """Members of a result, a notification or a question, with the ids that the client knows."""
        members = _renamed(params, source)
        if task := jsonrpc.members(members.get("task")):
            members["task"] = _renamed(task, source)
        meta: dict[str, Any] = jsonrpc.members(members.get("_meta"))
        if related := jsonrpc.members(meta.get(eras.RELATED_TASK)):
            members["_meta"] = {**meta, eras.RELATED_TASK: _renamed(related, source)}
        return members

    def shown_result(self, source: ServerIdentifier, result: Raw) -> Raw:
        """A result as the client sees it: the bytes that it was, unless it is about a task."""
        text = bytes(result)
        if b"taskId" not in text and b"\\u" not in text:  # in JSON a name may be written with escapes
            return result
        return Raw(jsonrpc.encode(self.shown(source, jsonrpc.fields(result))))

    def find(self, shown_id: str) -> tuple[ServerIdentifier, str]:
        """The server, and its own id. Raises `RpcError`."""
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
        with suppress(RpcError):  # the configuration may have lost its server
            server, own = self.find(task)
            router = self._workbench.find(caller)
            if router is not None and (handle := router.pool.find(server)) is not None:
                handle.unwatch_task(own)

    def _by_id(self, method: str) -> Method:
        async def handle(exchange: Exchange, params: dict[str, Raw]) -> Raw:
            if exchange.caller.modern:
                exchange.caller.require_tasks()
            shown_id = jsonrpc.text_or_none(params.get("taskId"))
            if shown_id is None:
                raise RpcError(jsonrpc.INVALID_PARAMS, "taskId must be a string")
            server, own = self.find(shown_id)
            router = self._workbench.at(exchange.caller)
            if (await router.pool.connect(server)).agreement.modern != exchange.caller.modern:
                raise RpcError(jsonrpc.INVALID_PARAMS, "Task not found")
            result = await forward(router, server, method, {**params, "taskId": own}, exchange)
            return self.shown_result(server, result)

        return handle

    async def _list(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        """The tasks of every server that runs and has some; the others have none."""
        one_page(params)
        from mcp_workbench.servers.listing import list_items  # noqa: PLC0415 -- only this needs it

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
