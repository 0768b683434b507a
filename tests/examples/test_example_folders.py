"""Every example does what its README shows: the commands run as a reader would type them, with real programs.

A test runs a copy of the folder, on free ports, with a home folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.markdown import ROOT, blocks, links
from tests.support.remote import free_port

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
BROWSER = ROOT / "tests" / "peers" / "browser.py"
HOME = "/home/me"
"""The home folder in the READMEs."""
ON_A_MAC = ("/Library/Application Support/", "/.local/share/")
"""Where logins are there, and on Linux, as in the READMEs."""
PORTS = ("8300", "8400")
SECONDS = 60


class Step(NamedTuple):
    """A command, and what the README says that it prints."""

    command: str
    printed: str

    @property
    def stays(self) -> bool:
        """Whether it runs until it is stopped."""
        return self.command.startswith(("python3 server.py", "mcp-workbench serve"))


def steps(readme: str) -> list[Step]:
    text = "".join(block.text for block in blocks(readme) if block.language == "console")
    return [Step(*one.split("\n", 1)) for one in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]


class Reader:
    """Somebody who cloned the repository into their home folder and follows the README of one example."""

    def __init__(self, home: Path, example: str) -> None:
        self.home = home
        self.folder = home / "mcp-workbench" / "examples" / example
        self._copy(EXAMPLES / example, {port: str(free_port()) for port in PORTS})
        browser = shlex.join([sys.executable, str(BROWSER), str(home / "browser.log")])
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.env = {"HOME": str(home), "PATH": path, "BROWSER": f"{browser} %s", "LANG": "C.UTF-8"}

    def _copy(self, example: Path, ports: dict[str, str]) -> None:
        self.folder.mkdir(parents=True)
        for file in (path for path in example.iterdir() if path.suffix in {".json", ".md", ".py"}):
            text = file.read_text(encoding="utf-8")
            for port, free in ports.items():
                text = text.replace(port, free)
            (self.folder / file.name).write_text(text, encoding="utf-8")

    def steps(self) -> list[Step]:
        return steps((self.folder / "README.md").read_text(encoding="utf-8"))

    def start(self, command: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["bash", "-c", command], cwd=self.folder, env=self.env,
            stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, step: Step) -> None:
        with self.start(step.command) as process:
            said, _ = process.communicate(timeout=SECONDS)
        said = said.replace(str(self.home), HOME).replace(*ON_A_MAC)
        assert said == step.printed
        assert (process.returncode != 0) == step.printed.startswith("error: ")

    @contextlib.contextmanager
    def keep_running(self, step: Step) -> Iterator[None]:
        with self.start(f"exec {step.command}") as process:
            try:
                assert process.stdout is not None
                for line in step.printed.splitlines(keepends=True):
                    assert process.stdout.readline() == line
                yield
            finally:
                process.terminate()
                process.communicate(timeout=SECONDS)


def test_the_index_lists_the_five_examples():
    listed = links((EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [f"{name}/README.md" for name in FOLDERS]
    assert len(FOLDERS) == 5


@pytest.mark.parametrize("example", FOLDERS)
def test_an_example_prints_what_its_readme_shows(example: str, tmp_path: Path):
    reader = Reader(tmp_path / "home", example)
    assert reader.steps()
    with contextlib.ExitStack() as running:
        for step in reader.steps():
            if step.stays:
                running.enter_context(reader.keep_running(step))
            else:
                reader.run(step)
