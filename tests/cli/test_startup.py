"""How long a person waits for a list: at most 1.5 times the import of `rich.console`, which is about 0.1 s."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.catalogs import listed
from tests.support.configs import rogue
from tests.support.screens import at_terminal

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "startup.py"
DUMP = """
import atexit, json, os, sys
atexit.register(lambda: open(os.environ["DUMP_MODULES"], "w").write(json.dumps(sorted(sys.modules))))
"""
MOST = 1.5
LARGE = {"asyncio", "argparse", "click", "rich", "ssl", "socket", "logging", "pathlib", "mcp", "pydantic", "httpx2"}


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A person whose commands note at their end what they loaded."""
    folder = tmp_path_factory.mktemp("startup")
    variables = listed(folder, {"dev": {"one": rogue()}})
    (folder / "customized").mkdir()
    (folder / "customized" / "sitecustomize.py").write_text(DUMP, encoding="utf-8")
    path = f"{folder / 'customized'}{os.pathsep}{variables['PYTHONPATH']}"
    return variables | {"PYTHONPATH": path, "DUMP_MODULES": str(folder / "modules")}


def loaded(env: dict[str, str]) -> set[str]:
    """The modules of the command that ended last."""
    return set(json.loads(Path(env["DUMP_MODULES"]).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "line",
    [
        ["list"],
        ["list", "dev", "one", "--json"],
        ["show", "dev", "one", "echo", "--json"],
        ["completion", "bash", "--", "mcp-workbench call dev one e", ":="],
    ],
    ids=" ".join,
)
def test_what_is_remembered_is_shown_without_anything_large(env: dict[str, str], line: list[str]):
    done = subprocess.run(
        [sys.executable, "-m", "mcp_workbench", *line], env=env, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout
    assert "mcp_workbench.cli.server_states" in loaded(env)
    assert loaded(env) & LARGE == set()


@pytest.mark.parametrize("line", [["list"], ["list", "dev"], ["show", "dev", "one", "echo"]], ids=" ".join)
def test_at_a_terminal_neither(env: dict[str, str], line: list[str]):
    with at_terminal(*line, env=env) as screen:
        assert screen.finish() == 0
    assert "\x1b[" in screen.text
    assert "mcp_workbench.cli.server_states" in loaded(env)
    assert loaded(env) & LARGE == set()


@pytest.mark.timeout(400)
def test_a_list_and_a_completion_take_little_longer_than_the_import_of_a_terminal_toolkit(tmp_path: Path):
    """CPU time, so that other work on the machine counts little; the best of three measurements counts."""
    slowest: list[float] = []
    while len(slowest) < 3 and not [one for one in slowest if one < MOST]:
        subprocess.run(
            [sys.executable, str(BENCHMARK), "--rounds", "7", "--json", str(tmp_path / "result")],
            check=True, capture_output=True, timeout=100,
        )  # fmt: skip
        ratios: dict[str, float] = json.loads((tmp_path / "result").read_text(encoding="utf-8"))["ratios"]
        assert set(ratios) > {"list", "list at a terminal", "completion of a tool"}
        slowest.append(max(ratios.values()))
    assert min(slowest) < MOST, slowest
