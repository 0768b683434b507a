"""Clients over HTTP that are slow, large, many, or lie about what they send; and what of them reaches servers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from mcp_workbench import Limits
from tests.serve.http.serving import (
    ALICE,
    BOTH,
    Handshake,
    Served,
    answer_in,
    greeting,
    modern,
    modern_headers,
    post_modern,
    raw_exchange,
    raw_modern,
    rpc,
    served,
    use,
)
from tests.support.configs import read_log, rogue, starts, write_config
from tests.support.procs import wait_until

BODY_BYTES = 64 * 1024
SMALL = Limits(http_head_seconds=0.5, http_body_seconds=0.5, http_body_bytes=BODY_BYTES, http_connections=8)
PAUSE = 0.1


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Closed at the end, also when a test fails."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def small(folder: Path, limits: Limits = SMALL) -> AsyncIterator[Served]:
    async with served(write_config(folder, {"dev": {"fs": rogue(log=folder / "log")}}), limits=limits) as running:
        yield running
        assert starts(folder / "log") == []


def head(port: int, *lines: str, path: str = "/mcp") -> bytes:
    own = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {ALICE}",
        f"Accept: {BOTH}",
        "Content-Type: application/json",
        *lines,
    ]
    return "\r\n".join(own).encode() + b"\r\n\r\n"


def padded(size: int) -> bytes:
    """A greeting of this many bytes."""
    body = json.dumps(greeting()).encode()
    return body + b" " * (size - len(body))


async def drip(port: int, data: bytes) -> bytes:
    """Send a byte at a time, until the other side has had enough; what it said."""
    async with connection(port) as (reader, writer):
        answer = asyncio.ensure_future(reader.read(-1))
        with contextlib.suppress(ConnectionError):
            for byte in data:
                writer.write(bytes([byte]))
                await writer.drain()
                done, _ = await asyncio.wait((answer,), timeout=PAUSE)
                if done:
                    break
        return await asyncio.wait_for(answer, 5)


@pytest.mark.row("E11")
async def test_a_body_of_the_size_that_is_allowed_is_taken_and_one_byte_more_is_not(tmp_path: Path):
    async with small(tmp_path) as running, running.client() as http:
        headers = {"content-type": "application/json"}
        assert (await http.post("/mcp", content=padded(BODY_BYTES), headers=headers)).status_code == 200
        refused = await http.post("/mcp", content=padded(BODY_BYTES + 1), headers=headers)
        assert refused.status_code == 413
        assert refused.headers["connection"] == "close"


@pytest.mark.row("E11")
async def test_a_body_that_says_it_is_too_large_is_not_waited_for(tmp_path: Path):
    async with small(tmp_path) as running:
        answer = await raw_exchange(running.port, head(running.port, f"Content-Length: {BODY_BYTES + 1}"))
        assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.row("E11")
async def test_a_body_in_chunks_that_grows_too_large_is_cut_off(tmp_path: Path):
    async with small(tmp_path) as running:
        chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
        request = head(running.port, "Transfer-Encoding: chunked") + chunk * 17
        assert (await raw_exchange(running.port, request)).startswith(b"HTTP/1.1 413 ")


@pytest.mark.row("E11")
async def test_a_body_in_chunks_that_fits_is_taken(tmp_path: Path):
    async with small(tmp_path) as running:
        body = padded(2000)
        chunks = b"3e8\r\n" + body[:1000] + b"\r\n3e8\r\n" + body[1000:] + b"\r\n0\r\n\r\n"
        request = head(running.port, "Transfer-Encoding: chunked", "Connection: close") + chunks
        assert (await raw_exchange(running.port, request)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.row("E11")
async def test_a_body_that_is_shorter_than_it_says_is_not_waited_for(tmp_path: Path):
    async with small(tmp_path) as running:
        body = padded(1000)
        request = head(running.port, "Content-Length: 1001") + body
        assert (await raw_exchange(running.port, request, 5)).startswith(b"HTTP/1.1 408 ")


@pytest.mark.row("E11")
async def test_a_body_that_is_longer_than_it_says_is_answered_once(tmp_path: Path):
    async with small(tmp_path) as running:
        body = padded(1000)
        request = head(running.port, "Content-Length: 1000") + body + b"and more that is no request\r\n\r\n"
        answer = await raw_exchange(running.port, request, 5)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b'"protocolVersion"') == 1
        assert b"HTTP/1.1 400 " in answer


LIES = {
    "two lengths": ("Content-Length: 5", "Content-Length: 6"),
    "a negative length": ("Content-Length: -1",),
    "no number": ("Content-Length: five",),
    "a length and chunks": ("Content-Length: 5", "Transfer-Encoding: gzip"),
}


@pytest.mark.row("E11")
@pytest.mark.parametrize("case", LIES)
async def test_a_length_that_can_not_be_is_no_http(tmp_path: Path, case: str):
    async with small(tmp_path) as running:
        answer = await raw_exchange(running.port, head(running.port, *LIES[case]) + b"12345", 5)
        assert answer.split()[1] in (b"400", b"501")


@pytest.mark.row("E11")
async def test_a_body_that_comes_too_slowly_is_not_waited_for(tmp_path: Path):
    async with small(tmp_path) as running:
        answer = await drip(running.port, head(running.port, "Content-Length: 1000") + padded(1000))
        assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.row("E11")
async def test_a_head_that_comes_too_slowly_is_not_waited_for(tmp_path: Path):
    async with small(tmp_path) as running:
        assert (await drip(running.port, head(running.port))).startswith(b"HTTP/1.1 408 ")


@pytest.mark.row("E11")
async def test_the_next_head_on_a_connection_is_not_waited_for_either(tmp_path: Path):
    async with small(tmp_path) as running:
        first = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n\r\n".encode()
        answer = await raw_exchange(running.port, first + first[:20], 5)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in answer


@pytest.mark.row("E11")
async def test_a_connection_that_says_nothing_is_closed(tmp_path: Path):
    async with small(tmp_path) as running:
        assert (await raw_exchange(running.port, b"", 5)).startswith(b"HTTP/1.1 408 ")


@pytest.mark.row("E11")
async def test_a_connection_without_a_next_request_is_closed_silently(tmp_path: Path):
    limits = Limits(http_keep_alive_seconds=0.3)
    async with small(tmp_path, limits) as running:
        request = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n\r\n".encode()
        answer = await raw_exchange(running.port, request, 5)
        assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.row("E11")
async def test_a_head_that_never_ends_is_refused(tmp_path: Path):
    async with small(tmp_path) as running:
        request = head(running.port)[:-2] + b"X-Filler: " + b"x" * 200_000
        assert (await raw_exchange(running.port, request, 5)).startswith(b"HTTP/1.1 431 ")


@pytest.mark.row("E11")
@pytest.mark.parametrize("filler", ["x", " "])
async def test_a_head_of_the_size_that_is_allowed_is_taken_and_one_byte_more_is_not(tmp_path: Path, filler: str):
    async with small(tmp_path) as running:
        for size, status in ((SMALL.http_head_bytes, 405), (SMALL.http_head_bytes + 1, 431), (70_000, 431)):
            lines = ("Content-Length: 0", "Connection: close")
            free = size - len(head(running.port, *lines, "X-Filler: .", path="/healthz"))
            request = head(running.port, *lines, f"X-Filler: {filler * free}.", path="/healthz")
            assert len(request) == size
            answer = await raw_exchange(running.port, request)
            assert answer.startswith(b"HTTP/1.1 %d " % status), answer


@pytest.mark.row("E11")
async def test_who_sends_far_too_much_still_reads_why_it_is_refused(tmp_path: Path):
    async with small(tmp_path) as running:
        request = head(running.port, f"Content-Length: {8_000_000}") + b" " * 8_000_000
        assert (await raw_exchange(running.port, request, 5)).startswith(b"HTTP/1.1 413 ")


@pytest.mark.row("E11", "E17")
async def test_beyond_the_most_connections_the_oldest_without_a_token_makes_way(tmp_path: Path):
    async with (
        small(tmp_path, Limits(http_connections=8)) as running,
        running.client() as http,
        contextlib.AsyncExitStack() as stack,
    ):
        client = await Handshake.begin(http)
        idle = [await stack.enter_async_context(connection(running.port)) for _ in range(7)]
        for reader, _ in idle:
            await stack.enter_async_context(connection(running.port))
            assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 503 ")
        assert "result" in await client.request("tools/list")


@pytest.mark.row("E11")
async def test_where_all_connections_have_a_token_others_are_refused_and_those_there_are_go_on(tmp_path: Path):
    async with small(tmp_path, Limits(http_connections=3)) as running, contextlib.AsyncExitStack() as stack:
        clients = [await Handshake.begin(await stack.enter_async_context(running.client(ALICE))) for _ in range(3)]
        refused = [await raw_exchange(running.port, b"", 5) for _ in range(10)]
        assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in refused)
        for client in clients:
            assert "result" in await client.request("tools/list")


@pytest.mark.row("E17")
async def test_a_request_with_a_token_that_is_there_already_is_read_before_a_burst_of_connections(tmp_path: Path):
    message = modern("tools/list")
    async with small(tmp_path, Limits(http_connections=16)) as running, contextlib.AsyncExitStack() as stack:
        client = stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        client.sendall(raw_modern(running.port, message, "/mcp"))
        for _ in range(64):  # all are there before the workbench accepts the first one
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        reader, writer = await asyncio.open_connection(sock=client)
        stack.callback(writer.transport.abort)
        assert (await asyncio.wait_for(reader.readline(), 5)).split()[1] == b"200"


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_being_accepted_when_all_ends_is_closed(tmp_path: Path, turns: int):
    async with small(tmp_path) as running:
        client = socket.create_connection(("127.0.0.1", running.port))
        client.settimeout(0)  # asyncio wants it so
        for _ in range(turns):
            await asyncio.sleep(0)
    gc.collect()  # pytest reports a socket that nobody closed
    with client, contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 5) == b""


@contextlib.asynccontextmanager
async def silent_crowd(port: int) -> AsyncIterator[Callable[[], int]]:
    """Clients that say nothing and come again as soon as they are closed; how often they came."""
    over = False
    came = 0
    there: set[asyncio.StreamWriter] = set()

    async def come_again() -> None:
        nonlocal came
        while not over:
            async with connection(port) as (reader, writer):
                came += 1
                there.add(writer)
                with contextlib.suppress(OSError):
                    if not over:
                        await reader.read()
                there.discard(writer)

    clients = [asyncio.ensure_future(come_again()) for _ in range(CROWD)]
    try:
        yield lambda: came
    finally:
        over = True
        for writer in there:
            writer.transport.abort()
        await asyncio.wait(clients)  # a task that is cancelled while it connects would leave its socket open
    for client in clients:
        client.result()


@pytest.mark.row("E17")
async def test_a_crowd_without_a_token_keeps_no_client_out_that_has_one(tmp_path: Path):
    limits = Limits(http_connections=CROWD // 2, http_ending_seconds=0.2)
    async with small(tmp_path, limits) as running, silent_crowd(running.port) as came:
        await wait_until(lambda: came() >= CROWD, what="the crowd")
        asked = 0
        while asked < 30 or came() <= 2 * CROWD:
            async with running.client() as http:
                answer = await post_modern(http, modern("tools/list"))
                assert answer.status_code == 200
            asked += 1


THOUSAND = 1000
CROWD = 256


@pytest.fixture
def many_files() -> Iterator[None]:
    """Enough for both ends of all connections, which are in this process."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * THOUSAND
    if before < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if most < 0 else min(wanted, most), most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@pytest.mark.row("E11")
@pytest.mark.usefixtures("many_files")
async def test_a_thousand_connections_that_say_nothing_keep_nobody_from_being_served(tmp_path: Path):
    limits = Limits(http_head_seconds=3.0, http_ending_seconds=0.2)
    async with (
        small(tmp_path, limits) as running,
        running.client() as http,
        contextlib.AsyncExitStack() as stack,
    ):
        client = await Handshake.begin(http)
        began = time.monotonic()
        many = [await stack.enter_async_context(connection(running.port)) for _ in range(THOUSAND)]
        at_once = time.monotonic() - began < limits.http_head_seconds
        began = time.monotonic()
        assert "result" in await client.request("tools/list")
        assert time.monotonic() - began < 1
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*(reader.read(-1) for reader, _ in many))
        refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]
        late = [answer for answer in answers if answer.startswith(b"HTTP/1.1 408 ")]
        assert len(refused) + len(late) == THOUSAND
        assert len(late) <= limits.http_connections or not at_once
        await wait_until(lambda: len(running.connections) == 1, what="the end of the others")
        assert "result" in await client.request("tools/list")


NO_HTTP = {
    "nonsense": b"what is this\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\x00" * 64,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another method": b"BREW /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an upgrade": b"GET /mcp HTTP/1.1\r\nHost: evil\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a folded header": b"GET /mcp HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
    "a NUL": b"GET /mcp\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("case", NO_HTTP)
async def test_what_is_no_http_harms_nobody(tmp_path: Path, case: str):
    async with small(tmp_path, Limits(http_keep_alive_seconds=0.3)) as running, running.client() as http:
        answer = await raw_exchange(running.port, NO_HTTP[case], 5)
        assert answer == b"" or answer.split()[1] in (b"400", b"421", b"501")
        assert (await http.get("/healthz")).status_code == 200


BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a number": b"7",
    "an array": b"[]",
    "deep": b"[" * 100_000,
    "deep in an object": b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + b'{"a":' * 50_000,
    "a large number": b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    "no method": b'{"jsonrpc":"2.0","id":1}',
    "another version": b'{"jsonrpc":"1.0","id":1,"method":"initialize"}',
    "an id that is none": b'{"jsonrpc":"2.0","id":{},"method":"initialize"}',
}


@pytest.mark.parametrize("era", ["handshake", "modern"])
@pytest.mark.parametrize("case", BODIES)
async def test_what_is_no_message_is_refused_and_harms_nobody(tmp_path: Path, case: str, era: str):
    limits = Limits()
    headers = {"content-type": "application/json"}
    if era == "modern":
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "initialize"}
    async with small(tmp_path, limits) as running, running.client() as http:
        answer = await http.post("/mcp", content=BODIES[case], headers=headers)
        assert answer.status_code == 400, answer.text
        assert "error" in answer_in(answer)
        await Handshake.begin(http)


FORGED = {
    "cookie": "forged-cookie=forged",
    "mcp-session-id": "forged-session",
    "x-forwarded-for": "forged-address",
    "x-forwarded-host": "forged-host",
    "forwarded": "for=forged",
    "proxy-authorization": "Bearer forged",
    "x-api-key": "forged-key",
    "traceparent": "00-forged-01",
}


@pytest.mark.row("E8")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/dev", "/mcp/dev/fs"])
async def test_nothing_of_a_callers_headers_reaches_a_server(tmp_path: Path, path: str):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"fs": rogue("dump_env", log=log)}})
    async with served(config) as running, running.client() as http:
        params = use("echo") if path == "/mcp" else {"name": "echo", "arguments": {}}
        message = modern("tools/call", params)
        answer = await http.post(path, json=message, headers=FORGED | modern_headers(message))
        assert answer.status_code == 200
        client = await Handshake.begin(http, path)
        forged = {name: value for name, value in FORGED.items() if name != "mcp-session-id"}
        second = await client.post(rpc("tools/call", params), **forged)
        everything = json.dumps(read_log(log)) + answer.text + second.text
        assert len(starts(log)) == 2
        for secret in (ALICE, client.session, "forged"):
            assert secret not in everything


@pytest.mark.row("E8", "E9")
async def test_a_token_is_in_no_log_line_and_no_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    from mcp_workbench import logger  # noqa: PLC0415 -- its level is put back below

    logger.log.set_level("debug")
    try:
        async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
            logger.log.redact.hide([ALICE])
            answers = [
                (await post_modern(http, modern("tools/list"))).text,
                (await http.post("/mcp/nothing", json=modern(f"x/{ALICE}"))).text,
                (await http.get(f"/mcp/{ALICE}")).text,
            ]
            assert ALICE not in answers[0]
    finally:
        logger.log.set_level("warning")
    said = capfd.readouterr().err
    assert "path=/mcp" in said
    assert ALICE not in said
