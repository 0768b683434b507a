"""Values of servers that moved behind the workbench: none is lost, and none comes to another server."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support.users import User


def mine(**rest: Any) -> dict[str, Any]:
    return {"command": "x", **rest}


def path_of(user: User) -> Path:
    return user.home / ".cursor" / "mcp.json"


def has(user: User, **servers: Any) -> None:
    path_of(user).parent.mkdir(exist_ok=True)
    path_of(user).write_text(json.dumps({"mcpServers": servers}))


def servers(user: User) -> dict[str, Any]:
    return json.loads(path_of(user).read_text())["mcpServers"]


def install(user: User, **options: str) -> None:
    done = user.run("install", host="cursor", remove_imported="true", **options)
    assert done.status == 0, done.err


def convert(user: User) -> None:
    has(user, s=mine(env={"A_TOKEN": "old-1"}))
    user.run("import_")
    install(user)


# -- which value it is


def test_a_server_that_came_again_with_another_value_stays_until_that_is_settled(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    convert(user)
    has(user, **servers(user), s=mine(env={"A_TOKEN": "new-2"}))
    done = user.run("install", host="cursor", remove_imported="true")
    assert "  stays in the host: s: it has another value than the workbench of A_TOKEN\n" in done.out
    assert servers(user)["s"] == mine(env={"A_TOKEN": "new-2"})
    assert servers(user)["workbench"]["env"] == {"A_TOKEN": "old-1"}
    assert user.run("install", host="cursor", remove_imported="true", json="true").document["stay"] == ["s"]
    monkeypatch.setenv("A_TOKEN", "new-2")
    user.run("install", host="cursor", remove_imported="true", repeated={"env": ["A_TOKEN"]})
    assert (list(servers(user)), servers(user)["workbench"]["env"]) == (["workbench"], {"A_TOKEN": "new-2"})


def test_a_server_that_needs_another_value_of_a_shared_variable_stays(user: User):
    has(user, a=mine(args=["a"], env={"A_TOKEN": "one"}), b=mine(args=["b"], env={"A_TOKEN": "one"}))
    user.run("import_")
    other = mine(args=["b"], env={"A_TOKEN": "two"})
    has(user, a=mine(args=["a"], env={"A_TOKEN": "one"}), b=other)
    for _ in range(2):
        install(user)
        assert (set(servers(user)), servers(user)["b"]) == ({"workbench", "b"}, other)
        assert servers(user)["workbench"]["env"] == {"A_TOKEN": "one"}


def test_what_a_host_looks_up_with_a_secret_in_it_stays_as_it_is_written(user: User):
    text = "${API_KEY:-sk-realsecret12345}"
    path = user.home / ".claude.json"
    path.write_text(json.dumps({"mcpServers": {"s": mine(env={"API_KEY": text})}}))
    user.run("import_")
    assert text not in user.config.read_text()
    done = user.run("install", host="claude-code", remove_imported="true")
    assert json.loads(path.read_text())["mcpServers"]["workbench"]["env"] == {"API_KEY": text}
    assert "not set here" not in done.out


@pytest.mark.parametrize(("host", "value"), [("gemini", "pa$word"), ("claude-code", "a${b}"), ("cursor", "${env:x}")])
def test_a_value_that_the_host_would_change_is_refused(
    user: User, monkeypatch: pytest.MonkeyPatch, host: str, value: str
):
    monkeypatch.setenv("SOME_PASSWORD", value)
    before = user.files()
    done = user.run("install", host=host, repeated={"env": ["SOME_PASSWORD"]})
    assert (done.status, user.files()) == (2, before)
    assert "would expand a part of the value of SOME_PASSWORD as a variable" in done.err
    assert value not in done.err
    assert user.run("install", host="zed", repeated={"env": ["SOME_PASSWORD"]}).status == 0


def test_a_value_that_is_no_text_is_refused(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_PASSWORD", os.fsdecode(b"\xff\xfe"))
    done = user.run("install", host="cursor", repeated={"env": ["SOME_PASSWORD"]})
    assert (done.status, done.err.splitlines()[0]) == (2, "error: the value of SOME_PASSWORD is not UTF-8")


# -- entries of any kind


def test_values_in_an_older_form_of_the_entry_stay(user: User):
    path = user.home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True)
    command = {"path": "mcp-workbench", "args": ["serve"], "env": {"TOKEN": "t"}}
    path.write_text(json.dumps({"context_servers": {"workbench": {"command": command}}}))
    user.run("install", host="zed")
    assert json.loads(path.read_text())["context_servers"]["workbench"]["env"] == {"TOKEN": "t"}


def test_variables_that_codex_has_as_objects_stay(user: User):
    path = user.home / ".codex" / "config.toml"
    path.parent.mkdir()
    entry = 'command = "mcp-workbench"\nargs = ["serve"]\nenv_vars = ["A", {name = "B", source = "remote"}]\n'
    path.write_text(f"[mcp_servers.workbench]\n{entry}")
    done = user.run("install", host="codex")
    assert done.status == 0, done.err
    assert 'env_vars = ["A", {name = "B", source = "remote"}]' in path.read_text()


@pytest.mark.parametrize("line", ["env_vars = 5", 'env_http_headers = "x"', "env_http_headers = [1]", "oauth = 5"])
def test_a_value_of_another_kind_in_a_file_is_no_obstacle(user: User, line: str):
    path = user.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(f'[mcp_servers.a]\ncommand = "x"\n{line}\n[mcp_servers.b]\ncommand = "y"\n')
    done = user.run("import_")
    assert done.status == 0, done.err
    assert "b" in user.entries()


def test_the_workbench_is_not_imported_whatever_program_it_is_installed_with(user: User):
    has(user, s=mine(env={"A_TOKEN": "old-1"}))
    user.run("import_")
    install(user, command="/opt/wrapper")
    done = user.run("import_", force="true")
    assert "No host has MCP servers here." in done.out
    assert "wrapper" not in user.config.read_text()


# -- the way back


def test_a_value_that_was_renewed_in_the_entry_is_kept_when_the_workbench_goes(user: User):
    convert(user)
    path_of(user).write_text(path_of(user).read_text().replace("old-1", "new-2"))
    last = path_of(user).with_name("mcp.json.with-workbench")
    held = path_of(user).read_bytes()
    done = user.run("uninstall", host="cursor")
    assert "  values that were only in its env are now in ~/.cursor/mcp.json.with-workbench: A_TOKEN\n" in done.out
    assert (last.read_bytes(), stat.S_IMODE(last.stat().st_mode)) == (held, 0o600)
    assert servers(user) == {"s": mine(env={"A_TOKEN": "old-1"})}


def test_a_value_that_the_terminal_has_too_is_not_kept_when_the_workbench_goes(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    convert(user)
    before = path_of(user).with_name("mcp.json.before-workbench").read_bytes()
    monkeypatch.setenv("A_TOKEN", "new-2")
    user.run("install", host="cursor", repeated={"env": ["A_TOKEN"]})
    assert user.run("uninstall", host="cursor", json="true").document["lost"] == []
    assert user.files() == {".cursor/mcp.json": before}


def test_a_copy_whose_note_is_gone_stays_when_the_workbench_goes(user: User):
    convert(user)
    copy = path_of(user).with_name("mcp.json.before-workbench")
    held = copy.read_bytes()
    path_of(user).with_name("mcp.json.workbench.json").unlink()
    done = user.run("uninstall", host="cursor")
    assert copy.read_bytes() == held
    assert "  there is no record of moved servers; see the backup: ~/.cursor/mcp.json.before-workbench\n" in done.out
