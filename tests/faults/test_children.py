"""Rows A24 to A26: what servers leave behind, servers that do not want to end, and servers that take everything."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from pathlib import Path

import pytest

from mcp_workbench.errors import ServerExited, StartupTimeout
from tests.faults.outcomes import MIB, code_of, echoed, peer_of
from tests.support.configs import rogue, starts, write_config
from tests.support.lag import elapsed
from tests.support.library import fault_of, handle_of, tool, workbench
from tests.support.procs import census, is_alive, needs_proc, new_marker, wait_until
from tests.support.wire import heard, serving, text_of

pytestmark = needs_proc
DEAF = {"write_buffer_bytes": 64 * 1024, "backoff_first_seconds": 0.01}
LEFT_BEHIND = pytest.mark.parametrize("mode", ["grandchild", "daemon"])


# -- A24: left behind


@pytest.mark.row("A24")
@LEFT_BEHIND
async def test_a24_what_a_server_leaves_behind_is_gone_when_the_workbench_ends(tmp_path: Path, mode: str):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(mode, env=marker)}})) as wire:
        left = [int(text_of(await wire.use("dev", "fs", "echo"))) for _ in range(3)]
        assert all(map(is_alive, left))
        since = time.monotonic()
        await wire.hang_up()
        await wait_until(lambda: census(marker) == [], 5 - elapsed(since), what="the end of every process")


@pytest.mark.row("A24")
@LEFT_BEHIND
async def test_a24_what_a_crashed_server_leaves_behind_is_swept_while_the_workbench_lives(tmp_path: Path, mode: str):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(mode, env=marker)}})) as wire:
        left = int(text_of(await wire.use("dev", "fs", "echo")))
        [leader] = [process.pid for process in census(marker) if process.pid != left]
        os.kill(leader, signal.SIGKILL)
        await wait_until(lambda: census(marker) == [], 5, what="the end of what was left behind")
        assert text_of(await wire.use("dev", "fs", "echo"))


@pytest.mark.row("A24")
@pytest.mark.parametrize("end", ["crash", "close"])
async def test_a24_a_grandchild_that_inherits_no_environment_ends_with_its_group(tmp_path: Path, end: str):
    log = tmp_path / "rogue.log"
    async with workbench(tmp_path, {"dev": {"fs": rogue("grandchild", log=log)}}) as wb:
        left = int(text_of(await wb.use(tool("fs", "echo"), {"bare": True})))
        assert is_alive(left)
        if end == "crash":
            os.kill(starts(log)[0], signal.SIGKILL)
            await wait_until(lambda: not is_alive(left), 5, what="the end of what was left behind")
    await wait_until(lambda: not is_alive(left), 5, what="the end of what was left behind")


@pytest.mark.row("A24")
async def test_a24_what_a_server_leaves_behind_that_never_started_well_is_swept(tmp_path: Path):
    marker = new_marker()
    boxes = {"dev": {"bad": rogue("hang_init", "daemon", env=marker)}}
    async with workbench(tmp_path, boxes, startup_timeout_seconds=0.5, probe_patience_seconds=0.1) as wb:
        assert isinstance(await fault_of(wb.use(tool("bad", "echo"), {})), StartupTimeout)
        await wait_until(lambda: census(marker) == [], 5, what="the end of the daemon")


@pytest.mark.row("A24")
async def test_a24_what_one_server_leaves_behind_is_swept_and_its_neighbours_are_not(tmp_path: Path):
    mine, theirs = new_marker(), new_marker()
    boxes = {"dev": {"fs": rogue("daemon", env=mine), "other": rogue("daemon", env=theirs)}}
    async with workbench(tmp_path, boxes) as wb:
        for server in boxes["dev"]:
            await wb.use(tool(server, "echo"), {})
        await wait_until(lambda: len(census(theirs)) == 2, what="the other's two processes")
        before = {process.pid for process in census(theirs)}
        await handle_of(wb, "dev", "fs").close()
        assert census(mine) == []
        assert {process.pid for process in census(theirs)} == before
    assert census(theirs) == []


def opened_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- /proc does not block


@pytest.mark.row("A14", "A24")
async def test_a24_a_server_that_stopped_reading_and_died_is_cleaned_up_like_any_other(tmp_path: Path):
    unexpected: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
    marker = new_marker()
    async with workbench(tmp_path, {"dev": {"deaf": rogue("no_read", "daemon", env=marker)}}, **DEAF) as wb:
        descriptors = 0
        for _ in range(3):
            await wb.open("dev")
            call = asyncio.ensure_future(fault_of(wb.use(tool("deaf", "echo"), {"x": "y" * MIB})))
            await wait_until(lambda: peer_of(wb, "deaf").congested, what="a full pipe")
            [leader] = [process.pid for process in census(marker) if "rogue" in process.command]
            os.kill(leader, signal.SIGKILL)
            assert isinstance(await call, ServerExited)
            await wait_until(
                lambda: not census(marker) and not wb._processes._children, what="the end of every process"
            )
            gc.collect()
            descriptors = descriptors or opened_files()
            await wait_until(lambda: opened_files() <= descriptors, what="the end of every descriptor")  # noqa: B023
    assert unexpected == []


# -- A25: stubborn


@pytest.mark.row("A25")
async def test_a25_twenty_servers_that_ignore_every_hint_are_gone_within_five_seconds(tmp_path: Path):
    marker = new_marker()
    boxes = {"dev": {f"s{number}": rogue("ignore_sigterm", env=marker) for number in range(20)}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert (await wire.open("dev", seconds=25))["servers_connected"] == 20
        assert len(census(marker)) == 20
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        await wait_until(lambda: census(marker) == [], 5, what="the end of every process")
        await wire.ended(seconds=2)


# -- A26: greedy


@pytest.mark.row("A26")
async def test_a26_a_server_that_runs_out_of_memory_costs_itself_and_nobody_else(tmp_path: Path):
    """It is limited as a user would do it; the workbench sets no such limits by itself."""
    async with serving(write_config(tmp_path, {"dev": {"hog": rogue("hog"), "good": rogue()}})) as wire:
        await wire.open("dev")
        pid = heard(await wire.use("dev", "good", "echo"))["pid"]
        assert code_of(await wire.use("dev", "hog", "eat")) == "server_exited"
        assert heard(await wire.use("dev", "hog", "echo"))
        assert heard(await wire.use("dev", "good", "echo"))["pid"] == pid


@pytest.mark.row("A26")
async def test_a26_all_the_processes_that_a_server_forks_end_with_it(tmp_path: Path):
    log, marker = tmp_path / "rogue.log", new_marker()
    boxes = {"dev": {"hog": rogue("hog", log=log, env=marker), "good": rogue()}}
    async with workbench(tmp_path, boxes, stdin_eof_seconds=0.3) as wb:
        for _ in range(3):
            assert echoed(await wb.use(tool("hog", "fork"), {"count": 50}))
        assert len(census(marker)) == 151
        os.kill(starts(log)[0], signal.SIGKILL)
        await wait_until(lambda: census(marker) == [], 5, what="the end of every process")
        assert await wb.use(tool("good", "echo"), {})
