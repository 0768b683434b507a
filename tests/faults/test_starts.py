"""Rows A2 to A6: servers that die, hang or take their time when they are started or list."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.errors import ConnectFailed, ListTimeout, ServerExited, StartupTimeout
from mcp_workbench.limits import Limits
from mcp_workbench.surfaces.server_info import View
from tests.faults.outcomes import code_of
from tests.peers.rogue_stdio import STDERR_TEXT
from tests.support.configs import rogue, starts, write_config
from tests.support.lag import LagProbe, elapsed
from tests.support.library import fault_of, text_of, tool, workbench
from tests.support.near import near
from tests.support.procs import census, needs_proc, new_marker, wait_until
from tests.support.wire import heard, serving

PROGRESS = "notifications/progress"


# -- A2: it dies


@pytest.mark.row("A2")
async def test_a2_a_server_that_dies_at_its_start_does_not_keep_the_others_from_opening(tmp_path: Path):
    boxes = {"dev": {"one": rogue(), "dead": rogue("exit_at_start"), "two": rogue()}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        answer = await wire.open("dev")
        assert answer["servers_connected"] == 2
        assert {info["source_server"] for info in answer["tools"]} == {"one", "two"}
        [failed] = answer["servers_failed"]
        assert failed["server"] == "dead"
        assert "status 3" in failed["error"]
        assert STDERR_TEXT in failed["error"]
        assert heard(await wire.use("dev", "one", "echo"))
        assert heard(await wire.use("dev", "two", "echo"))


@pytest.mark.row("A2")
async def test_a2_the_failure_of_each_server_has_its_code(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"dead": rogue("exit_at_start"), "good": rogue()}}) as wb:
        [failure] = (await wb.open("dev")).failed
        assert isinstance(failure, ConnectFailed)
        assert (failure.server, type(failure.fault)) == ("dead", ServerExited)


# -- A3: it can't be run


def not_executable(folder: Path) -> str:
    (folder / "program").write_text("#!/bin/sh\n", encoding="utf-8")
    return str(folder / "program")


@pytest.mark.row("A3")
async def test_a3_a_command_that_cannot_run_is_named_with_its_reason_and_its_neighbours_open(tmp_path: Path):
    program = not_executable(tmp_path)
    faulty = {
        "ENOENT": {"command": str(tmp_path / "missing")},
        "EACCES": {"command": program},
        "ENOTDIR": {"command": f"{program}/x"},
        "folder": rogue(cwd=str(tmp_path / "gone")),
    }
    async with serving(write_config(tmp_path, {"dev": {**faulty, "good": rogue()}})) as wire:
        answer = await wire.open("dev")
        assert answer["servers_connected"] == 1
        errors = {failed["server"]: failed["error"] for failed in answer["servers_failed"]}
        assert errors.keys() == faulty.keys()
        assert all(kind in errors[kind] for kind in faulty)
        for kind in faulty:
            assert code_of(await wire.use("dev", kind, "echo")) == "spawn_failed"
        assert heard(await wire.use("dev", "good", "echo"))
        assert "Traceback" not in wire.stderr + json.dumps(answer)


# -- A4: it hangs


@pytest.mark.row("A4")
@needs_proc
@pytest.mark.parametrize("how", [(), ("stubborn",), ("stubborn", "daemon")], ids=["-", "stubborn", "daemon"])
async def test_a4_a_server_that_never_answers_its_opening_is_given_up_on_time_and_its_group_is_gone(
    tmp_path: Path, how: tuple[str, ...]
):
    marker = new_marker()
    boxes = {"dev": {"bad": rogue("hang_init", *how, env=marker), "good": rogue()}}
    limits = {"startup_timeout_seconds": 1.0, "probe_patience_seconds": 0.2}
    async with workbench(tmp_path, boxes, **limits, stdin_eof_seconds=0.5, terminate_seconds=0.5) as wb:
        async with LagProbe() as lag:
            assert isinstance(await fault_of(wb.use(tool("bad", "echo"), {})), StartupTimeout)
            assert lag.is_on_time(1.0)
        assert await wb.use(tool("good", "echo"), {})
        await wait_until(lambda: census(marker) == [], what="the end of the server and of what it left behind")


# -- A5: it is slow


@pytest.mark.row("A5")
async def test_a5_all_who_open_share_the_wait_for_a_slow_server_and_hear_that_it_is_starting(tmp_path: Path):
    """A server that needs 3 s, and four openers and four callers at once; those with a token hear of it meanwhile."""
    log = tmp_path / "rogue.log"
    boxes = {"dev": {"slow": rogue("slow_start", 3, log=log), "good": rogue()}}
    async with workbench(tmp_path, boxes, start_progress_seconds=0.5) as wb, near(wb, View(), "handshake", {}) as wire:
        used = {"tool": {"toolbox": "dev", "server": "slow", "tool": "echo"}, "arguments": {}}
        opening = [call("open_toolbox", {"toolbox": "dev"}, token=f"open {n}" if n else None) for n in range(4)]
        using = [call("use_tool", used, token=f"use {n}" if n else None) for n in range(4)]
        numbers = [await wire.begin("tools/call", params) for params in (*opening, *using)]
        answers = [(await wire.finish(number))[0]["result"] for number in numbers]
        assert {json.loads(text_of(answer))["servers_connected"] for answer in answers[:4]} == {2}
        assert {heard(answer)["pid"] for answer in answers[4:]} == set(starts(log))
        assert len(starts(log)) == 1
        told: dict[str, list[float]] = {}
        for message in wire.seen(PROGRESS):
            told.setdefault(message["params"]["progressToken"], []).append(message["params"]["progress"])
        assert told.keys() == {f"{kind} {n}" for kind in ("open", "use") for n in range(1, 4)}
        for steps in told.values():
            assert 3 <= len(steps) <= 6  # in three seconds, and once more or less for the time that the rest takes
            assert all(before < after for before, after in pairwise(steps))


def call(name: str, arguments: dict[str, Any], *, token: str | None) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **({"_meta": {"progressToken": token}} if token else {})}


@pytest.mark.row("A5")
def test_a5_a_start_of_half_a_minute_is_within_the_limits_and_heard_of_each_five_seconds():
    assert Limits().startup_timeout_seconds >= 30
    assert Limits().start_progress_seconds == 5


@pytest.mark.row("A5")
@pytest.mark.parametrize("mode", ["slow_start", "modern"])
async def test_a5_a_server_of_either_era_that_starts_after_the_probes_patience_is_reached(tmp_path: Path, mode: str):
    """It finds both questions in its pipe and refuses one; eight servers, since the order of its answers is chance."""
    boxes = {"dev": {f"s{number}": rogue(mode, 1.0) for number in range(8)}}
    async with workbench(tmp_path, boxes, probe_patience_seconds=0.1) as wb:
        opened = await wb.open("dev")
        assert [str(failure) for failure in opened.failed] == []


# -- A6: it does not list


@pytest.mark.row("A6")
async def test_a6_a_server_that_never_lists_fails_alone(tmp_path: Path):
    boxes = {"dev": {"bad": rogue("hang_list"), "good": rogue()}}
    async with workbench(tmp_path, boxes, list_page_timeout_seconds=0.5) as wb:
        since = time.monotonic()
        opened = await wb.open("dev")
        assert 0.45 <= elapsed(since) < 2
        [failure] = opened.failed
        assert (failure.server, type(failure.fault)) == ("bad", ListTimeout)
        assert {info["source_server"] for info in opened.tools} == {"good"}
        assert isinstance(await fault_of(wb.use(tool("bad", "echo"), {})), ListTimeout)
        assert await wb.use(tool("good", "echo"), {})


@pytest.mark.row("A6")
async def test_a6_one_who_opens_does_not_wait_longer_than_the_open_deadline(tmp_path: Path):
    boxes = {"dev": {"bad": rogue("hang_list"), "good": rogue()}}
    async with workbench(tmp_path, boxes, open_timeout_seconds=1.0) as wb:
        assert await wb.use(tool("good", "echo"), {})
        opened = await asyncio.wait_for(wb.open("dev"), 5)
        assert [failure.fault.code for failure in opened.failed] == ["still_starting"]
        assert opened.servers_connected == 1
