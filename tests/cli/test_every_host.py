"""`install --all` and `uninstall --all`: every host that is there, each with the care that one alone gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_workbench.hosts.registry import HOSTS
from tests.hosts import samples
from tests.hosts.samples import SECRETS
from tests.support.users import User, made_user

THREE = (samples.CLAUDE_CODE, samples.CURSOR, samples.CODEX)
OTHERS = ["claude-desktop", "vscode", "windsurf", "gemini", "zed"]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    user = made_user(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return user


def test_every_host_that_is_there_gets_the_workbench_and_loses_it_without_a_trace(user: User):
    user.has(*THREE, samples.ZED, samples.GEMINI)
    user.run("import_")
    before = user.files()
    done = user.run("install", all="true", remove_imported="true", command="/x/mcp-workbench")
    assert (done.status, "using ~/.config" in done.err) == (0, True)
    for title in ("Claude Code", "Cursor", "Codex", "Gemini CLI", "Zed"):
        assert f"{title} now starts the workbench: ~/" in done.out
    assert done.out.endswith("skipped: Claude Desktop, VS Code, Windsurf: not found on this machine\n")
    for sample in (*THREE, samples.ZED, samples.GEMINI):
        assert b"/x/mcp-workbench" in user.path(sample).read_bytes()
    assert not any(secret in done.out + done.err for secret in SECRETS)
    done = user.run("uninstall", all="true")
    assert done.status == 0, done.err
    assert done.out.count("restored ~") == 5
    assert done.out.endswith("skipped: Claude Desktop, VS Code, Windsurf: not installed there\n")
    assert user.files() == before


def test_programs_are_told_of_each_host(user: User):
    user.has(*THREE)
    told = user.run("install", all="true", json="true").document
    assert told["ok"] is True
    assert [(one["ok"], one["host"], one["changed"]) for one in told["hosts"]] == [
        (True, sample.host, True) for sample in THREE
    ]
    assert told["skipped"] == [{"host": host, "reason": "not found on this machine"} for host in OTHERS]
    alone = user.run("install", host="cursor", json="true").document
    assert set(alone) == set(told["hosts"][1])
    told = user.run("uninstall", all="true", json="true").document
    assert [(one["host"], one["exact"]) for one in told["hosts"]] == [(sample.host, True) for sample in THREE]
    assert told["skipped"] == [{"host": host, "reason": "not installed there"} for host in OTHERS]


def test_a_host_is_found_by_its_folder_or_its_program_and_what_was_made_for_it_goes(user: User, tmp_path: Path):
    (user.home / ".claude").mkdir()
    (tmp_path / "bin").mkdir()
    for program in ("codex", "zed"):  # the latter may be the daemon of a file system
        (tmp_path / "bin" / program).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / program).chmod(0o755)
    done = user.run("install", all="true")
    assert "Codex now starts the workbench" in done.out
    assert "installed?" not in done.out
    told = user.run("install", all="true", json="true").document
    assert [one["host"] for one in told["hosts"]] == ["claude-code", "codex"]
    assert user.run("uninstall", all="true").status == 0
    assert user.files() == {}
    assert not (user.home / ".codex").exists()


def test_a_host_whose_file_is_broken_does_not_keep_the_others_from_it(user: User):
    broken = samples.CURSOR._replace(text='{"mcpServers": {')
    user.has(samples.CLAUDE_CODE, broken, samples.CODEX)
    before = user.files()
    done = user.run("install", all="true")
    assert done.status == 1
    assert "Cursor: failed: " in done.out
    assert "Codex now starts the workbench" in done.out
    told = user.run("install", all="true", json="true").document
    assert (told["ok"], [one["ok"] for one in told["hosts"]]) == (False, [True, False, True])
    assert (told["hosts"][1]["host"], told["hosts"][1]["code"]) == ("cursor", "host_file")
    assert user.path(broken).read_bytes() == broken.data
    assert user.run("uninstall", all="true").status == 1
    assert user.files() == before


def test_a_value_that_one_host_would_change_fails_there_alone(user: User, monkeypatch: pytest.MonkeyPatch):
    user.has(samples.GEMINI, samples.ZED)
    monkeypatch.setenv("SOME_PASSWORD", "pa$word")
    told = user.run("install", all="true", json="true", repeated={"env": ["SOME_PASSWORD"]}).document
    assert [(one["host"], one["ok"]) for one in told["hosts"]] == [("gemini", False), ("zed", True)]
    assert user.path(samples.GEMINI).read_bytes() == samples.GEMINI.data


def test_what_is_wrong_for_every_host_is_told_once_and_nothing_changes(user: User):
    user.has(*THREE)
    before = user.files()
    for options in ({"name": "no name"}, {"remove_imported": "true"}, {"host": "cursor"}):
        done = user.run("install", all="true", **options)
        assert (done.status, done.out, done.err.count("error: ")) == (2, "", 1)
    assert user.run("install", all="true", repeated={"env": ["NOT_SET_ANYWHERE"]}).status == 2
    assert user.files() == before


def test_without_any_host_there_is_nothing_to_do(user: User):
    done = user.run("install", all="true")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: no MCP host was found on this machine\nhint: Name one: ")
    assert all(host.key in done.err for host in HOSTS)
    done = user.run("uninstall", all="true")
    assert (done.status, done.out.splitlines()[0]) == (0, "the workbench is not installed in any host")
    assert user.files() == {}


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_host_has_to_be_named_unless_all_are_meant(user: User, command: str):
    done = user.run(command)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: which host?\nhint: Name one (claude-code, ")
    assert done.err.endswith(", or pass --all.\n")


def test_the_files_of_a_project_can_be_meant(user: User):
    user.has(samples.CURSOR, samples.WINDSURF)
    before = user.files()
    told = user.run("install", all="true", project="true", json="true").document
    assert [one["file"] for one in told["hosts"]] == [str(user.project / ".cursor/mcp.json")]
    reasons = {one["host"]: one["reason"] for one in told["skipped"]}
    assert (reasons["windsurf"], reasons["zed"]) == ("has no project files", "not found on this machine")
    assert "workbench" in json.loads((user.project / ".cursor/mcp.json").read_text())["mcpServers"]
    assert user.run("uninstall", all="true", project="true").status == 0
    assert user.files() == before


def test_a_host_that_keeps_its_servers_is_told_how_to_move_them(user: User):
    for sample in THREE:
        user.has(sample)
    user.run("import_")
    done = user.run("install", all="true")
    title, key = "Cursor", "cursor"
    assert f"  {title} also starts these itself: " in done.out
    assert f"  to move them behind the workbench: mcp-workbench install {key} --remove-imported\n" in done.out
    again = user.run("install", host=key)
    assert f"  {title} also starts these itself: " in again.out
    document = user.run("install", host=key, json="true").document
    assert document["moved"] == []
    assert document["twice"]
    moved = user.run("install", host=key, remove_imported="true", json="true").document
    assert (moved["moved"], moved["twice"]) == (document["twice"], [])
