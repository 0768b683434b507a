"""Connections that are used in a way that no client of MCP would: what they cost is theirs alone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from pathlib import Path

import pytest

from mcp_workbench import Limits, logger
from mcp_workbench.command_errors import ListenFailed
from mcp_workbench.serve.http import listener
from mcp_workbench.serve.http.address import Address
from mcp_workbench.serve.http.connection import HTTP_READ_BYTES, ClientConnection, ConnectionLimiter
from tests.serve.http.serving import SECONDS, modern, raw_exchange, raw_modern, rpc, served
from tests.support.configs import received, rogue, write_config
from tests.support.procs import wait_until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def config(tmp_path: Path, log: Path) -> Path:
    return write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})


CALL = modern("tools/call", {"name": "hang"}, id_=3)
"""It is not answered."""


@pytest.mark.row("E14")
@pytest.mark.parametrize("behind", [b"GET /healthz HTTP/1.1\r\n", b"x" * 300_000], ids=["a request", "anything"])
async def test_a_hang_up_is_seen_also_where_more_was_sent_behind_the_request(config: Path, log: Path, behind: bytes):
    async with served(config) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(raw_modern(running.port, CALL, "/mcp/dev/fs"))
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        writer.write(behind)
        writer.transport.abort() if len(behind) > writer.transport.get_write_buffer_size() else writer.close()
        await wait_until(lambda: received(log, "notifications/cancelled"), what="the cancellation")


async def test_a_request_behind_another_is_answered_after_it(config: Path):
    async with served(config) as running:
        one = f"GET /healthz HTTP/1.1\r\nHost: localhost:{running.port}\r\n\r\n".encode()
        last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        answers = await raw_exchange(running.port, one + one + last)
        assert answers.count(b"HTTP/1.1 200 ") == 3


async def test_posts_behind_one_another_are_answered_in_turn_until_one_closes_the_connection(config: Path):
    async with served(config) as running:
        first, second, last = (raw_modern(running.port, modern("tools/list", id_=id_), "/mcp") for id_ in (1, 2, 3))
        last = last.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
        answers = (await raw_exchange(running.port, first + second + last + first)).split(b"HTTP/1.1 200 ")[1:]
        assert [b'"id":%d,' % (n + 1) in answer for n, answer in enumerate(answers)] == [True] * 3
        assert [b"\r\nconnection: close" in answer.lower() for answer in answers] == [False, False, True]


async def test_a_client_of_http_1_0_is_answered_and_its_connection_closed(config: Path):
    async with served(config) as running:
        request = raw_modern(running.port, modern("tools/list"), "/mcp").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        answer = await raw_exchange(running.port, request)
        assert b"\r\nconnection: close" in answer.lower()
        assert b'"result"' in answer


async def test_the_rest_of_a_request_that_began_behind_another_may_come_later(config: Path):
    async with served(config) as running:
        one = raw_modern(running.port, modern("tools/list"), "/mcp")
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(one + one[:20])
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(one[20:])
        async with asyncio.timeout(SECONDS):
            assert (await reader.readuntil(b"HTTP/1.1 200 ")).endswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_no_more_is_read_at_a_time_than_is_taken_apart_quickly(config: Path, monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []
    take = ClientConnection.data_received

    def noted(self: ClientConnection, data: bytes) -> None:
        sizes.append(len(data))
        take(self, data)

    monkeypatch.setattr(ClientConnection, "data_received", noted)
    async with served(config) as running, running.client() as http:
        await http.post("/mcp", json=rpc("initialize", {"padding": "x" * 500_000}))
    assert max(sizes) == HTTP_READ_BYTES


def test_those_who_come_when_there_are_too_many_are_counted_and_told_in_one_line_a_second(
    monkeypatch: pytest.MonkeyPatch,
):
    told: list[object] = []
    monkeypatch.setattr(logger, "warning", lambda _message, **values: told.append(values["refused"]))
    limiter = ConnectionLimiter()
    for hundredths in range(250):
        limiter.refused(100, hundredths / 100)
    assert told == [1, 100, 100]


async def test_of_those_that_are_far_too_many_not_even_a_refusal_is_kept(config: Path):
    async with served(config, limits=Limits(http_connections=2, http_ending_seconds=60.0)) as running:
        waiting = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(4)]
        await wait_until(lambda: len(running.connections) >= 4, what="as many as are kept")
        last = await asyncio.open_connection("127.0.0.1", running.port)
        reader, _ = waiting[2]  # it has no token for longest, and the two before it were told so
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert len(running.connections) == 4
        for _, one in [*waiting, last]:
            one.transport.abort()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/healthz", b"200"),
        ("http://localhost:{port}/healthz", b"200"),
        ("x/healthz", b"401"),
        ("https://localhost/healthz", b"401"),
        ("http:/healthz", b"401"),
        ("healthz", b"401"),
    ],
)
async def test_a_target_is_a_path_or_as_clients_write_it_for_a_proxy(config: Path, target: str, status: bytes):
    async with served(config) as running:
        line = f"GET {target.format(port=running.port)} HTTP/1.1"
        request = f"{line}\r\nHost: localhost:{running.port}\r\nConnection: close\r\n\r\n"
        assert (await raw_exchange(running.port, request.encode())).startswith(b"HTTP/1.1 " + status)


def test_a_host_that_is_not_known_is_told_as_that(monkeypatch: pytest.MonkeyPatch):
    def create_server(*_: object, **__: object) -> socket.socket:
        raise OSError(socket.EAI_NONAME, "nodename nor servname provided")

    monkeypatch.setattr(socket, "create_server", create_server)
    with pytest.raises(ListenFailed, match="host is unknown") as caught:
        listener.listen(Address("nowhere.invalid", 80))
    assert "port" not in caught.value.hint


def test_what_nobody_caught_while_a_request_was_answered_is_told(monkeypatch: pytest.MonkeyPatch):
    told: list[object] = []
    monkeypatch.setattr(logger, "error", lambda _message, **values: told.append(values["said"]))
    root, server = logging.getLogger(), logging.getLogger("uvicorn.error")
    before = (root.handlers[:], root.level, server.level)
    try:
        listener._redirect_library_logs()
        server.error("Exception in ASGI application")
        server.warning("something of no interest")
        logging.getLogger("mcp").error("something of a library")
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        server.setLevel(before[2])
    assert told == ["Exception in ASGI application"]
