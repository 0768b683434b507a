"""The front on two pipes, in this process: what it does when a client leaves, fails, or begins again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from mcp_workbench.errors import Overloaded, ServerExited
from mcp_workbench.serve.callers import Callers
from mcp_workbench.serve.early_initialize import Greeting
from mcp_workbench.serve.stdio import StdioEndpoint
from mcp_workbench.surfaces.aggregate import AggregateSurface
from mcp_workbench.surfaces.server_info import EVERYTHING, View
from mcp_workbench.wire.jsonrpc import RpcError
from tests.support.memory import MemoryServer, serving
from tests.support.procs import wait_until
from tests.wire.pair import settle

INITIALIZE = {
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}},
}
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
USE = {"toolbox": "dev", "server": "a", "tool": "t"}
CALL = {"id": 1, "method": "tools/call", "params": {"name": "use_tool", "arguments": {"tool": USE, "arguments": {}}}}


class Pipes:
    """A client's end of two pipes."""

    def __init__(self) -> None:
        self.source, self._to = os.pipe()
        self.receiving, self.sink = os.pipe()
        os.set_blocking(self.receiving, False)
        self._text = b""

    def send(self, *messages: Mapping[str, Any]) -> None:
        """All of them in one write."""
        os.write(self._to, b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in messages))

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._to)

    def got(self) -> list[dict[str, Any]]:
        """What came so far."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.receiving, 65536):
                self._text += chunk
        return [json.loads(line) for line in self._text.splitlines()]

    async def answer(self, id_: int) -> dict[str, Any]:
        await wait_until(lambda: any(one.get("id") == id_ and "method" not in one for one in self.got()))
        return next(one for one in self.got() if one.get("id") == id_ and "method" not in one)


@contextlib.asynccontextmanager
async def fronted(
    server: MemoryServer, view: View = EVERYTHING, *, drain: bool = False, **limits: Any
) -> AsyncIterator[tuple[Pipes, StdioEndpoint, asyncio.Task[int]]]:
    pipes = Pipes()
    async with serving({"dev": {"a": server}}, **limits) as workbench:
        front = StdioEndpoint(workbench, Greeting(Callers("client", view)), view, drain=drain)
        run = asyncio.ensure_future(front.run(pipes.source, pipes.sink))
        yield pipes, front, run
        pipes.hang_up()
        await asyncio.wait_for(run, 5)
        await front.close()
        os.close(pipes.receiving)


async def test_a_question_to_a_client_whose_input_ended_fails_at_once_and_its_call_is_still_answered():
    server = MemoryServer("a")

    async def asks(_params: Any) -> Any:
        try:
            answer = await server.ask("elicitation/create", message="?")
        except RpcError as error:
            answer = error.message
        return {"content": [{"type": "text", "text": answer}]}

    server.methods["tools/call"] = asks
    async with fronted(server, drain=True) as (pipes, _, run):
        pipes.send(INITIALIZE, {"method": "notifications/initialized"}, CALL)
        await wait_until(lambda: any(one.get("method") == "elicitation/create" for one in pipes.got()))
        pipes.hang_up()
        assert await asyncio.wait_for(run, 5) == 0
        assert "the client's input ended" in json.dumps(await pipes.answer(1))


@pytest.mark.parametrize("error", [Overloaded("too much"), RpcError(-32602, "no"), ValueError("a defect")])
async def test_a_notification_that_cannot_be_passed_on_takes_nothing_with_it_that_follows(
    error: Exception, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise error

    async with fronted(MemoryServer("a")) as (pipes, _, _):
        pipes.send(INITIALIZE)
        await pipes.answer(0)
        monkeypatch.setattr(AggregateSurface, "notice", fail)
        pipes.send({"method": "notifications/roots/list_changed"}, {"id": 5, "method": "tools/list"})
        assert (await pipes.answer(5))["result"]["tools"]


async def test_a_greeting_that_failed_because_its_server_did_can_be_tried_again():
    server = MemoryServer("a")
    hello = server.methods["initialize"]
    server.methods["initialize"] = ServerExited("it died")
    async with fronted(server, View("dev", "a")) as (pipes, _, _):
        pipes.send(INITIALIZE)
        assert (await pipes.answer(0))["error"]["code"] == -31001
        server.methods["initialize"] = hello
        pipes.send({**INITIALIZE, "id": 1}, {"id": 2, "method": "tools/list"})
        assert (await pipes.answer(1))["result"]["serverInfo"]["name"] == "a"
        assert (await pipes.answer(2))["result"]["tools"]
        pipes.send({**INITIALIZE, "id": 3})
        assert (await pipes.answer(3))["error"]["code"] == -32600  # and one that did not fail can not


async def test_an_open_subscription_at_the_end_of_input_is_answered():
    listen = {"id": 1, "method": "subscriptions/listen", "params": {"notifications": {}, "_meta": MODERN}}
    async with fronted(MemoryServer("a"), drain=True) as (pipes, _, run):
        pipes.send(listen)
        await wait_until(pipes.got)
        pipes.hang_up()
        await asyncio.wait_for(run, 5)
        assert (await pipes.answer(1))["result"]["resultType"] == "complete"


async def test_after_a_signal_an_open_subscription_is_answered_and_not_waited_for():
    listen = {"id": 1, "method": "subscriptions/listen", "params": {"notifications": {}, "_meta": MODERN}}
    async with fronted(MemoryServer("a"), drain_seconds=60.0) as (pipes, front, run):
        pipes.send(listen)
        await wait_until(pipes.got)
        front.signalled(signal.SIGTERM)
        assert await asyncio.wait_for(run, 5) == 128 + signal.SIGTERM
        await asyncio.wait_for(front.close(), 5)
        assert (await pipes.answer(1))["result"]["resultType"] == "complete"


@pytest.mark.parametrize("end", ["a signal", "the end of input"])
async def test_a_call_under_way_at_the_end_is_answered(end: str):
    server, gate = MemoryServer("a"), asyncio.Event()

    async def answer(_params: Any) -> Any:
        await gate.wait()
        return {"content": []}

    server.methods["tools/call"] = answer
    async with fronted(server, drain_seconds=60.0) as (pipes, front, run):
        pipes.send(INITIALIZE, CALL)
        await wait_until(lambda: server.asked("tools/call"))
        front.signalled(signal.SIGTERM) if end == "a signal" else pipes.hang_up()
        await asyncio.wait_for(run, 5)
        closing = asyncio.ensure_future(front.close())
        await settle()
        gate.set()
        await asyncio.wait_for(closing, 5)
        assert (await pipes.answer(1))["result"] == {"content": []}


async def test_of_a_clients_requests_so_many_are_answered_at_once_and_the_others_refused_and_told_when_to_try_again():
    server, gate = MemoryServer("a"), asyncio.Event()

    async def answer(_params: Any) -> Any:
        await gate.wait()
        return {"content": []}

    server.methods["tools/call"] = answer
    async with fronted(server, client_requests=3) as (pipes, _, _):
        pipes.send(INITIALIZE)
        await pipes.answer(0)
        pipes.send(*({**CALL, "id": number} for number in range(1, 6)))
        for number in (4, 5):
            result = (await pipes.answer(number))["result"]
            told = {"code": "overloaded", **USE, "retry_after": 5}
            assert (result["isError"], result["_meta"]["mcp-workbench/error"]) == (True, told)
            reason = "3 requests are already being answered"
            assert result["content"][0]["text"].startswith(f"Tool 't' in server 'a' (toolbox 'dev') failed: {reason}\n")
        pipes.send({"id": 7, "method": "tools/list"}, {"id": 8, "method": "tools/call", "params": {"name": 5}})
        error = (await pipes.answer(7))["error"]
        assert (error["code"], error["data"]) == (-31001, {"code": "overloaded", "retry_after": 5})
        assert (await pipes.answer(8))["error"]["code"] == -32602
        gate.set()
        for number in (1, 2, 3):
            assert (await pipes.answer(number))["result"] == {"content": []}
        pipes.send({**CALL, "id": 6})
        assert "result" in await pipes.answer(6)
