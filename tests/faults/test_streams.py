"""Rows A9, A10 and A12: servers that write what is no message, far too much of it, or everything to stderr."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest
from msgspec import Raw

from mcp_workbench.errors import MessageTooLarge
from tests.faults.outcomes import MIB, code_of, echoed, peak_memory
from tests.peers.rogue_stdio import BANNER
from tests.support.configs import rogue, write_config
from tests.support.lag import LagProbe, elapsed
from tests.support.library import fault_of, handle_of, tool, workbench
from tests.support.procs import census, is_alive, needs_proc, new_marker, wait_until
from tests.support.wire import error_of, heard, serving, text_of

NOISE = BANNER.partition("== ")[2].partition(" ==")[0]
"""What of the banner has no control characters."""


# -- A9: noise on stdout


@pytest.mark.row("A9")
async def test_a9_a_banner_on_stdout_is_tolerated_and_logged_once_with_its_escapes_visible(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"loud": rogue("garbage", 10)}})) as wire:
        for lines in (0, 10, 500):
            assert heard(await wire.use("dev", "loud", "echo", {"lines": lines}))
        assert wire.stray == []
        assert len(wire.stderr) <= 4096
        [sample] = [line for line in wire.stderr.splitlines() if NOISE in line]
        assert "\\x1b[1;32m" in sample
        assert "\x1b" not in wire.stderr


@pytest.mark.row("A9")
@pytest.mark.parametrize("when", ["at the start", "in a call"])
async def test_a9_more_garbage_than_any_banner_closes_the_connection(tmp_path: Path, when: str):
    at_start = 10_000 if when == "at the start" else 0
    boxes = {"dev": {"loud": rogue("garbage", at_start), "good": rogue()}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert code_of(await wire.use("dev", "loud", "echo", {"lines": 10_000})) == "protocol_violation"
        assert heard(await wire.use("dev", "good", "echo"))
        assert len(wire.stderr) <= 4096


@pytest.mark.row("A9")
async def test_a9_noise_is_counted_since_the_last_good_message(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"loud": rogue("garbage", 900)}}) as wb:
        pids = {echoed(await wb.use(tool("loud", "echo"), {"lines": 900}))["pid"] for _ in range(3)}
        assert len(pids) == 1


@pytest.mark.row("A9")
@pytest.mark.parametrize("prefix", ["[debug]", "DEBUG:", "<-"])
async def test_a9_a_server_that_prints_what_it_gets_is_usable(tmp_path: Path, prefix: str):
    """What quotes a request of ours is no answer to it."""
    async with workbench(tmp_path, {"dev": {"loud": rogue("quotes", prefix)}}) as wb:
        answers = await asyncio.gather(*(wb.use(tool("loud", "echo"), {"n": n}) for n in range(5)))
        assert [echoed(answer)["arguments"] for answer in answers] == [{"n": n} for n in range(5)]
        assert len({echoed(answer)["pid"] for answer in answers}) == 1


# -- A10: a huge line


@pytest.mark.row("A10")
@needs_proc
async def test_a10_a_line_of_100_mb_is_refused_in_bounded_memory(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"big": rogue("bigline"), "good": rogue()}})) as wire:
        await wire.open("dev")
        pid = heard(await wire.use("dev", "good", "echo"))["pid"]
        before = peak_memory(wire.process.pid)
        assert code_of(await wire.use("dev", "big", "echo", {"bytes": 9 * MIB})) == "message_too_large"
        result = await wire.use("dev", "big", "echo", {"bytes": 100_000_000})
        assert code_of(result) == "message_too_large"
        assert "maxMessageSize" in error_of(result)
        assert peak_memory(wire.process.pid) - before < 64 * MIB
        assert heard(await wire.use("dev", "good", "echo"))["pid"] == pid


@pytest.mark.row("A10")
@needs_proc
async def test_a10_a_huge_line_never_blocks_the_event_loop_and_its_server_is_killed(tmp_path: Path):
    marker = new_marker()
    async with workbench(tmp_path, {"dev": {"big": rogue("bigline", env=marker)}}) as wb:
        await wb.open("dev")
        pids = {process.pid for process in census(marker)}
        since = time.monotonic()
        async with LagProbe() as lag:
            assert isinstance(await fault_of(wb.use(tool("big", "echo"), {"bytes": 100_000_000})), MessageTooLarge)
        assert elapsed(since) < 1
        assert lag.worst_cpu_seconds < 0.05
        await wait_until(lambda: not any(map(is_alive, pids)), what="the end of the server")


@pytest.mark.row("A10")
async def test_a10_an_honest_result_of_several_megabytes_passes_and_blocks_nobody(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"big": rogue("bigline")}}) as wb:
        await wb.open("dev")
        async with LagProbe() as lag:
            result = await wb.relay(tool("big", "echo"), Raw(b'{"bytes":7340032}'))
        assert len(bytes(result)) > 7 * MIB
        assert lag.worst_cpu_seconds < 0.1


@pytest.mark.row("A10")
async def test_a10_a_result_of_several_megabytes_reaches_the_client_whole(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"big": rogue("bigline")}})) as wire:
        result = await wire.use("dev", "big", "echo", {"bytes": 6 * MIB})
        assert len(text_of(result)) == 6 * MIB


# -- A12: a flood on stderr

FLOOD = 100_000_000
FLOOD_LINE = "e" * 90


@pytest.mark.row("A12")
@needs_proc
async def test_a12_a_flood_on_stderr_does_not_block_its_server_and_little_of_it_is_logged(tmp_path: Path):
    boxes = {"dev": {"loud": rogue("stderrflood"), "good": rogue()}}
    async with serving(write_config(tmp_path, boxes), "--log-level", "debug") as wire:
        await wire.open("dev")
        before = peak_memory(wire.process.pid)
        since = time.monotonic()
        flood = asyncio.ensure_future(wire.use("dev", "loud", "echo", {"bytes": FLOOD}, seconds=30))
        while not flood.done():
            assert heard(await wire.use("dev", "good", "echo"))
        assert heard(await flood)
        seconds = elapsed(since)
        assert peak_memory(wire.process.pid) - before < 16 * MIB
        assert heard(await wire.use("dev", "loud", "echo"))
        logged = sum(FLOOD_LINE in line for line in wire.stderr.splitlines())
        assert 0 < logged <= 50 * (int(seconds) + 2)


@pytest.mark.row("A12")
async def test_a12_what_is_kept_of_stderr_is_bounded(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"loud": rogue("stderrflood")}}) as wb:
        await wb.open("dev")
        channel = handle_of(wb, "dev", "loud").supervisor.current.channel  # type: ignore[union-attr]
        async with LagProbe() as lag:
            assert await wb.use(tool("loud", "echo"), {"bytes": 20_000_000})
        assert len(channel._stderr._ring) <= 2 * 64 * 1024  # type: ignore[attr-defined]
        assert len(channel.stderr_tail().encode()) <= 2048
        assert lag.worst_cpu_seconds < 0.05


@pytest.mark.row("A12")
async def test_a12_unless_the_log_is_for_debugging_nothing_of_stderr_stands_in_it(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"loud": rogue("stderrflood")}})) as wire:
        assert heard(await wire.use("dev", "loud", "echo", {"bytes": 1_000_000}))
        await wire.hang_up()
        assert FLOOD_LINE not in wire.stderr
        assert len(wire.stderr) <= 4096


@pytest.mark.row("A12")
async def test_a12_how_many_lines_of_stderr_were_left_out_is_said(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"loud": rogue("stderrflood")}}), "--log-level", "debug") as wire:
        assert heard(await wire.use("dev", "loud", "echo", {"bytes": 1_000_000}))
        await wire.hang_up()
        logged = sum(FLOOD_LINE in line for line in wire.stderr.splitlines())
        left_out = [int(count) for count in re.findall(r"lines_left_out=(\d+)", wire.stderr)]
        assert logged + sum(left_out) == 10_000
