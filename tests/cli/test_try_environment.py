"""`doctor --try-environment`: a server that fails for want of a variable is told which, and how to give it that."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import logger
from tests.support.canary import Canaries
from tests.support.commands import Result, invoke
from tests.support.configs import write_config
from tests.support.screens import Screen, at_terminal, seen
from tests.support.wire import environment

NEEDY = Path(__file__).parents[1] / "peers" / "needy_server.py"
KEPT = ("HOME", "PATH", "TERM", "TMPDIR")
KEYS = ("KIWI", "PEAR_KEY", "QUINCE", "ZED_HOME")


class Peers:
    """Servers that need variables."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def server(self, name: str, when: str, *needs: str, **more: Any) -> dict[str, Any]:
        folder = self._folder / name
        folder.mkdir(parents=True)
        (folder / "needs").write_text("\n".join(needs))
        return {"command": sys.executable, "args": ["-I", "-S", str(NEEDY), when, str(folder)], **more}

    def starts(self, name: str) -> list[set[str]]:
        """The variables of each start."""
        log = self._folder / name / "starts"
        return [set(line.split()) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def peers(tmp_path: Path) -> Peers:
    return Peers(tmp_path / "peers")


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture
def environ(tmp_path: Path, canaries: Canaries) -> dict[str, str]:
    """A few variables that servers get, and others whose values must not be shown, tokens of ours among them."""
    kept = {name: value for name, value in environment(tmp_path / "home").items() if name in KEPT or "XDG" in name}
    secret = {name: canaries.new(name) for name in (*KEYS, "WORKBENCH_TOKEN", "MCP_WORKBENCH_SOMETHING")}
    return kept | secret | {"PYTEST_CURRENT_TEST": "which pytest sets in any case"}


@pytest.fixture(autouse=True)
def own_process(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger, "log", logger.Log())
    for name in tuple(os.environ):
        if name not in environ:
            monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


def run(*arguments: str) -> Result:
    return invoke(*arguments)


def told(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {server["server"]: server for server in document["servers"]}


def codes(server: Mapping[str, Any]) -> list[str]:
    return [finding["code"] for finding in server["findings"]]


def withheld(names: set[str]) -> set[str]:
    """Which of our secret variables a server saw."""
    return {
        name for name in names if name in KEYS or name.startswith("WORKBENCH_") or name == "MCP_WORKBENCH_SOMETHING"
    }


@pytest.fixture
def config(tmp_path: Path, peers: Peers) -> Path:
    servers = {
        "exits": peers.server("exits", "start", "QUINCE"),
        "lists": peers.server("lists", "list", "ZED_HOME", inheritEnv=["GIT_*"]),
        "both": peers.server("both", "start", "QUINCE", "KIWI"),
        "pear": peers.server("pear", "hang", "PEAR_KEY", startupTimeout=1.5),
        "hopeless": peers.server("hopeless", "start", "NOT_SET_ANYWHERE"),
        "fine": peers.server("fine", "start"),
        "absent": {"command": "no-such-program"},
        "astray": peers.server("astray", "start", cwd="no-such-folder"),
        "remote": {"url": "http://127.0.0.1:1/mcp"},
        "unset": {"command": sys.executable, "env": {"A": "${NOT_SET_ANYWHERE}"}},
    }
    return write_config(tmp_path, {"dev": servers})


FOUND = {"exits": ["QUINCE"], "lists": ["ZED_HOME"], "both": ["KIWI", "QUINCE"], "pear": ["PEAR_KEY"]}


def test_the_variables_are_found_and_the_command_that_is_shown_gives_them_to_the_server(
    config: Path,
    peers: Peers,
    canaries: Canaries,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("WORKBENCH_LOG", "debug")
    result = run("doctor", "--config", str(config), "--try-environment", "--json")
    assert result.exit_code == 1
    servers = told(json.loads(result.stdout))
    assert {name: servers[name]["environment"]["variables"] for name in FOUND} == FOUND
    assert {servers[name]["environment"]["outcome"] for name in FOUND} == {"found"}
    assert all(codes(servers[name])[-1] == "variables_needed" for name in FOUND)
    assert servers["hopeless"]["environment"] == {"outcome": "no_help", "tries": 1, "variables": []}
    assert codes(servers["hopeless"]) == ["server_exited", "environment_no_help"]
    assert [name for name in servers if "environment" not in servers[name]] == [
        "fine",
        "absent",
        "astray",
        "remote",
        "unset",
    ]
    assert [withheld(names) for names in peers.starts("fine")] == [set()]
    for name in (*FOUND, "hopeless"):
        starts = [withheld(names) for names in peers.starts(name)]
        assert (starts[0], max(starts, key=len)) == (set(), set(KEYS)), "all, and none of the workbench's own"
    log = capfd.readouterr().err
    assert "it needs something that is not there" in log
    assert not canaries.found_in({"stdout": result.stdout, "stderr": result.stderr, "log": log})

    for name in FOUND:
        [advice] = [finding["advice"] for finding in servers[name]["findings"] if finding["code"] == "variables_needed"]
        command = shlex.split(advice.removeprefix("Run: ").partition(" (or ")[0])
        assert run(*command[1:]).exit_code == 0, command
    again = told(json.loads(run("doctor", "--config", str(config), "--json").stdout))
    assert {again[name]["state"] for name in FOUND} == {"ok"}
    assert '"inheritEnv": ["GIT_*", "ZED_HOME"]' in config.read_text()


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_without_a_terminal_and_the_option_nothing_is_tried(config: Path, peers: Peers, arguments: tuple[str, ...]):
    result = run("doctor", "--config", str(config), *arguments)
    assert result.exit_code == 1
    assert {len(withheld(names)) for name in (*FOUND, "hopeless") for names in peers.starts(name)} == {0}
    command = f"mcp-workbench doctor --try-environment --config {config}"
    assert (command in result.stdout) == (not arguments)


def test_there_is_no_hint_where_no_variable_can_be_missing(tmp_path: Path):
    result = run("doctor", "--config", str(write_config(tmp_path, {"dev": {"one": {"command": "no-such-program"}}})))
    assert (result.exit_code, "--try-environment" in result.stdout) == (1, False)


def test_a_server_that_fails_by_chance_is_told(tmp_path: Path, peers: Peers):
    server = peers.server("chance", "start")
    (tmp_path / "peers" / "chance" / "fails").write_text("2")  # one that dies at once is started a second time
    result = run("doctor", "--config", str(write_config(tmp_path, {"dev": {"one": server}})), "--try-environment")
    assert result.exit_code == 1
    assert "it sometimes works and sometimes fails with the same variables (2 tries)" in result.stdout


# -- at a terminal


def asked(tmp_path: Path, peers: Peers, *names: str) -> Path:
    servers = {name: peers.server(name, "start", "QUINCE") for name in names}
    return write_config(tmp_path, {"dev": servers})


def answer(screen: Screen, number: int, text: str) -> None:
    screen.wait_for(lambda found: found.count("[y/N]") == number, what="the question")
    screen.type(f"{text}\n")


def test_each_server_is_tried_only_after_a_yes(tmp_path: Path, peers: Peers, canaries: Canaries):
    config = asked(tmp_path, peers, "first", "second")
    with at_terminal("doctor", "--config", str(config), columns=300) as screen:
        answer(screen, 1, "no")
        answer(screen, 2, "yes")
        status = screen.finish()
    lines = seen(screen.text)
    assert status == 1
    assert any("dev/first does not get 5 variables of your environment" in line for line in lines)
    assert any(line.startswith("Try dev/second once with your whole environment") for line in lines)
    assert "dev/first, with your environment:" not in lines
    at = lines.index("dev/second, with your environment:")
    assert "it works with QUINCE, which it does not get now" in lines[at + 1]
    assert "mcp-workbench add dev second --inherit QUINCE" in lines[at + 2]
    assert lines[-1] == "2 servers: 2 failed, 0 warnings"
    assert {len(withheld(names)) for names in peers.starts("first")} == {0}
    assert max(len(withheld(names)) for names in peers.starts("second")) == len(KEYS)
    assert not canaries.found_in({"terminal": screen.text})


@pytest.mark.parametrize("typed", ["y\n", "\x04"])
def test_what_was_typed_before_the_question_and_the_end_of_the_input_are_no_yes(
    tmp_path: Path, peers: Peers, typed: str
):
    config = asked(tmp_path, peers, "first")
    with at_terminal("doctor", "--config", str(config), typed=typed if typed == "y\n" else "") as screen:
        screen.wait_for("[y/N]")
        screen.type("\n" if typed == "y\n" else typed)
        assert screen.finish() == 1
    assert {len(withheld(names)) for names in peers.starts("first")} == {0}


def test_with_json_nobody_is_asked(tmp_path: Path, peers: Peers):
    config = asked(tmp_path, peers, "first")
    with at_terminal("doctor", "--config", str(config), "--json") as screen:
        assert screen.finish() == 1
    assert "[y/N]" not in screen.text


# -- remote servers


@pytest.mark.parametrize(("name", "is_told"), [("http_proxy", True), ("ALL_PROXY", True), ("HTTPS_PROXY", False)])
def test_a_proxy_that_is_not_used_is_told_where_a_remote_server_fails(
    tmp_path: Path,
    name: str,
    is_told: bool,  # noqa: FBT001 -- a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv(name, "http://me:hunter-22@proxy.example:3128")
    config = write_config(tmp_path, {"dev": {"one": {"url": "http://127.0.0.1:1/mcp"}}})
    result = run("doctor", "--config", str(config), "--json")
    assert ("proxy_not_used" in codes(told(json.loads(result.stdout))["one"])) is is_told
    assert (f"{name} is set" in result.stdout) is is_told
    assert "hunter-22" not in result.stdout + result.stderr
