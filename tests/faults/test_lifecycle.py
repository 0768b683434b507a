"""Rows D3 to D5 and D10 of the faults: how the workbench ends, and that its output is the protocol's alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.errors import ShuttingDown
from mcp_workbench.surfaces.server_info import EVERYTHING
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.library import tool, workbench
from tests.support.near import near
from tests.support.procs import census, is_alive, needs_proc, new_marker, wait_until
from tests.support.wire import Wire, environment, heard, serving, text_of

# -- D3: while it closes


def code_of(outcome: Any) -> str:
    """The code that programs see of an error."""
    return getattr(outcome, "wire_code", repr(outcome))


@pytest.mark.row("D3")
async def test_d3_what_comes_while_it_closes_fails_at_once_and_starts_nothing(tmp_path: Path):
    """`slow` takes its time to end, and until then the workbench is closing."""
    log = tmp_path / "rogue.log"
    boxes = {"dev": {"slow": rogue("slow_eof", 0.8, log=log), "other": rogue(log=log)}}
    async with workbench(tmp_path, boxes) as wb:
        await wb.use(tool("slow", "echo"))
        closing = asyncio.create_task(wb.close())
        await wait_until(lambda: read_log(log)[-1]["event"] == "eof", what="the beginning of the end")
        since = time.monotonic()
        calls = [wb.open("dev"), *(wb.use(tool(server, "echo")) for server in ("slow", "other"))]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - since < 0.5
        assert [code_of(outcome) for outcome in outcomes] == ["shutting_down"] * 3
        assert not closing.done()
        await closing
        assert len(starts(log)) == 1
        assert isinstance((await asyncio.gather(wb.open("dev"), return_exceptions=True))[0], ShuttingDown)


@pytest.mark.row("D3")
async def test_d3_what_waits_while_it_closes_fails_at_once_and_starts_nothing(tmp_path: Path):
    """For an answer, for a slot, or for a start: of a server that starts, and of one that will be tried again soon."""
    log = tmp_path / "rogue.log"
    boxes = {
        "dev": {
            "busy": rogue("never", log=log, maxConcurrent=1),
            "starting": rogue("slow_start", 30, log=log),
            "broken": rogue("exit_at_start", log=log),
        }
    }
    async with workbench(tmp_path, boxes, stdin_eof_seconds=0.2, terminate_seconds=0.2) as wb:
        await asyncio.gather(wb.use(tool("broken", "echo")), return_exceptions=True)
        await wb.use(tool("busy", "echo"))
        waiting = [
            asyncio.create_task(wb.use(tool(server, name)))
            for server, name in (("busy", "hang"), ("busy", "hang"), ("starting", "echo"), ("broken", "echo"))
        ]
        await wait_until(lambda: received(log, "tools/call")[1:] and len(starts(log)) == 4, what="all that wait")
        closing = asyncio.create_task(wb.close())
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 2)
        assert [code_of(outcome) for outcome in outcomes] == ["shutting_down"] * 4
        await closing
        assert len(starts(log)) == 4


@pytest.mark.row("D3")
async def test_d3_a_client_hears_at_once_that_the_workbench_closes(tmp_path: Path):
    log = tmp_path / "rogue.log"
    boxes = {"dev": {"slow": rogue("slow_eof", 0.8, log=log), "other": rogue(log=log)}}
    async with workbench(tmp_path, boxes) as wb, near(wb, EVERYTHING, "handshake", {}) as wire:
        await wire.use("dev", "slow", "echo")
        closing = asyncio.create_task(wb.close())
        await wait_until(lambda: read_log(log)[-1]["event"] == "eof", what="the beginning of the end")
        opened = await wire.call("open_toolbox", {"toolbox": "dev"}, seconds=0.5)
        used = await wire.use("dev", "other", "echo", seconds=0.5)
        for result in (opened, used):
            assert result["_meta"]["mcp-workbench/error"]["code"] == "shutting_down"
        assert not closing.done()
        await closing
        assert len(starts(log)) == 1


@pytest.mark.row("D3")
@needs_proc
async def test_d3_a_signal_during_a_start_ends_the_start_and_nothing_follows(tmp_path: Path):
    log, marker = tmp_path / "rogue.log", new_marker()
    boxes = {"dev": {name: rogue("slow_start", 30, log=log, env=marker) for name in ("one", "two")}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        await wire.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": "dev"}})
        await wait_until(lambda: len(starts(log)) == 2, what="both starts")
        wire.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionError):  # it may have ended by now
            await wire.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": "dev"}})
        assert await wire.ended(seconds=5) == 128 + signal.SIGTERM
        assert census(marker) == []
        assert len(starts(log)) == 2


# -- D4, D5: the end


async def eof(wire: Wire) -> None:
    assert wire.process.stdin is not None
    wire.process.stdin.close()


async def broken_stdout(wire: Wire) -> None:
    """Nobody reads any more, and there is something to say."""
    transport = wire.process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    transport.close()
    await wire.send({"jsonrpc": "2.0", "id": "x", "method": "tools/list"})


def by(number: signal.Signals) -> Callable[[Wire], Awaitable[None]]:
    async def send(wire: Wire) -> None:
        wire.process.send_signal(number)

    return send


async def sigterm_twice(wire: Wire) -> None:
    wire.process.send_signal(signal.SIGTERM)
    await wait_until(lambda: took(wire, signal.SIGTERM), 2, what="the first signal")
    with contextlib.suppress(ProcessLookupError):
        wire.process.send_signal(signal.SIGTERM)


def took(wire: Wire, number: signal.Signals) -> bool:
    """Whether the program has taken a signal that was sent: it is no longer pending, or has ended already."""
    try:
        status = Path(f"/proc/{wire.process.pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return not any(mask & (1 << (number - 1)) for mask in pending)


ENDS: dict[str, tuple[Callable[[Wire], Awaitable[None]], int]] = {
    "eof": (eof, 0),
    "sigterm": (by(signal.SIGTERM), 143),
    "sigint": (by(signal.SIGINT), 130),
    "sighup": (by(signal.SIGHUP), 129),
    "sigterm twice": (sigterm_twice, 143),
    "broken stdout": (broken_stdout, 0),
}
SERVERS = {"ok": ("ok",), "stubborn": ("ok", "ignore_eof", "ignore_sigterm", "grandchild", "daemon", "never")}


@pytest.mark.row("D4")
@needs_proc
@pytest.mark.parametrize("servers", SERVERS)
async def test_d4_however_it_ends_no_process_is_left_after_five_seconds(tmp_path: Path, servers: str):
    """All ways at once, since each waits for servers that ignore every hint."""

    async def check(end: str) -> None:
        marker, modes = new_marker(), SERVERS[servers]
        folder = tmp_path / end
        folder.mkdir()
        act, status = ENDS[end]
        async with serving(write_config(folder, {"dev": {mode: rogue(mode, env=marker) for mode in modes}})) as wire:
            assert (await wire.open("dev", seconds=25))["servers_connected"] == len(modes)
            left_behind = [
                int(text_of(await wire.use("dev", mode, "echo"))) for mode in modes if mode in {"grandchild", "daemon"}
            ]
            assert all(map(is_alive, left_behind))
            there = len(modes) + len(left_behind)  # a process shows its environment once it runs its own program
            await wait_until(lambda: len(census(marker)) == there, 2, what="every process")
            since = time.monotonic()
            await act(wire)
            assert await wire.ended() == status, end
            await wait_until(lambda: census(marker) == [], 5, what=f"the end of every process after {end}")
            took_seconds = time.monotonic() - since
            assert took_seconds < (5 if servers == "stubborn" and end != "sigterm twice" else 3), end
            assert "Traceback" not in wire.stderr, end

    await asyncio.gather(*map(check, ENDS))


@pytest.mark.row("D4")
@needs_proc
async def test_d4_a_second_signal_ends_it_at_once(tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("ignore_sigterm", env=marker)}})) as wire:
        await wire.open("dev")
        wire.process.send_signal(signal.SIGTERM)
        await wait_until(lambda: took(wire, signal.SIGTERM), 1, what="the first signal")
        since = time.monotonic()
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 143
        assert time.monotonic() - since < 1
        await wait_until(lambda: census(marker) == [], 2, what="the end of every process")


LATE_SIGNAL = """
import asyncio, os, signal, sys
from mcp_workbench.__main__ import main
close = asyncio.Runner.close
def closing(runner):
    close(runner)
    os.kill(os.getpid(), signal.SIGTERM)
asyncio.Runner.close = closing
sys.argv = ["mcp-workbench", "serve", "--config", sys.argv[1]]
main()
"""
LAST_SIGNAL = """
import os, signal, sys
from mcp_workbench.__main__ import main
class Last:
    def __del__(self, kill=os.kill, me=os.getpid(), number=signal.SIGTERM):
        kill(me, number)
os.last = Last()  # goes when modules go, after the handlers of signals
sys.argv = ["mcp-workbench", "serve", "--config", sys.argv[1]]
main()
"""


@pytest.mark.row("D4")
@pytest.mark.parametrize(("script", "status"), [(LATE_SIGNAL, 128 + signal.SIGTERM), (LAST_SIGNAL, 0)])
async def test_d4_a_signal_after_everything_was_cleaned_up_does_not_kill_it(tmp_path: Path, script: str, status: int):
    """While the loop closes, and while Python itself ends."""
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(config), stdin=asyncio.subprocess.DEVNULL, env=environment(tmp_path)
    )
    assert await program.wait() == status


@pytest.mark.row("D5")
@needs_proc
async def test_d5_two_seconds_after_the_workbench_is_killed_no_process_of_it_is_left(tmp_path: Path):
    """Whether they heed hints or not, are daemons, or have not answered yet."""
    log, marker = tmp_path / "rogue.log", new_marker()
    modes = ("ok", "ignore_eof", "ignore_sigterm", "grandchild", "daemon", "never")
    boxes = {
        "dev": {mode: rogue(mode, env=marker) for mode in modes},
        "late": {"slow": rogue("slow_start", 60, log=log, env=marker)},
    }
    async with serving(write_config(tmp_path, boxes)) as wire:
        await wire.open("dev")
        for mode in ("grandchild", "daemon"):
            await wire.use("dev", mode, "echo")
        await wire.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": "late"}})
        await wait_until(lambda: starts(log), what="the late start")
        assert len(census(marker)) == len(modes) + 3
        wire.process.send_signal(signal.SIGKILL)
        await wire.process.wait()
        await wait_until(lambda: census(marker) == [], 2, what="the end of every process")


@pytest.mark.row("D5")
@needs_proc
async def test_d5_a_server_that_wrote_over_its_environment_ends_with_a_killed_workbench_too(tmp_path: Path):
    """Its marker can't be found any more, and it heeds neither the end of its input nor a polite signal."""
    log, marker = tmp_path / "rogue.log", new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("clobber", log=log, env=marker)}})) as wire:
        await wire.open("dev")
        [pid] = starts(log)
        assert census(marker) == []
        assert is_alive(pid)
        wire.process.send_signal(signal.SIGKILL)
        await wire.process.wait()
        await wait_until(lambda: not is_alive(pid), 2, what="the end of the server")


# -- D10: stray output

INTRUDER = """
import os, pathlib, subprocess, sys, threading, time

def intrude():
    folder = pathlib.Path(os.environ["INTRUDER"])
    while not (folder / "go").exists():
        time.sleep(0.01)
    print("stray print", flush=True)
    os.write(1, b"stray write\\n")
    subprocess.run(["echo", "stray child"])
    (folder / "done").touch()

if "serve" in sys.orig_argv:
    threading.Thread(target=intrude, daemon=True).start()
"""


@pytest.mark.row("D10")
async def test_d10_nothing_but_the_protocol_reaches_stdout(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(INTRUDER, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), environment(tmp_path)["PYTHONPATH"]])
    extra = {"PYTHONPATH": path, "INTRUDER": str(tmp_path)}
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue()}}), env=extra) as wire:
        (tmp_path / "go").touch()
        await wait_until((tmp_path / "done").exists, what="the stray output")
        assert heard(await wire.use("dev", "fs", "echo"))
        assert wire.stray == []
        await wire.hang_up()
        assert all(text in wire.stderr for text in ("stray print", "stray write", "stray child"))
