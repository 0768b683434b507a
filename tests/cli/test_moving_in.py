"""From three hosts to the workbench and back, as people do it: at a terminal, and in a pipe."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.hosts import samples
from tests.hosts.samples import SECRETS
from tests.support.catalogs import desk
from tests.support.screens import COLOUR, PROGRAM, at_terminal
from tests.support.users import User, made_user


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    user = made_user(tmp_path, monkeypatch, capsys)
    user.has(samples.CLAUDE_CODE, samples.CURSOR, samples.CODEX)
    return user


def environment(user: User) -> dict[str, str]:
    ours = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**ours, "HOME": str(user.home), "LANG": "C.UTF-8"}


def piped(user: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60, env=environment(user),
        cwd=user.project, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_in_a_pipe_everything_is_plain_and_goes_there_and_back(user: User):
    before = user.files()
    steps = [
        ("import", "--dry-run"),
        ("import",),
        ("install", "codex", "--remove-imported"),
        ("install", "--all", "--remove-imported"),
        ("add", "code", "more", "--env", "A=1", "--", "npx", "-y", "server@1.0.0", "--flag"),
        ("remove", "code", "more"),
        ("move", "figma", "--to", "code"),
        ("describe", "code", "Edit the code and look at its design"),
        ("uninstall", "codex"),
        ("uninstall", "--all"),
    ]
    for step in steps:
        done = piped(user, *step)
        using = "using ~/.config/mcp-workbench/workbench-config.json\n" if step[0] == "install" else ""
        assert (done.returncode, done.stderr) == (0, using), step
        assert "\x1b" not in done.stdout
        assert not any(secret in done.stdout for secret in SECRETS)
    assert user.files() == before


def test_at_a_terminal_a_person_is_asked_before_a_file_is_changed(user: User):
    user.config.parent.mkdir(parents=True)
    user.config.write_text('{"toolboxes": {}}')
    for answer, is_changed in (("n", False), ("y", True)):
        with at_terminal("import", env=environment(user), cwd=user.project, typed="y\n") as screen:
            screen.wait_for("[y/N]")
            screen.type(f"{answer}\n")
            assert screen.finish() == 0
        assert COLOUR.search(screen.text)
        assert not any(secret in screen.text for secret in SECRETS)
        assert ("github" in user.config.read_text()) is is_changed


def test_what_goes_wrong_is_two_lines(user: User):
    done = piped(user, "install", "curser")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no host 'curser'\nhint: Did you mean 'cursor'?\n"


def test_a_tool_that_a_host_denies_can_not_be_called_behind_the_workbench(user: User):
    servers = {"desk": desk()}
    (user.home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    (user.home / ".claude").mkdir()
    (user.home / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["mcp__desk__med*"]}}')
    before = user.files()
    for step in (("import", "--toolbox", "desk"), ("install", "claude-code", "--remove-imported")):
        assert piped(user, *step).returncode == 0, step
    denied = piped(user, "call", "desk", "desk", "media")
    assert denied.returncode != 0
    assert "Tool 'media' not found in server 'desk' (toolbox 'desk')" in denied.stderr
    allowed = piped(user, "call", "desk", "desk", "typed", "path=a", "limit=1")
    assert allowed.returncode == 0, allowed.stderr
    assert piped(user, "uninstall", "claude-code").returncode == 0
    left = {name: data for name, data in user.files().items() if name in before}
    assert left == before
