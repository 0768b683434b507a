"""Rows A of the faults: what a local server can do wrong, and what its callers and neighbours see of it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import time
from pathlib import Path

import pytest

from mcp_workbench.errors import (
    CallTimeout,
    Fault,
    ListTimeout,
    MessageTooLarge,
    ServerExited,
    SpawnFailed,
    StartupTimeout,
)
from tests.peers.rogue_stdio import BANNER, MALFORMED, STDERR_TEXT
from tests.support.configs import received, rogue, write_config
from tests.support.lag import LagProbe
from tests.support.library import fault_of, text_of, tool, use_with_progress, workbench
from tests.support.procs import census, is_alive, needs_proc, new_marker, wait_until
from tests.support.wire import Wire, error_of, heard, serving
from tests.support.wire import text_of as wire_text

MIB = 1024 * 1024
QUIET_SECONDS = 0.25
"""How long a neighbour of a broken server may wait."""


def elapsed(since: float) -> float:
    return time.monotonic() - since


# -- starting


async def test_a1_a_crash_fails_its_call_at_once_and_the_next_call_restarts_the_server(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"bad": rogue("crash"), "good": rogue()}})) as wire:
        await wire.open("dev")
        before = heard(await wire.use("dev", "bad", "echo"))["pid"]
        neighbour = heard(await wire.use("dev", "good", "echo"))["pid"]
        since = time.monotonic()
        text = error_of(await wire.use("dev", "bad", "crash"))
        assert elapsed(since) < 1
        assert "3" in text.partition("failed: ")[2].splitlines()[0]
        assert STDERR_TEXT in text
        assert heard(await wire.use("dev", "good", "echo"))["pid"] == neighbour
        assert heard(await wire.use("dev", "bad", "echo"))["pid"] != before


async def test_a1_every_call_under_way_fails_when_its_server_crashes(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"bad": rogue("crash"), "good": rogue()}}) as wb:
        calls = [wb.use(tool("bad", "crash"), {}) for _ in range(5)]
        outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
        assert {type(getattr(outcome, "fault", None)) for outcome in outcomes} == {ServerExited}


async def test_a2_a_server_that_dies_at_its_start_does_not_keep_the_others_from_opening(tmp_path: Path):
    boxes = {"dev": {"one": rogue(), "dead": rogue("exit_at_start"), "two": rogue()}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        answer = await wire.open("dev")
        assert answer["servers_connected"] == 2
        [failed] = answer["servers_failed"]
        assert failed["server"] == "dead"
        assert STDERR_TEXT in failed["error"]
        assert "3" in failed["error"]
        assert heard(await wire.use("dev", "two", "echo"))


def not_executable(folder: Path) -> dict[str, object]:
    (folder / "program").write_text("#!/bin/sh\n", encoding="utf-8")
    return {"command": str(folder / "program")}


SPAWN_FAULTS = {
    "ENOENT": lambda folder: {"command": str(folder / "missing")},
    "EACCES": not_executable,
    "ENOTDIR": lambda folder: {"command": str(not_executable(folder)["command"]) + "/x"},
    "cwd": lambda folder: rogue("ok", cwd=str(folder / "gone")),
}


@pytest.mark.parametrize("kind", SPAWN_FAULTS)
async def test_a3_a_command_that_cannot_run_is_named_with_its_reason(tmp_path: Path, kind: str):
    async with workbench(tmp_path, {"dev": {"bad": SPAWN_FAULTS[kind](tmp_path), "good": rogue()}}) as wb:
        fault = await fault_of(wb.use(tool("bad", "echo"), {}))
        assert isinstance(fault, SpawnFailed)
        assert "Traceback" not in str(fault)
        if kind.isupper():
            assert kind in str(fault)
        assert (await wb.open("dev")).servers_connected == 1


@needs_proc
async def test_a4_a_server_that_never_answers_its_opening_is_given_up_and_killed(tmp_path: Path):
    marker = new_marker()
    boxes = {"dev": {"bad": rogue("hang_init", env=marker)}}
    async with workbench(tmp_path, boxes, startup_timeout_seconds=1.0, probe_patience_seconds=0.2) as wb:
        since = time.monotonic()
        fault = await fault_of(wb.use(tool("bad", "echo"), {}))
        assert isinstance(fault, StartupTimeout)
        assert 0.9 <= elapsed(since) < 4
        await wait_until(lambda: census(marker) == [], what="the end of the server")


async def test_a5_concurrent_callers_share_the_wait_for_a_slow_start(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"slow": rogue("slow_start", 1)}}) as wb:
        results = await asyncio.gather(*(wb.use(tool("slow", "echo"), {}) for _ in range(5)))
        assert len({json.loads(text_of(result))["pid"] for result in results}) == 1


@pytest.mark.parametrize("mode", ["slow_start", "modern"])
async def test_a5_a_server_of_either_era_that_starts_after_the_probes_patience_is_reached(tmp_path: Path, mode: str):
    """It finds both questions in its pipe and refuses one; eight servers, since the order of its answers is chance."""
    boxes = {"dev": {f"s{number}": rogue(mode, 1.0) for number in range(8)}}
    async with workbench(tmp_path, boxes, probe_patience_seconds=0.1) as wb:
        opened = await wb.open("dev")
        assert [str(failure) for failure in opened.failed] == []


async def test_a6_a_server_that_never_lists_fails_alone(tmp_path: Path):
    boxes = {"dev": {"bad": rogue("hang_list"), "good": rogue()}}
    async with workbench(tmp_path, boxes, list_page_timeout_seconds=0.5) as wb:
        opened = await wb.open("dev")
        assert opened.servers_connected == 1
        assert isinstance(await fault_of(wb.use(tool("bad", "echo"), {})), ListTimeout)
        assert await wb.use(tool("good", "echo"), {})


# -- calls


async def test_a7_a_call_without_an_answer_ends_at_its_deadline_and_the_late_answer_reaches_nobody(tmp_path: Path):
    log = tmp_path / "rogue.log"
    async with workbench(tmp_path, {"dev": {"bad": rogue("never", log=log)}}, call_idle_timeout_seconds=0.5) as wb:
        await wb.open("dev")
        since = time.monotonic()
        assert isinstance(await fault_of(wb.use(tool("bad", "hang"), {})), CallTimeout)
        assert 0.45 <= elapsed(since) < 2
        await wait_until(lambda: received(log, "notifications/cancelled"), what="notifications/cancelled")
        [call] = received(log, "tools/call")
        assert received(log, "notifications/cancelled")[0]["params"]["requestId"] == call["id"]
        nonce = secrets.token_hex()
        answer = json.loads(text_of(await wb.use(tool("bad", "echo"), {"nonce": nonce})))
        assert answer["arguments"] == {"nonce": nonce}


async def test_a7_progress_keeps_a_call_alive_past_its_idle_deadline(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"busy": rogue("progress", 6)}}, call_idle_timeout_seconds=0.6) as wb:
        await wb.open("dev")
        assert await use_with_progress(wb, tool("busy", "echo"), {"gap": 0.2})


async def test_a8_progress_for_ever_ends_at_the_hard_deadline(tmp_path: Path):
    limits = {"call_idle_timeout_seconds": 0.5, "call_hard_timeout_seconds": 1.0}
    async with workbench(tmp_path, {"dev": {"busy": rogue("progress", 1000)}}, **limits) as wb:
        await wb.open("dev")
        since = time.monotonic()
        assert isinstance(await fault_of(use_with_progress(wb, tool("busy", "echo"), {"gap": 0.05})), CallTimeout)
        assert 0.9 <= elapsed(since) < 3


# -- the stream


async def test_a9_a_banner_on_stdout_is_tolerated_and_logged_once_with_its_escapes_visible(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"loud": rogue("garbage", 10)}})) as wire:
        assert heard(await wire.use("dev", "loud", "echo", {"lines": 500}))
        assert wire.stray == []
        assert len(wire.stderr) <= 4096
        assert "\x1b" not in wire.stderr
        assert wire.stderr.count(BANNER.partition("== ")[2].partition(" ==")[0]) <= 2


@pytest.mark.parametrize("when", ["at the start", "in a call"])
async def test_a9_more_garbage_than_any_banner_closes_the_connection(tmp_path: Path, when: str):
    async with serving(
        write_config(tmp_path, {"dev": {"loud": rogue("garbage", 10_000 if "start" in when else 0)}})
    ) as wire:
        result = await wire.use("dev", "loud", "echo", {"lines": 10_000})
        error_of(result)
        assert result["_meta"]["mcp-workbench/error"]["code"] == "protocol_violation"
        assert len(wire.stderr) <= 4096


async def test_a9_noise_is_counted_since_the_last_good_message(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"loud": rogue("garbage", 900)}}) as wb:
        pids = {json.loads(text_of(await wb.use(tool("loud", "echo"), {"lines": 900})))["pid"] for _ in range(3)}
        assert len(pids) == 1


def peak_memory(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(pid)


@needs_proc
async def test_a10_a_line_of_100_mb_is_refused_in_bounded_memory_and_its_server_killed(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"big": rogue("bigline"), "good": rogue()}})) as wire:
        await wire.open("dev")
        pid = heard(await wire.use("dev", "good", "echo"))["pid"]
        before = peak_memory(wire.process.pid)
        result = await wire.use("dev", "big", "echo", {"bytes": 100_000_000})
        assert result["_meta"]["mcp-workbench/error"]["code"] == "message_too_large"
        assert peak_memory(wire.process.pid) - before < 64 * MIB
        assert heard(await wire.use("dev", "good", "echo"))["pid"] == pid


@needs_proc
async def test_a10_a_huge_line_never_blocks_the_event_loop(tmp_path: Path):
    marker = new_marker()
    async with workbench(tmp_path, {"dev": {"big": rogue("bigline", env=marker)}}) as wb:
        await wb.open("dev")
        pids = {process.pid for process in census(marker)}
        since = time.monotonic()
        async with LagProbe() as lag:
            assert isinstance(await fault_of(wb.use(tool("big", "echo"), {"bytes": 100_000_000})), MessageTooLarge)
        assert elapsed(since) < 1
        assert lag.worst_cpu_seconds < 0.05
        assert lag.worst_seconds < QUIET_SECONDS
        await wait_until(lambda: not any(map(is_alive, pids)), what="the end of the server")


async def test_a10_an_honest_result_of_several_megabytes_passes(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"big": rogue("bigline")}})) as wire:
        result = await wire.use("dev", "big", "echo", {"bytes": 6 * MIB})
        assert len(wire_text(result)) == 6 * MIB


async def test_a11_an_answer_that_trickles_without_end_meets_the_deadline(tmp_path: Path):
    boxes = {"dev": {"drip": rogue("drip"), "good": rogue()}}
    async with workbench(tmp_path, boxes, call_idle_timeout_seconds=0.5, call_hard_timeout_seconds=2.0) as wb:
        await wb.open("dev")
        since = time.monotonic()
        assert isinstance(await fault_of(wb.use(tool("drip", "echo"), {})), Fault)
        assert elapsed(since) < 4
        assert await wb.use(tool("good", "echo"), {})


async def test_a12_a_flood_on_stderr_blocks_nobody_and_is_not_repeated(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"loud": rogue("stderrflood")}})) as wire:
        assert heard(await wire.use("dev", "loud", "echo", {"bytes": 20_000_000}))
        assert len(wire.stderr) < 64 * 1024


@needs_proc
async def test_a13_a_server_that_closes_its_stdout_counts_as_ended(tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"mute": rogue("close_stdout", env=marker)}})) as wire:
        await wire.open("dev")
        [server] = census(marker)
        since = time.monotonic()
        text = error_of(await wire.use("dev", "mute", "echo"))
        assert text.startswith("Tool 'echo' in server 'mute' (toolbox 'dev') failed: ")
        assert elapsed(since) < 1.5
        await wait_until(lambda: not is_alive(server.pid), what="the end of the server")


async def test_a14_a_server_that_stops_reading_costs_its_callers_a_deadline_and_nothing_else(tmp_path: Path):
    boxes = {"dev": {"deaf": rogue("no_read"), "good": rogue()}}
    async with workbench(tmp_path, boxes, call_idle_timeout_seconds=0.5) as wb:
        await wb.open("dev")
        calls = [fault_of(wb.use(tool("deaf", "echo"), {"x": "y" * MIB})) for _ in range(4)]
        faults = await asyncio.wait_for(asyncio.gather(*calls), 8)
        assert {type(fault) for fault in faults} == {CallTimeout}
        assert await wb.use(tool("good", "echo"), {})
        since = time.monotonic()
    assert elapsed(since) < 5.5


@needs_proc
async def test_a14_a_server_that_asks_without_end_and_reads_nothing_costs_bounded_memory(tmp_path: Path):
    log = tmp_path / "rogue.log"
    boxes = {"dev": {"deaf": rogue("request_flood", 100_000, log=log), "good": rogue()}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert heard(await wire.use("dev", "good", "echo"))
        before = peak_memory(wire.process.pid)
        await wire.open("dev")
        await wait_until(lambda: '"flooded"' in log.read_text(encoding="utf-8"), 30, what="100 MB of requests")
        assert heard(await wire.use("dev", "good", "echo"))
        assert peak_memory(wire.process.pid) - before < 48 * MIB


# -- messages

HARMLESS = {"bad_utf8", "long_int", "not_a_number", "wrong_version", "no_version", "array", "error_code_is_string"}
"""Those that may be taken as an answer: it is one that can be read."""


@pytest.mark.parametrize("variant", MALFORMED)
async def test_a15_a_malformed_answer_ends_its_call_and_the_server_is_usable_after(tmp_path: Path, variant: str):
    async with workbench(tmp_path, {"dev": {"bad": rogue("malformed")}}, call_idle_timeout_seconds=2.0) as wb:
        await wb.open("dev")
        since = time.monotonic()
        outcome = (await asyncio.gather(wb.use(tool("bad", variant), {}), return_exceptions=True))[0]
        if variant != "single_quotes":  # a line like any noise, so only the deadline ends the call
            assert elapsed(since) < 1.2
        fault = getattr(outcome, "fault", None)
        assert isinstance(fault, Fault) or (variant in HARMLESS and isinstance(outcome, dict)), outcome
        nonce = secrets.token_hex()
        assert json.loads(text_of(await wb.use(tool("bad", "echo"), {"nonce": nonce})))["arguments"] == {"nonce": nonce}


def mutated(seed: int) -> str:
    """A good answer with a few bytes changed, removed or doubled."""
    dice = random.Random(seed)  # noqa: S311 -- a test case, not a secret
    line = bytearray(b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"x"}]}}')
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(line))
        match dice.randrange(3):
            case 0:
                line[place] = dice.randrange(256)
            case 1:
                del line[place]
            case _:
                line[place:place] = line[place : place + dice.randint(1, 9)]
    return bytes(line).replace(b"\n", b" ").decode("latin-1")


async def test_a15_whatever_bytes_answer_a_call_it_has_one_outcome(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"bad": rogue("malformed")}}, call_idle_timeout_seconds=0.3) as wb:
        for seed in range(40):
            call = asyncio.gather(wb.use(tool("bad", "raw"), {"line": mutated(seed)}), return_exceptions=True)
            [outcome] = await asyncio.wait_for(call, 5)
            assert isinstance(outcome, dict) or isinstance(getattr(outcome, "fault", None), Fault), mutated(seed)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("surrogate", "half \ufffd emoji"),
        ("two_halves", "\ufffd\ufffd"),
        ("whole", "\U0001f642"),
        ("nul", "a\0b"),
        ("separator", "a\u2028b\u2029c"),
    ],
)
async def test_a16_strange_characters_are_delivered_and_half_ones_replaced(tmp_path: Path, kind: str, text: str):
    async with serving(write_config(tmp_path, {"dev": {"odd": rogue("texts")}})) as wire:
        assert wire_text(await wire.use("dev", "odd", kind)) == text


@pytest.mark.parametrize("trick", ["twice", "future", "unknown"])
async def test_a17_an_answer_that_nobody_asked_for_reaches_nobody(tmp_path: Path, trick: str):
    async with serving(write_config(tmp_path, {"dev": {"eager": rogue("replies")}})) as wire:
        assert heard(await wire.use("dev", "eager", trick, {"n": 0}))["arguments"] == {"n": 0}
        for number in range(1, 6):
            assert heard(await wire.use("dev", "eager", "echo", {"n": number}))["arguments"] == {"n": number}


async def test_a17_ids_start_at_a_random_number_that_javascript_can_hold(tmp_path: Path):
    log = tmp_path / "rogue.log"
    boxes = {"dev": {name: rogue(log=log) for name in ("one", "two")}}
    async with workbench(tmp_path, boxes) as wb:
        await wb.use(tool("one", "echo"), {})
        await wb.use(tool("two", "echo"), {})
    ids = [call["id"] for call in received(log, "tools/call")]
    assert all(isinstance(number, int) and 0 <= number < 2**53 for number in ids)
    assert abs(ids[0] - ids[1]) > 1000


async def test_a18_answers_never_cross_servers_or_clients(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"one": rogue(), "two": rogue()}})

    async def check(wire: Wire, server: str, number: int) -> None:
        nonce = f"{id(wire)}-{server}-{number}-{secrets.token_hex(4)}"
        assert wire_text(await wire.use("dev", server, "nonce", {"nonce": nonce})) == nonce

    async with serving(config) as first, serving(config, era="modern") as second:
        checks = [check(wire, server, n) for n in range(100) for wire in (first, second) for server in ("one", "two")]
        for start in range(0, len(checks), 100):
            await asyncio.gather(*checks[start : start + 100])


# -- processes


@needs_proc
@pytest.mark.parametrize("mode", ["grandchild", "daemon"])
async def test_a24_what_a_server_leaves_behind_is_gone_when_the_workbench_ends(tmp_path: Path, mode: str):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(mode, env=marker)}})) as wire:
        left = int(wire_text(await wire.use("dev", "fs", "echo")))
        assert is_alive(left)
        await wire.hang_up()
        await wait_until(lambda: census(marker) == [], 5, what="the end of every process")


@needs_proc
async def test_a24_what_a_crashed_server_leaves_behind_is_swept_while_the_workbench_lives(tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("grandchild", env=marker)}})) as wire:
        left = int(wire_text(await wire.use("dev", "fs", "echo")))
        [leader] = [process.pid for process in census(marker) if process.pid != left]
        os.kill(leader, signal.SIGKILL)
        await wait_until(lambda: not is_alive(left), 5, what="the end of the grandchild")


@needs_proc
async def test_a25_twenty_servers_that_ignore_every_hint_are_gone_within_five_seconds(tmp_path: Path):
    marker = new_marker()
    boxes = {"dev": {f"s{number}": rogue("ignore_sigterm", env=marker) for number in range(20)}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert (await wire.open("dev", seconds=25))["servers_connected"] == 20
        since = time.monotonic()
        await wire.hang_up()
        assert elapsed(since) < 5.5
        await wait_until(lambda: census(marker) == [], 1, what="the end of every process")
