"""A user with a home folder and a project, in which commands run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_workbench.cli.commands import COMMANDS
from mcp_workbench.cli.options import Given
from mcp_workbench.cli.terminal import run_reporting_errors
from tests.hosts.samples import Sample


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class User:
    """A person at a terminal."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.project = home / "größe"
        self.system = home.parent / "system"
        self.config = home / ".config" / "mcp-workbench" / "workbench-config.json"
        self._capsys = capsys

    def path(self, sample: Sample) -> Path:
        return (self.project if sample.project else self.home) / sample.path

    def has(self, *samples: Sample) -> None:
        for sample in samples:
            self.path(sample).parent.mkdir(parents=True, exist_ok=True)
            self.path(sample).write_bytes(sample.data)

    def run(self, command: str, /, *words: str, repeated: dict[str, list[str]] | None = None, **options: str) -> Done:
        """A command with its options and arguments by key."""
        found = next(one for one in COMMANDS if command in (one.name, one.module))
        given = Given({key.rstrip("_"): value for key, value in options.items()}, words=words, repeated=repeated)
        self._capsys.readouterr()
        status = run_reporting_errors(lambda: found.run(given), is_debugging=False)
        return Done(status, *self._capsys.readouterr())

    def entries(self) -> dict[str, Any]:
        """The servers of our configuration, by name: of all toolboxes."""
        if not self.config.exists():
            return {}
        toolboxes = json.loads(self.config.read_text())["toolboxes"].values()
        return {name: entry for toolbox in toolboxes for name, entry in toolbox["mcpServers"].items()}

    def files(self) -> dict[str, bytes]:
        """Everything in the home folder, but our own configuration."""
        own = self.config.parent
        found = (path for path in self.home.rglob("*") if path.is_file() and not path.is_relative_to(own))
        return {str(path.relative_to(self.home)): path.read_bytes() for path in found}


def made_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    """A user who has nothing yet."""
    user = User(tmp_path / "home", capsys)
    user.project.mkdir(parents=True)
    monkeypatch.chdir(user.project)
    monkeypatch.setenv("HOME", str(user.home))
    for variable in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "WORKBENCH_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("mcp_workbench.hosts.registry.SYSTEM", user.system)
    return user
