"""Rows A1, A7, A8, A11, A13 and A14: calls whose server dies, is silent, talks without end or does not listen."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.errors import CallTimeout, MessageTooLarge, ServerExited, Unresponsive
from mcp_workbench.surfaces.server_info import View
from tests.faults.outcomes import MIB, code_of, echoed, peak_memory, peer_of, told
from tests.peers.rogue_stdio import STDERR_TEXT
from tests.support.configs import received, rogue, starts, write_config
from tests.support.lag import LagProbe, elapsed
from tests.support.library import fault_of, handle_of, tool, use_with_progress, workbench
from tests.support.near import near
from tests.support.procs import census, is_alive, needs_proc, new_marker, wait_until
from tests.support.wire import error_of, heard, result_of, serving, text_of, use_params

CANARY = "canary-0815-4711"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


# -- A1: it crashes


CRASHES: dict[str, dict[str, Any]] = {
    "status 3": {},
    "SIGSEGV": {"signal": signal.SIGSEGV},
    "SIGKILL": {"signal": signal.SIGKILL},
}


@pytest.mark.row("A1")
async def test_a1_a_crash_fails_its_call_at_once_and_the_next_call_restarts_the_server(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"bad": rogue("crash"), "good": rogue()}})) as wire:
        await wire.open("dev")
        neighbour = heard(await wire.use("dev", "good", "echo"))["pid"]
        for said, how in CRASHES.items():
            before = heard(await wire.use("dev", "bad", "echo"))["pid"]
            since = time.monotonic()
            crash, meanwhile = await asyncio.gather(
                wire.use("dev", "bad", "crash", how), wire.use("dev", "good", "echo", {"n": said})
            )
            assert elapsed(since) < 1
            assert told(crash) == {"code": "server_exited", "toolbox": "dev", "server": "bad", "tool": "crash"}
            assert said in error_of(crash)
            assert STDERR_TEXT in error_of(crash)
            assert heard(meanwhile)["arguments"] == {"n": said}
            assert heard(await wire.use("dev", "good", "echo"))["pid"] == neighbour
            assert heard(await wire.use("dev", "bad", "echo"))["pid"] != before


@pytest.mark.row("A1")
async def test_a1_of_a_crashed_servers_last_words_two_kibibytes_are_shown_and_no_secret(tmp_path: Path):
    boxes = {"dev": {"bad": rogue("crash", env={"TOKEN": CANARY})}}
    words = "first\n" + f"a line of some length with {CANARY} in it\n" * 1000 + "last"
    async with serving(write_config(tmp_path, boxes)) as wire:
        await wire.open("dev")
        text = error_of(await wire.use("dev", "bad", "crash", {"words": words}))
        tail = text.partition("its last words:\n")[2]
        assert "last" in tail.splitlines()
        assert "first" not in text
        assert "a line of some length with *** in it" in tail
        assert 1500 < len(tail.encode()) <= 2048 + 200  # and a hint of our own
        assert CANARY not in text + wire.stderr


@pytest.mark.row("A1")
async def test_a1_every_call_under_way_fails_when_its_server_crashes(tmp_path: Path, log: Path):
    async with workbench(tmp_path, {"dev": {"bad": rogue("never", log=log)}}) as wb:
        calls = [asyncio.ensure_future(fault_of(wb.use(tool("bad", "hang"), {}))) for _ in range(5)]
        await wait_until(lambda: len(received(log, "tools/call")) == 5, what="five calls")
        since = time.monotonic()
        os.kill(starts(log)[0], signal.SIGKILL)
        faults = await asyncio.gather(*calls)
        assert elapsed(since) < 1
        assert {type(fault) for fault in faults} == {ServerExited}
        assert all("SIGKILL" in str(fault) for fault in faults)


# -- a call is delivered once, or not at all


@pytest.mark.row("A1")
async def test_a1_a_call_that_its_server_got_is_not_sent_to_the_next_one(tmp_path: Path, log: Path):
    async with workbench(tmp_path, {"dev": {"bad": rogue("crash", log=log)}}) as wb:
        assert isinstance(await fault_of(wb.use(tool("bad", "crash"), {})), ServerExited)
        assert await wb.use(tool("bad", "echo"), {})
        assert [call["params"]["name"] for call in received(log, "tools/call")] == ["crash", "echo"]
        assert len(set(starts(log))) == 2


@pytest.mark.row("A1", "A14")
async def test_a1_a_call_that_was_never_written_is_made_once_on_the_next_connection(tmp_path: Path, log: Path):
    """The first fills the pipe of a server that is stopped, so the others wait to be written; then it is killed."""
    async with workbench(tmp_path, {"dev": {"fs": rogue(log=log)}}, write_buffer_bytes=64 * 1024) as wb:
        pid = echoed(await wb.use(tool("fs", "echo"), {}))["pid"]
        os.kill(pid, signal.SIGSTOP)
        first = asyncio.ensure_future(fault_of(wb.use(tool("fs", "echo"), {"x": "y" * MIB})))
        await wait_until(lambda: peer_of(wb, "fs").congested, what="a full pipe")
        others = [asyncio.ensure_future(wb.use(tool("fs", "echo"), {"n": n})) for n in range(5)]
        await wait_until(lambda: len(peer_of(wb, "fs")._pending) == 6, what="five calls that wait")
        os.kill(pid, signal.SIGKILL)
        assert isinstance(await first, ServerExited)
        answers = [echoed(answer) for answer in await asyncio.wait_for(asyncio.gather(*others), 10)]
        assert [answer["arguments"] for answer in answers] == [{"n": n} for n in range(5)]
        assert pid not in {answer["pid"] for answer in answers}
        sent = [call["params"]["arguments"] for call in received(log, "tools/call")]
        assert sorted(one["n"] for one in sent if "n" in one) == [0, 1, 2, 3, 4]
        assert len(starts(log)) == 2


@pytest.mark.row("A1", "A19")
@needs_proc
async def test_a1_a_call_whose_server_asked_and_went_is_not_made_again_and_nobody_is_asked_twice(
    tmp_path: Path, log: Path
):
    """It has the call, though not the answer to what it asked."""
    boxes = {"dev": {"asks": rogue("modern_asks", "exits", log=log)}}
    async with workbench(tmp_path, boxes) as wb, near(wb, View(), "handshake", {"elicitation": {}}) as wire:
        call = await wire.begin("tools/call", {"name": "use_tool", "arguments": use_params("dev", "asks", "echo", {})})
        await wire.wait_for(lambda: wire.asked, "the question")
        await wait_until(lambda: not is_alive(starts(log)[0]), what="the end of the server")
        await wire.send({"jsonrpc": "2.0", "id": wire.asked[0]["id"], "result": {"action": "decline"}})
        assert code_of(result_of((await wire.finish(call))[0])) == "server_exited"
        assert len(received(log, "tools/call")) == len(starts(log)) == len(wire.asked) == 1


@pytest.mark.row("A1")
async def test_a1_a_call_that_comes_while_it_is_found_out_why_its_server_ended_is_made_on_the_next_one(
    tmp_path: Path, log: Path
):
    """What the server left behind holds its stderr, so its last words are waited for; nothing can be written to it."""
    async with workbench(tmp_path, {"dev": {"fs": rogue("orphans", log=log)}}, obituary_seconds=1.0) as wb:
        await wb.use(tool("fs", "leave"), {})
        writer = peer_of(wb, "fs")._writer
        await wait_until(lambda: writer.is_closed, what="the end of the server")
        assert echoed(await wb.use(tool("fs", "echo"), {"n": 1}))["arguments"] == {"n": 1}
        assert [call["params"]["name"] for call in received(log, "tools/call")] == ["leave", "echo"]
        assert len(starts(log)) == 2


# -- A7: it does not answer


@pytest.mark.row("A7")
async def test_a7_a_call_without_an_answer_ends_at_its_deadline_and_the_late_answer_is_counted_and_dropped(
    tmp_path: Path, log: Path
):
    async with workbench(tmp_path, {"dev": {"bad": rogue("never", log=log)}}, call_idle_timeout_seconds=1.0) as wb:
        await wb.open("dev")
        async with LagProbe() as lag:
            fault = await fault_of(wb.use(tool("bad", "hang"), {}))
            assert lag.is_on_time(1.0)
        assert isinstance(fault, CallTimeout)
        assert "callTimeout" in fault.hint
        await wait_until(lambda: received(log, "notifications/cancelled"), what="notifications/cancelled")
        [call] = received(log, "tools/call")
        assert received(log, "notifications/cancelled")[0]["params"]["requestId"] == call["id"]
        strays, nonce = peer_of(wb, "bad").strays, secrets.token_hex()
        assert echoed(await wb.use(tool("bad", "echo"), {"nonce": nonce}))["arguments"] == {"nonce": nonce}
        assert peer_of(wb, "bad").strays == strays + 1
        assert [call["id"] for call in received(log, "tools/call")].count(call["id"]) == 1
        assert len(starts(log)) == 1


@pytest.mark.row("A7")
async def test_a7_calls_without_an_answer_free_their_slots(tmp_path: Path):
    limits = {"call_idle_timeout_seconds": 0.3, "in_flight": 2, "queue_wait_seconds": 5.0}
    async with workbench(tmp_path, {"dev": {"bad": rogue("never")}}, **limits) as wb:
        await wb.open("dev")
        faults = await asyncio.gather(*(fault_of(wb.use(tool("bad", "hang"), {})) for _ in range(6)))
        assert {type(fault) for fault in faults} == {CallTimeout}
        assert await asyncio.wait_for(wb.use(tool("bad", "echo"), {}), 5)


@pytest.mark.row("A7")
async def test_a7_progress_keeps_a_call_alive_past_its_idle_deadline(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"busy": rogue("progress", 6)}}, call_idle_timeout_seconds=0.6) as wb:
        await wb.open("dev")
        since = time.monotonic()
        assert await use_with_progress(wb, tool("busy", "echo"), {"gap": 0.2})
        assert elapsed(since) > 0.6


ALIVE = {"call_idle_timeout_seconds": 0.5, "alive_seconds": 0.5, "stdin_eof_seconds": 0.2, "terminate_seconds": 0.2}


@pytest.mark.row("A7")
@needs_proc
@pytest.mark.parametrize("mode", ["ok", "modern"])
async def test_a7_a_server_that_says_nothing_at_all_is_replaced(tmp_path: Path, log: Path, mode: str):
    marker = new_marker()
    async with workbench(tmp_path, {"dev": {"fs": rogue(mode, log=log, env=marker), "good": rogue()}}, **ALIVE) as wb:
        await wb.open("dev")
        [stopped] = starts(log)
        os.kill(stopped, signal.SIGSTOP)
        fault = await fault_of(wb.use(tool("fs", "echo"), {"n": 1}))
        assert isinstance(fault, CallTimeout | Unresponsive)
        await wait_until(lambda: stopped not in {one.pid for one in census(marker)}, what="the end of the server")
        assert await wb.use(tool("fs", "echo"), {"n": 2})
        assert starts(log)[0] == stopped
        assert len(starts(log)) == 2
        assert [call["params"]["arguments"] for call in received(log, "tools/call")] == [{"n": 2}]


@pytest.mark.row("A7")
async def test_a7_what_else_waits_for_a_server_that_says_nothing_is_told_so(tmp_path: Path, log: Path):
    """Calls that came later do not wait for a deadline of their own."""
    limits = ALIVE | {"call_idle_timeout_seconds": 1.5, "alive_seconds": 0.3}
    async with workbench(tmp_path, {"dev": {"fs": rogue(log=log)}}, **limits) as wb:
        await wb.open("dev")
        os.kill(starts(log)[0], signal.SIGSTOP)
        first = asyncio.ensure_future(fault_of(wb.use(tool("fs", "echo"), {})))
        await asyncio.wait({first}, timeout=1.2)  # the other comes within its wait
        second = asyncio.ensure_future(fault_of(wb.use(tool("fs", "echo"), {})))
        assert isinstance(await first, CallTimeout | Unresponsive)
        assert (await second).code == "unresponsive"


@pytest.mark.row("A7")
@pytest.mark.parametrize("mode", ["never", "modern_never"])
async def test_a7_a_server_that_is_only_slow_with_one_call_is_kept(tmp_path: Path, log: Path, mode: str):
    question = "server/discover" if mode == "modern_never" else "ping"
    async with workbench(tmp_path, {"dev": {"fs": rogue(mode, log=log)}}, **ALIVE) as wb:
        await wb.open("dev")
        asked = len(received(log, question))
        assert isinstance(await fault_of(wb.use(tool("fs", "hang"), {})), CallTimeout)
        await wait_until(lambda: len(received(log, question)) > asked, what="the question whether it lives")
        alone, supervisor = peer_of(wb, "fs"), handle_of(wb, "dev", "fs").supervisor
        await wait_until(lambda: not supervisor._liveness._checks, what="its answer")
        assert await wb.use(tool("fs", "echo"), {})
        assert peer_of(wb, "fs") is alone
        assert len(starts(log)) == 1


@pytest.mark.row("A7", "D1")
async def test_a7_a_call_that_was_cancelled_while_its_server_was_at_work_on_another_costs_neither(
    tmp_path: Path, log: Path
):
    """It does one thing at a time, so it is silent until the first is done; that is well within its callTimeout."""
    boxes = {"dev": {"busy": rogue("progress", 1, log=log, callTimeout=20)}}
    async with workbench(tmp_path, boxes, alive_seconds=0.1) as wb:
        await wb.open("dev")
        first = asyncio.ensure_future(wb.use(tool("busy", "echo"), {"gap": 1.0}))
        await wait_until(lambda: received(log, "tools/call"), what="the first call")
        second = asyncio.ensure_future(wb.use(tool("busy", "echo"), {}))
        await asyncio.wait({second}, timeout=0.2)  # its client has waited longer than a sign of life takes
        second.cancel()
        assert echoed(await first)["pid"] == starts(log)[0]
        assert await wb.use(tool("busy", "echo"), {})
        assert len(starts(log)) == 1


@pytest.mark.row("A7", "A19")
async def test_a7_a_server_that_waits_for_its_clients_answer_is_not_taken_for_dead(tmp_path: Path, log: Path):
    """It reads on until that is there, and puts everything else aside, a question whether it lives as well."""
    boxes = {"dev": {"asks": rogue("asks_sampling", log=log)}}
    async with workbench(tmp_path, boxes, **ALIVE) as wb, near(wb, View(), "handshake", {"sampling": {}}) as wire:
        call = await wire.begin("tools/call", {"name": "use_tool", "arguments": use_params("dev", "asks", "echo", {})})
        await wire.wait_for(lambda: wire.asked, "the question")
        assert code_of(await wire.use("dev", "asks", "echo")) == "call_timeout"
        answer = asyncio.ensure_future(wire.finish(call))
        await asyncio.wait({answer}, timeout=2 * ALIVE["alive_seconds"])  # the person is still thinking
        assert not answer.done()
        await wire.send({"jsonrpc": "2.0", "id": wire.asked[0]["id"], "result": {"model": "m"}})
        assert json.loads(text_of(result_of((await answer)[0])))["result"] == {"model": "m"}
        assert received(log, "ping") == []
        assert len(starts(log)) == 1


# -- A8: it never comes to an end


@pytest.mark.row("A8")
async def test_a8_progress_for_ever_ends_at_the_hard_deadline(tmp_path: Path, log: Path):
    limits = {"call_idle_timeout_seconds": 0.5, "call_hard_timeout_seconds": 1.0}
    async with workbench(tmp_path, {"dev": {"busy": rogue("progress", 1000, log=log)}}, **limits) as wb:
        await wb.open("dev")
        async with LagProbe() as lag:
            fault = await fault_of(use_with_progress(wb, tool("busy", "echo"), {"gap": 0.05}))
            assert lag.is_on_time(1.0)
        assert isinstance(fault, CallTimeout)
        assert "maxCallTime" in fault.hint


# -- A11: it trickles


@pytest.mark.row("A11")
async def test_a11_an_answer_that_trickles_without_end_meets_the_deadline(tmp_path: Path):
    boxes = {"dev": {"drip": rogue("drip"), "good": rogue()}}
    async with workbench(tmp_path, boxes, **ALIVE) as wb:
        await wb.open("dev")
        async with LagProbe() as lag:
            assert isinstance(await fault_of(wb.use(tool("drip", "echo"), {})), CallTimeout)
            assert lag.is_on_time(0.5)
        assert await wb.use(tool("good", "echo"), {})


@pytest.mark.row("A11")
async def test_a11_what_trickles_is_kept_up_to_the_largest_message_and_no_further(tmp_path: Path):
    boxes = {"dev": {"drip": rogue("drip", maxMessageSize=MIB)}}
    async with workbench(tmp_path, boxes, call_idle_timeout_seconds=20) as wb:
        await wb.open("dev")
        drip = fault_of(wb.use(tool("drip", "echo"), {"bytes": 64 * 1024}))
        fault = await asyncio.wait_for(drip, 10)
        assert isinstance(fault, MessageTooLarge)
        assert "maxMessageSize" in fault.hint


# -- A13: it goes mute


@pytest.mark.row("A13")
@needs_proc
async def test_a13_a_server_that_closes_its_stdout_counts_as_ended_and_is_killed(tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"mute": rogue("close_stdout", env=marker)}})) as wire:
        await wire.open("dev")
        [server] = census(marker)
        since = time.monotonic()
        assert code_of(await wire.use("dev", "mute", "echo")) == "server_exited"
        assert elapsed(since) < 1
        await wait_until(lambda: not is_alive(server.pid), what="the end of the server")


# -- A14: it does not listen


@pytest.mark.row("A14")
@needs_proc
async def test_a14_a_server_that_stops_reading_costs_its_callers_a_deadline_and_nothing_else(tmp_path: Path):
    boxes = {"dev": {"deaf": rogue("no_read", callTimeout=0.5), "good": rogue()}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        await wire.open("dev")
        before = peak_memory(wire.process.pid)
        calls = [wire.use("dev", "deaf", "echo", {"x": "y" * MIB}) for _ in range(64)]
        outcomes = await asyncio.gather(*calls, wire.use("dev", "good", "echo", {"n": 1}))
        assert heard(outcomes.pop())["arguments"] == {"n": 1}
        assert {code_of(outcome) for outcome in outcomes} <= {"call_timeout", "unresponsive"}
        assert heard(await wire.use("dev", "good", "echo"))
        assert peak_memory(wire.process.pid) - before < 256 * MIB  # 64 MiB of calls, each read, decoded and kept
        since = time.monotonic()
        await wire.hang_up()
        assert elapsed(since) < 5


@pytest.mark.row("A14")
async def test_a14_what_is_written_to_a_server_that_does_not_read_is_bounded(tmp_path: Path):
    limits = {"call_idle_timeout_seconds": 0.5, "write_buffer_bytes": 2 * MIB}
    async with workbench(tmp_path, {"dev": {"deaf": rogue("no_read")}}, **limits) as wb:
        await wb.open("dev")
        peer = peer_of(wb, "deaf")
        calls = [asyncio.ensure_future(fault_of(wb.use(tool("deaf", "echo"), {"x": "y" * MIB}))) for _ in range(20)]
        await wait_until(lambda: peer.congested, what="a full pipe")
        assert peer._writer._transport.get_write_buffer_size() <= 3 * MIB + 1024
        faults = await asyncio.wait_for(asyncio.gather(*calls), 8)
        assert {type(fault) for fault in faults} <= {CallTimeout, Unresponsive}


@pytest.mark.row("A14")
@needs_proc
async def test_a14_a_server_that_asks_without_end_and_reads_nothing_costs_bounded_memory(tmp_path: Path, log: Path):
    boxes = {"dev": {"deaf": rogue("request_flood", 100_000, log=log), "good": rogue()}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert heard(await wire.use("dev", "good", "echo"))
        before = peak_memory(wire.process.pid)
        await wire.open("dev")
        await wait_until(lambda: '"flooded"' in log.read_text(encoding="utf-8"), 30, what="100 MB of requests")
        assert heard(await wire.use("dev", "good", "echo"))
        assert peak_memory(wire.process.pid) - before < 48 * MIB
