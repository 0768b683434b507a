"""A server that ends the stream of a running call has its client come back for the rest, also through the workbench."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_workbench import Limits
from mcp_workbench.serve.http.responses import stream_head
from mcp_workbench.serve.http.session_streams import EventLog, SessionStreams
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import Envelope
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


# -- resumed streams


def streams(limits: Limits) -> SessionStreams:
    return SessionStreams(limits, stream_head(), lambda _: None, lambda _: None)


def notice() -> Envelope:
    return Envelope({}, None, "n", about=7)


def result() -> Envelope:
    return Envelope(jsonrpc.EMPTY_OBJECT, 7, about=7)


NOTICE, RESULT = notice().line, result().line


class Reader:
    """A client that reads nothing until it may."""

    def __init__(self) -> None:
        self.body = b""
        self.began = asyncio.Event()
        self.reads = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        if message.get("body"):
            self.body += message["body"]
            self.began.set()
            await self.reads.wait()


async def test_messages_that_come_while_a_stream_is_resumed_are_not_lost():
    session = streams(Limits())
    session.leave(7, session.open(7, "2025-11-25"))
    session.write(notice())
    reader = Reader()
    key, resumed = session.resume("1")
    running = asyncio.ensure_future(resumed.run(reader))
    async with asyncio.timeout(10):
        await reader.began.wait()
        session.write(result())
        reader.reads.set()
        await running
    assert key == 7
    assert [one for one in (NOTICE, RESULT) if one in reader.body] == [NOTICE, RESULT]


async def test_a_client_that_missed_more_than_is_kept_is_not_kept_waiting():
    session = streams(Limits(http_events=4))
    session.leave(7, session.open(7, "2025-11-25"))
    for _ in range(6):
        session.write(notice())
    reader = Reader()
    reader.reads.set()
    _, resumed = session.resume("1")
    await asyncio.wait_for(resumed.run(reader), 5)
    assert reader.body == b""


async def test_a_resumed_stream_replaces_the_connection_before_it():
    session = streams(Limits())
    before = session.open(7, "2025-11-25")
    _, resumed = session.resume("1")
    assert before.is_lost
    session.leave(7, before)
    assert session.is_open(7)
    session.leave(7, resumed)
    assert not session.is_open(7)


async def test_an_answer_that_was_read_is_the_end_of_its_stream():
    session = streams(Limits())
    session.leave(7, session.open(7, "2025-11-25"))
    session.write(result())
    _, resumed = session.resume("2")
    await asyncio.wait_for(resumed.run(Reader()), 5)
    assert not session.is_open(7)


# -- which events are kept


def test_events_are_kept_within_bounds_and_in_order():
    log = EventLog(Limits(http_events=4, http_event_bytes=10_000))
    for _ in range(6):
        log.add(None, NOTICE, is_last=False)
    assert log.find("1") is None
    assert log.find("9" * 5000) is None
    seen = log.find("3")
    assert seen is not None
    assert [one.number for one in log.after(seen)] == [4, 5, 6]


def test_a_large_event_is_kept_alone():
    log = EventLog(Limits(http_event_bytes=100))
    log.prime(7)
    log.add(7, b"x" * 1000, is_last=True)
    assert log.find("1") is None
    assert log.find("2") is not None
    log.prime(7)
    assert log.find("2") is None
