"""The guided tour with the real workbench, and what it says when something is wrong."""

import re
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

import pytest

from mcp_workbench.demo import tour
from mcp_workbench.demo.tour import WIDTH, Display, running_servers, server_name
from tests.demo.lines import SOURCES, Pipes
from tests.support.lag import LagProbe

MESSAGES = 20
"""About as many as the tour sends one after the other."""


@pytest.fixture(autouse=True)
def demo_folder(monkeypatch, tmp_path):
    """The children find this package, and what the demo writes can be seen to be gone."""
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_the_tour_shows_every_step_and_ends_with_zero(demo_folder: Path):
    out = StringIO()
    assert await tour.run(out) == 0, out.getvalue()
    text = out.getvalue()
    assert re.findall(r"^(\d)\. ", text, re.MULTILINE) == [str(number) for number in range(1, 10)]
    assert "Did you mean 'search'?" in text
    assert "open_toolbox" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert re.findall(r"mcp-workbench (\w+)", text.partition("To go on:")[2]) == [
        "import",
        "doctor",
        "install",
        "add",
        "add",
    ]
    assert left_in(demo_folder) == []
    assert not running_servers()


@pytest.mark.parametrize("is_on_path", [True, False])
def test_the_way_on_names_the_program_where_path_does_not_have_it(
    demo_folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_on_path: bool
):
    program = demo_folder / "mcp-workbench"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(demo_folder) if is_on_path else "/nowhere")
    out = StringIO()
    tour.show_way_on(Display(out))
    assert (str(program) in out.getvalue().replace("\n   ", "")) is not is_on_path


async def test_the_tour_starts_servers_only_when_they_are_needed():
    if running_servers() is None:
        pytest.skip("platform: reads /proc")
    out = StringIO()
    await tour.run(out)
    counts = re.findall(r"Server processes running: (\d)", out.getvalue())
    assert counts == ["0", "2", "2", "3", "4", "5", "0"]


async def test_the_tour_takes_less_than_five_seconds():
    async with LagProbe() as lag:
        started = time.perf_counter()
        assert await tour.run(StringIO()) == 0
        took_seconds = time.perf_counter() - started
    kept_waiting = lag.worst_seconds - lag.worst_cpu_seconds  # by what else the machine does
    assert took_seconds < 5 + MESSAGES * max(0.0, kept_waiting)


async def test_a_workbench_that_does_not_start_is_reported_with_its_log(monkeypatch, demo_folder: Path):
    monkeypatch.setattr(tour, "configuration", lambda: {"toolboxes": 1})
    out = StringIO()
    assert await tour.run(out) == 1
    assert "The demo failed:" in out.getvalue()
    assert "The workbench's log ends with:" in out.getvalue()
    assert left_in(demo_folder) == []


async def test_a_server_that_does_not_start_fails_the_tour(monkeypatch):
    monkeypatch.setattr(tour, "PACKAGE", "mcp_workbench.demo.nowhere")
    out = StringIO()
    assert await tour.run(out) == 1
    assert "The demo failed:" in out.getvalue()


async def test_a_tour_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(tour, "_DEADLINE_SECONDS", 0)
    out = StringIO()
    assert await tour.run(out) == 1
    assert "did not end within 0 seconds" in out.getvalue()


# -- processes


@pytest.mark.skipif(sys.platform != "linux", reason="platform: reads /proc")
def test_a_server_is_seen_while_it_runs_and_no_longer():
    assert running_servers() == {}
    with Pipes("text") as text, Pipes("notes") as notes:
        text.ask("ping")
        notes.ask("ping")
        assert running_servers() == {text.process.pid: "text", notes.process.pid: "notes"}
        assert server_name(text.process.pid) == "text"
    assert running_servers() == {}
    assert server_name(text.process.pid) is None


# -- what it writes


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def everything(out: StringIO) -> str:
    display = Display(out)
    display.step("A step of many words " * 10)
    display.aside("many words " * 40)
    for mark in ("", "- ", "| ", "<- "):
        display.show("many words " * 40 + "x" * 300, mark, "doubtful")
    display.show("y" * 300, "-> ", indent=0)
    return out.getvalue()


@pytest.fixture(autouse=True)
def ordinary_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int, monkeypatch):
    assert max(map(len, everything(StringIO()).splitlines())) <= WIDTH
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    assert max(map(len, everything(Terminal()).splitlines())) <= min(columns, WIDTH)


def test_colours_are_for_terminals_whose_owner_has_not_refused_them(monkeypatch):
    assert "\x1b[" not in everything(StringIO())
    assert "\x1b[" in everything(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[" not in everything(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in everything(Terminal())


def test_a_long_answer_is_cut_and_says_so():
    out = StringIO()
    Display(out).show("\n".join(map(str, range(20))), "<- ", most=6)
    lines = out.getvalue().splitlines()
    assert lines[0].strip() == "<- 0"
    assert lines[-1].strip() == "... (14 more lines)"
