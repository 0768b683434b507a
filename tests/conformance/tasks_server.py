"""A server with the `io.modelcontextprotocol/tasks` extension, and the tools that the suite's tasks scenarios call.

The SDK has no tasks of its own, so the extension is here: a `tools/call` of a tool that may take long is answered with
a task, which goes on after the answer, may ask its client for input, and keeps its outcome. `serving.py` has the
command line.
"""

from __future__ import annotations

import asyncio
from typing import Any

import serving
from mcp import MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.streamable_http import EventStore
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp
from task_store import EXTENSION, ByTask, Task, Tasks, Update
from task_tools import CANNOT_WAIT, TOOLS, Work, asked_name

NAME = "tasks"
HEADER_MISMATCH = -32020
BAD_PARAMS = -32602
MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)

Context = ServerRequestContext[Any, Any]


class TasksExtension(Extension):
    identifier = EXTENSION

    def __init__(self) -> None:
        self._tasks = Tasks()

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", ByTask, self._get, MODERN),
            MethodBinding("tasks/update", Update, self._update, MODERN),
            MethodBinding("tasks/cancel", ByTask, self._cancel, MODERN),
        ]

    async def intercept_tool_call(self, params: types.CallToolRequestParams, ctx: Context, call_next: Any) -> Any:
        """Start a task for the tools that have one, where the client declared the extension."""
        work = TOOLS.get(params.name)
        if work is None:
            return await call_next(ctx)
        if not declares_tasks(ctx):
            if params.name in CANNOT_WAIT:
                require_client_extension(ctx, EXTENSION)
            return await work(Task("waited for"), params.arguments or {})
        return await self._started(work, params)

    async def _started(self, work: Work, params: types.CallToolRequestParams) -> Any:
        given = dict(params.arguments or {})
        if params.name == "test_tool_with_task":
            name = asked_name(params)
            if isinstance(name, types.InputRequiredResult):
                return name
            given["name"] = name
        return {"resultType": "task", **self._tasks.start(work, given).envelope()}

    # -- the methods of the extension

    async def _get(self, ctx: Context, params: ByTask) -> dict[str, Any]:
        return self._found(ctx, params.task_id).detailed()

    async def _update(self, ctx: Context, params: Update) -> dict[str, Any]:
        self._found(ctx, params.task_id).take(params.input_responses)
        return {}

    async def _cancel(self, ctx: Context, params: ByTask) -> dict[str, Any]:
        self._found(ctx, params.task_id).cancel()
        await asyncio.sleep(0)
        return {}

    def _found(self, ctx: Context, task_id: str) -> Task:
        require_client_extension(ctx, EXTENSION)
        headers = getattr(ctx.request, "headers", None)
        if headers is not None and headers.get("mcp-name") != task_id:
            raise MCPError(code=HEADER_MISMATCH, message="Mcp-Name is not the id of the task")
        task = self._tasks.find(task_id)
        if task is None:
            raise MCPError(code=BAD_PARAMS, message="Task not found")
        return task


def declares_tasks(ctx: Context) -> bool:
    can = ctx.session.client_capabilities
    return can is not None and EXTENSION in (can.extensions or {})


def greet(name: str) -> str:
    return f"Hello, {name}!"


def build() -> MCPServer:
    server = MCPServer(name=NAME, version="1.0", extensions=[TasksExtension()])
    server.tool(description="Greets at once")(greet)
    for name in TOOLS:
        server.tool(name=name, description=f"Fixture {name}", structured_output=False)(_never)
    return server


async def _never(seconds: float = 0, label: str = "", filename: str = "") -> str:
    """Gives the tools their schema: the extension answers every call of them."""
    raise AssertionError((seconds, label, filename))


def over_http(events: EventStore, retry_ms: int) -> ASGIApp:
    return build().streamable_http_app(event_store=events, retry_interval=retry_ms)


if __name__ == "__main__":
    serving.main(build().run_stdio_async, over_http)
