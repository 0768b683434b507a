"""A server that ends the stream of a running call has its client come back for the rest, also through the workbench."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_workbench import Limits
from mcp_workbench.serve.http import sdk
from mcp_workbench.wire import jsonrpc
from tests.serve.http.adjourning import adjourning
from tests.serve.http.serving import Events, Handshake, answer_in, events, greeting, rpc, served, use
from tests.support.procs import wait_until

CALL = rpc("tools/call", {"name": "echo", "arguments": {}, "_meta": {"progressToken": "theirs"}}, 5)


async def rest_of(stream: Events) -> list[Any]:
    """What a stream holds to its end: the parts, and the answer."""
    text = "\n".join([line async for line in stream._lines])
    return said(text)


def said(text: str) -> list[Any]:
    return [
        message["params"]["message"] if "params" in message else message["result"]["content"][0]["text"]
        for message in events(text)
    ]


def last_id(text: str) -> str:
    return [line[3:].strip() for line in text.splitlines() if line.startswith("id:")][-1]


@pytest.mark.parametrize("eras", ["handshake", "both"])
async def test_the_client_of_one_server_comes_back_for_the_rest_as_we_do(tmp_path: Path, eras: Any):
    async with adjourning(eras) as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        first = await client.post(CALL)  # returns at the end of the stream, while the server still works
        assert "all of it" not in first.text
        async with client.listen(**{"last-event-id": last_id(first.text)}) as resumed:
            peer.answer()
            assert said(first.text) + await rest_of(resumed) == ["part 0", "part 1", "all of it"]
        assert peer.rpcs.count("tools/call") == 1
        assert peer.comings == ["part-0"]


async def test_a_stream_that_was_resumed_is_ended_again(tmp_path: Path):
    async with adjourning() as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        first = await client.post(CALL)
        async with client.listen(**{"last-event-id": last_id(first.text)}) as resumed:
            await resumed.until(lambda message: message["params"]["message"] == "part 1")
            peer.end()
            async with asyncio.timeout(10):
                more = await rest_of(resumed)
        async with client.listen(**{"last-event-id": resumed.last_id}) as again:
            peer.answer()
            assert more + await rest_of(again) == ["part 2", "all of it"]
        assert peer.comings == ["part-0", "part-1"]


async def test_an_answer_that_was_there_before_the_client_came_back_waits_for_it(tmp_path: Path):
    async with adjourning() as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        first = await client.post(CALL)
        peer.answer()
        resumed = await http.get("/mcp/dev/fs", headers=client.headers | {"last-event-id": last_id(first.text)})
        assert said(first.text + resumed.text)[-1] == "all of it"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/dev"])
async def test_where_the_workbench_has_tools_of_its_own_its_streams_stay(tmp_path: Path, path: str):
    async with adjourning() as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        client = await Handshake.begin(http, path)
        params = use("echo") if path == "/mcp" else {"name": "echo", "arguments": {}}
        calling = asyncio.ensure_future(client.post(rpc("tools/call", params, 5)))
        await wait_until(lambda: peer.comings, what="the workbench to come back")
        peer.answer()
        assert "all of it" in str(answer_in(await calling)["result"])


async def test_a_client_that_was_not_told_how_to_come_back_keeps_its_stream(tmp_path: Path):
    async with adjourning() as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        old = {"mcp-protocol-version": "2025-06-18"}
        hello = await http.post("/mcp/dev/fs", json=greeting(version="2025-06-18"))
        headers = {"mcp-session-id": hello.headers["mcp-session-id"]} | old
        calling = asyncio.ensure_future(http.post("/mcp/dev/fs", json=CALL, headers=headers))
        await wait_until(lambda: peer.comings, what="the workbench to come back")
        peer.answer()
        assert said((await calling).text)[-1] == "all of it"


async def test_a_resumed_stream_ends_with_its_session(tmp_path: Path):
    async with adjourning() as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        first = await client.post(CALL)
        async with client.listen(**{"last-event-id": last_id(first.text)}) as resumed:
            assert (await resumed.next())["params"]["message"].startswith("part")
            assert (await http.delete("/mcp/dev/fs", headers=client.headers)).status_code == 200
            async with asyncio.timeout(10):
                assert "all of it" not in await rest_of(resumed)


async def test_the_official_client_comes_back_by_itself_and_hears_all_of_it(tmp_path: Path):
    heard: list[str | None] = []

    async def progressed(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    async with adjourning("both") as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        peer.end()
        peer.answer()
        transport = streamable_http_client(f"{running.url}/mcp/dev/fs", http_client=http)
        async with asyncio.timeout(20), Client(transport, mode="legacy") as client:
            result = await client.call_tool("echo", {}, progress_callback=progressed)
    assert [one.text for one in result.content] == ["all of it"]
    assert heard == ["part 0", "part 1", "part 2"]
    assert peer.rpcs.count("tools/call") == 1


# -- the transport


class Reader:
    """A client that asks for the rest of a stream, and reads nothing until it is let."""

    def __init__(self, last_id: bytes) -> None:
        self.got: list[bytes] = []
        self.began = asyncio.Event()
        self.reads = asyncio.Event()
        given = {"accept": b"text/event-stream", "mcp-session-id": b"s", "mcp-protocol-version": b"2025-11-25"}
        headers = [(name.encode(), value) for name, value in {**given, "last-event-id": last_id}.items()]
        self.scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        if message.get("body"):
            self.got.append(message["body"])
            self.began.set()
            await self.reads.wait()


async def test_what_is_said_while_a_stream_is_being_resumed_is_not_lost():
    notice, result = jsonrpc.notification_line("n", {}), jsonrpc.result_line(7, jsonrpc.EMPTY_OBJECT)
    transport = sdk.Transport("s", Limits())
    async with transport.streams() as (_, writing):
        primed = await transport._events.store_event("7", None)
        await writing.send(sdk.outgoing(notice, 7))
        reader = Reader(primed.encode())
        resumed = asyncio.ensure_future(transport.handle_request(reader.scope, reader.receive, reader.send))
        async with asyncio.timeout(10):
            await reader.began.wait()
            await writing.send(sdk.outgoing(result, 7))
            await writing.send(sdk.outgoing(notice, 8))  # the one before is with the store by then
            reader.reads.set()
            await resumed
    assert [notice in one or result in one for one in reader.got] == [True, True]


async def test_a_client_that_missed_more_than_is_kept_is_not_kept_waiting():
    kept, notice = sdk.Events(Limits(http_events=4)), sdk.outgoing(jsonrpc.notification_line("n", {}), 7).message
    primed = await kept.store_event("7", None)
    await kept.store_event("7", notice)

    async def slow(_: object) -> None:
        for _ in range(6):
            await kept.store_event("7", notice)

    assert await asyncio.wait_for(kept.replay_events_after(primed, slow), 5) is None
    assert not kept._tails
