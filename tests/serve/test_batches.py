"""JSON-RPC batches: clients of 2025-03-26 may send them, on either wire; to others they are a mistake that is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import Limits, Workbench, load_config
from mcp_workbench.serve.early_initialize import Greeting, new_callers
from mcp_workbench.serve.stdio import StdioEndpoint
from mcp_workbench.surfaces.server_info import EVERYTHING
from tests.serve.http.serving import answer_in, events, greeting, modern_headers, rpc, served, use
from tests.serve.http.serving import modern as modern_request
from tests.support.configs import received, rogue, write_config
from tests.support.procs import wait_until

BATCHING = "2025-03-26"
OTHERS = ("2024-11-05", "2025-06-18", "2025-11-25")
Wire = Callable[[object], Awaitable[Any]]
"""Sends any JSON, and returns what comes of it: a message, a batch, or None where nothing does."""


@pytest.fixture(params=["stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


@contextlib.asynccontextmanager
async def greeted(
    transport: str, config: Path, version: str = BATCHING, limits: Limits | None = None
) -> AsyncIterator[Wire]:
    """A client past its handshake at this version."""
    opened = on_stdio if transport == "stdio" else over_http
    async with opened(config, version, limits or Limits()) as wire:
        yield wire


@contextlib.asynccontextmanager
async def on_stdio(config: Path, version: str, limits: Limits) -> AsyncIterator[Wire]:
    (source, to), (back, sink) = os.pipe(), os.pipe()
    os.set_blocking(back, False)
    text, seen = bytearray(), 0

    def answers() -> list[Any]:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(back, 65536):
                text.extend(chunk)
        messages = [json.loads(line) for line in bytes(text).split(b"\n")[:-1]]
        return [message for message in messages if "method" not in message]

    async def send(message: object) -> Any:
        nonlocal seen
        os.write(to, json.dumps(message).encode() + b"\n")
        if not has_answer(message):
            return None
        await wait_until(lambda: len(answers()) > seen, what="an answer")
        seen += 1
        return answers()[seen - 1]

    async with Workbench(load_config(config), limits=limits) as workbench:
        front = StdioEndpoint(workbench, Greeting(new_callers(EVERYTHING)))
        run = asyncio.ensure_future(front.run(source, sink))
        await send(greeting(version=version))
        yield send
        os.close(to)
        await asyncio.wait_for(run, 5)
        await front.close()
        os.close(back)


@contextlib.asynccontextmanager
async def over_http(config: Path, version: str, limits: Limits) -> AsyncIterator[Wire]:
    async with served(config, limits=limits) as running, running.client() as http:
        response = await http.post("/mcp", json=greeting(version=version))
        headers = {"mcp-session-id": response.headers["mcp-session-id"]}

        async def send(message: object) -> Any:
            response = await http.post("/mcp", json=message, headers=headers)
            if not has_answer(message):
                assert (response.status_code, response.content) == (202, b"")
                return None
            if response.status_code == 200:
                assert response.headers["content-type"].startswith("text/event-stream")
                return next(one for one in events(response.text) if "method" not in one)
            assert response.status_code == 400
            return response.json()

        yield send


def has_answer(message: object) -> bool:
    """Whether JSON-RPC has something answered to it."""
    parts: Any = message if isinstance(message, list) and message else [message]
    return any(not isinstance(part, dict) or ("id" in part and "method" in part) for part in parts)


def by_id(answers: Any) -> dict[Any, Any]:
    assert isinstance(answers, list), answers
    return {one["id"]: one for one in answers}


NOTICE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def test_a_batch_is_answered_with_an_array_that_has_an_answer_to_each_request(
    transport: str, tmp_path: Path, log: Path
):
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})
    async with greeted(transport, config) as send:
        calls = [rpc("tools/call", use("nonce", {"nonce": str(number)}), number) for number in range(3)]
        odd: list[Any] = [7, {"jsonrpc": "2.0", "id": "x"}, rpc("no/such", None, "y"), rpc("ping", None, None)]
        answers = await send([NOTICE, *calls, rpc("ping", None, "p"), *odd, calls[0]])
        found = by_id([one for one in answers if one["id"] not in (0, None)])
        assert [found[number]["result"]["content"][0]["text"] for number in (1, 2)] == ["1", "2"]
        assert found["p"]["result"] == {}
        assert found["y"]["error"]["code"] == -32601
        first = [one for one in answers if one["id"] == 0]
        assert sorted("error" in one for one in first) == [False, True]  # one id was there twice
        assert [one["error"]["code"] for one in answers if one["id"] is None] == [-32600] * 3
        assert len(answers) == len(found) + 2 + 3
        assert (await send(rpc("ping", None, 50)))["result"] == {}
    assert len(received(log, "tools/call")) == 3


async def test_a_batch_without_requests_is_taken_and_has_no_answer(transport: str, tmp_path: Path):
    async with greeted(transport, write_config(tmp_path, {"dev": {"fs": rogue()}})) as send:
        stray = {"jsonrpc": "2.0", "id": 77, "result": {}}
        assert await send([NOTICE, NOTICE]) is None
        assert await send([stray]) is None
        assert [one["id"] for one in await send([rpc("ping", None, 5)])] == [5]


async def test_a_batch_can_cancel_a_request_that_was_sent_on_its_own(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with greeted("http", config) as send:
        call = asyncio.create_task(send(rpc("tools/call", use("hang"), 7)))
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        await send([cancel])
        assert (await asyncio.wait_for(call, 5))["error"]["code"] == -32800
        again = [cancel, rpc("ping", None, 8)]
        assert by_id(await send(again))[8]["result"] == {}


async def test_a_cancelled_request_of_a_batch_holds_up_none_of_the_others(transport: str, tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with greeted(transport, config) as send:
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        hanging = asyncio.ensure_future(
            send([rpc("tools/call", use("hang"), 1), rpc("ping", None, 2), rpc("tools/call", use("hang"), 3)])
        )
        await wait_until(lambda: len(received(log, "tools/call")) == 2, what="the calls")
        await send(cancel)
        await wait_until(lambda: len(received(log, "notifications/cancelled")) == 1, what="the cancellation")
        assert not hanging.done()
        await send([{**cancel, "params": {"requestId": 3}}])
        found = by_id(await asyncio.wait_for(hanging, 10))
        assert {id_: one.get("error", {}).get("code") for id_, one in found.items()} == {1: -32800, 2: None, 3: -32800}


@pytest.mark.parametrize("version", OTHERS)
async def test_at_other_versions_a_batch_is_refused_and_says_why(transport: str, version: str, tmp_path: Path):
    async with greeted(transport, write_config(tmp_path, {"dev": {"fs": rogue()}}), version) as send:
        refused = await send([rpc("ping", None, 1), rpc("ping", None, 2)])
        said = f"only protocol version {BATCHING} has batches, and this client speaks {version}"
        assert refused["id"] is None
        assert refused["error"] == {
            "code": -32600,
            "message": f"Invalid request: {said}. Send each message on its own",
        }
        assert (await send(rpc("ping", None, 3)))["result"] == {}


@pytest.mark.parametrize(
    ("batch", "problem"),
    [([], "a batch must have a message"), ([NOTICE] * 4 + [rpc("ping")], "a batch may have at most 4 messages")],
    ids=["empty", "long"],
)
async def test_an_empty_batch_and_one_that_is_too_long_are_refused_whole(
    transport: str, tmp_path: Path, batch: list[Any], problem: str
):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with greeted(transport, config, limits=Limits(client_requests=4)) as send:
        refused = await send(batch)
        assert (refused["id"], refused["error"]["message"]) == (None, f"Invalid request: {problem}")


async def test_a_batch_may_not_greet_nor_come_before_a_greeting(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with served(config) as running, running.client() as http:
        early = await http.post("/mcp", json=[greeting(version=BATCHING)])
        assert (early.status_code, early.json()["error"]["code"]) == (400, -32600)
        message = modern_request("tools/list")
        modern = await http.post("/mcp", json=[message], headers=modern_headers(message))
        assert modern.status_code == 400
        assert "only protocol version 2025-03-26 has batches" in modern.json()["error"]["message"]
    async with greeted("stdio", config) as send:
        [again] = await send([greeting(version=BATCHING)])
        assert "already initialized" in again["error"]["message"]


async def test_what_belongs_to_a_batch_comes_on_its_stream_before_the_answers(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("progress", "2")}})
    async with served(config) as running, running.client() as http:
        session = (await http.post("/mcp", json=greeting(version=BATCHING))).headers["mcp-session-id"]
        call = rpc("tools/call", use("echo") | {"_meta": {"progressToken": "t"}}, 2)
        response = await http.post("/mcp", json=[rpc("ping", None, 1), call], headers={"mcp-session-id": session})
        *notices, answers = events(response.text)
        assert notices
        assert {one["params"]["progressToken"] for one in notices} == {"t"}
        assert set(by_id(answers)) == {1, 2}
        assert answer_in(await http.post("/mcp", json=rpc("ping"), headers={"mcp-session-id": session}))["result"] == {}
