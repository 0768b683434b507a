"""INVARIANT: whatever a server says, each request of a client has one answer in time, and its neighbour serves on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from mcp_workbench.surfaces.server_info import View
from tests.fuzz.clock import run
from tests.fuzz.puppets import Host, Puppet, bench, hosted, packed

VIEWS = {"proxy": View(), "dynamic": View(), "toolbox": View("dev"), "server": View("dev", "a")}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {
        "sampling": {}, "elicitation": {}, "roots": {}, "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
    "io.modelcontextprotocol/logLevel": "debug",
    "progressToken": "token",
}  # fmt: skip
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}, "tasks": {}},
    "clientInfo": {"name": "host", "version": "1"},
}
ANSWERS = {
    "roots/list": {"roots": []},
    "elicitation/create": {"action": "accept", "content": {}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m"},
}
ROUNDS = 3
HANDSHAKE_ONLY = frozenset(
    {"resources/subscribe", "resources/unsubscribe", "logging/setLevel", "tasks/list", "tasks/result", "ping"}
)


def check(case: dict[str, Any]) -> dict[str, Any]:
    """`replies` are the bytes that the server `a` sends in answer to each method, in turn.

    The client asks one after the other, or, with `at_once`, everything together; it takes back what `cancels` say.
    """
    run(_scene(case))
    return {}


async def _scene(case: dict[str, Any]) -> None:
    odd = Puppet("a", modern=case["server"] == "modern", replies=packed(case["replies"]))
    good = Puppet("b", tool="u")
    mode = "dynamic" if case["view"] == "dynamic" else "proxy"
    async with bench({"dev": {"a": odd, "b": good}}, tool_mode=mode) as workbench:
        async with hosted(workbench, VIEWS[case["view"]], ANSWERS) as host:
            visit = Visit(host, modern=case["client"] == "modern", cancels=case.get("cancels", []))
            await visit.tour(case["view"], at_once=case.get("at_once", False))
            if case["view"] != "server":
                await visit.check_neighbour(case["view"])
                assert good.starts == 1
        visit.check_answers()


class Visit:
    """A client that tries everything, as its era has it."""

    def __init__(self, host: Host, *, modern: bool, cancels: list[int]) -> None:
        self._host = host
        self._cancels = cancels
        self._modern = modern
        self._ids = iter(range(1, 10_000))
        self._asked: list[int] = []
        self._taken_back: set[int] = set()

    async def tour(self, view: str, *, at_once: bool) -> None:
        await self._begin()
        if at_once:
            await asyncio.gather(self._look_at_tools(), *(self._ask(*one) for one in self._requests(view)))
        else:
            await self._look_at_tools()
            for method, params in self._requests(view):
                await self._ask(method, params)
        self._cancels = []

    async def _look_at_tools(self) -> None:
        names = await self._tools()
        await self._call("open_toolbox", {"toolbox": "dev"})
        names += await self._tools()
        for name in dict.fromkeys([*names[:8], "t", "dev__a__t"]):
            await self._call(name, {})
        await self._call("use_tool", {"tool": {"toolbox": "dev", "server": "a", "tool": "t"}, "arguments": {}})

    def _requests(self, view: str) -> list[tuple[str, dict[str, Any]]]:
        return [one for one in _requests(view) if not (self._modern and one[0] in HANDSHAKE_ONLY)]

    async def check_neighbour(self, view: str) -> None:
        if view == "toolbox":
            named = await self._tools()
            name = next(one for one in named if one in ("u", "dev__b__u"))
            result = (await self._call(name, {}))["result"]
        else:
            result = (await self._call("use_tool", {"tool": {"toolbox": "dev", "server": "b", "tool": "u"}}))["result"]
        assert result["content"] == [{"type": "text", "text": "b"}], result

    def check_answers(self) -> None:
        """Each request has one answer, and nothing else is an answer."""
        for id_ in self._asked:
            answers = len(self._host.answers_to(id_))
            assert answers == 1 or (answers == 0 and id_ in self._taken_back), id_
        for message in self._host.messages:
            if "method" not in message:
                assert message["id"] in self._asked, message
                assert isinstance(message.get("result", {}), dict), message

    async def _begin(self) -> None:
        if self._modern:
            await self._ask("server/discover", {})
            wanted = {"toolsListChanged": True, "resourceSubscriptions": ["mem://a"], "taskIds": ["a:1"]}
            self._send("subscriptions/listen", {"notifications": wanted})
            return
        await self._ask("initialize", INITIALIZE)
        self._host.send(method="notifications/initialized")

    async def _tools(self) -> list[str]:
        answer = await self._ask("tools/list", {})
        tools = answer.get("result", {}).get("tools", [])
        names = [one.get("name") for one in tools if isinstance(one, dict)] if isinstance(tools, list) else []
        return [name for name in names if isinstance(name, str) and name not in ("open_toolbox", "use_tool")]

    async def _call(self, name: str, arguments: Any) -> dict[str, Any]:
        return await self._ask("tools/call", {"name": name, "arguments": arguments})

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self._once(method, params)
        for _ in range(ROUNDS):
            result = answer.get("result", {})
            if not self._modern or result.get("resultType") != "input_required":
                break
            asked = result.get("inputRequests")
            responses = dict.fromkeys(asked, ANSWERS["elicitation/create"]) if isinstance(asked, dict) else {}
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            answer = await self._once(method, {**params, "inputResponses": responses, **state})
        return answer

    async def _once(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        id_ = self._send(method, params)
        if id_ in self._cancels and method != "initialize":
            self._taken_back.add(id_)
            self._host.send(method="notifications/cancelled", params={"requestId": id_})
            return {}
        try:
            await self._host.until(lambda: self._host.answers_to(id_))
        except TimeoutError:
            raise AssertionError(f"no answer to {method}") from None
        return self._host.answers_to(id_)[0]

    def _send(self, method: str, params: dict[str, Any]) -> int:
        id_ = next(self._ids)
        self._asked.append(id_)
        if self._modern:
            params = {**params, "_meta": META}
        elif method == "tools/call":
            params = {**params, "_meta": {"progressToken": id_}}
        self._host.send(id=id_, method=method, params=params)
        return id_


def _requests(view: str) -> Iterator[tuple[str, dict[str, Any]]]:
    task = {"taskId": "1" if view == "server" else "a:1"}
    yield "prompts/list", {}
    yield "prompts/get", {"name": "p" if view in ("server", "toolbox") else "dev__a__p"}
    yield "resources/list", {}
    yield "resources/templates/list", {}
    yield "resources/read", {"uri": "mem://a"}
    yield "resources/subscribe", {"uri": "mem://a"}
    yield (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "a://{x}"}, "argument": {"name": "x", "value": ""}},
    )
    yield "logging/setLevel", {"level": "debug"}
    yield "tasks/list", {}
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        yield method, task
    yield "resources/unsubscribe", {"uri": "mem://a"}
    yield "ping", {}
