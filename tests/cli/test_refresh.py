"""`mcp-workbench refresh`: servers are asked now, so that toolboxes open later without starting any."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest

from mcp_workbench import Workbench, load_config, logger
from mcp_workbench.wire.caller import LIBRARY
from tests.support import programs
from tests.support.commands import Result, invoke
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.procs import wait_until
from tests.support.screens import started
from tests.support.wire import environment, serving

ASKED = {"elicitation": {}}
SECONDS = re.compile(r" \(\d+\.\d s\)")


@pytest.fixture(autouse=True)
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command changes for its whole process is undone; the store is that of programs started by a test."""
    monkeypatch.setattr(logger, "log", logger.Log())
    for hook in ("excepthook", "unraisablehook"):
        monkeypatch.setattr(sys, hook, getattr(sys, hook))
    for name, value in environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WORKBENCH_CATALOG")


def refresh(config: Path, *arguments: str) -> Result:
    return invoke("refresh", "--config", str(config), *arguments)


def lines(text: str) -> list[str]:
    """What is told, without how long it took."""
    return sorted(SECONDS.sub("", line) for line in text.splitlines())


def opened(config: Path, toolbox: str = "dev") -> Any:
    async def work() -> Any:
        async with Workbench(load_config(config)) as workbench:
            return await workbench.open(toolbox)

    return asyncio.run(work())


def three(folder: Path, log: Path) -> Path:
    boxes = {"dev": {"one": rogue("ok", "a", log=log), "two": rogue(log=log)}, "ops": {"three": rogue(log=log)}}
    return write_config(folder, boxes)


# -- what it does


def test_every_server_is_asked_ended_and_needed_no_more_for_an_open(tmp_path: Path):
    log = tmp_path / "log"
    config = three(tmp_path, log)
    result = refresh(config)
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines(result.stdout) == ["dev/one: 1 tool", "dev/two: 2 tools", "ops/three: 2 tools"]
    assert all(SECONDS.search(line) for line in result.stdout.splitlines())
    assert sorted(starts(log)) == sorted(entry["pid"] for entry in read_log(log) if entry["event"] == "exit")
    for toolbox, servers in (("dev", ("one", "two")), ("ops", ("three",))):
        assert opened(config, toolbox).stored == servers
    assert len(starts(log)) == 3


def test_one_toolbox_can_be_named(tmp_path: Path):
    log = tmp_path / "log"
    config = three(tmp_path, log)
    assert lines(refresh(config, "ops").stdout) == ["ops/three: 2 tools"]
    assert len(starts(log)) == 1


def test_what_is_remembered_is_asked_for_all_the_same(tmp_path: Path):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"one": rogue(log=log)}}, catalog={"refresh": "never"})
    for number in (1, 2):
        assert refresh(config).exit_code == 0
        assert len(received(log, "tools/list")) == number


def test_a_server_that_fails_is_told_with_the_others_done(tmp_path: Path):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"ill": rogue("exit_at_start"), "well": rogue(log=log)}})
    result = refresh(config)
    assert result.exit_code == 1
    said, failed, done = lines(result.stdout)
    assert done == "dev/well: 2 tools"
    assert failed == "dev/ill: failed: it exited with status 3; its last words:"
    assert said == "    boom: the disk is on fire"
    assert "Traceback" not in result.stderr
    assert opened(config).stored == ("well",)
    assert len(starts(log)) == 1


def test_for_programs_there_is_json_and_nothing_else(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"ill": rogue("exit_at_start"), "well": rogue()}})
    result = refresh(config, "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["ok"] is False
    ill, well = told["servers"]
    assert (ill["toolbox"], ill["server"], "tools" in ill) == ("dev", "ill", False)
    assert "disk is on fire" in ill["error"]
    assert {key: well[key] for key in ("toolbox", "server", "tools")} == {
        "toolbox": "dev",
        "server": "well",
        "tools": 2,
    }
    assert well["seconds"] > 0
    (well_only,) = json.loads(refresh(write_config(tmp_path, {"dev": {"well": rogue()}}), "--json").stdout)["servers"]
    assert "error" not in well_only


@pytest.mark.parametrize("arguments", [["de"], ["de", "--json"]])
def test_an_unknown_toolbox_is_told_with_the_nearest_and_nothing_is_started(tmp_path: Path, arguments: list[str]):
    log = tmp_path / "log"
    config = three(tmp_path, log)
    result = refresh(config, *arguments)
    assert result.exit_code == 2
    assert "Toolbox 'de' not found" in result.output
    assert "Did you mean 'dev'?" in result.output
    assert starts(log) == []


def test_a_configuration_that_cannot_be_used_exits_with_2(tmp_path: Path):
    config = tmp_path / "workbench-config.json"
    config.write_text("{", encoding="utf-8")
    assert refresh(config).exit_code == 2
    assert refresh(tmp_path / "nothing.json").exit_code == 2


def test_an_unknown_log_level_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_LOG", "loud")
    assert refresh(write_config(tmp_path, {"dev": {"one": rogue()}})).exit_code == 2


def test_a_person_is_told_that_nothing_can_be_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_CATALOG", "/proc/no/such/folder/catalog.sqlite")
    config = write_config(tmp_path, {"dev": {"one": rogue()}})
    done = programs.run([*programs.PROGRAM, "refresh", "--config", str(config)])
    assert "/proc/no/such/folder/catalog.sqlite" in done.stderr


# -- for which clients


async def test_clients_that_were_seen_open_without_a_start_too(tmp_path: Path):
    """One that can be asked has opened one toolbox; after a refresh it opens another, which it never saw."""
    log = tmp_path / "log"
    config = three(tmp_path, log)
    async with serving(config, greet=False) as wire:
        await wire.handshake(capabilities=ASKED)
        await wire.open("ops")
    assert len(starts(log)) == 1
    done = await asyncio.to_thread(refresh, config)
    assert done.exit_code == 0
    before = len(starts(log))
    assert before == 1 + 2 * 3  # each as the client that was seen, and as one that declares nothing
    declared = [message["params"]["capabilities"] for message in received(log, "initialize")[1:]]
    assert sorted(map(str, declared)) == sorted(map(str, [{}, ASKED] * 3))
    for capabilities in ({}, ASKED):
        async with serving(config, greet=False) as wire:
            await wire.handshake(capabilities=capabilities)
            assert (await wire.open("dev"))["stored"] is True
    assert len(starts(log)) == before


async def test_processes_of_one_server_do_not_run_at_the_same_time(tmp_path: Path):
    """It may hold a port, or a lock."""
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"one": rogue("lock", tmp_path / "lock", 0.3, log=log)}})
    async with serving(config, greet=False) as wire:
        await wire.handshake(capabilities=ASKED)
        await wire.open("dev")
    done = await asyncio.to_thread(refresh, config)
    assert done.exit_code == 0, done.stdout


# -- at a terminal


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    person, device = pty.openpty()
    try:
        yield person, device
    finally:
        os.close(person)
        os.close(device)


def read_all(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    pieces: list[bytes] = []
    with contextlib.suppress(BlockingIOError, OSError):
        while piece := os.read(descriptor, 65_536):
            pieces.append(piece)
    return b"".join(pieces).decode()


def screen(text: str) -> list[str]:
    """What stands on a terminal at the end."""
    shown = pyte.Screen(200, 24)
    pyte.Stream(shown).feed(text)
    return [line.rstrip() for line in shown.display if line.strip()]


def test_at_a_terminal_what_is_waited_for_is_shown_and_gone_at_the_end(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"slow": rogue("slow_start", 0.3), "one": rogue()}})
    with terminal() as (person, device):
        env = os.environ | {"COLUMNS": "40"}
        status = started([*programs.PROGRAM, "refresh", "--config", str(config)], env, None, device).wait(30)
        text = read_all(person)
    assert status == 0, text
    assert "waiting for dev/slow, dev/one" in text
    told = sorted(SECONDS.sub("", line) for line in screen(text))
    assert told == ["dev/one: 2 tools", "dev/slow: 2 tools", f"using {config}"]


def test_in_a_pipe_there_is_a_line_for_each_and_no_control_sequence(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"one": rogue()}})
    done = programs.run([*programs.PROGRAM, "refresh", "--config", str(config)])
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == ["dev/one: 2 tools"]
    assert "\x1b" not in done.stdout


async def test_an_interrupted_refresh_ends_what_it_started(tmp_path: Path):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"one": rogue("hang_init", log=log)}})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mcp_workbench", "refresh", "--config", str(config),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip
    await wait_until(lambda: starts(log), 15, what="its server")
    process.send_signal(signal.SIGINT)
    _, told = await asyncio.wait_for(process.communicate(), 15)
    assert process.returncode not in (0, None)
    assert b"Traceback" not in told
    await wait_until(lambda: len([one for one in read_log(log) if one["event"] == "exit"]) == len(starts(log)))


def test_a_library_that_remembers_nothing_expects_one_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_CATALOG", "none")
    workbench = Workbench(load_config(write_config(tmp_path, {"dev": {"one": rogue()}})))
    assert workbench.expected() == [LIBRARY]
