"""Remote servers that mean harm: what they send costs them their own call, and nobody else anything."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import gzip
import json
import re
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Raw

from mcp_workbench.errors import Fault, MessageTooLarge, ProtocolViolation, ServerUnavailable
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http import channel as http_channel
from mcp_workbench.servers.http.response_body import events_in, read_body
from mcp_workbench.servers.http.status_errors import retry_after
from mcp_workbench.wire.deadlines import Delivery
from mcp_workbench.wire.fairness import FairShare
from mcp_workbench.wire.memory_budget import MemoryBudget
from mcp_workbench.wire.param_headers import MARK, SentHeaders
from tests.peers.rogue_http import MEGABYTE, Hangup, Request, Rogue, mode, rogue
from tests.servers.remote import agreed, call, remote
from tests.support.lag import LagProbe
from tests.support.procs import wait_until
from tests.wire.pair import settle

MANY = 40
"""Megabytes that a small answer unpacks to."""
BLOCKED_SECONDS = 0.1
NOTE = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n'
UNITS = {"blank": b"\n", "remark": b":\n", "field": b"x\n", "empty": b"data\n\n", "note": NOTE, "number": b"id: 1\n\n"}


@cache
def packed(unit: bytes, megabytes: int = MANY) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    piece = unit * (MEGABYTE // len(unit))
    return b"".join(packer.compress(piece) for _ in range(megabytes)) + packer.flush()


def response(*chunks: bytes, kind: str = "text/event-stream", **headers: str) -> httpx2.Response:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    named = {"content-type": kind} | {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(200, headers=named, content=body(), request=httpx2.Request("POST", "https://mcp.example"))


async def events(*chunks: bytes, **limits: Any) -> list[tuple[str, str, str, int | None]]:
    found = events_in(response(*chunks), Limits(**limits), FairShare())
    return [(event.event, event.data, event.id, event.retry) async for event in found]


def data_of(found: list[tuple[str, str, str, int | None]]) -> list[str]:
    return [data for _, data, _, _ in found]


# -- streams


@pytest.mark.parametrize("unit", UNITS.values(), ids=list(UNITS))
async def test_a_small_stream_that_unpacks_to_much_does_not_keep_others_waiting(unit: bytes):
    source = events_in(response(packed(unit), content_encoding="gzip"), Limits(), FairShare())
    async with LagProbe() as lag:
        try:
            async with asyncio.timeout(1):
                async for event in source:
                    event.data.encode()
        except TimeoutError:
            pass
        await source.aclose()
    assert lag.worst_cpu_seconds < BLOCKED_SECONDS


async def test_events_that_take_a_moment_each_do_not_keep_others_waiting_together():
    async with LagProbe() as lag:
        async for _ in events_in(response(b"data\n\n" * 5000), Limits(), FairShare()):
            ends = time.thread_time() + 0.0001
            while time.thread_time() < ends:
                pass
    assert lag.worst_cpu_seconds < BLOCKED_SECONDS


async def test_a_flood_of_notifications_does_not_keep_others_waiting():
    @mode("flood_of_notes")
    async def _(_: Rogue, request: Request) -> None:
        await request.head(200, content_type="text/event-stream", content_encoding="gzip", connection="close")
        await request.send(packed(NOTE))
        await asyncio.Event().wait()

    packed(NOTE)
    async with rogue() as server, agreed(server.url("flood_of_notes")) as (channel, agreement):
        async with LagProbe() as lag:
            asking = asyncio.ensure_future(call(channel, agreement))
            await wait_until(lambda: server.got("tools/call"))
            for _ in range(5):
                assert await channel.peer.request("ping", {}, hard_seconds=5)
            asking.cancel()
            await asyncio.wait((asking,))
        assert lag.worst_cpu_seconds < BLOCKED_SECONDS


async def test_what_follows_the_end_of_a_packed_body_is_not_kept():
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        yield gzip.compress(b"{}")
        for _ in range(64):
            sent += 1
            yield b"x" * MEGABYTE

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    answer = httpx2.Response(200, headers={"content-encoding": "gzip"}, content=body())
    tracemalloc.start()
    try:
        assert await read_body(answer, Limits(), FairShare()) == b"{}"
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert sent == 64


@pytest.mark.parametrize("field", [b"", b"data: xy\n"], ids=["one line", "many lines"])
async def test_an_event_in_tiny_pieces_takes_memory_in_proportion_to_its_length(field: bytes):
    pieces = [b"data:", *([field or b"xy"] * 100_000), b"\n\n"]
    sent = response(*pieces)
    tracemalloc.start()
    try:
        [event] = [event async for event in events_in(sent, Limits(), FairShare())]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert event.data.count("xy") == 100_000
    assert peak < 5 * sum(map(len, pieces))


async def test_what_arrives_is_counted_and_nothing_is_read_while_the_client_is_paused():
    client = MemoryBudget(Limits(memory_bytes=400, memory_base_bytes=0)).open("client")
    server = client.open("server")
    going_on = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"x" * 80
        await going_on.wait()
        yield b"y" * 10

    answer = httpx2.Response(200, content=body())
    reading = asyncio.ensure_future(read_body(answer, Limits(), FairShare(), server))
    await wait_until(lambda: server.held == 80, what="the first piece")
    client.wrote(101)
    going_on.set()
    await settle()
    assert not reading.done()
    client.was_read(101)
    assert await reading == b"x" * 80 + b"y" * 10
    assert server.held == 0


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_lines_end_as_the_format_allows_wherever_the_stream_is_cut(end: bytes, size: int):
    stream = end.join(
        [b": hello", b"id: 1", b"data: a", b"data:  b", b"", b"", b"event: x", b"data", b"data:", b"", b""]
    )
    cut = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert await events(*cut) == [("message", "a\n b", "1", None), ("x", "\n", "1", None)]


async def test_an_event_that_ends_with_a_carriage_return_is_told_before_more_comes():
    async def body() -> AsyncIterator[bytes]:
        yield b"data: a\r\r"
        await asyncio.Event().wait()

    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body())
    source = events_in(answer, Limits(), FairShare())
    async with asyncio.timeout(5):
        assert (await anext(source)).data == "a"
    await source.aclose()


async def test_a_mark_of_byte_order_is_no_part_of_the_first_field():
    assert data_of(await events(b"\xef\xbb", b"\xbfdata: a\n\ndata: \xef\xbb\xbfb\n\n")) == ["a", "\ufeffb"]


async def test_what_is_not_utf8_is_replaced_and_not_lost():
    assert data_of(await events(b"data: \xff\xe2\x82", b"\xac\n\n")) == ["\ufffd€"]


async def test_an_event_that_is_not_complete_is_none():
    assert await events(b"data: a\n\ndata: b\n") == [("message", "a", "", None)]


@pytest.mark.parametrize(
    ("said", "retry"),
    [
        ("10", 10),
        ("0", 0),
        ("-5", None),
        ("1e9", None),
        ("1_0", None),
        ("9" * 400, None),
        ("9" * 5000, None),
        ("", None),
    ],
)
async def test_a_pause_that_is_no_number_is_ignored(said: str, retry: int | None):
    assert await events(f"retry: {said}\ndata: a\n\n".encode()) == [("message", "a", "", retry)]


async def test_an_id_with_a_null_is_ignored():
    assert await events(b"id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\nid\ndata: c\n\n") == [
        ("message", "a", "1", None),
        ("message", "b", "1", None),
        ("message", "c", "", None),
    ]


@pytest.mark.parametrize(
    "chunk",
    [b"data: " + b"x" * 600 + b"\ndata: " + b"x" * 600 + b"\n", b"x" * 1001, b":" + b"x" * 1001, b"data\n" * 300],
)
async def test_an_event_of_many_lines_or_one_is_bounded_as_a_whole(chunk: bytes):
    with pytest.raises(MessageTooLarge):
        await events(chunk, message_bytes=1000)


async def test_remarks_are_bounded_each_and_not_together():
    assert data_of(await events(*[b": still here\n"] * 500, b"data: a\n\n", message_bytes=1000)) == ["a"]


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "deflate", "raw deflate", "identity", "GZIP"])
async def test_a_body_is_unpacked_as_its_header_says(name: str):
    body = json.dumps({"text": "ä" * 100_000}).encode()
    pack = {"raw deflate": -15, "deflate": 15, "identity": 0}.get(name, 31)
    packer = zlib.compressobj(6, zlib.DEFLATED, pack or 31)
    sent = packer.compress(body) + packer.flush() if pack else body
    cut = [sent[at : at + 100] for at in range(0, len(sent), 100)]
    answer = response(*cut, kind="application/json", content_encoding=name.removeprefix("raw "))
    assert await read_body(answer, Limits(), FairShare()) == body


@pytest.mark.parametrize("name", ["br", "zstd", "compress", "gzip, gzip, gzip", "aes128gcm"])
async def test_what_is_packed_as_nobody_asked_for_is_no_answer(name: str):
    with pytest.raises(httpx2.DecodingError):
        await read_body(response(b"{}", content_encoding=name), Limits(), FairShare())


async def test_what_is_not_packed_as_its_header_says_is_no_answer():
    for name in ("gzip", "deflate"):
        with pytest.raises(httpx2.DecodingError):
            await read_body(response(b"\xff{}", content_encoding=name), Limits(), FairShare())


# -- addresses that a server names


def old_transport(endpoint: str) -> str:
    """A mode that names an address for messages."""
    name = f"old_names_{abs(hash(endpoint))}"

    @mode(f"{name} GET")
    async def _(server: Rogue, request: Request) -> None:
        await request.stream()
        await request.send(f"event: endpoint\ndata: {endpoint}\n\n".encode())
        server.stream = request
        await asyncio.Event().wait()

    return name


@pytest.mark.parametrize(
    "named",
    [
        "javascript:alert(1)",
        "mailto:me@example.com",
        "data:,x",
        "//127.0.0.1:1/x",
        "https://127.0.0.1/x",
        "http://127.0.0.1@evil.example/",
        "http://[",
        "/" + "x" * 70_000,
    ],
)
async def test_an_address_for_messages_that_is_none_of_its_own_ends_the_old_transport_at_once(named: str):
    name = old_transport(named)
    async with rogue() as server, remote(server.url(name), endpoint={"transport": "sse"}) as channel:
        with pytest.raises((ProtocolViolation, ServerUnavailable)):
            await channel.peer.request("initialize", {}, hard_seconds=5)
        assert channel.ended.done()
        assert isinstance(channel.ended.result(), ProtocolViolation)


async def test_a_defect_of_ours_ends_the_old_transport_and_leaves_no_call_waiting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_channel, "is_within", lambda *_: 1 / 0)
    async with rogue() as server, remote(server.url("old"), endpoint={"transport": "sse"}) as channel:
        with pytest.raises(ServerUnavailable) as caught:
            await channel.peer.request("initialize", {}, hard_seconds=5)
        assert caught.value.kind == "internal"


@pytest.mark.parametrize("where", ["mailto:me@example.com", "javascript:alert(1)", "http://[", "//", "data:,", "\x01"])
async def test_a_redirect_to_what_is_no_server_is_told_as_one(where: str):
    @mode("moved_nowhere")
    async def _(_: Rogue, request: Request) -> None:
        await request.reply(307, location=where)

    async with rogue() as server, agreed(server.url("moved_nowhere")) as (channel, agreement):
        delivery = Delivery()
        with pytest.raises(ServerUnavailable) as caught:
            await call(channel, agreement, "echo", delivery)
        assert caught.value.kind in ("redirect", "not_http")
        assert delivery.was_sent  # and is not made again
        assert await channel.peer.request("ping", {}, hard_seconds=5)


# -- headers


@pytest.mark.parametrize(
    "said",
    [
        "-5",
        "1e99",
        "nan",
        "9" * 5000,
        "Fri, 31 Dec 99999 23:59:59 GMT",
        "Fri, 31 Dec 2100 99999999999999999999:59:59 GMT",
        "Fri, 31 Dec 2100 23:59:59 +999999999999999999999",
        "\x00",
    ],
)
def test_a_time_to_wait_that_makes_no_sense_is_none(said: str):
    assert retry_after(said) is None


def test_a_tool_with_very_many_headers_costs_no_more_than_reading_it():
    properties = {f"p{number}": {"type": "string", MARK: f"H{number}"} for number in range(20_000)}
    tool = {"name": "many", "inputSchema": {"type": "object", "properties": properties}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}}).encode()
    began = time.thread_time()
    mirrors = SentHeaders(ServerIdentifier("dev", "far"), Limits())
    assert mirrors.learn(message) == message
    assert time.thread_time() - began < 2
    assert not mirrors.knows("many")


async def test_hostile_values_of_a_mirrored_parameter_survive_as_headers():
    schema = {"type": "object", "properties": {"region": {"type": "string", MARK: "Region"}}}
    mirrors = SentHeaders(ServerIdentifier("dev", "far"), Limits())
    mirrors.learn(json.dumps({"result": {"tools": [{"name": "t", "inputSchema": schema}]}}).encode())
    for value in ("a\r\nx-evil: 1", "ä€😀", "\x00", " padded ", "=?base64?eA==?=", "x" * 100_000, "", "\x7f", "a\tb"):
        sent = mirrors.headers("t", Raw(json.dumps({"region": value}).encode()))
        assert list(sent) == ["mcp-param-Region"]
        text = sent["mcp-param-Region"]
        assert re.fullmatch(r"[\x20-\x7e]*", text)
        assert text == text.strip()
        packed_text = re.fullmatch(r"=\?base64\?(.*)\?=", text)
        assert (base64.b64decode(packed_text[1]).decode() if packed_text else text) == value
    for nothing in ({"region": None}, {"region": {"a": 1}}, {"region": ["x"]}, {}, [], "x", 1):
        assert mirrors.headers("t", Raw(json.dumps(nothing).encode())) == {}


async def test_cookies_of_a_server_go_back_to_it_and_do_not_add_up():
    @mode("baker")
    async def _(_: Rogue, request: Request) -> None:
        number = request.message["id"]
        lines = "\r\nset-cookie: ".join(f"c{number}x{index}={'v' * 1000}" for index in range(3))
        await request.result(request.said()["result"], set_cookie=lines)

    async with rogue() as server, rogue() as other, agreed(server.url("baker")) as (channel, agreement):
        for _ in range(30):
            await call(channel, agreement)
        sizes = [len(request.headers.get("cookie", "")) for request in server.got("tools/call")]
        assert 0 < max(sizes) < 50_000
        async with agreed(other.url("ok")) as (another, theirs):
            await call(another, theirs)
        assert not [request for request in other.requests if "cookie" in request.headers]


# -- connections


async def test_a_notification_and_a_message_of_the_old_transport_cost_no_connection_each():
    async with rogue() as server, agreed(server.url("ok")) as (channel, _):
        before = server.connections
        for number in range(20):
            channel.peer.notify("notifications/progress", {"progressToken": 1, "progress": number})
        await wait_until(lambda: len(server.got("notifications/progress")) == 20)
        assert server.connections - before <= 2
    async with rogue() as server, agreed(server.url("old"), endpoint={"transport": "sse"}) as (channel, agreement):
        before = server.connections
        for _ in range(20):
            await call(channel, agreement)
        assert server.connections - before <= 2


def descriptors_open() -> int:
    return len(list(Path("/dev/fd").iterdir()))


FAILURES = ["status500", "status401", "html", "accepted", "reset", "truncated", "not_http", "wrong_id", "no_json"]


async def test_a_thousand_failing_calls_leave_no_task_no_descriptor_and_no_memory():
    async with rogue() as server, contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(agreed(server.url(name))) for name in FAILURES]

        async def fail(rounds: int) -> None:
            for _ in range(rounds):
                for channel, agreement in channels:
                    with pytest.raises(Fault):
                        await call(channel, agreement)
                server.requests.clear()

        await fail(20)
        gc.collect()
        tasks, descriptors, objects = (
            len(asyncio.all_tasks()),
            descriptors_open(),
            len(gc.get_objects()),
        )
        await fail(100)
        gc.collect()
        await wait_until(lambda: len(asyncio.all_tasks()) <= tasks + 4)
        assert descriptors_open() <= descriptors + 8
        assert len(gc.get_objects()) - objects < 900


async def test_a_cancelled_call_of_the_old_transport_is_told_within_a_second():
    async with rogue() as server, agreed(server.url("old"), endpoint={"transport": "sse"}) as (channel, agreement):
        quiet = server.behave

        async def never(request: Request) -> None:
            if request.rpc != "tools/call":
                await quiet(request)

        server.behave = never  # type: ignore[method-assign]
        asking = asyncio.ensure_future(call(channel, agreement))
        await wait_until(lambda: server.got("tools/call"))
        asking.cancel()
        await wait_until(lambda: server.got("notifications/cancelled"), 1)
        [told] = server.got("notifications/cancelled")
        [asked] = server.got("tools/call")
        assert told.message["params"]["requestId"] == asked.message["id"]


# -- answers that nobody waits for


async def test_answers_that_were_not_asked_for_or_come_twice_change_nothing():
    @mode("prophet")
    async def _(_: Rogue, request: Request) -> None:
        await request.stream()
        own = request.said("the right one")
        for id_ in (own["id"] + 1, own["id"] - 1, -1, 10**30, "x", None, 1.5, True, [own["id"]], {"id": 1}):
            await request.event({**request.said("a wrong one"), "id": id_})
        await request.event(own)
        await request.event(request.said("the second one"))
        raise Hangup

    async with rogue() as server, agreed(server.url("prophet")) as (channel, agreement):
        for _ in range(5):
            assert (await call(channel, agreement))["content"][0]["text"] == "the right one"
        assert not channel.ended.done()
