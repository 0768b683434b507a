"""The tools of the tasks server that run as tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import everything_rounds as rounds
from everything_reads import text
from mcp import MCPError, types
from task_store import INTERNAL_ERROR, Task

Work = Callable[[Task, dict[str, Any]], Awaitable[types.CallToolResult]]
FAILING_SECONDS = 0.2


async def slow_compute(_: Task, given: dict[str, Any]) -> types.CallToolResult:
    await asyncio.sleep(given.get("seconds", 0))
    return rounds.said(f"Computed {given.get('label', '')}")


async def failing_job(_: Task, __: dict[str, Any]) -> types.CallToolResult:
    await asyncio.sleep(FAILING_SECONDS)
    return types.CallToolResult(content=[text("The job failed")], is_error=True)


async def protocol_error_job(_: Task, __: dict[str, Any]) -> types.CallToolResult:
    await asyncio.sleep(FAILING_SECONDS)
    raise MCPError(code=INTERNAL_ERROR, message="The job broke down")


async def confirm_delete(task: Task, given: dict[str, Any]) -> types.CallToolResult:
    answers = await task.ask(confirm=rounds.form(f"Delete {given.get('filename')}?", confirm="boolean"))
    return rounds.said(f"Answered: {answers['confirm'].get('action')}")


async def multi_input(task: Task, _: dict[str, Any]) -> types.CallToolResult:
    await task.ask(name=rounds.form("Who is there?", name="string"), sure=rounds.form("Sure?", confirm="boolean"))
    return rounds.said("Both were answered.")


async def greet_later(_: Task, given: dict[str, Any]) -> types.CallToolResult:
    return rounds.said(f"Done for {given.get('name')}")


def asked_name(params: types.CallToolRequestParams) -> str | types.InputRequiredResult:
    """The name that is asked for before there is a task, or the question."""
    name = rounds.filled(rounds.answers_of(params), "user_name", "name")
    return name or rounds.ask("asked", user_name=rounds.form("Who is there?", name="string"))


TOOLS: dict[str, Work] = {
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "multi_input": multi_input,
    "test_tool_with_task": greet_later,
}
CANNOT_WAIT = TOOLS.keys() - {"slow_compute"}
"""Those that are refused to a client without the extension."""
