"""Rows D of the faults: what a client or the system can do to the workbench while it runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.configs import received, rogue, starts, write_config
from tests.support.procs import census, is_alive, needs_proc, new_marker, wait_until
from tests.support.wire import Era, Wire, environment, heard, result_of, serving, text_of, use_params

MIB = 1024 * 1024
HANG: dict[str, Any] = {"name": "use_tool", "arguments": use_params("dev", "fs", "hang")}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


# -- D1: the client gives up


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_d1_a_cancelled_call_is_cancelled_at_its_server_and_not_answered(tmp_path: Path, log: Path, era: Era):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}}), era=era) as wire:
        number = await wire.begin("tools/call", HANG)
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        await wire.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
        await wait_until(lambda: received(log, "notifications/cancelled"), 1, what="the cancellation")
        [call] = received(log, "tools/call")
        assert received(log, "notifications/cancelled")[0]["params"]["requestId"] == call["id"]
        assert heard(await wire.use("dev", "fs", "echo", {"n": 1}))["arguments"] == {"n": 1}
        assert all(message.get("id") != number for message in wire.order)


async def test_d1_cancelled_calls_free_their_slots(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})) as wire:
        numbers = [await wire.begin("tools/call", HANG) for _ in range(40)]
        await wait_until(lambda: len(received(log, "tools/call")) >= 32, what="the calls")
        for number in numbers:
            await wire.notify("notifications/cancelled", {"requestId": number})
        assert heard(await wire.use("dev", "fs", "echo"))


@needs_proc
async def test_d1_a_client_that_hangs_up_during_a_call_ends_everything(tmp_path: Path, log: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("never", log=log, env=marker)}})) as wire:
        await wire.begin("tools/call", HANG)
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        assert await wire.hang_up() == 0
        assert census(marker) == []


# -- D2: many at once


async def test_d2_a_hundred_opens_at_once_start_each_server_once(tmp_path: Path, log: Path):
    box = {name: rogue("slow_start", 0.3, log=log) for name in ("a", "b", "c")}
    async with serving(write_config(tmp_path, {"dev": box})) as wire:
        answers = await asyncio.gather(*(wire.open("dev", seconds=15) for _ in range(100)))
        assert answers[0]["servers_connected"] == 3
        assert all(answer == answers[0] for answer in answers)
        assert len(starts(log)) == 3


async def test_d2_a_hundred_opens_of_a_broken_toolbox_get_the_same_error(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"dead": rogue("exit_at_start", log=log)}})) as wire:
        params = {"toolbox": "dev"}
        results = await asyncio.gather(*(wire.call("open_toolbox", params, seconds=15) for _ in range(100)))
        assert {text_of(result).splitlines()[0] for result in results} == {"Toolbox 'dev' could not be opened"}
        assert len(starts(log)) <= 3


async def test_d2_cancelling_the_first_opener_does_not_cancel_the_others(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"slow": rogue("slow_start", 1, log=log)}})) as wire:
        params = {"name": "open_toolbox", "arguments": {"toolbox": "dev"}}
        first = await wire.begin("tools/call", params)
        others = [await wire.begin("tools/call", params) for _ in range(10)]
        await wait_until(lambda: starts(log), what="the start")
        await wire.notify("notifications/cancelled", {"requestId": first})
        for number in others:
            message, _ = await wire.finish(number)
            assert json.loads(text_of(result_of(message)))["servers_connected"] == 1
        assert len(starts(log)) == 1


# -- D4, D5: the end


async def eof(wire: Wire) -> None:
    assert wire.process.stdin is not None
    wire.process.stdin.close()


async def broken_stdout(wire: Wire) -> None:
    """Nobody reads any more, and there is something to say."""
    transport = wire.process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    transport.close()
    await wire.send({"jsonrpc": "2.0", "id": "x", "method": "tools/list"})


def signals(*numbers: signal.Signals) -> Callable[[Wire], Awaitable[None]]:
    async def send(wire: Wire) -> None:
        for number in numbers:
            wire.process.send_signal(number)
            await asyncio.sleep(0)

    return send


ENDS: dict[str, tuple[Callable[[Wire], Awaitable[None]], set[int] | None]] = {
    "eof": (eof, {0}),
    "sigterm": (signals(signal.SIGTERM), {143, -15}),
    "sigint": (signals(signal.SIGINT), {130, -2}),
    "sighup": (signals(signal.SIGHUP), {129, -1}),
    "broken stdout": (broken_stdout, None),
}
STUBBORN = ("ok", "ignore_eof", "ignore_sigterm", "never")


@needs_proc
async def test_d4_however_it_ends_no_process_is_left(tmp_path: Path):
    """All ways at once: each waits for servers that ignore every hint."""

    async def check(end: str) -> None:
        marker = new_marker()
        folder = tmp_path / end
        folder.mkdir()
        act, statuses = ENDS[end]
        boxes = {"dev": {mode: rogue(mode, env=marker) for mode in STUBBORN}}
        async with serving(write_config(folder, boxes)) as wire:
            assert (await wire.open("dev", seconds=25))["servers_connected"] == len(STUBBORN)
            since = time.monotonic()
            await act(wire)
            status = await wire.ended()
            assert time.monotonic() - since < 5.5, end
            await wait_until(lambda: census(marker) == [], 1, what=f"the end of every process after {end}")
            assert statuses is None or status in statuses, end
            assert "Traceback" not in wire.stderr, end

    await asyncio.gather(*map(check, ENDS))


@needs_proc
async def test_d4_a_second_signal_ends_it_at_once(tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("ignore_sigterm", env=marker)}})) as wire:
        await wire.open("dev")
        wire.process.send_signal(signal.SIGTERM)
        await wait_until(lambda: is_closing(wire), 1, what="the first signal")
        since = time.monotonic()
        wire.process.send_signal(signal.SIGTERM)
        await wire.ended()
        assert time.monotonic() - since < 1
        await wait_until(lambda: census(marker) == [], 2, what="the end of every process")


def is_closing(wire: Wire) -> bool:
    """Whether the program took the first signal: it is no longer pending."""
    status = Path(f"/proc/{wire.process.pid}/status").read_text(encoding="utf-8")
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return not any(mask & (1 << (signal.SIGTERM - 1)) for mask in pending)


@needs_proc
async def test_d5_when_the_workbench_is_killed_its_servers_end_too(tmp_path: Path):
    marker = new_marker()
    boxes = {"dev": {mode: rogue(mode, env=marker) for mode in ("ok", "ignore_eof", "ignore_sigterm", "daemon")}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        await wire.open("dev")
        await wire.use("dev", "daemon", "echo")
        await wait_until(lambda: len(census(marker)) == 5, what="four servers and a daemon")
        wire.process.send_signal(signal.SIGKILL)
        await wire.process.wait()
        await wait_until(lambda: census(marker) == [], 2, what="the end of every process")


@needs_proc
async def test_d5_a_server_that_wrote_over_its_environment_ends_with_a_killed_workbench_too(tmp_path: Path, log: Path):
    """Its marker can't be found any more, and it heeds neither the end of its input nor a polite signal."""
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("clobber", log=log, env=marker)}})) as wire:
        await wire.open("dev")
        [pid] = starts(log)
        assert census(marker) == []
        assert is_alive(pid)
        wire.process.send_signal(signal.SIGKILL)
        await wire.process.wait()
        await wait_until(lambda: not is_alive(pid), 2, what="the end of the server")


# -- D8: the client sends nonsense

NONSENSE: dict[str, bytes] = {
    "garbage": b"hello\xff\xfe there\n",
    "empty lines": b"\n\n  \n",
    "deep": b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "truncated": b'{"jsonrpc":"2.0","id":8,"method":"tools/ca\n',
    "batch": b'[{"jsonrpc":"2.0","id":9,"method":"nothing"}]\n',
    "empty batch": b"[]\n",
    "unknown method": b'{"jsonrpc":"2.0","id":10,"method":"no/such/method"}\n',
    "null id": b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}\n',
    "float id": b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}\n',
    "wrong version": b'{"jsonrpc":"1.0","id":11,"method":"tools/list"}\n',
    "params are text": b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":"x"}\n',
    "params are missing": b'{"jsonrpc":"2.0","id":13,"method":"tools/call"}\n',
    "name is a number": b'{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"name":5}}\n',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":15,"result":{}}\n',
    "a cancellation of nothing": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}\n',
    "an unknown notification": b'{"jsonrpc":"2.0","method":"notifications/none"}\n',
    "scalar": b"5\n",
}
UNANSWERED = {"empty lines", "an answer to nothing", "a cancellation of nothing", "an unknown notification"}


@pytest.mark.parametrize("kind", NONSENSE)
async def test_d8_nonsense_reaches_no_server_and_the_next_good_call_reaches_it_once(
    tmp_path: Path, log: Path, kind: str
):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as wire:
        before = len(wire.order)
        await wire.raw(NONSENSE[kind])
        if kind not in UNANSWERED:
            await wire.wait_for(lambda: len(wire.order) > before, "an error")
            assert all("error" in message for message in wire.order[before:]), wire.order[before:]
        assert starts(log) == []
        assert heard(await wire.use("dev", "fs", "echo"))
        assert len(received(log, "tools/call")) == 1


async def test_d8_a_huge_line_is_an_error_or_the_end_and_never_an_outage(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as wire:
        call = json.dumps({"name": "use_tool", "arguments": use_params("dev", "fs", "echo", {"x": "y" * 20 * MIB})})
        with_id = f'{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{call}}}\n'
        try:
            await wire.raw(with_id.encode())
        except (BrokenPipeError, ConnectionResetError):
            assert await wire.ended() is not None
            return
        await wire.wait_for(lambda: wire.process.returncode is not None or "error" in wire.order[-1], "an outcome")
        assert starts(log) == []
        if wire.process.returncode is None:
            assert heard(await wire.use("dev", "fs", "echo"))


async def test_d8_a_call_before_the_handshake_is_refused(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}}), greet=False) as wire:
        answer = await wire.request("tools/call", {"name": "use_tool", "arguments": use_params("dev", "fs", "echo")})
        assert "error" in answer
        assert starts(log) == []


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
