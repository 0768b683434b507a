"""`mcp-workbench logs`, in a pipe and at a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_workbench.activity.batch import Batch, Line, Run
from mcp_workbench.activity.process_identity import birth
from mcp_workbench.activity.tables import RecordTables
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from tests.support.configs import rogue, write_config
from tests.support.procs import poll_until
from tests.support.screens import COLOUR, PROGRAM, at_terminal, piped
from tests.support.wire import environment, serving


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    record = home / "XDG_STATE_HOME" / "mcp-workbench" / "record.sqlite"
    return environment(home) | {"WORKBENCH_RECORD": str(record)}


class Log:
    """A record with lines of a workbench that runs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "record.sqlite").touch(0o600)
        self.tables = RecordTables(str(folder / "record.sqlite"), DEFAULTS)
        self.run = self.begin()

    def begin(self) -> int:
        return self.tables.begin(Run(os.getpid(), birth(os.getpid()), "1", "/c.json", "stdio", time.time()))

    def add(self, *lines: tuple[str, str, str, str], is_last: bool = False) -> None:
        """Lines of a level, about a toolbox and a server."""
        now = time.time()
        made = [Line(now, level, *about, f"12:00:00 {level} {text}") for level, *about, text in lines]
        parts = {"calls": [], "counts": {}, "openings": [], "servers": [], "flights": [], "lost": 0}
        self.tables.write(self.run, Batch(now, lines=made, is_last=is_last, **parts), prunes=False)  # type: ignore[arg-type]

    def call(self, tool: str, outcome: str = "", *, given: str | None = None, gave: str | None = None) -> None:
        now = time.time()
        calls = [(ToolIdentifier("dev", "fs", tool), 0.0, 12.3456, outcome, given, gave, "")]
        parts = {"counts": {}, "openings": [], "servers": [], "flights": [], "lost": 0, "lines": [], "is_last": False}
        self.tables.write(self.run, Batch(now, calls=calls, epoch=now, **parts), prunes=False)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "home" / "XDG_STATE_HOME" / "mcp-workbench")
    yield log
    log.tables.close()


def shown(env: dict[str, str], *arguments: str) -> list[str]:
    done = piped("logs", *arguments, env=env)
    assert done.returncode == 0, done.stderr
    return [line.rpartition(" ")[2] for line in done.stdout.splitlines()]


def test_the_last_lines_are_shown_as_they_were_written(log: Log, env: dict[str, str]):
    log.add(*(("info", "", "", f"line{number}") for number in range(60)))
    done = piped("logs", env=env)
    assert done.stdout.splitlines()[-1] == f"{os.getpid()} 12:00:00 info line59"
    assert shown(env) == [f"line{number}" for number in range(10, 60)]
    assert shown(env, "--lines", "2") == ["line58", "line59"]
    assert shown(env, "--lines", "0") == []


def test_lines_are_chosen_by_level_and_by_server(log: Log, env: dict[str, str]):
    log.add(("debug", "dev", "fs", "a"), ("info", "dev", "git", "b"), ("warning", "dev", "fs", "c"))
    log.add(("error", "ops", "fs", "d"))
    log.add(("info", "", "", "e"), ("info", "dev", "fs2", "f"))
    assert shown(env, "--level", "warning") == ["c", "d"]
    assert shown(env, "--server", "dev/fs") == ["a", "c"]
    assert shown(env, "--server", "dev") == ["a", "b", "c", "f"]
    assert shown(env, "--server", "dev/fs", "--level", "info") == ["c"]
    assert shown(env, "--lines", "1", "--server", "dev/fs") == ["c"]


def test_a_server_is_chosen_exactly_whatever_the_names(log: Log, env: dict[str, str]):
    log.add(("info", "a", "b/c", "one"), ("info", "a/b", "c", "two"), ("info", "a", "b", "three"))
    assert shown(env, "--server", r"a/b\/c") == ["one"]
    assert shown(env, "--server", r"a\/b/c") == ["two"]
    assert shown(env, "--server", r"a\/b") == ["two"]
    assert shown(env, "--server", "a/b") == ["three"]
    assert shown(env, "--server", "a") == ["one", "three"]
    assert shown(env, "--server", "a/b/c") == []


def test_lines_of_workbenches_that_ended_are_shown_with_all(log: Log, env: dict[str, str]):
    log.add(("info", "", "", "a"), is_last=True)
    assert shown(env) == []
    assert shown(env, "--all") == ["a"]


def test_a_person_is_told_that_there_is_nothing_and_a_program_is_not(log: Log, env: dict[str, str]):
    log.add(("info", "", "", "a"), is_last=True)
    done = piped("logs", env=env)
    assert (done.stdout, done.returncode) == ("", 0)
    assert done.stderr == "No running workbench has logged such lines. For ended ones: logs --all\n"
    assert piped("logs", "--all", "--level", "error", env=env).stderr == "No workbench has logged such lines.\n"
    assert piped("logs", "--json", env=env).stderr == ""
    assert piped("logs", "--all", env=env).stderr == ""


def test_a_program_gets_a_document_for_each_line(log: Log, env: dict[str, str]):
    log.add(("warning", "dev", "fs", "a"), ("info", "", "", "b"))
    told = [json.loads(line) for line in piped("logs", "--json", env=env).stdout.splitlines()]
    assert [(one["pid"], one["level"], one["toolbox"], one["server"], one["line"]) for one in told] == [
        (os.getpid(), "warning", "dev", "fs", "12:00:00 warning a"),
        (os.getpid(), "info", None, None, "12:00:00 info b"),
    ]
    assert told[0]["at"].endswith("Z")


@pytest.mark.parametrize("number", ["-1", "many", "1.5"])
def test_a_number_of_lines_is_a_number(env: dict[str, str], number: str):
    done = piped("logs", f"--lines={number}", env=env)
    assert done.returncode == 2
    assert "--lines must be a whole number" in done.stderr


def test_at_a_terminal_warnings_are_coloured(log: Log, env: dict[str, str]):
    log.add(("warning", "", "", "a"))
    with at_terminal("logs", env=env) as screen:
        assert screen.finish() == 0
        assert COLOUR.search(screen.text)


def test_what_is_logged_is_followed_until_ctrl_c(log: Log, env: dict[str, str]):
    log.add(("info", "", "", "before"))
    with at_terminal("logs", "--follow", env=env) as screen:
        screen.wait_for("before")
        log.add(("info", "", "", "while"), is_last=True)
        screen.wait_for("while")
        screen.type("\x03")
        assert screen.finish() == 0
        assert screen.text.count("before") == 1


def test_following_does_not_begin_with_what_others_said_before_they_ended(log: Log, env: dict[str, str]):
    log.add(("info", "", "", "here-already"))
    running, log.run = log.run, log.begin()
    log.add(("info", "", "", "of-the-past"), is_last=True)
    log.run = running
    with at_terminal("logs", "--follow", env=env) as screen:
        screen.wait_for("here-already")
        log.add(("info", "", "", "of-now"))
        screen.wait_for("of-now")
        screen.type("\x03")
        assert screen.finish() == 0
        assert "of-the-past" not in screen.text


def test_following_goes_on_when_the_record_was_removed(tmp_path: Path, log: Log, env: dict[str, str]):
    log.add(*(("info", "", "", f"before{number}") for number in range(9)))
    with at_terminal("logs", "--follow", env=env) as screen:
        screen.wait_for("before8")
        file = tmp_path / "home" / "XDG_STATE_HOME" / "mcp-workbench" / "record.sqlite"
        log.tables.close()
        file.unlink()
        file.touch(0o600)
        log.tables = RecordTables(str(file), DEFAULTS)
        log.run = log.begin()
        log.add(("info", "", "", "anew"))
        screen.wait_for("anew")
        screen.type("\x03")
        assert screen.finish() == 0
        assert screen.text.count("before8") == 1


def test_a_level_that_nobody_knows_is_shown_whatever_is_asked_for(log: Log, env: dict[str, str]):
    """Another version may have written it."""
    log.add(("fatal", "", "", "a"), ("info", "", "", "b"))
    assert shown(env, "--level", "error") == ["a"]


async def test_a_real_workbench_is_followed_through_a_pipe(tmp_path: Path, env: dict[str, str]):
    config = write_config(
        tmp_path, {"dev": {"bad": {"command": "/nowhere/at/all"}, "unset": rogue(env={"A": "${NO_A}"})}}
    )
    pipe = asyncio.subprocess.PIPE
    follower = await asyncio.create_subprocess_exec(*PROGRAM, "logs", "--follow", env=env, stdout=pipe)
    read: list[str] = []

    async def drain() -> None:
        assert follower.stdout is not None
        while line := await follower.stdout.readline():
            read.append(line.decode())

    draining = asyncio.create_task(drain())
    try:
        async with serving(config) as wire:
            await wire.call("open_toolbox", {"toolbox": "dev"})

            async def is_told() -> bool:
                text = "".join(read)
                return "variable=NO_A" in text and "toolbox=dev server=bad code=spawn_failed" in text

            await poll_until(is_told, 20.0)
            assert all(line.startswith(f"{wire.process.pid} ") for line in read)
    finally:
        follower.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(follower.wait(), 20) == 0
        await draining


# -- calls


def test_calls_are_shown_with_their_time_and_what_came_of_them(log: Log, env: dict[str, str]):
    log.add(("info", "", "", "a-line"))
    log.call("read")
    log.call("write", "server_exited")
    lines = piped("logs", "--calls", env=env).stdout.splitlines()
    assert [re.sub(r"\d\d:\d\d:\d\d", "TIME", line) for line in lines] == [
        f"{os.getpid()} TIME dev/fs/read 12 ms ok",
        f"{os.getpid()} TIME dev/fs/write 12 ms server_exited",
    ]
    assert piped("logs", "--calls", "--level", "error", env=env).stdout.splitlines() == lines[1:]
    assert piped("logs", "--calls", "--lines", "1", "--server", "dev/fs", env=env).stdout.splitlines() == lines[1:]
    assert piped("logs", "--calls", "--server", "ops", env=env).stderr.startswith(
        "No running workbench has had such calls"
    )


def test_arguments_and_results_are_shown_where_they_are_recorded_with_nothing_that_moves_the_cursor(
    log: Log, env: dict[str, str]
):
    log.call("re\x1b[2Jad", given='{"path": "x"}', gave='{"content": "\x1b[31m ' + "long " * 100 + '"}')
    _, arguments, result = piped("logs", "--calls", env=env).stdout.splitlines()
    assert arguments == '  arguments {"path": "x"}'
    assert result.startswith('  result {"content": "\\x1b[31m long')
    assert result.endswith('long "}')
    told = json.loads(piped("logs", "--calls", "--json", env=env).stdout)
    assert told.pop("at").endswith("Z")
    assert told == {
        "pid": os.getpid(),
        "toolbox": "dev",
        "server": "fs",
        "tool": "re\x1b[2Jad",
        "ms": 12.346,
        "error": None,
        "arguments_text": '{"path": "x"}',
        "result_text": '{"content": "\x1b[31m ' + "long " * 100 + '"}',
    }


def test_calls_are_followed(log: Log, env: dict[str, str]):
    log.call("before")
    with at_terminal("logs", "--calls", "--follow", env=env) as screen:
        screen.wait_for("before")
        log.call("while", "tool_error")
        screen.wait_for("tool_error")
        screen.type("\x03")
        assert screen.finish() == 0
        assert screen.text.count("before") == 1
