"""The wheel and the sdist have the documentation and both commands, and an installed program shows its pages."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from mcp_workbench import __version__
from mcp_workbench.cli.manual import COMMAND
from tests.docs.markdown import ROOT

PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md")] + sorted((ROOT / "docs").rglob("*.md"))
FOLDER = "mcp_workbench/pages"


def built(folder: Path, target: str) -> Path:
    """A distribution, built without a network by the backend that pyproject.toml names."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    [made] = [path for path in folder.iterdir() if path.is_file()]
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the wheel installed, without its dependencies, which this Python has."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder


def run(installed: Path, program: str, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [str(installed / "bin" / program), *words], env=env, cwd=installed, capture_output=True, text=True,
        check=True, timeout=30,
    )  # fmt: skip
    return done.stdout


def test_the_wheel_has_every_page_as_it_is_and_nothing_else_of_the_repository(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if name.startswith(f"{FOLDER}/")}
    assert found == {f"{FOLDER}/{path.relative_to(ROOT).as_posix()}": path.read_bytes() for path in PAGES}


def test_the_wheel_has_both_commands(wheel: Path):
    scripts = ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        scripts.read_string(archive.read(f"workbench_mcp-{__version__}.dist-info/entry_points.txt").decode())
    entry = "mcp_workbench.__main__:main"
    assert dict(scripts["console_scripts"]) == {"mcp-workbench": entry, "workbench-mcp": entry}


def test_the_sdist_has_every_page(tmp_path: Path):
    with tarfile.open(built(tmp_path, "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {path.relative_to(ROOT).as_posix() for path in PAGES} <= names


def test_an_installed_program_shows_the_pages_that_came_with_it(installed: Path):
    folder = installed / FOLDER
    assert run(installed, "mcp-workbench", "docs", "--path") == f"{folder}\n"
    assert run(installed, "workbench-mcp", "docs", "errors", "--path") == f"{folder / 'docs' / 'errors.md'}\n"
    assert "| `server_refused` |" in run(installed, "workbench-mcp", "docs", "errors#server_refused")
    assert run(installed, "mcp-workbench", "docs").startswith(
        f"The documentation of this version. Read a page: {COMMAND}"
    )
    assert run(installed, "mcp-workbench", "--version") == f"mcp-workbench {__version__}\n"
