"""What a configuration says of one server's limits holds for that server, in truth, and for no other."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.server_info import View
from tests.faults.outcomes import code_of, told
from tests.fuzz.clock import run
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.lag import elapsed
from tests.support.library import handle_of, workbench
from tests.support.memory import MemoryServer
from tests.support.memory import serving as memory_serving
from tests.support.near import near
from tests.support.pairs import whole
from tests.support.procs import is_alive, needs_proc, wait_until
from tests.support.wire import Wire, error_of, heard, serving, text_of


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


async def timed(wire: Wire, server: str, name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], float]:
    since = time.monotonic()
    return await wire.use("dev", server, name, arguments), elapsed(since)


# -- times


async def test_each_server_has_its_own_call_timeout_and_the_error_says_how_to_change_it(tmp_path: Path):
    boxes = {"dev": {"short": rogue("never", callTimeout=0.5), "long": rogue("never")}}
    async with serving(write_config(tmp_path, boxes, callTimeout=1.5)) as wire:
        await wire.open("dev")
        (short, soon), (long, late) = await asyncio.gather(*(timed(wire, name, "hang", {}) for name in boxes["dev"]))
        assert (code_of(short), code_of(long)) == ("call_timeout", "call_timeout")
        assert 0.45 <= soon < 1.4
        assert 1.4 <= late < 3
        assert "callTimeout" in error_of(short)


async def test_each_server_has_its_own_longest_call_and_the_error_says_how_to_change_it(tmp_path: Path):
    boxes = {"dev": {"short": rogue("progress", 20, maxCallTime=0.5), "long": rogue("progress", 20)}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        await wire.open("dev")
        (short, soon), (long, _) = await asyncio.gather(
            *(timed(wire, name, "echo", {"gap": 0.06}) for name in boxes["dev"])
        )
        assert code_of(short) == "call_timeout"
        assert 0.45 <= soon < 1.2
        assert "maxCallTime" in error_of(short)
        assert heard(long)


async def test_each_server_has_its_own_startup_timeout_and_the_error_says_how_to_change_it(tmp_path: Path):
    boxes = {"dev": {"hangs": rogue("hang_init", startupTimeout=0.5), "slow": rogue("slow_start", 1.0)}}
    async with serving(write_config(tmp_path, boxes, startupTimeout=20)) as wire:
        (hangs, soon), (slow, late) = await asyncio.gather(*(timed(wire, name, "echo", {}) for name in boxes["dev"]))
        assert code_of(hangs) == "startup_timeout"
        assert soon < 2
        assert "startupTimeout" in error_of(hangs)
        assert heard(slow)
        assert late >= 1.0


# -- sizes and numbers


async def test_each_server_has_its_own_largest_message(tmp_path: Path):
    boxes = {"dev": {"small": rogue("bigline", maxMessageSize=100_000), "large": rogue("bigline")}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        small = await wire.use("dev", "small", "echo", {"bytes": 200_000})
        assert code_of(small) == "message_too_large"
        assert "maxMessageSize" in error_of(small)
        assert len(text_of(await wire.use("dev", "large", "echo", {"bytes": 200_000}))) > 190_000


async def test_a_message_may_be_larger_than_usual_where_that_is_configured(tmp_path: Path):
    boxes = {"dev": {"huge": rogue("bigline", maxMessageSize=20_000_000)}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert len(text_of(await wire.use("dev", "huge", "echo", {"bytes": 12_000_000}))) > 11_000_000


async def test_each_server_gets_as_many_calls_at_once_as_is_configured(tmp_path: Path):
    boxes = {"dev": {"few": rogue("crowd", maxConcurrent=2), "many": rogue("crowd")}}
    async with serving(write_config(tmp_path, boxes, maxConcurrent=16)) as wire:
        await wire.open("dev")
        calls = [wire.use("dev", server, "echo") for server in boxes["dev"] for _ in range(60)]
        most = [int(text_of(result)) for result in await asyncio.gather(*calls)]
        assert max(most[:60]) == 2
        assert 2 < max(most[60:]) <= 16


# -- too many calls


async def test_calls_beyond_the_queue_are_refused_at_once_and_told_when_to_try_again(tmp_path: Path, log: Path):
    boxes = {"dev": {"fs": rogue("never", log=log, maxConcurrent=2)}}
    limits = {"queued": 3, "call_idle_timeout_seconds": 0.5, "drain_seconds": 0.0}
    async with workbench(tmp_path, boxes, **limits) as wb, near(wb, View(), "handshake", {}) as wire:
        await wire.open("dev")
        results = await asyncio.gather(*(timed(wire, "fs", "hang", {}) for _ in range(10)))
        refused = [(told(result), seconds) for result, seconds in results if code_of(result) == "overloaded"]
        assert len(refused) == 5
        assert all(one["retry_after"] == 5 and seconds < 2 for one, seconds in refused)
        assert [code_of(result) for result, _ in results].count("call_timeout") == 5
        assert len(received(log, "tools/call")) == 5
        [text] = {error_of(result) for result, _ in results if code_of(result) == "overloaded"}
        assert "maxConcurrent" in text


async def test_a_call_that_waited_long_for_its_turn_is_told_when_to_try_again(tmp_path: Path, log: Path):
    boxes = {"dev": {"fs": rogue("never", log=log, maxConcurrent=1), "good": rogue()}}
    limits = {"queue_wait_seconds": 0.3, "drain_seconds": 0.0}
    async with workbench(tmp_path, boxes, **limits) as wb, near(wb, View(), "handshake", {}) as wire:
        await wire.open("dev")
        first = asyncio.ensure_future(wire.use("dev", "fs", "hang"))
        await wait_until(lambda: received(log, "tools/call"), what="the first call")
        result, seconds = await timed(wire, "fs", "echo", {})
        assert told(result)["code"] == "overloaded"
        assert told(result)["retry_after"] == 5
        assert 0.25 <= seconds < 2
        assert heard(await wire.use("dev", "good", "echo"))
        assert len(received(log, "tools/call")) == 1
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


# -- servers that nobody uses


def is_stopped(pid: int) -> bool:
    return not is_alive(pid)


@needs_proc
async def test_a_server_that_nobody_uses_is_stopped_where_that_is_configured_and_started_when_needed(
    tmp_path: Path, log: Path
):
    boxes = {"dev": {"idle": rogue(log=log, idleTimeout=0.5), "kept": rogue()}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        await wire.open("dev")
        kept = heard(await wire.use("dev", "kept", "echo"))["pid"]
        for _ in range(2):
            since = time.monotonic()
            pid = heard(await wire.use("dev", "idle", "echo"))["pid"]
            await wait_until(lambda: is_stopped(pid), what="the end of the server")  # noqa: B023
            assert elapsed(since) >= 0.45
        assert heard(await wire.use("dev", "kept", "echo"))["pid"] == kept
        assert len(set(starts(log))) == 2
        since = time.monotonic()
        assert heard(await wire.use("dev", "idle", "echo"))
        assert elapsed(since) < 0.8  # to be stopped is no failure, so there is no pause
        assert "warning" not in wire.stderr


@needs_proc
async def test_use_keeps_a_server_from_being_stopped(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(log=log, idleTimeout=0.7)}})) as wire:
        since = time.monotonic()
        pids = set()
        while elapsed(since) < 1.5:
            pids.add(heard(await wire.use("dev", "fs", "echo"))["pid"])
            await asyncio.sleep(0.1)
        assert len(pids) == 1


@needs_proc
async def test_a_server_is_not_stopped_while_a_call_is_under_way(tmp_path: Path, log: Path):
    boxes = {"dev": {"busy": rogue("progress", 1, log=log, idleTimeout=0.3)}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert heard(await wire.use("dev", "busy", "echo", {"gap": 1.2}))
        [pid] = starts(log)
        await wait_until(lambda: is_stopped(pid), what="the end of the server")


@needs_proc
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_server_is_not_stopped_while_a_client_watches_something_of_it(tmp_path: Path, era: Any):
    server = whole(era, "s") | {"idleTimeout": 0.4}
    async with workbench(tmp_path, {"dev": {"s": server}}) as wb, near(wb, View("dev"), "handshake", {}) as wire:
        uri = "test://s/a"
        assert "result" in await wire.request("resources/subscribe", {"uri": uri})
        [router] = wb.routers()
        supervisor = router.pool.handle(ServerIdentifier("dev", "s")).supervisor
        watched = supervisor.current
        assert watched is not None
        since = time.monotonic()
        await wait_until(lambda: elapsed(since) > 1.2 or supervisor.current is not watched)
        assert supervisor.current is watched
        assert "result" in await wire.request("resources/unsubscribe", {"uri": uri})
        await wait_until(lambda: supervisor.current is None, what="the end of the server")
        assert supervisor.state == "idle"


@needs_proc
async def test_a_server_is_not_stopped_while_a_client_thinks_about_what_it_asked(tmp_path: Path, log: Path):
    boxes = {"dev": {"asks": rogue("asks_later", log=log, idleTimeout=0.3)}}
    async with workbench(tmp_path, boxes) as wb, near(wb, View(), "handshake", {"elicitation": {}}) as wire:
        pid = heard(await wire.use("dev", "asks", "echo"))["pid"]
        await wire.wait_for(lambda: wire.asked, "the question")
        since = time.monotonic()
        await wait_until(lambda: elapsed(since) > 1 or is_stopped(pid))
        assert not is_stopped(pid)
        await wire.send({"jsonrpc": "2.0", "id": wire.asked[0]["id"], "result": {"action": "accept", "content": {}}})
        await wait_until(lambda: is_stopped(pid), what="the end of the server")
        assert [one["message"]["result"]["action"] for one in read_log(log) if "result" in one.get("message", {})] == [
            "accept"
        ]


def test_whoever_opens_its_toolbox_uses_a_server():
    """On a clock that does not wait."""
    server = MemoryServer()

    async def open_and_open() -> None:
        async with memory_serving({"dev": {"s": server}}, idle_timeout_seconds=60) as wb:
            for _ in range(10):
                await wb.open("dev")
                await asyncio.sleep(40)
            assert server.starts == 1
            await asyncio.sleep(40)
            assert handle_of(wb, "dev", "s").supervisor.current is None

    run(open_and_open())


def test_what_a_server_says_of_its_list_is_no_use_of_it():
    """However often it says so, and however long each new listing takes; on a clock that does not wait."""
    server = MemoryServer()

    async def list_slowly(_params: object) -> object:
        await asyncio.sleep(1.9)
        return {"tools": []}

    server.methods["tools/list"] = list_slowly

    async def stopped_after() -> float:
        async with memory_serving({"dev": {"s": server}}, idle_timeout_seconds=60, relist_interval_seconds=2) as wb:
            loop = asyncio.get_running_loop()
            await wb.open("dev")
            since, supervisor = loop.time(), handle_of(wb, "dev", "s").supervisor
            while supervisor.current is not None:
                server.say("notifications/tools/list_changed")
                await asyncio.sleep(0.1)
            return loop.time() - since

    assert run(asyncio.wait_for(stopped_after(), 600)) <= 60 + 2 + 0.5
    assert len(server.asked("tools/list")) > 25
    assert server.starts == 1
