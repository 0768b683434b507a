"""`mcp-workbench move` and `describe`: a server changes its toolbox, a toolbox its description, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcp_workbench.config.load import load_config
from tests.support.users import User, made_user

TEXT = """{
  "toolboxes": {
    // for code
    "dev": {
      "description": "d", // kept
      "mcpServers": {
        // reads files
        "files": {
          "command": "npx", // fetches it
          "env": { "A": "1" }
        },
        "git": { "command": "uvx", "args": ["mcp-server-git"] }, // and this
      },
    },
    // for the web
    "web": { "description": "w", "mcpServers": { "s": { "command": "x" } } },
    "more": { "description": "m", "mcpServers": { "s": { "command": "y", "disabled": true }, "t": { "command": "z" } } }
  }
}
"""
FILES = """        // reads files
        "files": {
          "command": "npx", // fetches it
          "env": { "A": "1" }
        },
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    monkeypatch.setenv("WORKBENCH_CATALOG", str(tmp_path / "catalog.sqlite"))
    user = made_user(tmp_path, monkeypatch, capsys)
    user.config.parent.mkdir(parents=True)
    user.config.write_text(TEXT)
    user.config.chmod(0o644)
    return user


def toolboxes(user: User) -> dict[str, list[str]]:
    return {
        name: [*one.servers, *one.disabled] for name, one in load_config(user.config, strict=False).toolboxes.items()
    }


def test_a_server_moves_with_its_comments_and_the_rest_stays(user: User):
    done = user.run("move", server="files", to="new", description="Read files")
    assert (done.status, done.err) == (0, "")
    assert done.out == f"moved dev/files to new/files in {user.config}\ncreated toolbox new: Read files\n"
    text = user.config.read_text()
    assert FILES.rstrip(",\n") in text
    assert toolboxes(user) == {"dev": ["git"], "web": ["s"], "more": ["t", "s"], "new": ["files"]}
    unchanged = TEXT.replace(FILES, "").splitlines()[:-4]
    assert text.splitlines()[: len(unchanged)] == unchanged
    assert user.config.stat().st_mode & 0o777 == 0o644


def test_a_server_that_moves_there_and_back_leaves_the_same_entry(user: User):
    user.run("move", server="t", to="web")
    assert toolboxes(user)["web"] == ["s", "t"]
    done = user.run("move", server="t", to="more", json="true")
    assert user.config.read_text() == TEXT
    assert done.document == {
        "ok": True,
        "file": str(user.config),
        "server": "t",
        "from": "web",
        "to": "more",
        "description": "m",
        "created": False,
        "removed": False,
    }


def test_an_emptied_toolbox_goes_and_a_disabled_server_keeps_one(user: User):
    user.run("move", server="t", to="dev")
    assert toolboxes(user)["more"] == ["s"]
    done = user.run("move", server="s", from_="web", to="dev")
    assert "removed toolbox web, which has no servers left\n" in done.out
    assert toolboxes(user) == {"dev": ["files", "git", "t", "s"], "more": ["s"]}
    assert "// for the web" not in user.config.read_text()


def test_a_new_toolbox_is_described_by_what_its_server_does(user: User):
    assert "created toolbox code: Work with Git repositories\n" in user.run("move", server="git", to="code").out
    assert user.run("move", server="t", to="x", json="true").document["description"] == "Use the tools of t"


def test_a_new_toolbox_is_described_by_the_tools_that_are_remembered(user: User):
    script = user.home / "opaque.py"
    script.write_text("import runpy\nrunpy.run_module('mcp_workbench.demo.servers.notes', run_name='__main__')\n")
    servers = {"a": {"command": sys.executable, "args": [str(script)]}, "b": {"command": "x"}}
    user.config.write_text(json.dumps({"toolboxes": {"dev": {"description": "d", "mcpServers": servers}}}))
    user.run("refresh")
    assert user.run("move", server="a", to="mine", json="true").document["description"] == "Read and write notes"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": "git"}, "no toolbox to move 'git' to\nhint: Pass --to TOOLBOX."),
        ({"server": "gti", "to": "web"}, "FILE: Server 'gti' not found\nhint: Did you mean 'git'?"),
        ({"server": "git", "to": "web", "from": "wbe"}, "FILE: Toolbox 'wbe' not found\nhint: Did you mean 'web'?"),
        (
            {"server": "git", "to": "new", "from": "web"},
            "FILE: Server 'git' not found\nhint: Available servers: 's'",
        ),
        (
            {"server": "s", "to": "dev"},
            "FILE: Server 's' is in several toolboxes: 'web', 'more'\nhint: Name one of them: --from web",
        ),
        (
            {"server": "s", "to": "web"},
            "FILE: Server 's' is in toolbox 'web' already\nhint: To remove the other one: mcp-workbench remove more s",
        ),
        (
            {"server": "git", "to": "dev"},
            "FILE: Server 'git' is in toolbox 'dev' already\nhint: There is nothing to move.",
        ),
        (
            {"server": "git", "to": "web", "description": "x"},
            (
                "FILE: toolbox 'web' exists already\n"
                "hint: Leave out --description, or run: mcp-workbench describe web TEXT"
            ),
        ),
    ],
)
def test_what_can_not_be_moved_is_told_and_nothing_changes(user: User, options: dict[str, str], message: str):
    done = user.run("move", **options)
    assert (done.status, done.err) == (2, f"error: {message.replace('FILE', str(user.config))}\n")
    assert user.config.read_text() == TEXT


def test_a_description_changes_and_the_comment_behind_it_stays(user: User):
    done = user.run("describe", toolbox="dev", text='Read "my" files')
    assert (done.status, done.out, done.err) == (0, f"described dev in {user.config}\n", "")
    expected = TEXT.replace('"description": "d", // kept', '"description": "Read \\"my\\" files", // kept')
    assert user.config.read_text() == expected
    told = user.run("describe", toolbox="dev", text="d", json="true").document
    assert told == {
        "ok": True,
        "file": str(user.config),
        "toolbox": "dev",
        "description": "d",
        "before": 'Read "my" files',
        "note": "the description of toolbox 'dev' says next to nothing, and agents choose by it: 'd'",
    }
    assert user.config.read_text() == TEXT
    done = user.run("describe", toolbox="dev", text="git, files")
    assert done.err.startswith("note: the description of toolbox 'dev' only lists names, ")


@pytest.mark.parametrize(
    ("command", "options"),
    [("move", {"server": "a", "to": "x"}), ("describe", {"toolbox": "default", "text": "Read files"})],
)
def test_a_file_without_toolboxes_has_nothing_to_arrange(user: User, command: str, options: dict[str, str]):
    bare = '{"mcpServers": {"a": {"command": "x"}}}'
    user.config.write_text(bare)
    done = user.run(command, **options)
    assert done.status == 2
    assert "the file has only mcpServers, and no toolboxes\nhint: " in done.err
    assert user.config.read_text() == bare
    user.config.unlink()
    assert "there is no configuration yet\nhint: Run: mcp-workbench import" in user.run(command, **options).err


def test_a_toolbox_that_is_not_there_is_not_described(user: User):
    done = user.run("describe", toolbox="de", text="x")
    assert (done.status, done.err) == (
        2,
        f"error: {user.config}: Toolbox 'de' not found\nhint: Did you mean 'dev'?\n",
    )
    assert user.run("describe", toolbox="dev", text="  ").status == 2
    assert user.config.read_text() == TEXT


def test_a_trusted_file_of_a_folder_stays_trusted(user: User):
    (user.project / "workbench-config.json").write_text(TEXT)
    assert user.run("trust", yes="true").status == 0
    assert user.run("move", server="git", to="web").status == 0
    assert user.run("describe", toolbox="web", text="Read files").status == 0
    assert "web: Read files\n" in user.run("listing").out
    assert user.config.read_text() == TEXT
