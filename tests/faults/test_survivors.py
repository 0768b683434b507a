"""Row A28: processes that hide from whoever started them: no environment, another group, no parent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_workbench.servers import guardian
from tests.nemesis.wires import descendants
from tests.support.configs import rogue, starts, write_config
from tests.support.procs import PROC, is_alive, needs_proc, wait_until
from tests.support.programs import PROGRAM
from tests.support.wire import Wire, environment, serving, text_of

pytestmark = needs_proc


needs_control_groups = pytest.mark.skipif(not guardian.own_group(), reason="platform: no control groups can be made")


async def hidden(wire: Wire, server: str = "fs", seconds: float = 600) -> int:
    """A process that a server has just left behind."""
    pid = int(text_of(await wire.use("dev", server, "echo", {"hidden": seconds})))
    await wait_until(lambda: b"MCP" not in _environ(pid), what="the loss of its environment")
    return pid


def _environ(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


async def grouped(wire: Wire, log: Path, server: str = "fs") -> None:
    """Start a server, and wait until it has its control group."""
    await wire.use("dev", server, "echo")
    place = PROC / str(starts(log)[0]) / "cgroup"
    await wait_until(lambda: "/mcp-workbench-" in place.read_text(encoding="utf-8"), what="the control group")


def guardian_of(wire: Wire) -> int:
    [found] = [one.pid for one in descendants(wire.process.pid) if "guardian.py" in one.command]
    return found


def zombies(parent: int) -> list[str]:
    found = [
        (PROC / child / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        for task in (PROC / str(parent) / "task").iterdir()
        for child in (task / "children").read_text(encoding="utf-8").split()
    ]
    return [state for state in found if state == "Z"]


@pytest.mark.row("A28")
@pytest.mark.parametrize("end", ["eof", "term"])
async def test_a28_a_hidden_process_is_gone_when_the_workbench_ends(tmp_path: Path, end: str):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("daemon")}})) as wire:
        left = await hidden(wire)
        if end == "term":
            wire.process.send_signal(signal.SIGTERM)
            await wire.process.wait()
        else:
            await wire.hang_up()
        assert not is_alive(left)


@pytest.mark.row("A28")
async def test_a28_a_hidden_process_is_killed_without_a_guardian_once_no_server_can_own_it(tmp_path: Path):
    """Which of the two servers it belongs to can't be told: it may run as long as the older one does."""
    logs = {name: tmp_path / name for name in ("old", "new")}
    servers = {name: rogue("daemon", log=log) for name, log in logs.items()}
    async with serving(write_config(tmp_path, {"dev": servers})) as wire:
        older = await hidden(wire, "old")
        newer = await hidden(wire, "new")
        os.kill(guardian_of(wire), signal.SIGKILL)
        os.kill(starts(logs["new"])[0], signal.SIGKILL)
        await wait_until(lambda: not is_alive(starts(logs["new"])[0]), what="the end of the new server")
        assert text_of(await wire.use("dev", "new", "echo"))  # it was ended, swept, and started again
        assert is_alive(older)
        assert is_alive(newer)
        os.kill(starts(logs["old"])[0], signal.SIGKILL)
        await wait_until(lambda: not (is_alive(older) or is_alive(newer)), what="the end of both")
        assert text_of(await wire.use("dev", "new", "echo"))


@needs_control_groups
@pytest.mark.row("A28")
async def test_a28_a_hidden_process_is_killed_with_its_server_and_its_neighbours_are_not(tmp_path: Path):
    log = tmp_path / "log"
    servers = {"fs": rogue("daemon", log=log), "first": rogue("daemon")}
    async with serving(write_config(tmp_path, {"dev": servers})) as wire:
        neighbours = await hidden(wire, "first")
        await grouped(wire, log)
        left = await hidden(wire)
        os.kill(starts(log)[0], signal.SIGKILL)
        await wait_until(lambda: not is_alive(left), what="the end of what was left behind")
        assert is_alive(neighbours)


@needs_control_groups
@pytest.mark.row("A28")
async def test_a28_a_hidden_process_is_gone_two_seconds_after_the_workbench_was_killed(tmp_path: Path):
    log = tmp_path / "log"
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("daemon", log=log)}})) as wire:
        await grouped(wire, log)
        left = await hidden(wire)
        watching = guardian_of(wire)
        wire.process.send_signal(signal.SIGKILL)
        await wire.process.wait()
        await wait_until(lambda: not is_alive(left), 2, what="the end of what was left behind")
        await wait_until(lambda: not is_alive(watching), 2, what="the end of the guardian")


@pytest.mark.row("A28")
async def test_a28_what_servers_left_behind_is_reaped_when_it_ends(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("daemon")}})) as wire:
        left = [await hidden(wire, seconds=0.1) for _ in range(5)]
        await wait_until(lambda: not any(map(is_alive, left)), what="the end of all")
        await wait_until(lambda: not any((PROC / str(pid)).exists() for pid in left), what="the reaping of all")
        assert zombies(wire.process.pid) == []
        assert text_of(await wire.use("dev", "fs", "echo"))


@pytest.mark.skipif(os.geteuid() != 0, reason="platform: only root can make a namespace")
@pytest.mark.row("A28")
async def test_a28_as_the_first_process_of_a_container_it_reaps_orphans_and_kills_none_that_are_not_its_own(
    tmp_path: Path,
):
    config = write_config(tmp_path, {"dev": {"fs": rogue("daemon")}})
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *PROGRAM, "serve", "--config", str(config)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment(tmp_path))
    assert process.stdin is not None
    assert process.stdout is not None
    call = {"name": "use_tool", "arguments": {"tool": {"toolbox": "dev", "server": "fs", "tool": "echo"}}}
    call["arguments"]["arguments"] = {"hidden": 0.1}  # type: ignore[index]
    greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    for number, (method, params) in enumerate((("initialize", greeting), *[("tools/call", call)] * 5)):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        assert json.loads(await process.stdout.readline())["id"] == number
    [first] = [one for one in descendants(process.pid)[1:] if "serve" in one.command][:1]
    await wait_until(lambda: len(descendants(first.pid)) == 3, what="the server, the guardian and nothing else")
    await wait_until(lambda: zombies(first.pid) == [], what="the reaping of all")
    process.stdin.close()
    assert await process.wait() == 0


@pytest.mark.row("A28")
def test_a28_the_start_of_a_process_that_serves_imports_no_ctypes():
    """It takes milliseconds, and hosts wait for the start."""
    code = "import sys, mcp_workbench.serve.stdio, mcp_workbench.workbench; print('ctypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"
