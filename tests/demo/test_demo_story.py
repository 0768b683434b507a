"""The guided tour with the real workbench, and what it says when something is wrong."""

import re
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

import pytest

from mcp_workbench.demo import story, toolboxes
from mcp_workbench.demo.display import Display
from mcp_workbench.demo.processes import running_servers
from tests.demo.lines import SOURCES
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
    assert await story.run(out) == 0, out.getvalue()
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
    story.show_way_on(Display(out))
    assert (str(program) in out.getvalue().replace("\n   ", "")) is not is_on_path


async def test_the_tour_starts_servers_only_when_they_are_needed():
    if running_servers() is None:
        pytest.skip("platform: reads /proc")
    out = StringIO()
    await story.run(out)
    counts = re.findall(r"Server processes running: (\d)", out.getvalue())
    assert counts == ["0", "2", "2", "3", "4", "5", "0"]


async def test_the_tour_takes_less_than_five_seconds():
    async with LagProbe() as lag:
        started = time.perf_counter()
        assert await story.run(StringIO()) == 0
        took_seconds = time.perf_counter() - started
    kept_waiting = lag.worst_seconds - lag.worst_cpu_seconds  # by what else the machine does
    assert took_seconds < 5 + MESSAGES * max(0.0, kept_waiting)


async def test_a_workbench_that_does_not_start_is_reported_with_its_log(monkeypatch, demo_folder: Path):
    monkeypatch.setattr(story, "configuration", lambda: {"toolboxes": 1})
    out = StringIO()
    assert await story.run(out) == 1
    assert "The demo failed:" in out.getvalue()
    assert "The workbench's log ends with:" in out.getvalue()
    assert left_in(demo_folder) == []


async def test_a_server_that_does_not_start_fails_the_tour(monkeypatch):
    monkeypatch.setattr(toolboxes, "PACKAGE", "mcp_workbench.demo.nowhere")
    out = StringIO()
    assert await story.run(out) == 1
    assert "The demo failed:" in out.getvalue()


async def test_a_tour_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(story, "_DEADLINE_SECONDS", 0)
    out = StringIO()
    assert await story.run(out) == 1
    assert "did not end within 0 seconds" in out.getvalue()
