"""Programs that are forked for tests are as programs that were started: else tests with them would show nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import nursery, programs
from tests.support.procs import is_alive, needs_proc
from tests.support.screens import at_terminal
from tests.support.wire import environment

MIRROR = [sys.executable, str(nursery.PEERS / "mirror.py")]

pytestmark = needs_proc


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch):
    def each(run) -> list[Any]:
        found = []
        for value in ("", "no"):
            monkeypatch.setenv(nursery.SWITCH, value)
            found.append(run())
        return found

    return each


def seen(file: Path) -> dict[str, Any]:
    """What a program says of itself, but for the switch."""
    state = json.loads(file.read_text(encoding="utf-8"))
    state["variables"].pop(nursery.SWITCH, None)
    return state


def test_in_pipes_both_are_alike(tmp_path: Path, both):
    def run() -> tuple[dict[str, Any], str]:
        env = environment(tmp_path) | {"MINE": "ä\n", "EMPTY": ""}
        done = programs.run([*MIRROR, str(tmp_path / "state")], env=env, cwd=tmp_path, stdin="ü" * 100_000)
        return seen(tmp_path / "state"), done.stdout

    forked, started = both(run)
    assert forked == started
    assert forked[0]["variables"]["MINE"] == "ä\n"
    assert forked[0]["read"] == "ü" * 100_000


def test_at_a_terminal_both_are_alike(tmp_path: Path, both):
    def run() -> dict[str, Any]:
        with at_terminal(str(tmp_path / "state"), command=MIRROR) as screen:
            assert screen.finish() == 0
        return seen(tmp_path / "state")

    forked, started = both(run)
    assert forked == started
    assert forked["session of its own"]
    assert forked["in front"]


async def test_with_a_loop_both_are_alike(tmp_path: Path, both):
    async def run() -> tuple[dict[str, Any], bytes, bytes, int]:
        process = await programs.start([*MIRROR, str(tmp_path / "state"), "exit", "7"], env=environment(tmp_path))
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.close()
        said = await process.stdout.read(), await process.stderr.read()
        status = await process.wait()
        assert process.returncode == status
        with pytest.raises(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process._transport.close()  # type: ignore[attr-defined]
        return seen(tmp_path / "state"), *said, status

    forked, started = [await one for one in both(run)]
    assert forked == started
    assert forked[-1] == 7


ENDS = {"exit 0": 0, "exit 3": 3, "exit 300": 300 - 256, "raise": 1, "kill": -signal.SIGTERM, "full": None}
"""And the status of each, where that is the same whether what is written is kept for a while."""


@pytest.mark.parametrize("end", ENDS)
def test_both_end_alike(tmp_path: Path, both, end: str):
    def run() -> tuple[int, str, list[str]]:
        done = programs.run([*MIRROR, str(tmp_path / "state"), *end.split()])
        return done.returncode, done.stdout, done.stderr.splitlines()[-1:]

    forked, started = both(run)
    assert forked == started
    assert forked[0] == ENDS[end] or (ENDS[end] is None and forked[0] != 0)


@pytest.mark.parametrize(
    ("command", "env", "expected"),
    [
        ([*programs.PROGRAM, "list"], {}, True),
        ([*programs.PROGRAM, "list"], {"HOME": "/elsewhere", "WORKBENCH_CONFIG": "x"}, True),
        ([*programs.PROGRAM, "list"], {"PYTHONPATH": "/elsewhere"}, False),
        ([*programs.PROGRAM, "list"], {"PYTHONUNBUFFERED": "1"}, False),
        ([*programs.PROGRAM, "list"], {"SSL_CERT_FILE": "/some.pem"}, False),
        ([*programs.PROGRAM, "list"], {"LC_ALL": "C"}, False),
        ([sys.executable, "-c", "pass"], {}, False),
        (["/bin/sh", "-c", "true"], {}, False),
    ],
)
def test_what_python_reads_when_it_starts_has_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], env: dict[str, str], *, expected: bool
):
    monkeypatch.delenv(nursery.SWITCH, raising=False)
    for name in env:
        monkeypatch.delenv(name, raising=False)
    assert nursery.forks(command, environment(tmp_path) | env) is expected


def test_one_that_does_not_end_in_time_is_killed(tmp_path: Path):
    file = tmp_path / "pid"
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run([*MIRROR, str(file), "wait"], timeout=2)
    assert not is_alive(int(file.read_text(encoding="utf-8")))
