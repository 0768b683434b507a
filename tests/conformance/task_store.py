"""The tasks of the tasks server: their state on the wire, the questions that they wait for, and their ends."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from mcp import MCPError, types
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

EXTENSION = "io.modelcontextprotocol/tasks"
TTL_MS = 600_000
POLL_MS = 100
INTERNAL_ERROR = -32603

Json = dict[str, Any]


class ByTask(types.RequestParams):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    task_id: str


class Update(ByTask):
    input_responses: Json = Field(default_factory=dict)


class Task:
    """One run of a tool. `ask` is for the tool, the rest is for the methods of the extension."""

    def __init__(self, task_id: str) -> None:
        self.id = task_id
        self.status = "working"
        self._outcome: Json = {}
        self._pending: dict[str, asyncio.Future[Json]] = {}
        self._requests: dict[str, Json] = {}
        self._created = self._updated = _now()
        self._run: asyncio.Task[None] | None = None

    def begin(self, work: Awaitable[types.CallToolResult]) -> None:
        self._run = asyncio.ensure_future(self._until_its_end(work))

    async def _until_its_end(self, work: Awaitable[types.CallToolResult]) -> None:
        try:
            result = await work
        except MCPError as error:
            self._end("failed", error={"code": error.code, "message": error.message})
        except asyncio.CancelledError:
            self._end("cancelled")
        else:
            self._end("completed", result=result.model_dump(by_alias=True, mode="json", exclude_none=True))

    def _end(self, status: str, **outcome: Json) -> None:
        self.status, self._outcome, self._updated = status, outcome, _now()
        self._requests.clear()

    # -- input

    async def ask(self, **requests: types.ElicitRequest) -> dict[str, Json]:
        """The answers to questions, under their names, once the client has given all of them."""
        loop = asyncio.get_running_loop()
        waiting = {name: loop.create_future() for name in requests}
        for name, request in requests.items():
            self._requests[name] = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        self._pending |= waiting
        self.status, self._updated = "input_required", _now()
        return {name: await answer for name, answer in waiting.items()}

    def take(self, responses: Json) -> None:
        """Answers for what is asked; any others are ignored."""
        for name in responses.keys() & self._pending.keys():
            self._pending.pop(name).set_result(responses[name])
            del self._requests[name]
        if self.status == "input_required" and not self._requests:
            self.status, self._updated = "working", _now()

    def cancel(self) -> None:
        if self._run is not None:
            self._run.cancel()

    # -- on the wire

    def envelope(self) -> Json:
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self._created,
            "lastUpdatedAt": self._updated,
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        }

    def detailed(self) -> Json:
        asked = {"inputRequests": dict(self._requests)} if self._requests else {}
        return {**self.envelope(), **asked, **self._outcome}


class Tasks:
    """All tasks of this process, by their ids."""

    def __init__(self) -> None:
        self._all: dict[str, Task] = {}

    def start(self, work: Callable[[Task, Json], Awaitable[types.CallToolResult]], given: Json) -> Task:
        task = Task(secrets.token_urlsafe())
        self._all[task.id] = task
        task.begin(work(task, given))
        return task

    def find(self, task_id: str) -> Task | None:
        return self._all.get(task_id)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
