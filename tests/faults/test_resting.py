"""Row A27: servers that end again and again, how rarely they are started, and that they heal."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from mcp_workbench.errors import Fault, ServerExited, ServerResting
from mcp_workbench.limits import Limits
from mcp_workbench.servers.health import Health
from mcp_workbench.servers.supervisor import Supervisor
from mcp_workbench.surfaces.server_info import View
from mcp_workbench.wire.caller import LIBRARY
from tests.faults.outcomes import code_of, echoed, told
from tests.peers.rogue_stdio import STDERR_TEXT
from tests.servers.real import Recorded
from tests.support.configs import read_log, rogue, starts, write_config
from tests.support.lag import elapsed
from tests.support.library import fault_of, handle_of, tool, workbench
from tests.support.memory import MemoryChannel, MemoryServer
from tests.support.near import near
from tests.support.procs import wait_until
from tests.support.wire import error_of, heard, serving
from tests.wire.pair import settle

QUICK = {"backoff_first_seconds": 0.02, "backoff_patience_seconds": 1.0, "rest_seconds": 1.0, "breaker_failures": 3}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


# -- five minutes, and hours, in a moment


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Doomed(MemoryServer):
    """It dies `at_start`, or right after it has agreed on a protocol."""

    def __init__(self, clock: Clock, when: str) -> None:
        super().__init__()
        self._clock = clock
        self.spawned: list[float] = []
        if when == "at its start":
            self.methods["initialize"] = self.methods["server/discover"] = ServerExited("it exited with status 0")

    async def open(self) -> MemoryChannel:
        self.spawned.append(self._clock.now)
        return await super().open()


async def tried_every_second(clock: Clock, doomed: Doomed, seconds: int, luck: float = 0.5) -> list[str]:
    """What callers hear that try each second, with no patience, so that no time passes in waiting."""
    limits, codes = Limits(backoff_patience_seconds=0.0), []
    health = Health(limits, clock=clock, chance=lambda: luck)
    supervised = Supervisor("dev/fs", doomed.open, LIBRARY, limits, Recorded(), health=health)
    for _ in range(seconds):
        try:
            await supervised.connection()
            doomed.channels[-1].end()
            await settle()
        except Fault as fault:
            codes.append(fault.code)
        clock.now += 1
    await supervised.close()
    return codes


@pytest.mark.row("A27")
@pytest.mark.parametrize("when", ["at its start", "when it is ready"])
@pytest.mark.parametrize("luck", [0.0, 0.5, 0.999999])
async def test_a27_a_server_that_ends_again_and_again_is_started_twelve_times_in_five_minutes_at_most(
    when: str, luck: float
):
    doomed = Doomed(Clock(), when)
    codes = await asyncio.wait_for(tried_every_second(doomed._clock, doomed, 300, luck), 20)
    assert 8 <= len(doomed.spawned) <= 12
    assert codes.count("server_resting") > 280


@pytest.mark.row("A27")
async def test_a27_it_is_still_tried_each_five_minutes_after_hours():
    doomed = Doomed(Clock(), "when it is ready")
    await asyncio.wait_for(tried_every_second(doomed._clock, doomed, 3 * 3600), 20)
    last = [at for at in doomed.spawned if at > doomed._clock.now - 3600]
    assert 11 <= len(last) <= 12
    assert all(after - before == pytest.approx(300, abs=2) for before, after in pairwise(last))


# -- in truth, with small limits


@pytest.mark.row("A27")
async def test_a27_a_server_that_rests_is_not_started_and_its_callers_are_told_at_once(tmp_path: Path, log: Path):
    limits = QUICK | {"rest_seconds": 30.0}
    boxes = {"dev": {"bad": rogue("needs", tmp_path / "file", log=log), "good": rogue()}}
    async with workbench(tmp_path, boxes, **limits) as wb, near(wb, View(), "handshake", {}) as wire:
        for _ in range(3):
            assert code_of(await wire.use("dev", "bad", "echo")) == "server_exited"
        before, since = len(starts(log)), time.monotonic()
        results = await asyncio.gather(*(wire.use("dev", "bad", "echo") for _ in range(20)))
        assert elapsed(since) < 1
        assert {code_of(result) for result in results} == {"server_resting"}
        assert all(28 <= told(result)["retry_after"] <= 30 for result in results)
        assert STDERR_TEXT in error_of(results[0])
        answer = await wire.open("dev")
        assert answer["servers_connected"] == 1
        assert STDERR_TEXT in answer["servers_failed"][0]["error"]
        assert heard(await wire.use("dev", "good", "echo"))
        assert len(starts(log)) == before


@pytest.mark.row("A27")
async def test_a27_a_server_heals_after_its_rest_and_one_start_is_tried_for_all(tmp_path: Path, log: Path):
    file = tmp_path / "file"
    boxes = {"dev": {"bad": rogue("needs", file, log=log)}}
    async with workbench(tmp_path, boxes, **QUICK) as wb:
        for _ in range(3):
            assert isinstance(await fault_of(wb.use(tool("bad", "echo"), {})), ServerExited)
        fault = await fault_of(wb.use(tool("bad", "echo"), {}))
        assert isinstance(fault, ServerResting)
        assert fault.retry_after is not None
        file.touch()
        before = len(starts(log))
        health = handle_of(wb, "dev", "bad").supervisor._health
        await wait_until(lambda: health._next_start <= time.monotonic(), what="the end of the rest")
        results = await asyncio.gather(*(wb.use(tool("bad", "echo"), {}) for _ in range(20)))
        assert len({echoed(result)["pid"] for result in results}) == 1
        assert len(starts(log)) == before + 1
        assert handle_of(wb, "dev", "bad").supervisor.state == "ready"
        os.kill(starts(log)[-1], signal.SIGKILL)
        await wait_until(lambda: handle_of(wb, "dev", "bad").supervisor.state == "failing", what="its end")
        assert await wb.use(tool("bad", "echo"), {})  # at once, as if it had never failed


@pytest.mark.row("A27")
async def test_a27_a_try_after_a_rest_that_fails_makes_the_rest_longer(tmp_path: Path, log: Path):
    limits = QUICK | {"rest_seconds": 0.3}
    async with workbench(tmp_path, {"dev": {"bad": rogue("exit_at_start", log=log)}}, **limits) as wb:
        for _ in range(3):
            assert isinstance(await fault_of(wb.use(tool("bad", "echo"), {})), ServerExited)
        health = handle_of(wb, "dev", "bad").supervisor._health
        await wait_until(lambda: health._next_start <= time.monotonic(), what="the end of the rest")
        faults = await asyncio.gather(*(fault_of(wb.use(tool("bad", "echo"), {})) for _ in range(10)))
        assert {type(fault) for fault in faults} == {ServerExited}  # all wait for the same start
        fault = await fault_of(wb.use(tool("bad", "echo"), {}))
        assert isinstance(fault, ServerResting)
        assert 0.3 < fault.retry_after <= 0.6  # type: ignore[operator]
        assert health.failures == 4


@pytest.mark.row("A27")
async def test_a27_all_clients_of_a_server_count_its_failures_together(tmp_path: Path, log: Path):
    limits = QUICK | {"rest_seconds": 30.0}
    boxes = {"dev": {"bad": rogue("exit_at_start", log=log), "good": rogue()}}
    async with (
        workbench(tmp_path, boxes, **limits) as wb,
        near(wb, View(), "handshake", {}) as one,
        near(wb, View(), "modern", {}) as other,
    ):
        for wire in (one, other, one):
            assert code_of(await wire.use("dev", "bad", "echo")) == "server_exited"
        before = len(starts(log))
        for wire in (one, other):
            assert code_of(await wire.use("dev", "bad", "echo")) == "server_resting"
            assert heard(await wire.use("dev", "good", "echo"))
        assert len(starts(log)) == before


@pytest.mark.row("A27")
async def test_a27_while_one_client_tries_the_server_after_its_rest_the_others_are_told_at_once(
    tmp_path: Path, log: Path
):
    file = tmp_path / "file"
    entry = rogue(log=log)
    script = 'test -e "$1" || exit 3; shift; sleep 1; exec "$@"'
    slow = {"command": "/bin/sh", "args": ["-c", script, "sh", str(file), entry["command"], *entry["args"]]}
    async with (
        workbench(tmp_path, {"dev": {"bad": slow | {"env": entry["env"]}}}, **QUICK) as wb,
        near(wb, View(), "handshake", {}) as one,
        near(wb, View(), "modern", {}) as other,
    ):
        for wire in (one, other, one):
            assert code_of(await wire.use("dev", "bad", "echo")) == "server_exited"
        file.touch()
        [health] = wb._health.values()
        await wait_until(lambda: health._next_start <= time.monotonic(), what="the end of the rest")
        trying = asyncio.ensure_future(one.use("dev", "bad", "echo"))
        await wait_until(lambda: health._tries, what="the try")
        for _ in range(3):
            assert code_of(await other.use("dev", "bad", "echo")) == "server_resting"
        assert heard(await trying)
        assert len(starts(log)) == 1
        assert heard(await other.use("dev", "bad", "echo"))


@pytest.mark.row("A27")
async def test_a27_after_a_failed_start_the_next_caller_waits_for_the_next_one(tmp_path: Path, log: Path):
    """As it is configured by default: a second, give or take a fifth."""
    file = tmp_path / "file"
    async with serving(write_config(tmp_path, {"dev": {"bad": rogue("needs", file, log=log)}})) as wire:
        assert code_of(await wire.use("dev", "bad", "echo")) == "server_exited"
        file.touch()
        results = await asyncio.gather(*(wire.use("dev", "bad", "echo") for _ in range(5)))
        assert len({heard(result)["pid"] for result in results}) == 1
        *_, failed, well = [entry["at"] for entry in read_log(log) if entry["event"] == "start"]
        assert 0.8 <= well - failed < 4


@pytest.mark.row("A27")
async def test_a27_a_server_that_crashes_in_every_call_rests_too(tmp_path: Path, log: Path):
    limits = QUICK | {"rest_seconds": 30.0}
    async with workbench(tmp_path, {"dev": {"bad": rogue("crash", log=log)}}, **limits) as wb:
        codes = [(await fault_of(wb.use(tool("bad", "crash"), {}))).code for _ in range(5)]
        assert codes == ["server_exited"] * 3 + ["server_resting"] * 2
        assert len(starts(log)) == 3


@pytest.mark.row("A7", "A27")
async def test_a27_a_server_that_hangs_in_every_call_rests_too(tmp_path: Path, log: Path):
    """It runs long, but only since its answer is waited for."""
    limits = {"call_idle_timeout_seconds": 0.2, "alive_seconds": 0.1, "steady_seconds": 0.2, "breaker_failures": 2}
    boxes = {"dev": {"bad": rogue("hang_call", log=log)}}
    async with workbench(tmp_path, boxes, **limits, backoff_first_seconds=0.01, stdin_eof_seconds=0.1) as wb:
        for _ in range(2):
            assert (await fault_of(wb.use(tool("bad", "echo"), {}))).code == "call_timeout"
            supervisor = handle_of(wb, "dev", "bad").supervisor
            await wait_until(lambda: supervisor.current is None, what="the end of the server")  # noqa: B023
        await wait_until(lambda: supervisor.state == "resting", what="its rest")
        assert (await fault_of(wb.use(tool("bad", "echo"), {}))).code == "server_resting"
        assert len(starts(log)) == 2


@pytest.mark.row("A27")
async def test_a27_where_all_servers_of_a_toolbox_rest_it_is_told_when_to_open_it_again(tmp_path: Path):
    bad, never = rogue("exit_at_start"), rogue(env={"X": "${NO_SUCH_VARIABLE}"})
    boxes = {"resting": {"one": bad, "other": bad}, "hopeless": {"one": bad, "never": never}}
    limits = QUICK | {"rest_seconds": 30.0, "breaker_failures": 1}
    async with workbench(tmp_path, boxes, **limits) as wb, near(wb, View(), "handshake", {}) as wire:
        for is_second in (False, True):
            for toolbox in boxes:
                error = told(await wire.call("open_toolbox", {"toolbox": toolbox}))
                assert error["code"] == "toolbox_failed"
                waits = 25 <= error.get("retry_after", 0) <= 30
                assert waits is (is_second and toolbox == "resting")
