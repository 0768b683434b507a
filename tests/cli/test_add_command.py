"""`mcp-workbench add`: a server comes into the configuration, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_workbench.config.jsonc.parser import parse, plain
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Endpoint, Launch
from tests.support.users import User, made_user

TEXT = """// my toolboxes
{
  "toolboxes": {
    "dev": {
      "description": "Files", // what it is for
      "mcpServers": {
        // reads files
        "files": { "command": "npx", "args": ["-y", "server"] },
      },
    },
  },
}
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    user = made_user(tmp_path, monkeypatch, capsys)
    user.config.parent.mkdir(parents=True)
    user.config.write_text(TEXT)
    return user


def test_a_program_is_added_and_the_rest_of_the_file_stays(user: User):
    done = user.run(
        "add", "uvx", "mcp-server-git", "-v", toolbox="dev", server="git", repeated={"env": ["A=1=2", "B="]}
    )
    assert done.status == 0, done.err
    assert done.out.startswith(f"added dev/git in {user.config}\n")
    new = """        "git": {
          "command": "uvx",
          "args": ["mcp-server-git", "-v"],
          "env": {
            "A": "1=2",
            "B": ""
          }
        },
"""
    assert user.config.read_text().replace(new, "") == TEXT
    target = load_config(user.config).toolboxes["dev"].servers["git"].target
    assert isinstance(target, Launch)
    assert target.env == {"A": "1=2", "B": ""}


def test_a_remote_server_is_added(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("T", "value")
    headers = {"header": ["Authorization=Bearer ${T}"]}
    done = user.run("add", toolbox="dev", server="docs", url="https://a.example/x", transport="sse", repeated=headers)
    assert (done.status, done.err) == (0, "")
    target = load_config(user.config).toolboxes["dev"].servers["docs"].target
    assert isinstance(target, Endpoint)
    assert (target.url, target.transport, target.headers) == (
        "https://a.example/x",
        "sse",
        {"Authorization": "Bearer value"},
    )


def test_a_new_toolbox_needs_a_description(user: User):
    done = user.run("add", "x", toolbox="web", server="s")
    assert done.status == 2
    assert "there is no toolbox 'web' yet" in done.err
    assert user.config.read_text() == TEXT
    assert user.run("add", "x", toolbox="web", server="s", description="Pages").status == 0
    assert load_config(user.config).toolboxes["web"].description == "Pages"


def test_the_first_server_makes_the_file_for_its_owner_alone(user: User):
    user.config.unlink()
    done = user.run("add", "x", toolbox="dev", server="s", description="d", json="true")
    assert done.document == {"ok": True, "file": str(user.config), "toolbox": "dev", "server": "s"} | {
        "replaced": False,
        "warnings": [],
    }
    assert json.loads(user.config.read_text()) == {
        "toolboxes": {"dev": {"description": "d", "mcpServers": {"s": {"command": "x"}}}}
    }
    assert user.config.stat().st_mode & 0o777 == 0o600


def test_a_server_that_is_there_is_replaced_only_when_asked(user: User):
    done = user.run("add", "x", toolbox="dev", server="files")
    assert done.status == 2
    assert "hint: Pass --replace to change it." in done.err
    assert user.config.read_text() == TEXT
    assert user.run("add", "x", toolbox="dev", server="files", replace="true").status == 0
    assert user.config.read_text() == TEXT.replace(
        '{ "command": "npx", "args": ["-y", "server"] }', '{\n          "command": "x"\n        }'
    )


@pytest.mark.parametrize(
    ("words", "options", "problem"),
    [
        ((), {}, "no server to add"),
        (("x",), {"url": "https://a"}, "either a command or a --url"),
        ((), {"url": "ftp://a"}, "must be an address that starts with http"),
        ((), {"url": "https://u:p@a"}, "cannot hold a name and a password"),
        (("x", "${"), {}, "a ${ is not closed"),
        (("x",), {"transport": "sse"}, "--transport is only for a server with a --url"),
        ((), {"url": "https://a", "cwd": "/"}, "--cwd is only for a server with a command"),
        (("x",), {"server": "a\x07b"}, "cannot hold control characters"),
    ],
)
def test_what_check_would_refuse_is_not_written(
    user: User, words: tuple[str, ...], options: dict[str, str], problem: str
):
    done = user.run("add", *words, **{"toolbox": "dev", "server": "s", **options})
    assert done.status == 2
    assert problem in done.err
    assert user.config.read_text() == TEXT


def test_a_pair_without_a_value_is_told_without_what_was_given(user: User):
    done = user.run("add", "x", toolbox="dev", server="s", repeated={"env": ["hunter2"]})
    assert (done.status, done.err) == (2, "error: --env needs a name and a value\nhint: Write --env NAME=VALUE.\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Authorization: Basic aGVsbG8==", {"Authorization": "Basic aGVsbG8=="}),
        ("Authorization=Basic aGVsbG8==", {"Authorization": "Basic aGVsbG8=="}),
        ("X-Level:high", {"X-Level": "high"}),
        ("X-Empty=", {"X-Empty": ""}),
    ],
)
def test_a_header_is_written_as_people_know_it_from_elsewhere(user: User, given: str, expected: dict[str, str]):
    done = user.run(
        "add", toolbox="dev", server="docs", url="https://a/x", description="d", repeated={"header": [given]}
    )
    assert done.status == 0, done.err
    tree: Any = plain(parse(SourceText(user.config.read_text())))
    assert tree["toolboxes"]["dev"]["mcpServers"]["docs"]["headers"] == expected


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("header", ["hunter2 Basic: x=y"]),
        ("header", ["hunter2"]),
        ("header", ["=hunter2"]),
        ("header", ["A=hunter2", "A: hunter2"]),
        ("env", ["hunter2"]),
        ("env", ["A=hunter2", "A=hunter2"]),
    ],
)
def test_a_pair_that_is_none_or_is_there_twice_is_refused_without_being_repeated(
    user: User, option: str, given: list[str]
):
    words, options = (("x",), {}) if option == "env" else ((), {"url": "https://a/x"})
    done = user.run(
        "add", *words, toolbox="dev", server="docs", description="d", repeated={option: given}, **cast("Any", options)
    )
    assert done.status == 2
    assert "hunter2" not in done.err
    assert user.config.read_text() == TEXT


def test_the_command_to_try_can_be_pasted(user: User):
    done = user.run("add", "x", toolbox="my box", server="a'b", description="d")
    assert done.out.endswith("try it: mcp-workbench doctor 'my box'\n")
    done = user.run("add", "x", toolbox="dev", server="c", config=str(user.config))
    assert done.out.endswith(f"try it: mcp-workbench doctor dev --config {user.config}\n")


def test_a_secret_in_the_file_is_warned_of_and_not_repeated(user: User):
    done = user.run("add", "x", toolbox="dev", server="s", repeated={"env": ["API_KEY=hunter2-hunter2"]})
    assert done.status == 0
    assert "mcpServers.s.env.API_KEY: the file contains a secret" in done.err
    assert "hunter2" not in done.out + done.err


def test_add_warns_of_what_check_warns_of(user: User):
    words = ["npx", "-y", "some-server", "--token", "ghp_0123456789abcdefghijklmnop"]
    odd = user.run("add", *words, toolbox="dev", server="a b")
    again = user.run("add", *words, toolbox="new box", server="A B", description="d")
    told = [line for line in (odd.err + again.err).splitlines() if line.startswith("warning: ")]
    odd_names = ('["a b"]: a name of letters', '["new box"]: a name of letters')
    for warning in ("without a fixed version", "the file contains a secret", "same server as dev/a b", *odd_names):
        assert any(warning in line for line in told), f"{warning}: {told}"
    assert user.run("add", "true", toolbox="dev", server="fine").err == ""
    document = user.run("add", *words, toolbox="dev", server="a b", replace="true", json="true").document
    checked = user.run("check", json="true").document
    assert [one for one in checked["warnings"] if one not in document["warnings"]] == [
        one for one in checked["warnings"] if "a b" not in one["path"]
    ]
    text = user.run("check").out
    bare = [line.split(": ", 2)[2] for line in told]
    assert [line for line in bare if line not in text] == []


def test_a_broken_file_is_told_and_left_alone(user: User):
    user.config.write_text("{")
    assert user.run("add", "x", toolbox="dev", server="s").status == 2
    assert user.config.read_text() == "{"


def test_a_file_as_hosts_write_it_has_one_toolbox(user: User):
    user.config.write_text('{"mcpServers": {}}')
    assert user.run("add", "x", toolbox="dev", server="s").status == 2
    assert user.run("add", "x", toolbox="default", server="s").status == 0
    assert user.config.read_text() == '{"mcpServers": {"s": {"command": "x"}}}'


def test_the_file_of_the_folder_comes_first_if_it_is_trusted_and_stays_trusted(user: User):
    local = user.project / "workbench-config.json"
    local.write_text('{"toolboxes": {}}')
    assert user.run("trust", yes="true").status == 0
    assert user.run("add", "x", toolbox="dev", server="s", description="d").status == 0
    assert "dev" in json.loads(local.read_text())["toolboxes"]
    assert user.run("add", "x", toolbox="dev", server="t").status == 0
    [listed] = user.run("trust", list="true", json="true").document["files"]
    assert listed["state"] == "trusted"
    assert user.config.read_text() == TEXT


# -- variables that a server inherits


def inherited_by(user: User, server: str) -> tuple[str, ...]:
    target = load_config(user.config).toolboxes["dev"].servers[server].target
    assert isinstance(target, Launch)
    return target.inherit_env


def test_a_new_server_inherits_what_is_named(user: User):
    given = {"inherit": ["SSH_AUTH_SOCK", "AWS_*", "SSH_AUTH_SOCK"]}
    assert user.run("add", "uvx", "x", toolbox="dev", server="git", repeated=given).status == 0
    assert inherited_by(user, "git") == ("SSH_AUTH_SOCK", "AWS_*")


def test_variables_are_added_to_those_that_a_server_inherits_and_nothing_else_changes(user: User):
    done = user.run("add", toolbox="dev", server="files", repeated={"inherit": ["B", "A"]})
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"changed dev/files in {user.config}\n")
    assert user.config.read_text() == TEXT.replace('"server"] }', '"server"], "inheritEnv": ["B", "A"] }')
    again = user.run("add", toolbox="dev", server="files", json="true", repeated={"inherit": ["C_*", "A"]})
    assert again.document["replaced"] is True
    assert inherited_by(user, "files") == ("B", "A", "C_*")


@pytest.mark.parametrize(
    ("server", "names", "options", "said"),
    [
        ("new", ["A"], {}, "no server to add"),
        ("files", ["A"], {"cwd": "/x"}, "no server to add"),
        ("files", ["A"], {"replace": "true"}, "no server to add"),
        ("files", ["A=b"], {}, "without '='"),
        ("files", ["WORKBENCH_TOKEN"], {}, "never inherit variables of the workbench itself"),
        ("new", ["A"], {"url": "https://a.example"}, "--inherit is only for a server with a command"),
    ],
)
def test_what_can_not_be_inherited_is_told_and_nothing_changes(
    user: User, server: str, names: list[str], options: dict[str, str], said: str
):
    done = user.run("add", toolbox="dev", server=server, repeated={"inherit": names}, **options)
    assert (done.status, said in done.err) == (2, True), done.err
    assert user.config.read_text() == TEXT


def test_a_remote_server_inherits_nothing(user: User):
    user.run("add", toolbox="dev", server="docs", url="https://a.example/x")
    before = user.config.read_text()
    done = user.run("add", toolbox="dev", server="docs", repeated={"inherit": ["A"]})
    assert (done.status, "only for a server with a command" in done.err) == (2, True)
    assert user.config.read_text() == before
