"""Row C9 of the faults, with the whole program: its configuration file changes while calls are under way."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mcp_workbench import Limits, Workbench, load_config
from mcp_workbench.config.jsonc.source import read_source
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.storage.trusted_configs import Trust, digest, place_of
from tests.faults.outcomes import code_of
from tests.serve.http.serving import Handshake, program, use
from tests.support.configs import received, rogue, starts, write_config
from tests.support.lag import elapsed
from tests.support.procs import is_alive, needs_proc, wait_until
from tests.support.wire import Wire, environment, heard, result_of, serving

IN_FORCE = "the changed configuration is in force"
REFUSED = "the changed configuration is invalid; the previous one stays in force"


async def said(wire: Wire, words: str, times: int = 1) -> None:
    await wait_until(lambda: wire.stderr.count(words) >= times, 15, what=words)


async def pid_of(wire: Wire, server: str, toolbox: str = "dev") -> int:
    return heard(await wire.use(toolbox, server, "echo"))["pid"]


@pytest.mark.row("C9")
@needs_proc
async def test_c9_unchanged_servers_keep_their_process_and_removed_ones_drain_within_the_deadline_of_a_call(
    tmp_path: Path,
):
    log = tmp_path / "rogue.log"
    kept, busy = rogue(log=log), rogue("never", log=log, callTimeout=3)
    config = write_config(tmp_path, {"dev": {"kept": kept, "busy": busy, "changed": rogue(log=log)}})
    async with serving(config) as wire:
        before = {name: await pid_of(wire, name) for name in ("kept", "busy", "changed")}
        hang = {"tool": {"toolbox": "dev", "server": "busy", "tool": "hang"}, "arguments": {}}
        call = await wire.begin("tools/call", {"name": "use_tool", "arguments": hang})
        await wait_until(lambda: received(log, "tools/call")[3:], what="the call")
        write_config(tmp_path, {"dev": {"kept": kept, "changed": rogue("ok", "echo", "more", log=log)}})
        await said(wire, IN_FORCE)
        assert await pid_of(wire, "kept") == before["kept"]
        assert await pid_of(wire, "changed") != before["changed"]
        assert (await wire.use("dev", "changed", "more"))["content"]
        assert code_of(await wire.use("dev", "busy", "echo")) == "server_not_found"
        await wait_until(lambda: not is_alive(before["changed"]), what="the end of the changed server")
        assert is_alive(before["busy"])
        answer, _ = await wire.finish(call)
        assert code_of(result_of(answer)) == "call_timeout"
        await wait_until(lambda: not is_alive(before["busy"]), 10, what="the end of the removed server")
        assert len(starts(log)) == 4


@pytest.mark.row("C9")
async def test_c9_a_bad_file_leaves_the_old_configuration_in_force_and_says_why(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"s": rogue()}})
    async with serving(config, "--toolbox", "dev") as wire:
        pid = heard(await wire.call("echo"))["pid"]
        config.write_text(config.read_text()[:-3])
        await said(wire, REFUSED)
        assert str(config) in wire.stderr
        assert heard(await wire.call("echo"))["pid"] == pid
        write_config(tmp_path, {"other": {"s": rogue()}})  # without what is served
        await said(wire, REFUSED, 2)
        assert "Toolbox 'dev' not found" in wire.stderr
        assert heard(await wire.call("echo"))["pid"] == pid


@pytest.mark.row("C7", "C9")
async def test_c9_a_projects_file_that_changed_is_used_when_it_is_trusted_again(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    config = write_config(project, {"dev": {"s": rogue()}})
    home = environment(project / "home")

    def trust() -> None:
        place = place_of(str(config))
        Trust(home).add(place, digest(read_source(place, DEFAULTS)))

    trust()
    async with serving(None, cwd=project) as wire:
        pid = await pid_of(wire, "s")
        write_config(project, {"dev": {"s": rogue(), "more": rogue()}})
        await said(wire, REFUSED)
        assert "mcp-workbench trust" in wire.stderr
        assert code_of(await wire.use("dev", "more", "echo")) == "server_not_found"
        trust()
        await said(wire, IN_FORCE)
        assert await pid_of(wire, "s") == pid
        assert await pid_of(wire, "more") != pid


@pytest.mark.row("C9")
async def test_c9_it_is_followed_over_http_too(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with program(config) as running, running.client() as http:
        client = await Handshake.begin(http)
        first = heard(await client.call(use("echo")))
        write_config(tmp_path, {"dev": {"fs": rogue()}, "ops": {"fs": rogue()}})
        await wait_until(lambda: IN_FORCE.encode() in running.stderr, 15, what=IN_FORCE)
        again = heard(await client.call(use("echo")))
        other = heard(await client.call(use("echo", toolbox="ops")))
        assert first["pid"] == again["pid"] != other["pid"]


@pytest.mark.row("C9")
async def test_c9_an_open_answers_in_time_though_the_configuration_changes_again_and_again(tmp_path: Path):
    def config(number: int) -> Path:
        return write_config(tmp_path, {"dev": {"fs": rogue("hang_init", env={"N": str(number)}), "ok": rogue()}})

    async def change() -> None:
        for number in range(1000):
            await asyncio.sleep(0.1)
            bench.apply(load_config(config(number)))

    async with Workbench(load_config(config(-1)), limits=Limits(open_timeout_seconds=0.5)) as bench:
        changing = asyncio.create_task(change())
        since = time.monotonic()
        opened = await asyncio.wait_for(bench.open("dev"), 10)
        changing.cancel()
        assert elapsed(since) < 1.5
        assert [failed.server for failed in opened.failed] == ["fs"]
