"""`mcp-workbench status`, in a pipe and at a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import sqlite3
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyte import Screen as Emulator
from pyte import Stream

from mcp_workbench.activity.batch import Batch, ClientState, Flight, Opening, Run, ServerState
from mcp_workbench.activity.process_identity import birth
from mcp_workbench.activity.tables import RecordTables
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from tests.docs.markdown import ROOT
from tests.support.configs import rogue, write_config
from tests.support.screens import COLOUR, Screen, at_terminal, piped, seen
from tests.support.wire import environment, serving

PAGE = ROOT / "docs" / "commands" / "status.md"
BEYOND = "\x1b[31mred\u202e"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    record = home / "XDG_STATE_HOME" / "mcp-workbench" / "record.sqlite"
    return environment(home) | {"WORKBENCH_RECORD": str(record)}


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[RecordTables]:
    """A record that a test writes itself."""
    folder = tmp_path / "home" / "XDG_STATE_HOME" / "mcp-workbench"
    folder.mkdir(parents=True)
    (folder / "record.sqlite").touch(0o600)
    tables = RecordTables(str(folder / "record.sqlite"), DEFAULTS)
    yield tables
    tables.close()


def batch(**parts: object) -> Batch:
    empty = {"calls": [], "counts": {}, "lines": [], "openings": [], "servers": [], "flights": [], "lost": 0}
    return Batch(time.time(), **{**empty, **parts})  # type: ignore[arg-type]


def begin(tables: RecordTables, **parts: object) -> int:
    """A run of this process."""
    now = time.time()
    run = tables.begin(Run(os.getpid(), birth(os.getpid()), "1.2", "/home/me/c.json", "stdio", now - 7300))
    tables.write(run, batch(**parts), prunes=False)
    return run


def busy(tables: RecordTables) -> int:
    """One that has something to tell of everything."""
    now = time.time()
    tool = ToolIdentifier("dev", "fs", "read")
    return begin(
        tables,
        servers=[
            ServerState("dev", "fs", "ready", now - 100, 2, 14),
            ServerState("dev", "git", "resting", now - 20, 0, None, "spawn_failed", f"it is gone {BEYOND}", now - 20),
        ],
        flights=[Flight(now - 65, "dev", "fs", "slow")],
        calls=[
            (tool, now, 12.0, "", None, None, ""),
            (tool, now - 3, 1500.0, "call_timeout", None, None, "it did not answer within 1 s"),
        ],
        clients=[ClientState("claude-code", "2.1.3", "2025-11-25", 1), ClientState("gone", "1", "2025-06-18", 0)],
        openings=[Opening("dev", 40_000, 4000)],
        lost=2,
        problem="/home/me/c.json:7:11: unknown key 'arg'",
        memory=("shed", 310 * 1024 * 1024),
    )


def test_a_person_reads_what_is_going_on(tables: RecordTables, env: dict[str, str]):
    busy(tables)
    done = piped("status", env=env)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    lines = [re.sub(r"\b\d+ (s|min)\b", r"N \1", " ".join(line.split())) for line in done.stdout.splitlines()]
    assert lines == [
        f"workbench {os.getpid()}: running for 2 h",
        "host: claude-code 2.1.3 (MCP 2025-11-25)",
        "/home/me/c.json (stdio, version 1.2)",
        "the current file is not in use: /home/me/c.json:7:11: unknown key 'arg'",
        "memory: 310 MiB are waiting for clients and servers; the calls of the largest clients are cancelled",
        "calls in progress",
        "dev/fs/slow for N min",
        "last errors",
        "N s ago dev/fs/read call_timeout: it did not answer within N s",
        "N s ago dev/git it is gone \\x1b[31mred\\u202e",
        "servers",
        "dev/fs ready for N min, 2 connections 14 tools",
        "dev/git resting for N s",
        "calls",
        "tool calls errors p50 p95",
        "dev/fs/read 2 1 12 ms 1,500 ms",
        "tokens, estimated: 1,000 read in 1 open, 10,000 in plain lists (9,000 saved)",
        "2 events could not be recorded",
    ]


def test_a_program_reads_the_members_that_the_page_documents(tables: RecordTables, env: dict[str, str]):
    busy(tables)
    told = json.loads(piped("status", "--json", env=env).stdout)
    page = PAGE.read_text(encoding="utf-8")
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    assert _shape(told) == _shape(example)
    [run] = told["runs"]
    assert run["tokens"] == {"opens": 1, "flat": 10_000, "answered": 1000, "saved": 9000}
    assert run["memory"] == {"level": "shed", "held_bytes": 310 * 1024 * 1024}
    assert run["in_flight"][0]["seconds"] == pytest.approx(65, abs=20)


def _shape(value: object) -> object:
    """The names of members, all the way down."""
    if isinstance(value, dict):
        return {name: _shape(member) for name, member in value.items()}
    if isinstance(value, list):
        shapes = [shape for shape in map(_shape, value) if shape is not None]
        merged: dict[str, object] = {}
        for shape in shapes:
            if isinstance(shape, dict):
                merged |= {name: member for name, member in shape.items() if member is not None or name not in merged}
        return [merged]
    return None


def test_names_that_servers_give_are_shown_as_text(tables: RecordTables, env: dict[str, str]):
    tool = ToolIdentifier("dev", "fs", f"{BEYOND}\n\r\x9b2J")
    flights = [Flight(time.time() - 65, "dev", "fs", BEYOND)]
    begin(tables, calls=[(tool, time.time(), 12.0, "tool_error", None, None, "")], flights=flights)
    told = piped("status", env=env).stdout
    assert not re.search("[\x1b\x9b\r\u202e]", told)
    assert told.count("\\x1b[31mred\\u202e") == 3


def test_names_with_slashes_are_told_apart(tables: RecordTables, env: dict[str, str]):
    now = time.time()
    servers = [("a", "b/c"), ("a/b", "c")]
    begin(
        tables,
        servers=[ServerState(*server, "idle", now, 0, None) for server in servers],
        flights=[Flight(now, *server, "slow/1") for server in servers],
        calls=[(ToolIdentifier(*server, "t"), now, 12.0, "tool_error", None, None, "") for server in servers],
    )
    told = piped("status", env=env).stdout
    assert "a/b/c" not in told
    assert [told.count(text) for text in (r"a/b\/c ", r"a\/b/c ", r"a/b\/c/slow\/1", r"a\/b/c/slow\/1")] == [1, 1, 1, 1]
    assert [told.count(text) for text in (r"a/b\/c/t", r"a\/b/c/t")] == [2, 2]
    calls = piped("logs", "--calls", "--server", r"a/b\/c", env=env).stdout
    assert (r" a/b\/c/t " in calls, r"a\/b/c" in calls) == (True, False)


def test_nothing_runs_and_nothing_is_recorded(env: dict[str, str], tmp_path: Path):
    done = piped("status", env=env)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "No workbench is running.")
    assert json.loads(piped("status", "--json", env=env).stdout)["runs"] == []
    assert not (tmp_path / "home" / "XDG_STATE_HOME").exists()


def test_one_that_ended_is_told_of_with_all(tables: RecordTables, env: dict[str, str]):
    run = busy(tables)
    tables.write(run, batch(is_last=True), prunes=False)
    assert piped("status", env=env).stdout.startswith("No workbench is running.")
    told = piped("status", "--all", env=env).stdout
    assert re.match(rf"workbench {os.getpid()}: ended \d+ s ago", told)
    assert "calls in progress" not in told


def test_a_record_that_is_switched_off_is_said(env: dict[str, str]):
    done = piped("status", env=env | {"WORKBENCH_RECORD": "none"})
    assert done.returncode == 1
    assert "error: $WORKBENCH_RECORD: recording is off\nhint: " in done.stderr
    told = json.loads(piped("status", "--json", env=env | {"WORKBENCH_RECORD": "none"}).stdout)
    assert (told["ok"], told["code"]) == (False, "record_failed")


def test_a_record_that_can_not_be_read_is_two_lines(tmp_path: Path, env: dict[str, str]):
    file = tmp_path / "other.sqlite"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()
    before = file.read_bytes()
    done = piped("status", env=env | {"WORKBENCH_RECORD": str(file)})
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"error: {file}: it is not our file"
    assert len(done.stderr.splitlines()) == 2
    assert file.read_bytes() == before


def test_a_record_of_a_newer_version_is_told_with_what_to_do(tables: RecordTables, env: dict[str, str]):
    tables.file.run("PRAGMA user_version = 99")
    done = piped("status", env=env)
    assert (done.returncode, done.stdout) == (1, "")
    problem, hint = done.stderr.splitlines()
    assert problem.endswith("a newer version of the program wrote it")
    assert hint == "hint: Fix that, or remove the file: running workbenches create a new one."


# -- at a terminal


def test_at_a_terminal_it_is_coloured_and_within_its_width(tables: RecordTables, env: dict[str, str]):
    busy(tables)
    with at_terminal("status", env=env, columns=60) as screen:
        assert screen.finish() == 0
        assert COLOUR.search(screen.text)
        assert max(map(len, seen(screen.text))) <= 60
    with at_terminal("status", env=env | {"NO_COLOR": "1"}, columns=60) as screen:
        assert screen.finish() == 0
        assert not COLOUR.search(screen.text)


def crowded(tables: RecordTables) -> None:
    """A workbench with more servers and tools than a screen has lines."""
    now = time.time()
    servers = [ServerState("dev", f"server-{number:02}", "idle", now, 0, None) for number in range(40)]
    servers[30] = ServerState("dev", "broken", "failing", now, 0, None, "server_exited", "it exited: no token", now)
    calls = [(ToolIdentifier("dev", "server-35", f"tool-{n:02}"), now, 1.0, "", None, None, "") for n in range(30)]
    flights = [Flight(now - 5, "dev", "server-37", "busy")]
    begin(tables, servers=servers, calls=calls, flights=flights)


def test_what_is_busy_or_in_trouble_comes_first_and_a_screen_holds_all_that_is_shown(
    tables: RecordTables, env: dict[str, str]
):
    crowded(tables)
    piped_lines = piped("status", env=env).stdout.splitlines()
    servers = [line.split()[0] for line in piped_lines if line.startswith("    dev/")]
    assert servers[:5] == ["dev/server-37/busy", "dev/server-37", "dev/broken", "dev/server-35", "dev/server-00"]
    assert len(piped_lines) > 75
    with at_terminal("status", env=env, columns=80) as screen:
        assert screen.finish() == 0
    shown = seen(screen.text)
    assert 20 <= len(shown) <= 23
    assert next(line for line in shown if line.startswith("    dev/")).split()[0] == "dev/server-37/busy"
    assert sum(line.startswith("    and ") for line in shown) == 2
    assert shown[-1] == "to see everything: mcp-workbench status --watch"


def test_a_long_error_leaves_room_for_the_rest(tables: RecordTables, env: dict[str, str]):
    now, tool = time.time(), ToolIdentifier("dev", "server", "validate_everything")
    failed = (tool, now, 1.0, "tool_error", None, None, "the argument is missing and so is the other one " * 6)
    servers = [ServerState("dev", f"server-{number}", "ready", now, 1, 3) for number in range(5)]
    begin(tables, servers=servers, calls=[failed] * 3)
    with at_terminal("status", env=env, columns=80) as screen:
        assert screen.finish() == 0
    shown = seen(screen.text)
    assert sum(line.startswith("    dev/server-") for line in shown) >= 4
    assert len(shown) <= 24
    assert sum(line.endswith("…") for line in shown) == 3


class Watched:
    """A watch of 80 columns and 24 lines, as its person sees it."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._emulator = Emulator(80, 24)
        self._stream = Stream(self._emulator)
        self._fed = 0

    def lines(self) -> list[str]:
        self._stream.feed(self.screen.text[self._fed :].replace("\x1b[?1049h", "").replace("\x1b[?1049l", ""))
        self._fed = len(self.screen.text)
        return [line.rstrip() for line in self._emulator.display]

    def press(self, keys: str, expected: str) -> list[str]:
        """Type, and wait until the screen has a line with this."""
        self.screen.type(keys)
        self.screen.wait_for(lambda _: any(expected in line for line in self.lines()), what=expected)
        return self.lines()


def test_a_watch_scrolls(tables: RecordTables, env: dict[str, str]):
    crowded(tables)
    with at_terminal("status", "--watch", env=env, columns=80) as screen:
        watched = Watched(screen)
        first = watched.press("", "1-23/")
        assert first[0].startswith("workbench ")
        assert watched.press("\x1b[B\x1bOB", "3-25/")[0] == first[2]
        assert watched.press("\x1b[A", "2-24/")[0] == first[1]
        total = int(first[-1].split("/")[1].split()[0])
        assert watched.press("\x1b[6~", "25-47/")[0].split()[0].startswith("dev/server-")
        assert "dev/server-35/tool-" in watched.press("\x1b[F", f"-{total}/{total}")[-2]
        assert watched.press("\x1b[6~\x1b[5~", f"{total - 45}-{total - 23}/")
        assert watched.press("\x1b[H", "1-23/")[0] == first[0]
        screen.type("q")
        assert screen.finish() == 0
        assert is_as_before(screen)


def test_a_watch_is_narrowed_by_a_text(tables: RecordTables, env: dict[str, str]):
    crowded(tables)
    with at_terminal("status", "--watch", env=env, columns=80) as screen:
        watched = Watched(screen)
        watched.press("", "1-23/")
        narrowed = watched.press("/NO TOqen", "/NO TOqen_")
        assert narrowed[0] == "No name, state or error contains 'NO TOqen'."
        narrowed = watched.press("\x7f\x7f\x7fken\r", "only 'NO TOken'")
        assert [word for line in narrowed for word in line.split() if "dev/" in word] == ["dev/broken"] * 2
        assert any(line.endswith("it exited: no token") for line in narrowed)
        assert watched.press("/server-35/tool-07", "/server-35/tool-07_")[4].split()[0] == "dev/server-35/tool-07"
        assert watched.press("\x1b", "1-23/")[-1].startswith("1-23/")
        screen.type("q")
        assert screen.finish() == 0


def test_a_watch_that_fails_leaves_the_terminal_as_it_was(tables: RecordTables, env: dict[str, str]):
    busy(tables)
    with at_terminal("status", "--watch", env=env) as screen:
        screen.wait_for("dev/fs/read")
        tables.file.run("PRAGMA user_version = 99")
        assert screen.finish() == 1
        assert "a newer version of the program wrote it" in screen.text
        assert is_as_before(screen)


def test_a_watch_goes_on_after_ctrl_z(tables: RecordTables, env: dict[str, str]):
    """Nothing stops a program without a shell, so that it gives the terminal back and takes it again at once."""
    busy(tables)
    with at_terminal("status", "--watch", env=env) as screen:
        screen.wait_for("dev/fs/read")
        screen.type("\x1a")
        screen.wait_for(lambda text: "dev/fs/read" in text.rpartition("\x1b[?1049l")[2] and "\x1b[?1049l" in text)
        screen.type("q")
        assert screen.finish() == 0
        assert is_as_before(screen)


@pytest.mark.parametrize("key", ["q", "\x03", "\x04"])
def test_watching_shows_what_changes_until_a_key_is_pressed(tables: RecordTables, env: dict[str, str], key: str):
    run = busy(tables)
    with at_terminal("status", "--watch", env=env) as screen:
        screen.wait_for("dev/fs/read")
        later = ToolIdentifier("dev", "fs", "written_later")
        tables.write(run, batch(calls=[(later, time.time(), 1.0, "", None, None, "")]), prunes=False)
        screen.wait_for("written_later")
        screen.type(key)
        assert screen.finish() == 0
        assert is_as_before(screen)


def is_as_before(screen: Screen) -> bool:
    """Whether a person can go on with this terminal: the screen, the cursor and the echo are as they were."""
    flags = termios.tcgetattr(screen.terminal)[3]
    given_back = [("\x1b[?25l", "\x1b[?25h"), ("\x1b[?1049h", "\x1b[?1049l")]
    is_shown = all(-1 < screen.text.rfind(taken) < screen.text.rfind(back) for taken, back in given_back)
    return is_shown and bool(flags & termios.ECHO and flags & termios.ICANON)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_watch_that_is_ended_leaves_the_terminal_as_it_was(
    tables: RecordTables, env: dict[str, str], ending: signal.Signals
):
    busy(tables)
    with at_terminal("status", "--watch", env=env) as screen:
        screen.wait_for("dev/fs/read")
        os.kill(screen.process.pid, ending)
        assert screen.finish() == 128 + ending
        assert is_as_before(screen)


def test_a_terminal_that_becomes_narrow_is_written_anew_within_its_width(tables: RecordTables, env: dict[str, str]):
    busy(tables)
    with at_terminal("status", "--watch", env=env, columns=100) as screen:
        screen.wait_for("q: quit")
        fcntl.ioctl(screen.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
        before = len(screen.text)
        screen.wait_for(lambda text: "workbench" in text[before:] and "q: quit" in text[before:])
        assert max(map(len, seen(screen.text[before:]))) <= 70
        screen.type("q")
        assert screen.finish() == 0


def test_watching_a_workbench_that_begins_and_ends(tmp_path: Path, env: dict[str, str]):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})

    async def work() -> None:
        async with serving(config) as wire:
            await wire.use("dev", "fs", "nonce", {"nonce": "7"})
            await asyncio.to_thread(screen.wait_for, "dev/fs/nonce")

    with at_terminal("status", "--watch", env=env) as screen:
        screen.wait_for("No workbench is running.")
        asyncio.run(work())
        screen.wait_for(lambda text: text.count("No workbench is running.") > 1)
        screen.type("q")
        assert screen.finish() == 0


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_watching_needs_a_terminal(env: dict[str, str], more: tuple[str, ...]):
    done = piped("status", "--watch", *more, env=env)
    assert done.returncode == 2
    assert "--watch needs a terminal" in done.stderr + done.stdout
