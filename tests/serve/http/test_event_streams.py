"""Streams of events: what leaves when, who hangs up, and who waits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_workbench import Limits
from mcp_workbench.serve.http.connection import LingeringTransport
from mcp_workbench.serve.http.request import HttpRequest
from mcp_workbench.serve.http.responses import EventStream, event, primer
from mcp_workbench.serve.http.sessions import HttpSession
from tests.serve.http.serving import (
    Handshake,
    Served,
    answer_in,
    events,
    modern,
    modern_headers,
    post_modern,
    rpc,
    served,
)
from tests.support.configs import received, rogue, write_config
from tests.support.procs import wait_until

PROMPT = Limits(http_prime_seconds=0.01)
PATIENT = Limits(http_prime_seconds=20)
UNREAD = 200 * 1024 * 1024
"""More than a client's share of the memory."""
ECHO = {"name": "nonce", "arguments": {"nonce": "7"}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


class Counted:
    """A transport that remembers what left through it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.pieces: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self.pieces.append(data)
        self._transport.write(data)


def count(running: Served) -> list[bytes]:
    """What leaves from now on, through the one connection that there is."""
    [connection] = running.connections
    counted = connection.transport._transport = Counted(connection.transport._transport)  # type: ignore[attr-defined]
    return counted.pieces


def the_session(running: Served) -> HttpSession:
    assert running.listener is not None
    [session] = running.listener._app._sessions._all.values()
    return session


# -- what leaves when


async def test_nothing_that_is_sent_waits_for_what_was_sent_before_it_to_be_read(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        await http.get("/healthz")
        [connection] = running.connections
        sock = connection.transport.get_extra_info("socket")  # type: ignore[attr-defined]
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_call_that_is_answered_soon_is_answered_in_one_piece(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with served(config, limits=PATIENT) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        pieces = count(running)
        assert (await client.call(ECHO))["content"][0]["text"] == "7"
        [piece] = pieces
        head, _, body = piece.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"content-length: %d" % len(body) in head.split(b"\r\n")
        assert b"transfer-encoding" not in head
        assert body.index(b"retry: ") < body.index(b'"result"')


async def test_a_call_that_takes_longer_says_first_how_it_is_resumed(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config, limits=PROMPT) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        pieces = count(running)
        async with client.stream(rpc("tools/call", {"name": "hang"}, 7)) as stream:
            assert await stream.primed()
            await client.call({"name": "echo"})
            assert (await stream.next())["result"]["content"][0]["text"] == "late"
        first, second = pieces
        assert first.startswith(b"HTTP/1.1 200")
        assert b"retry: 1000\r\n" in first
        assert second.endswith(b"0\r\n\r\n")


async def test_a_modern_answer_leaves_in_one_piece(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        await post_modern(http, modern("tools/list"), "/mcp/dev/fs")
        pieces = count(running)
        answer = await post_modern(http, modern("tools/call", ECHO), "/mcp/dev/fs")
        assert answer.json()["result"]["content"][0]["text"] == "7"
        assert len(pieces) == 1


async def test_a_silent_stream_is_kept_alive(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never")}})
    limits = Limits(http_prime_seconds=0.01, http_ping_seconds=0.05)
    async with served(config, limits=limits) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        async with client.stream(rpc("tools/call", {"name": "hang"}, 7)) as stream:
            pings = 0
            async for line in stream.response.aiter_lines():
                pings += line == ": ping"
                if pings == 3:
                    break
            assert pings == 3


@pytest.mark.parametrize(("version", "is_primed"), [("2025-11-25", True), ("2025-06-18", False), (None, False)])
async def test_only_clients_that_can_read_it_are_told_how_to_resume(tmp_path: Path, version: str, *, is_primed: bool):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        headers = {"mcp-session-id": client.session} | ({"mcp-protocol-version": version} if version else {})
        response = await http.post("/mcp", json=rpc("tools/list"), headers=headers)
        assert ("retry: 1000" in response.text) is is_primed
        assert "result" in answer_in(response)


async def test_a_stream_has_the_headers_of_a_stream(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        headers = (await client.post(rpc("tools/list"))).headers
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"
        assert headers["mcp-session-id"] == client.session


def test_an_event_has_one_line_of_data_whatever_breaks_its_message_has():
    assert b"".join(event("7", b'{"a":\r1,\n"b":2}')) == b'id: 7\r\nevent: message\r\ndata: {"a": 1, "b":2}\r\n\r\n'
    assert primer("3", 50) == b"id: 3\r\ndata: \r\nretry: 50\r\n\r\n"


# -- who goes, and who waits


async def test_what_a_client_hung_up_on_is_let_go_at_once_and_its_call_goes_on(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config, limits=PROMPT) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        session = the_session(running)
        async with client.stream(rpc("tools/call", {"name": "hang"}, 7)) as stream:
            await stream.primed()
            assert session._requests == 1
        await wait_until(lambda: not session._requests, what="the end of the request")
        assert not session._streams._open
        assert session.is_taken(7)
        assert session._streams.unread_bytes == 0


async def test_who_hangs_up_before_the_head_of_the_answer_leaves_nothing(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config, limits=PATIENT) as running, running.client() as http, running.client() as other:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        session = the_session(running)
        message = rpc("tools/call", {"name": "hang"}, 7)
        call = asyncio.create_task(other.post(client.path, json=message, headers=client.headers))
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        call.cancel()
        await wait_until(lambda: not session._requests, what="the end of the request")
        assert not session._streams._open


@contextlib.asynccontextmanager
async def not_reading(folder: Path) -> AsyncIterator[tuple[Handshake, HttpSession, asyncio.Task[httpx2.Response]]]:
    """A client that does not read what it was sent, its session, and a request of it that waits for that."""
    async with served(write_config(folder, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        session = the_session(running)
        session.account.wrote(UNREAD)
        waits = asyncio.create_task(client.post(rpc("tools/list", {}, 7)))
        await wait_until(lambda: session.is_taken(7), what="the request")
        yield client, session, waits


async def test_a_request_waits_for_a_client_that_does_not_read_and_has_its_id_meanwhile(tmp_path: Path):
    async with not_reading(tmp_path) as (client, session, waits):
        assert (await client.post(rpc("tools/list", {}, 7))).status_code == 400
        assert not session._unanswered
        session.account.was_read(UNREAD)
        assert "result" in answer_in(await waits)
        assert not session.is_taken(7)


async def test_a_request_whose_session_ends_while_it_waits_is_refused(tmp_path: Path):
    async with not_reading(tmp_path) as (client, _, waits):
        assert (await client.http.delete("/mcp", headers=client.headers)).status_code == 200
        assert (await waits).status_code == 404


async def test_a_request_that_waits_counts_and_is_let_go_when_its_client_hangs_up(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client, other = await Handshake.begin(http), running.client()
        session = the_session(running)
        assert running.workbench is not None
        budget = running.workbench.budget
        session.account.wrote(UNREAD)
        held = budget.held
        params = {"cursor": "x" * 1024 * 1024}
        notice = {"jsonrpc": "2.0", "method": "notifications/x", "params": params}
        for message in (rpc("tools/list", params, 7), notice):
            waits = asyncio.create_task(other.post("/mcp", json=message, headers=client.headers))
            await wait_until(lambda: budget.held > held + 1024 * 1024, what="the request")
            await wait_until(lambda: len(running.connections) > 1, what="its connection")
            waits.cancel()
            await wait_until(lambda: budget.held == held, what="its end")
        assert not session.is_taken(7)
        await other.aclose()


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_request_is_let_go_before_its_answer_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str):
    text = "x" * 3_000_000
    params = {"name": "nonce", "arguments": {"nonce": text}}
    seen: list[HttpRequest] = []
    read = HttpRequest._read
    monkeypatch.setattr(HttpRequest, "_read", lambda self: (read(self), seen.append(self))[0])
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with served(config, send_buffer=4096) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        message = modern("tools/call", params) if era == "modern" else rpc("tools/call", params, 7)
        headers = modern_headers(message) if era == "modern" else client.headers
        async with http.stream("POST", client.path, json=message, headers=headers):
            assert running.workbench is not None
            assert running.workbench.budget.held > len(text)
            assert seen[-1].body == b""
            assert seen[-1].message is None


async def test_an_unread_answer_counts_after_the_end_of_its_session(tmp_path: Path):
    text = "x" * 3_000_000
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with served(config, send_buffer=4096) as running, running.client() as http, running.client() as slow:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        assert running.workbench is not None
        budget = running.workbench.budget
        message = rpc("tools/call", {"name": "nonce", "arguments": {"nonce": text}}, 7)
        async with slow.stream("POST", client.path, json=message, headers=client.headers):
            session = the_session(running)
            await wait_until(lambda: session.account.unread > len(text), what="the answer")
            assert (await http.delete(client.path, headers=client.headers)).status_code == 200
            await asyncio.wait((session.ended,))
            assert budget.held > len(text)
        await wait_until(lambda: budget.held == 0, what="the end of the stream")
        assert all(account.held == 0 for account in budget._accounts)


async def test_the_stream_of_a_call_ends_with_its_session(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config, limits=PATIENT) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        call = asyncio.create_task(client.post(rpc("tools/call", {"name": "hang"}, 7)))
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        assert (await http.delete(client.path, headers=client.headers)).status_code == 200
        response = await call
        assert response.status_code == 200
        assert events(response.text) == []


async def test_what_is_large_is_not_over_before_it_is_read(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        text = "x" * 3_000_000
        params = {"name": "nonce", "arguments": {"nonce": text}}
        session = the_session(running)
        async with client.stream(rpc("tools/call", params, 7)) as stream:
            await stream.primed()
            assert session._requests == 1
            assert (await stream.next())["result"]["content"][0]["text"] == text
        await wait_until(lambda: not session._requests, what="the end of the request")


class Account:
    """A reply whose client reads when it is told to, and the bytes that no longer wait for it."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.heard: list[Any] = []
        self.sent = 0
        self.reply = EventStream(Limits(), {"type": "http.response.start", "headers": []}, (b"first",), self._on_sent)

    def _on_sent(self, size: int) -> None:
        self.sent += size

    async def send(self, message: Any) -> None:
        self.heard.append(message)
        if "body" in message:
            await self.reads.wait()


async def test_what_waits_for_a_client_that_is_lost_waits_no_longer():
    account = Account()
    running = asyncio.create_task(account.reply.run(account.send))
    account.reply.put((b"a",), 1, is_last=False)
    await wait_until(lambda: len(account.heard) == 2, what="the first event")
    account.reply.put((b"b",), 10, is_last=False)
    assert account.sent == 0
    account.reply.lose()
    assert account.sent == 10
    account.reply.put((b"c",), 100, is_last=False)
    assert account.sent == 110
    account.reads.set()
    await running
    assert account.sent == 111
    assert [one.get("body") for one in account.heard] == [None, b"firsta"]


async def test_nothing_is_sent_to_a_client_that_is_lost_before():
    account = Account()
    running = asyncio.create_task(account.reply.run(account.send))
    await asyncio.sleep(0)
    account.reply.lose()
    await running
    assert account.heard == []


async def test_nothing_comes_after_an_answer():
    account = Account()
    account.reads.set()
    account.reply.put((b"answer",), 1, is_last=True)
    account.reply.put((b"more",), 10, is_last=True)
    await account.reply.run(account.send)
    assert account.sent == 11
    assert account.heard[1:] == [{"type": "http.response.body", "body": b"firstanswer", "more_body": False}]


# -- headers and bodies that are not the usual ones


@pytest.mark.parametrize("accept", ["*/*", "text/*, application/*", "text/event-stream;q=0.5,application/json"])
async def test_what_a_client_accepts_has_more_than_one_form(tmp_path: Path, accept: str):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        assert "result" in answer_in(await client.post(rpc("tools/list"), accept=accept + ", a/b" * 100))


async def test_nesting_is_accepted_as_on_stdio(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 500 + b"]" * 500 + b"}}"
        headers = client.headers | {"content-type": "application/json"}
        assert "result" in answer_in(await http.post("/mcp", content=body, headers=headers))


# -- pieces


class Recorder(asyncio.Transport):
    """A transport that leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[bytes | str] = []
        self.closing = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.said.append(data)

    def write_eof(self) -> None:
        self.said.append("end")

    def resume_reading(self) -> None:
        """Nothing comes."""

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def get_write_buffer_size(self) -> int:
        return 0


async def test_what_is_written_in_one_turn_leaves_in_one_piece():
    below = Recorder()
    outlet = LingeringTransport(below, Limits())
    for part in (b"a", b"", b"b"):
        outlet.write(part)
    assert below.said == []
    assert outlet.get_write_buffer_size() == 2
    await asyncio.sleep(0)
    assert below.said == [b"ab"]
    assert outlet.get_write_buffer_size() == 0
    outlet.write(b"c")
    await asyncio.sleep(0)
    assert below.said == [b"ab", b"c"]


async def test_what_is_large_leaves_at_once_so_that_its_writer_sees_whether_it_is_read():
    below = Recorder()
    outlet = LingeringTransport(below, Limits())
    outlet.write(b"a")
    outlet.write(b"b" * 65536)
    assert below.said == [b"a" + b"b" * 65536]


async def test_what_was_written_leaves_before_the_end_and_nothing_after_it():
    below = Recorder()
    outlet = LingeringTransport(below, Limits())
    outlet.write(b"a")
    outlet.close()
    outlet.write(b"b")
    await asyncio.sleep(0)
    assert below.said == [b"a", "end"]


async def test_nothing_is_written_to_what_is_closed():
    below = Recorder()
    outlet = LingeringTransport(below, Limits())
    outlet.write(b"a")
    below.abort()
    await asyncio.sleep(0)
    assert below.said == []
