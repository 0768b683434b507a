"""`mcp-workbench remove`: a server or a toolbox goes, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_workbench.config.load import load_config
from tests.support.users import User, made_user

TEXT = """{
  "toolboxes": {
    // for code
    "dev": {
      "description": "d",
      "mcpServers": {
        // reads files
        "files": { "command": "npx" },
        "git": { "command": "uvx" }, // and this
      },
    },
    // for the web
    "web": { "description": "w", "mcpServers": { "s": { "command": "x" } } }
  }
}
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    user = made_user(tmp_path, monkeypatch, capsys)
    user.config.parent.mkdir(parents=True)
    user.config.write_text(TEXT)
    user.config.chmod(0o644)
    return user


def test_a_server_goes_with_its_comment_and_the_rest_stays(user: User):
    done = user.run("remove", toolbox="dev", server="files")
    assert (done.status, done.out) == (0, f"removed dev/files from {user.config}\n")
    gone = '        // reads files\n        "files": { "command": "npx" },\n'
    assert user.config.read_text() == TEXT.replace(gone, "")
    assert user.config.stat().st_mode & 0o777 == 0o644


def test_a_toolbox_goes_with_all_that_is_in_it(user: User):
    done = user.run("remove", toolbox="dev", json="true")
    assert done.document == {"ok": True, "file": str(user.config), "toolbox": "dev", "server": None}
    assert list(load_config(user.config).toolboxes) == ["web"]
    assert "// for the web" in user.config.read_text()
    assert "// for code" not in user.config.read_text()


def test_what_was_added_and_removed_leaves_the_same_file(user: User):
    user.run("add", "x", "y", toolbox="web", server="new")
    assert user.config.read_text() != TEXT
    user.run("remove", toolbox="web", server="new")
    assert user.config.read_text() == TEXT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"toolbox": "de"}, "Toolbox 'de' not found\nhint: Did you mean 'dev'?"),
        ({"toolbox": "dev", "server": "gti"}, "Server 'gti' not found\nhint: Did you mean 'git'?"),
        (
            {"toolbox": "web", "server": "s"},
            "'s' is the only server of toolbox 'web'\nhint: Remove both: mcp-workbench remove web",
        ),
    ],
)
def test_what_can_not_be_removed_is_told_and_nothing_changes(user: User, options: dict[str, str], message: str):
    done = user.run("remove", **options)
    assert (done.status, done.err) == (2, f"error: {user.config}: {message}\n")
    assert user.config.read_text() == TEXT


def test_without_a_configuration_there_is_nothing_to_remove(user: User):
    user.config.unlink()
    done = user.run("remove", toolbox="dev")
    assert done.status == 2
    assert "there is no configuration yet" in done.err


def test_the_one_toolbox_of_a_hosts_file_can_not_be_removed(user: User):
    user.config.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert user.run("remove", toolbox="default").status == 2
    assert user.run("remove", toolbox="default", server="a").status == 0
    assert user.config.read_text() == '{"mcpServers": {}}'


def test_a_link_to_the_configuration_stays_one(user: User):
    real = user.home / "dotfiles.json"
    user.config.rename(real)
    user.config.symlink_to(real)
    assert user.run("remove", toolbox="web").status == 0
    assert user.config.is_symlink()
    assert list(load_config(real).toolboxes) == ["dev"]
