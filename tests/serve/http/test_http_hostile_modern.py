"""Modern clients that are many, slow, or gone: what they share and hold is bounded, and ends."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mcp_workbench import Limits
from mcp_workbench.serve.http.modern_endpoint import OpenModernRequest
from tests.serve.http.serving import (
    Served,
    modern,
    post_modern,
    raw_modern,
    served,
    use,
)
from tests.support.configs import received, rogue, starts, write_config
from tests.support.procs import is_alive, wait_until
from tests.support.wire import Json

SETS = Limits().places


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def called(number: int) -> Json:
    """A call by a client that declares what no other does."""
    return modern("tools/call", use("echo"), capabilities={"experimental": {f"of-{number}": {}}})


async def test_clients_that_declare_ever_new_capabilities_do_not_lock_others_out_for_good(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})
    async with served(config, limits=Limits(http_idle_seconds=1.0)) as running, running.client() as http:
        for number in range(SETS):
            assert "isError" not in (await post_modern(http, called(number))).json()["result"]
        refused = await post_modern(http, called(SETS))
        assert refused.json()["result"]["isError"] is True
        assert len(starts(log)) == SETS
        await wait_until(lambda: not any(is_alive(pid) for pid in starts(log)), 10, what="the end of idle servers")
        assert "isError" not in (await post_modern(http, called(SETS))).json()["result"]


async def test_what_a_modern_client_waits_for_is_not_idle(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config, limits=Limits(http_idle_seconds=0.3)) as running, running.client() as http:
        await post_modern(http, modern("tools/list"), "/mcp/dev/fs")
        call = asyncio.ensure_future(post_modern(http, modern("tools/call", {"name": "hang"}), "/mcp/dev/fs"))
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        done, _ = await asyncio.wait((call,), timeout=1.5)
        assert not done
        assert [is_alive(pid) for pid in starts(log)] == [True]
        await post_modern(http, modern("tools/call", {"name": "echo"}), "/mcp/dev/fs")
        assert (await call).json()["result"]["content"][0]["text"] == "late"
        assert len(starts(log)) == 1
        await wait_until(lambda: not is_alive(starts(log)[0]), what="the end of the server")


async def send(running: Served, message: Json, path: str) -> asyncio.StreamWriter:
    """Make a request, and read nothing of the answer."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.settimeout(0)
    await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", running.port))
    reader, writer = await asyncio.open_connection(sock=opened, limit=1024)
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(raw_modern(running.port, message, path))
    await writer.drain()
    return writer


@pytest.mark.row("E11")
async def test_what_waits_for_a_modern_client_that_reads_nothing_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    waiting: dict[OpenModernRequest, list[int]] = {}
    notify = OpenModernRequest.notify

    def noted(line: OpenModernRequest, *arguments: object) -> None:
        notify(line, *arguments)  # type: ignore[arg-type]
        waiting.setdefault(line, []).append(line._stream.unread)

    monkeypatch.setattr(OpenModernRequest, "notify", noted)
    limits = Limits(http_notice_bytes=50_000)
    config = write_config(tmp_path, {"dev": {"fs": rogue("progress", 10_000_000)}})
    async with served(config, limits=limits, send_buffer=4096) as running, running.client() as http:
        params = {"name": "echo", "arguments": {"gap": 0}, "_meta": {"progressToken": "t"}}
        writer = await send(running, modern("tools/call", params), "/mcp/dev/fs")

        def is_full() -> bool:
            sizes = next(iter(waiting.values()), [])
            return len(sizes) > 1000 and len(set(sizes[-1000:])) == 1

        await wait_until(is_full, 40, what="a stream that takes no more")
        assert max(max(sizes) for sizes in waiting.values()) < 2 * limits.http_notice_bytes
        assert (await http.get("/healthz")).status_code == 200
        writer.close()
