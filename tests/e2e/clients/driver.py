"""What the drivers of the clients in Python share: they play the scripts of `driver.mjs`, and print the same reports.

Steps that exist here: `listTools`, `callTool` (with `progress`), `listen` for changes of the list of tools, and `wait`.
The clients show their callers no messages as they were on the wire, so a report has what the clients made of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from mcp import MCPDeprecationWarning, MCPError, types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import listen

STEP_SECONDS = 30.0

Json = dict[str, Any]
News = list[Json]


class Calls(Protocol):
    """What a driver does with its client."""

    @property
    def session(self) -> ClientSession: ...
    @property
    def version(self) -> str: ...
    async def list_tools(self) -> types.ListToolsResult: ...
    async def call_tool(
        self, name: str, arguments: Json, meta: Json | None, progress: Callable[..., Awaitable[None]] | None
    ) -> types.CallToolResult: ...


class Host:
    """Answers what a server asks, from the script, and keeps all that it says."""

    def __init__(self, script: Json) -> None:
        self.capabilities: Json = script.get("capabilities", {})
        self.notifications: News = []
        self.questions: News = []
        self.begun = 0
        """How many notifications there were when the last step began that was no wait."""
        self._answers: Json = json.loads(json.dumps(script.get("answers", {})))
        self._arrived = asyncio.Condition()

    def answer(self, method: str, params: Any) -> Json:
        self.questions.append({"method": method, "params": plain(params) if params is not None else {}})
        answer = self._answers[method]
        return answer.pop(0) if isinstance(answer, list) else answer

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult.model_validate(self.answer("elicitation/create", params))

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult.model_validate(self.answer("sampling/createMessage", params))

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate(self.answer("roots/list", None))

    async def hear(self, message: Any) -> None:
        """A notification, or a fault of the transport, which the step that it concerns tells of."""
        if isinstance(message, Exception):
            return
        async with self._arrived:
            self.notifications.append(plain(message))
            self._arrived.notify_all()

    async def wait(self, step: Json) -> None:
        since = self.begun if step.get("fresh") else 0

        def found() -> bool:
            heard = (one for one in self.notifications[since:] if one["method"] == step["method"])
            fitting = [one for one in heard if step.get("match", {}).items() <= (one.get("params") or {}).items()]
            return len(fitting) >= step.get("count", 1)

        async with asyncio.timeout(step.get("ms", STEP_SECONDS * 1000) / 1000), self._arrived:
            await self._arrived.wait_for(found)


class Player:
    def __init__(self, calls: Calls, host: Host, stack: contextlib.AsyncExitStack) -> None:
        self._calls = calls
        self._host = host
        self._stack = stack

    async def perform(self, step: Json) -> Json:
        outcome: Json = {"do": step["do"], "progress": []}
        if step["do"] != "wait":
            self._host.begun = len(self._host.notifications)
        try:
            async with asyncio.timeout(STEP_SECONDS):
                result = await self._carry_out(step, outcome["progress"])
        except Exception as error:  # noqa: BLE001 -- whatever a client raises is the outcome
            outcome["error"] = told(error)
        else:
            if result is not None:
                outcome["result"] = result
        return outcome

    async def _carry_out(self, step: Json, progress: News) -> Json | None:
        match step["do"]:
            case "listTools":
                return plain(await self._calls.list_tools())
            case "callTool":
                return plain(await self._call(step, progress))
            case "listen":
                await self._stack.enter_async_context(self._listening())
                return {}
            case "wait":
                return await self._host.wait(step)
            case other:
                raise NotImplementedError(other)

    async def _call(self, step: Json, progress: News) -> types.CallToolResult:
        async def note(done: float, total: float | None, message: str | None) -> None:
            progress.append({"progress": done, "total": total, "message": message})

        params = step["params"]
        heard = note if step.get("progress") else None
        return await self._calls.call_tool(params["name"], params.get("arguments") or {}, params.get("_meta"), heard)

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncGenerator[None]:
        """Until the end of the script; what arrives is heard as every notification is."""
        async with listen(self._calls.session, tools_list_changed=True):
            yield


def plain(value: Any) -> Json:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def told(error: BaseException) -> Json:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return {"name": "MCPError", "code": error.code, "message": error.message, "data": error.data}
    return {"name": type(error).__name__, "message": str(error)}


Connect = Callable[[Json, Host], contextlib.AbstractAsyncContextManager[Calls]]


async def play_one(script: Json, connect: Connect) -> Json:
    host = Host(script)
    report: Json = {"steps": [], "problems": []}
    hung_up = time.monotonic()
    try:
        async with connect(script, host) as calls, contextlib.AsyncExitStack() as stack:
            report["greeting"] = {"protocolVersion": calls.version}
            player = Player(calls, host, stack)
            for step in script["steps"]:
                report["steps"].append(await player.perform(step))
            hung_up = time.monotonic()
    except Exception as error:  # noqa: BLE001 -- a script that can't be played is told of
        report["fatal"] = told(error)
    report["closing_ms"] = round((time.monotonic() - hung_up) * 1000)
    return report | {"notifications": host.notifications, "questions": host.questions}


def main(connect: Connect) -> None:
    """Play the scripts of the command line, one after the other."""
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    for script in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        print(json.dumps(asyncio.run(play_one(script, connect))), flush=True)
