"""Streamable HTTP and the older transport, against a server that shows what it got."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mcp_workbench.errors import (
    CallTimeout,
    Fault,
    MessageTooLarge,
    NegotiationFailed,
    ProtocolViolation,
    ServerRefused,
    ServerUnauthorized,
    ServerUnavailable,
)
from mcp_workbench.servers.http import streamable_http
from mcp_workbench.servers.http.post_writer import Post
from mcp_workbench.servers.http.status_errors import ServerUnreachable, expired
from mcp_workbench.wire.jsonrpc import Envelope
from tests.peers.rogue_http import rogue
from tests.servers.remote import Heard, agreed, call, remote, remote_supervisor
from tests.support.procs import needs_proc, wait_until


def said(result: object) -> str:
    return result["content"][0]["text"]  # type: ignore[index]


# -- what is sent, and what comes back


async def test_a_handshake_names_its_session_and_version_in_all_that_follows_and_ends_it():
    async with rogue() as server:
        async with agreed(server.url("ok")) as (channel, agreement):
            assert agreement.version == "2025-11-25"
            assert json.loads(said(await call(channel, agreement, nonce="é"))) == {"nonce": "é"}
        (first,) = server.got("initialize")
        assert "mcp-session-id" not in first.headers
        assert "mcp-protocol-version" not in first.headers
        assert first.headers["accept"] == "application/json, text/event-stream"
        assert first.headers["content-type"] == "application/json"
        after = server.requests[server.requests.index(first) + 1 :]
        assert {(one.headers["mcp-session-id"], one.headers["mcp-protocol-version"]) for one in after} == {
            ("session-1", "2025-11-25")
        }
        assert [one.rpc or one.method for one in after if one.method != "GET"] == [
            "notifications/initialized",
            "tools/call",
            "DELETE",
        ]
        assert len(server.sent("GET")) == 1  # it was refused with 405, which is the end of it


async def test_a_server_without_sessions_is_not_told_that_one_ends():
    async with rogue() as server:
        async with agreed(server.url("no_session")) as (channel, agreement):
            await call(channel, agreement)
        assert not server.sent("DELETE")
        assert all("mcp-session-id" not in one.headers for one in server.requests)


@pytest.mark.parametrize("mode", ["ok", "events", "pretty", "gzip"])
async def test_an_answer_is_the_same_however_it_comes(mode: str):
    async with rogue() as server, agreed(server.url(mode)) as (channel, agreement):
        params = {"name": "echo", "arguments": {"n": 1}}
        raw = await channel.peer.request("tools/call", params, stamp=agreement.stamp(), hard_seconds=5)
        assert b"\n" not in bytes(raw)
        assert json.loads(said(msgspec.json.decode(raw))) == {"n": 1}


async def test_what_a_server_says_before_its_answer_is_heard_before_it():
    heard = Heard()
    async with rogue() as server, agreed(server.url("events"), heard) as (channel, agreement):
        await call(channel, agreement)
        assert heard.methods == ["notifications/message"]


async def test_a_message_on_the_response_stream_of_a_request_says_whose_request_that_is():
    heard, owner = Heard(), object()
    async with rogue() as server, agreed(server.url("events"), heard) as (channel, agreement):
        params, stamp = {"name": "echo", "arguments": {}}, agreement.stamp()
        await channel.peer.request("tools/call", params, stamp=stamp, owner=owner, hard_seconds=30)
        assert heard.owners == [owner]
        await channel.peer.request("tools/call", params, stamp=stamp, hard_seconds=30)
        assert heard.owners[1] not in (None, owner)


async def test_connections_are_used_again():
    async with rogue() as server, agreed(server.url("ok")) as (channel, agreement):
        for _ in range(20):
            await call(channel, agreement)
        assert server.connections <= 4  # the handshake has up to three at once


async def test_a_modern_request_has_headers_and_no_session():
    async with rogue() as server:
        async with agreed(server.url("modern")) as (channel, agreement):
            assert agreement.modern
            await call(channel, agreement, "füchse", nonce="1")
        (discover,) = server.got("server/discover")
        (called,) = server.got("tools/call")
        assert discover.headers["mcp-method"] == "server/discover"
        assert called.headers["mcp-protocol-version"] == "2026-07-28"
        assert called.headers["mcp-method"] == "tools/call"
        assert called.headers["mcp-name"] == "=?base64?ZsO8Y2hzZQ==?="
        assert all("mcp-session-id" not in one.headers for one in server.requests)
        assert {one.method for one in server.requests} == {"POST"}


async def test_a_modern_server_that_refuses_a_version_which_it_names_is_asked_once_more():
    async with rogue() as server, agreed(server.url("picky")) as (_, agreement):
        assert agreement.modern
        assert [one.rpc for one in server.requests] == ["server/discover", "server/discover"]


async def test_a_parameter_that_is_a_header_is_mirrored_once_the_list_is_known_and_a_wrong_tool_is_left_out():
    async with rogue() as server, agreed(server.url("mirrors")) as (channel, agreement):
        listed = msgspec.json.decode(await channel.peer.request("tools/list", {}, stamp=agreement.stamp()))
        assert [tool["name"] for tool in listed["tools"]] == ["echo"]
        assert said(await call(channel, agreement, region="Zürich")) == "=?base64?WsO8cmljaA==?="
        assert len(server.got("tools/call")) == 1


async def test_a_server_whose_list_is_not_known_is_asked_for_it_when_it_misses_a_header():
    async with rogue() as server, agreed(server.url("mirrors")) as (channel, agreement):
        assert said(await call(channel, agreement, region="eu")) == "eu"
        assert [one.rpc for one in server.requests][1:] == ["tools/call", "tools/list", "tools/call"]
        assert said(await call(channel, agreement, region="us")) == "us"
        assert len(server.got("tools/list")) == 1


async def test_a_call_that_was_sent_before_the_list_was_known_is_made_again_with_its_headers():
    async with rogue() as server, agreed(server.url("late_mirrors")) as (channel, agreement):
        early = asyncio.ensure_future(call(channel, agreement, region="eu"))
        await wait_until(lambda: server.got("tools/call"), what="the call")
        await channel.peer.request("tools/list", {}, stamp=agreement.stamp())
        assert said(await call(channel, agreement, region="us")) == "us"
        assert said(await early) == "eu"
        assert len(server.got("tools/list")) == 1


# -- streams that break off


async def test_an_answer_that_breaks_off_is_asked_for_again_where_the_server_numbered_it():
    async with rogue() as server, agreed(server.url("resumed")) as (channel, agreement):
        assert said(await call(channel, agreement)) == "after the break"
        assert len(server.got("tools/call")) == 1
        assert server.sent("GET")[-1].headers["last-event-id"] == "first"
        assert server.sent("GET")[-1].headers["mcp-session-id"] == "session-1"


async def test_an_answer_that_breaks_off_without_a_number_fails_its_request_at_once():
    async with rogue() as server, agreed(server.url("never_resumed")) as (channel, agreement):
        with pytest.raises(ServerUnavailable) as caught:
            await call(channel, agreement)
        assert caught.value.kind == "truncated"
        assert not channel.ended.done()


async def test_a_server_whose_streams_bring_nothing_is_asked_less_and_less_often(monkeypatch: pytest.MonkeyPatch):
    least = 0.01
    monkeypatch.setattr(streamable_http, "RESUME_LEAST_SECONDS", least)
    async with rogue() as server, agreed(server.url("fruitless")) as (channel, agreement):
        began = asyncio.get_running_loop().time()
        waiting = asyncio.ensure_future(call(channel, agreement))

        def asked() -> int:
            return sum(one.headers.get("last-event-id") == "first" for one in server.sent("GET"))

        await wait_until(lambda: asked() >= 5, what="the fifth time it is asked")
        assert asyncio.get_running_loop().time() - began >= least * (1 + 2 + 4 + 8 + 16)
        assert not waiting.done()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting


async def test_the_stream_of_its_own_is_opened_again_from_where_it_broke_off():
    heard = Heard()
    async with rogue() as server, agreed(server.url("listens"), heard, resume_seconds=0.01) as (channel, agreement):
        await wait_until(lambda: len(heard.methods) >= 3, what="three changes")
        assert [one.headers.get("last-event-id") for one in server.sent("GET")][:3] == [None, "1", "2"]
        await call(channel, agreement)


# -- what ends one request, and no other


@pytest.mark.parametrize(
    ("mode", "fault", "kind"),
    [
        ("html", ServerUnavailable, "not_mcp"),
        ("accepted", ProtocolViolation, None),
        ("reset", ServerUnavailable, "reset"),
        ("truncated", ServerUnavailable, "truncated"),
        ("not_http", ServerUnavailable, "not_http"),
        ("status404", ServerUnavailable, "session_expired"),
        ("status500", ServerUnavailable, "status"),
        ("moved_302", ServerUnavailable, "redirect"),
        ("moved_round", ServerUnavailable, "redirect"),
        ("status401", ServerUnauthorized, None),
        ("status403", ServerUnauthorized, None),
        ("refused400", ServerRefused, None),
        ("wrong_id", ProtocolViolation, None),
        ("no_json", ProtocolViolation, None),
        ("hang", CallTimeout, None),
        ("drip", CallTimeout, None),
        ("comments", CallTimeout, None),
        ("silent", CallTimeout, None),
    ],
)
async def test_what_a_request_meets_is_told_for_what_it_is(mode: str, fault: type[Fault], kind: str | None):
    async with rogue() as server, agreed(server.url(mode)) as (channel, _):
        with pytest.raises(fault) as caught:
            await channel.peer.request("tools/call", {"name": "echo", "arguments": {}}, hard_seconds=0.5)
        assert getattr(caught.value, "kind", None) == kind
        assert "s3cret" not in f"{caught.value} {caught.value.hint} {vars(caught.value)}"
        assert channel.ended.done() == (kind == "session_expired")
        if not channel.ended.done():
            assert await channel.peer.request("ping", {}, hard_seconds=5)


@pytest.mark.parametrize("mode", ["big_json", "big_event", "big_comment", "many_lines", "bomb", "bomb_twice"])
async def test_a_message_over_the_bound_fails_its_request_alone(mode: str):
    async with rogue() as server, agreed(server.url(mode), message_bytes=100_000) as (channel, agreement):
        with pytest.raises(MessageTooLarge):
            await call(channel, agreement)
        assert await channel.peer.request("ping", {}, hard_seconds=5)


async def test_a_refusal_at_the_opening_is_asked_for_once():
    async with rogue() as server:
        async with remote(server.url("all_status401")) as channel:
            with pytest.raises(ServerUnauthorized) as caught:
                async with agreed(server.url("all_status401")):
                    pass
            assert not channel.ended.done()
        assert (caught.value.status, caught.value.scheme) == (401, "Basic")
        assert len(server.requests) == 1


async def test_an_address_without_mcp_is_no_server():
    async with rogue() as server:
        with pytest.raises(NegotiationFailed, match="HTTP 404"):
            async with agreed(server.url("all_status404")):
                pass


# -- the end of a session


@pytest.mark.parametrize("mode", ["expires_once", "expires_400"])
async def test_a_call_that_finds_its_session_gone_is_made_again_in_a_new_one(mode: str):
    async with rogue() as server, remote_supervisor(server.url(mode)) as supervised:
        await supervised.forward("tools/call", {"name": "echo", "arguments": {"n": 1}}, None)
        sent = [one.headers["mcp-session-id"] for one in server.got("tools/call")]
        assert sent == ["session-1", "session-2"]
        assert supervised.state == "ready"


async def test_a_call_that_finds_its_new_session_gone_too_is_told_so():
    async with rogue() as server, remote_supervisor(server.url("expires_always")) as supervised:
        with pytest.raises(ServerUnavailable) as caught:
            await supervised.forward("tools/call", {"name": "echo", "arguments": {}}, None)
        assert caught.value.kind == "session_expired"
        assert len(server.got("tools/call")) == 2
        assert supervised.state == "idle"  # it counts for nothing


@pytest.mark.parametrize(
    ("fault", "is_accepted", "was_sent"),
    [
        (ServerUnreachable("nobody answers", kind="refused"), False, False),
        (ServerUnreachable("nobody answers", kind="refused"), True, True),
        (expired(), False, False),
        (expired(), True, True),
        (ServerUnavailable("it broke off", kind="reset"), False, True),
    ],
)
async def test_a_request_was_sent_unless_the_server_never_looked_at_it(
    fault: Fault, *, is_accepted: bool, was_sent: bool
):
    post = Post(1, Envelope({}, 1, "tools/call"), {}, None)
    post.is_accepted = is_accepted
    assert post.was_sent(fault) is was_sent


async def test_a_call_whose_answer_had_begun_is_not_made_again_when_its_session_is_gone():
    async with rogue() as server, remote_supervisor(server.url("forgotten")) as supervised:
        with pytest.raises(ServerUnavailable) as caught:
            await supervised.forward("tools/call", {"name": "echo", "arguments": {}}, None)
        assert caught.value.kind == "session_expired"
        assert len(server.got("tools/call")) == 1


async def test_a_call_under_way_when_the_session_goes_fails_and_is_not_made_again():
    async with rogue() as server, remote_supervisor(server.url("waits_then_expires")) as supervised:
        hanging = asyncio.ensure_future(
            supervised.forward("tools/call", {"name": "echo", "arguments": {"nonce": "hang"}}, None)
        )
        await wait_until(lambda: server.got("tools/call"), what="the first call")
        await supervised.forward("tools/call", {"name": "echo", "arguments": {"nonce": "2"}}, None)
        with pytest.raises(ServerUnavailable) as caught:
            await hanging
        assert caught.value.retryable
        nonces = [one.message["params"]["arguments"]["nonce"] for one in server.got("tools/call")]
        assert nonces == ["hang", "2", "2"]


# -- cancelling and closing


@pytest.mark.parametrize("mode", ["silent", "hang", "comments"])
async def test_a_cancelled_call_closes_its_connection_and_the_server_is_told(mode: str):
    async with rogue() as server, agreed(server.url(mode)) as (channel, agreement):
        calling = asyncio.ensure_future(call(channel, agreement))
        await wait_until(lambda: server.got("tools/call"), what="the call")
        calling.cancel()
        (called,) = server.got("tools/call")
        await wait_until(lambda: called.closed, 1, what="the end of the connection")
        await wait_until(lambda: server.got("notifications/cancelled"), 1, what="the cancellation")
        (told,) = server.got("notifications/cancelled")
        assert told.message["params"]["requestId"] == called.message["id"]


@pytest.mark.parametrize("mode", ["ok", "events", "silent", "comments", "listens"])
async def test_closing_leaves_no_task_and_no_connection(mode: str):
    before = asyncio.all_tasks()
    async with rogue() as server:
        async with agreed(server.url(mode)) as (channel, agreement):
            calls = [asyncio.ensure_future(call(channel, agreement)) for _ in range(5)]
            await wait_until(lambda: len(server.got("tools/call")) == 5, what="the calls")
            began = asyncio.get_running_loop().time()
            await channel.close()
            assert asyncio.get_running_loop().time() - began < 2
            await asyncio.wait(calls)
            for one in calls:
                with contextlib.suppress(Fault):
                    one.result()
        await wait_until(lambda: not server.open, what="the end of all connections")
    await wait_until(lambda: asyncio.all_tasks() <= before, what="the end of all tasks")


def descriptors() -> int:
    return len([*Path("/dev/fd").iterdir()])


@needs_proc
async def test_many_channels_in_turn_leave_no_descriptor_and_no_task():
    async with rogue() as server:

        async def cycle() -> None:
            async with agreed(server.url("events")) as (channel, agreement):
                await call(channel, agreement)

        await cycle()
        await wait_until(lambda: not server.open, what="the end of its connections")
        tasks, open_ones = len(asyncio.all_tasks()), descriptors()
        for _ in range(30):
            await cycle()
        await wait_until(lambda: not server.open, what="the end of all connections")
        await wait_until(lambda: len(asyncio.all_tasks()) <= tasks, what="the end of all tasks")
        await wait_until(lambda: descriptors() <= open_ones, what="the end of all sockets")


def test_what_speaks_http_does_not_load_the_sdk():
    code = "import mcp_workbench.servers.http.channel, sys; sys.exit(bool({'mcp', 'pydantic'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- the transport of 2024


async def test_the_old_transport_is_answered_on_its_stream():
    async with rogue() as server, agreed(server.url("old"), endpoint={"transport": "sse"}) as (channel, agreement):
        assert json.loads(said(await call(channel, agreement, n=1))) == {"n": 1}
        assert {one.path for one in server.sent("POST")} == {"/old_posts?session=1"}


async def test_the_old_transport_sends_nothing_to_another_origin():
    async with rogue() as server, rogue() as other:
        server.elsewhere = other.url("ok")
        with pytest.raises(ProtocolViolation, match="another server"):
            async with agreed(server.url("old_away"), endpoint={"transport": "sse"}):
                pass
        assert not other.connections


async def test_the_end_of_an_old_stream_ends_the_channel_and_every_call():
    async with rogue() as server, agreed(server.url("old"), endpoint={"transport": "sse"}) as (channel, _):
        assert server.stream is not None
        server.stream.writer.transport.abort()
        fault = await asyncio.wait_for(channel.ended, 5)
        assert isinstance(fault, ServerUnavailable)
