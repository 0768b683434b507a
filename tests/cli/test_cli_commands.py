"""The command as people and hosts run it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import __version__
from mcp_workbench.__main__ import is_from_host
from tests.support.commands import invoke
from tests.support.configs import rogue, write_config
from tests.support.wire import environment

ROOT = Path(__file__).parents[2]
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}}


def run(
    *arguments: str, folder: Path, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mcp_workbench", *arguments]
    chosen = environment(folder / "home") | (env or {})
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=20, cwd=folder, env=chosen
    )


def request(number: int, method: str, params: dict[str, Any] | None = None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}) + "\n"


# -- without a command


@pytest.mark.parametrize(
    ("arguments", "terminal", "expected"),
    [
        (["serve"], False, False),
        ([], False, True),
        (["--config", "x"], False, True),
        ([], True, False),
        (["--config", "x"], True, False),
        (["--help"], False, False),
        (["--version"], False, False),
        (["-h"], False, False),
        (["check"], False, False),
        (["check", "--config", "x"], False, False),
    ],
)
def test_a_host_without_a_command_is_served_and_a_person_is_helped(
    arguments: list[str], *, terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "isatty", lambda _descriptor: terminal)
    assert is_from_host(arguments) == expected


def test_the_bare_command_serves_a_host(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    done = run("--config", str(config), folder=tmp_path, stdin=request(1, "initialize", INITIALIZE))
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"]["serverInfo"]["version"] == __version__


def test_the_bare_command_helps_a_person(tmp_path: Path):
    person, terminal = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_workbench"],
            stdin=terminal,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
            cwd=tmp_path,
            env=environment(tmp_path / "home"),
        )
    finally:
        os.close(person)
        os.close(terminal)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(command in done.stdout for command in ("serve", "check", "schema", "demo"))


def test_the_version_is_told(tmp_path: Path):
    done = run("--version", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"mcp-workbench {__version__}\n")


def test_help_names_every_command():
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(command in result.output for command in ("serve", "check", "schema", "demo"))


# -- serve


def test_without_a_configuration_serve_says_where_it_looked_and_exits_with_2(tmp_path: Path):
    done = run("serve", folder=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: no configuration found")
    assert "hint: " in done.stderr


def test_serve_does_not_use_the_file_of_the_current_folder_by_itself(tmp_path: Path):
    write_config(tmp_path, {"dev": {"fs": rogue()}})
    done = run("serve", folder=tmp_path)
    assert done.returncode == 2
    assert "--config ./workbench-config.json" in done.stderr


def test_a_wrong_configuration_stops_the_start_with_its_place(tmp_path: Path):
    config = tmp_path / "c.json"
    config.write_text('{\n  "toolboxs": {}\n}', encoding="utf-8")
    done = run("serve", "--config", str(config), folder=tmp_path)
    assert done.returncode == 2
    assert f"{config}:2:3" in done.stderr
    assert "toolboxes" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("level", ["loud", "INFO"])
def test_an_unknown_log_level_is_refused(level: str, tmp_path: Path):
    config = str(write_config(tmp_path, {"dev": {"fs": rogue()}}))
    assert run("serve", "--config", config, "--log-level", level, folder=tmp_path).returncode == 2
    assert run("serve", "--config", config, folder=tmp_path, env={"WORKBENCH_LOG": level}).returncode == 2


def test_a_missing_variable_is_a_warning_and_with_strict_an_error(tmp_path: Path):
    config = str(write_config(tmp_path, {"dev": {"fs": rogue(env={"KEY": "${NOT_SET_ANYWHERE}"}), "ok": rogue()}}))
    done = run("serve", "--config", config, folder=tmp_path)
    assert done.returncode == 0
    assert "NOT_SET_ANYWHERE" in done.stderr
    strict = run("serve", "--config", config, "--strict", folder=tmp_path)
    assert strict.returncode == 2
    assert "toolboxes.dev.mcpServers.fs.env.KEY" in strict.stderr


# -- check


def check(*arguments: str) -> tuple[int, str]:
    result = invoke("check", *arguments)
    return result.exit_code, result.output


def test_a_good_configuration_is_listed_and_nothing_is_started(tmp_path: Path):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log, toolFilters=["read_*"])}}, toolMode="dynamic")
    status, output = check("--config", str(config))
    assert status == 0
    assert "1 toolbox, 1 server" in output
    assert "mode: dynamic" in output
    assert "read_*" in output
    assert not log.exists()


def test_a_wrong_configuration_exits_with_2(tmp_path: Path):
    config = tmp_path / "c.json"
    config.write_text('{"toolboxes": {"dev": {"description": "x"}}}', encoding="utf-8")
    status, output = check("--config", str(config))
    assert status == 2
    assert str(config) in output
    assert check("--config", str(tmp_path / "nothing.json"))[0] == 2


def test_warnings_are_told_and_stop_nothing(tmp_path: Path):
    config = write_config(tmp_path, {"dev tools": {"fs": rogue(autoApprove=["x"])}})
    status, output = check("--config", str(config))
    assert status == 0
    assert output.count("warning: ") >= 1
    assert f"{config}:" in output


def test_every_missing_variable_is_told_and_exits_with_2(tmp_path: Path):
    config = write_config(
        tmp_path, {"dev": {"fs": rogue(env={"A": "${NOT_SET_A}", "B": "${NOT_SET_B}"}), "ok": rogue()}}
    )
    status, output = check("--config", str(config))
    assert status == 2
    assert "${NOT_SET_A} is not set" in output
    assert "${NOT_SET_B} is not set" in output


def test_a_report_is_on_stdout_and_what_is_wrong_with_the_file_on_stderr(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue(env={"A": "${NOT_SET_A}"})}})
    missing = invoke("check", "--config", str(config))
    assert (missing.exit_code, missing.stderr) == (2, "")
    assert "${NOT_SET_A} is not set" in missing.stdout
    config.write_text("{", encoding="utf-8")
    broken = invoke("check", "--config", str(config))
    assert (broken.exit_code, broken.stdout, len(broken.stderr.splitlines())) == (2, "", 2)


def test_for_programs_there_is_json(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue(env={"KEY": "${NOT_SET_A}"})}})
    status, output = check("--config", str(config), "--json")
    answer = json.loads(output)
    assert (status, answer["ok"]) == (2, False)
    assert answer["toolboxes"]["dev"]["servers"]["fs"]["missing"][0]["variable"] == "NOT_SET_A"
    config.write_text("{", encoding="utf-8")
    status, output = check("--config", str(config), "--json")
    assert (status, json.loads(output)["ok"]) == (2, False)


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_no_secret_is_shown(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CANARY", "canary-4711-secret")
    entry = rogue("ok", "--token=${CANARY}", env={"A": "${CANARY}", "B": "plain-canary-4711"})
    status, output = check("--config", str(write_config(tmp_path, {"dev": {"fs": entry}})), *arguments)
    assert status == 0
    assert "canary-4711" not in output


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_command_into_which_a_variable_was_expanded_is_not_shown(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CANARY", "canary-4711/secret")
    entry = {"command": "./run-${CANARY}"}
    status, output = check("--config", str(write_config(tmp_path, {"dev": {"fs": entry, "ok": rogue()}})), *arguments)
    assert status == 0
    assert "canary" not in output
    assert "secret" not in output


# -- schema


def test_the_schema_is_the_committed_file():
    printed = invoke("schema").output
    assert json.loads(printed) == json.loads((ROOT / "workbench-config.schema.json").read_text(encoding="utf-8"))
    assert printed == (ROOT / "workbench-config.schema.json").read_text(encoding="utf-8")
