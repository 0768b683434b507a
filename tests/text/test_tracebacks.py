"""What is kept of what failing programs wrote."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.text.tracebacks import shorten, useful_lines

CHAINED = """
import json
def read():
    try:
        json.loads("{")
    except ValueError as error:
        raise RuntimeError("the file is broken") from error
read()
"""
GROUPED = """
import asyncio
async def boom():
    raise ValueError("bad token")
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(boom())
asyncio.run(main())
"""
NODE = """
const fs = require("fs");
function load() { return fs.readFileSync("/no/such/file"); }
load();
"""


def failed(command: str, script: Path, text: str) -> str:
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text, encoding="utf-8")
    return subprocess.run([command, str(script)], capture_output=True, text=True, check=False).stderr


def test_of_a_chain_the_last_exception_is_kept_with_the_frames_of_the_program(tmp_path: Path):
    text = failed(sys.executable, tmp_path / "x.py", CHAINED)
    assert text.count("Traceback") == 2
    kept = useful_lines(f"starting\n{text}")
    assert kept[0] == f'  File "{tmp_path}/x.py", line 8, in <module>'
    assert kept[-2:] == ['    raise RuntimeError("the file is broken") from error', "RuntimeError: the file is broken"]
    assert len(kept) == 5


def test_of_an_exception_group_the_exception_inside_is_kept(tmp_path: Path):
    assert useful_lines(failed(sys.executable, tmp_path / "x.py", GROUPED)) == [
        f'  File "{tmp_path}/x.py", line 4, in boom',
        '    raise ValueError("bad token")',
        "ValueError: bad token",
    ]


def test_a_syntax_error_is_kept(tmp_path: Path):
    kept = useful_lines(failed(sys.executable, tmp_path / "x.py", "def f(:\n"))
    assert kept == [f'  File "{tmp_path}/x.py", line 1', "    def f(:", "SyntaxError: invalid syntax"]


def test_of_an_installed_package_its_own_frames_are_kept():
    site = "/x/lib/python3.11/site-packages"
    frames = [
        "/x/bin/serve",
        f"{site}/notes/cli.py",
        f"{site}/click/core.py",
        f"{site}/notes/home.py",
        "/x/lib/python3.11/os.py",
    ]
    text = "".join(f'  File "{path}", line 1, in f\n    f()\n' for path in frames)
    kept = useful_lines(f"Traceback (most recent call last):\n{text}KeyError: 'HOME'\n")
    assert [line.split('"')[1] for line in kept if "File" in line] == [frames[1], frames[3]]
    assert kept[-1] == "KeyError: 'HOME'"


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
def test_of_node_the_error_and_the_programs_frames_are_kept(tmp_path: Path):
    kept = useful_lines(failed("node", tmp_path / "x.js", NODE))
    assert kept == [
        "Error: ENOENT: no such file or directory, open '/no/such/file'",
        f"    at load ({tmp_path}/x.js:3:29)",
        f"    at Object.<anonymous> ({tmp_path}/x.js:4:1)",
    ]
    packaged = useful_lines(failed("node", tmp_path / "node_modules/@a/b/x.js", NODE))
    assert packaged[1:] == [line.replace("/x.js", "/node_modules/@a/b/x.js") for line in kept[1:]]


def test_a_text_without_a_traceback_keeps_its_last_lines():
    assert useful_lines("\n".join(map(str, range(20)))) == ["14", "15", "16", "17", "18", "19"]
    assert shorten("it exited; its last words:\nfatal: no repository\n") == [
        "it exited; its last words:",
        "fatal: no repository",
    ]
    assert shorten("it is gone") == ["it is gone"]


@given(
    st.lists(
        st.sampled_from(['  File "a", line 1, in f', "Traceback (", "  | x", "  + ", "    at x (", "E: x", "", " "])
    )
)
def test_any_text_keeps_only_lines_of_its_own(lines: list[str]):
    text = "\n".join(lines)
    assert all(kept in text for kept in useful_lines(text))
