"""`mcp-workbench install` and `uninstall`: the workbench comes into a host's file, and goes without a trace."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.cli.install import installed_command
from mcp_workbench.config.jsonc.parser import parse, plain
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.hosts.documents import HostDocument
from mcp_workbench.hosts.registry import HOSTS
from tests.hosts import samples
from tests.hosts.samples import CANARY, HEADER, PASSWORD, SECRETS, WRITTEN, Sample, name_of
from tests.support.users import Done, User, made_user

ENTRIES = {
    "claude-code": ("mcpServers", {"type": "stdio", "alwaysLoad": True}),
    "claude-desktop": ("mcpServers", {}),
    "cursor": ("mcpServers", {}),
    "vscode": ("servers", {"type": "stdio"}),
    "windsurf": ("mcpServers", {}),
    "codex": ("mcp_servers", {}),
    "gemini": ("mcpServers", {}),
    "zed": ("context_servers", {}),
}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    return made_user(tmp_path, monkeypatch, capsys)


def run(user: User, command: str, sample: Sample, /, **options: str) -> Done:
    options |= {"project": "true"} if sample.project else {}
    return user.run(command, host=sample.host, **options)


def tree(path: Path) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text())
    return plain(parse(SourceText(path.read_bytes().decode())))


def servers(user: User, sample: Sample) -> Any:
    return tree(user.path(sample))[ENTRIES[sample.host][0]]


# -- there and back


@pytest.mark.parametrize("sample", WRITTEN, ids=name_of)
def test_the_workbench_comes_and_everything_else_stays(user: User, sample: Sample):
    user.has(sample)
    before = tree(user.path(sample))
    done = run(user, "install", sample, command="/opt/öl/mcp-workbench")
    assert done.status == 0, done.err
    key, more = ENTRIES[sample.host]
    entry = {**more, "command": "/opt/öl/mcp-workbench", "args": ["serve"]}
    assert servers(user, sample)["workbench"] == entry
    assert tree(user.path(sample)) == {**before, key: {**before.get(key, {}), "workbench": entry}}


@pytest.mark.parametrize("sample", WRITTEN, ids=name_of)
def test_import_install_and_uninstall_leave_every_byte_as_it_was(user: User, sample: Sample):
    user.has(sample)
    before = user.files()
    imported = user.run("import_")
    installed = run(user, "install", sample, remove_imported="true") if sample.servers else run(user, "install", sample)
    assert installed.status == 0, installed.err
    left = {name for name in servers(user, sample) if name != "workbench"}
    assert not left & set(sample.servers)
    done = run(user, "uninstall", sample)
    assert done.status == 0, done.err
    assert user.files() == before
    for secret in SECRETS:
        assert secret not in imported.out + installed.out + done.out + imported.err + installed.err + done.err


@pytest.mark.parametrize("host", [host.key for host in HOSTS])
def test_a_file_that_is_not_there_is_made_and_removed_again(user: User, host: str):
    before = set(user.home.rglob("*"))
    assert user.run("install", host=host).status == 0
    [made] = [path for path in set(user.home.rglob("*")) - before if path.is_file() and ".workbench" not in path.name]
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert "workbench" in tree(made)[ENTRIES[host][0]]
    done = user.run("uninstall", host=host)
    assert done.status == 0, done.err
    assert set(user.home.rglob("*")) == before


def test_a_host_that_seems_not_to_be_there_is_asked_about(user: User):
    assert "is Cursor installed?" in user.run("install", host="cursor").out
    user.has(samples.GEMINI)
    assert "installed?" not in user.run("install", host="gemini").out


@pytest.mark.parametrize("sample", WRITTEN, ids=name_of)
def test_changes_of_others_stay_when_the_workbench_goes(user: User, sample: Sample):
    user.has(sample)
    user.run("import_")
    before = tree(user.path(sample))
    options = {"remove_imported": "true"} if sample.servers else {}
    run(user, "install", sample, **options)
    path = user.path(sample)
    if path.suffix == ".toml":
        path.write_text(path.read_text().replace("model", "other = 1\nmodel", 1))
    else:
        text = path.read_bytes().decode()
        at = text.index("{") + 1
        comma = "," if parse(SourceText(text)).members else ""  # pyright: ignore[reportAttributeAccessIssue]
        path.write_bytes(f'{text[:at]}"other": 1{comma}{text[at:]}'.encode())
    done = run(user, "uninstall", sample, json="true")
    assert done.document["exact"] is False
    assert sorted(done.document["back"]) == sorted(set(sample.servers) if options else ())
    assert tree(path) == {**before, "other": 1}
    assert not [name for name in user.files() if "workbench" in name]


# -- what is kept of the file


def test_comments_and_layout_stay(user: User):
    user.has(samples.CURSOR)
    run(user, "install", samples.CURSOR, command="/x")
    new = '        "workbench": {\n            "command": "/x",\n            "args": ["serve"]\n        },\n'
    text = user.path(samples.CURSOR).read_text()
    assert new in text
    assert text.replace(new, "") == samples.CURSOR.text


def test_a_link_stays_a_link_and_permissions_stay(user: User):
    real = user.home / "dotfiles" / "cursor.json"
    real.parent.mkdir()
    real.write_bytes(samples.CURSOR.data)
    real.chmod(0o640)
    link = user.path(samples.CURSOR)
    link.parent.mkdir()
    link.symlink_to(real)
    run(user, "install", samples.CURSOR)
    assert link.is_symlink()
    assert "workbench" in servers(user, samples.CURSOR)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [path.name for path in real.parent.iterdir()] == ["cursor.json"]
    run(user, "uninstall", samples.CURSOR)
    assert link.is_symlink()
    assert real.read_bytes() == samples.CURSOR.data
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_the_copy_beside_the_file_is_the_file_as_it_was_and_for_its_owner_alone(user: User):
    user.has(samples.CURSOR)
    done = run(user, "install", samples.CURSOR, json="true")
    copy = Path(done.document["backup"])
    assert copy.parent == user.path(samples.CURSOR).parent
    assert copy.read_bytes() == samples.CURSOR.data
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ['{"mcpServers": ', '{"mcpServers": []}', "[]"])
def test_a_broken_file_is_told_and_left_alone(user: User, text: str):
    user.has(samples.CURSOR._replace(text=text))
    before = user.files()
    done = run(user, "install", samples.CURSOR)
    assert done.status == 1
    assert done.err.startswith(f"error: {user.path(samples.CURSOR)}: ")
    assert user.files() == before


def test_a_file_that_the_host_writes_meanwhile_is_left_alone(user: User, monkeypatch: pytest.MonkeyPatch):
    user.has(samples.CURSOR)
    path = user.path(samples.CURSOR)
    sync = os.fsync

    def interrupted(descriptor: int) -> None:
        sync(descriptor)
        if [*path.parent.glob(".mcp.json.*.new")]:  # it is ready to take the old one's place
            path.write_text('{"mcpServers": {}}')

    monkeypatch.setattr(os, "fsync", interrupted)
    done = run(user, "install", samples.CURSOR)
    assert done.status == 1
    assert "changed while it was being edited" in done.err
    assert user.files() == {".cursor/mcp.json": b'{"mcpServers": {}}'}


def test_a_file_where_a_folder_should_be_is_told(user: User):
    user.path(samples.CURSOR).parent.write_text("no folder")
    done = run(user, "install", samples.CURSOR)
    assert done.status == 1
    assert "can't be used: not a directory" in done.err
    assert user.files() == {".cursor": b"no folder"}


# -- twice, and otherwise


def test_a_second_installation_changes_nothing(user: User):
    user.has(samples.CODEX)
    run(user, "install", samples.CODEX)
    before = user.files()
    done = run(user, "install", samples.CODEX)
    assert "already has the workbench" in done.out
    assert user.files() == before


def test_servers_can_be_moved_later_and_the_first_file_still_comes_back(user: User):
    user.has(samples.CODEX)
    run(user, "install", samples.CODEX)
    user.run("import_")
    run(user, "install", samples.CODEX, remove_imported="true", command="/other/mcp-workbench")
    assert list(servers(user, samples.CODEX)) == ["workbench"]
    assert run(user, "uninstall", samples.CODEX, json="true").document["exact"] is True
    assert user.path(samples.CODEX).read_bytes() == samples.CODEX.data


def test_a_change_between_two_installations_is_not_lost(user: User):
    user.has(samples.GEMINI)
    run(user, "install", samples.GEMINI)
    path = user.path(samples.GEMINI)
    path.write_text(path.read_text().replace("Dracula", "GitHub"))
    run(user, "install", samples.GEMINI, command="/other/mcp-workbench")
    run(user, "uninstall", samples.GEMINI)
    assert path.read_text() == samples.GEMINI.text.replace("Dracula", "GitHub")


@pytest.mark.parametrize("sample", [samples.CLAUDE_CODE, samples.CURSOR, samples.CODEX, samples.GEMINI], ids=name_of)
def test_what_somebody_added_to_the_entry_of_the_workbench_stays_when_it_is_installed_again(user: User, sample: Sample):
    user.has(sample)
    user.run("import_")
    run(user, "install", sample)
    syntax = "toml" if sample is samples.CODEX else "json"
    document = HostDocument(user.path(sample).read_text(), syntax, sample.path)
    where = (ENTRIES[sample.host][0], "workbench")
    written = document.at(where)
    added = {"timeout": 9, "env": {**written.get("env", {}), "GIT_TOKEN": "mine"}}
    user.path(sample).write_text(document.with_member(where, {**written, **added}).text)
    for options in ({"command": "/new"}, {"command": "/new", "remove_imported": "true"}, {"name": "other"}):
        assert run(user, "install", sample, **options).status == 0
        entry = servers(user, sample)[options.get("name", "workbench")]
        assert (entry["timeout"], entry["env"]["GIT_TOKEN"]) == (9, "mine")
        assert entry["command"] == options.get("command", installed_command()[0])
        assert run(user, "install", sample, json="true", **options).document["changed"] is False
    assert run(user, "uninstall", sample).status == 0
    assert user.path(sample).read_bytes() == sample.data


def test_a_configuration_that_can_not_be_used_is_told_before_a_file_is_changed(user: User):
    user.has(samples.CURSOR)
    user.config.parent.mkdir(parents=True)
    user.config.write_text("{")
    assert run(user, "install", samples.CURSOR).status == 2
    assert user.path(samples.CURSOR).read_bytes() == samples.CURSOR.data


@pytest.mark.parametrize("command", ["/opt/mcp-workbench", "/opt/wb"])
def test_what_somebody_wrote_behind_serve_stays_when_it_is_installed_again(user: User, command: str):
    run(user, "install", samples.CURSOR, command=command, config="/one.json")
    path = user.path(samples.CURSOR)
    path.write_text(path.read_text().replace('"/one.json"', '"/one.json", "--log-level", "debug"'))
    run(user, "install", samples.CURSOR, command=f"{command}2", config="/two.json")
    expected = ["serve", "--config", "/two.json", "--log-level", "debug"]
    assert servers(user, samples.CURSOR)["workbench"]["args"] == expected
    run(user, "install", samples.CURSOR, command=command)
    assert servers(user, samples.CURSOR)["workbench"]["args"] == ["serve", "--log-level", "debug"]
    assert run(user, "uninstall", samples.CURSOR).status == 0
    assert not path.exists()


def test_a_program_of_another_name_is_known_by_what_was_written(user: User):
    user.has(samples.CURSOR)
    run(user, "install", samples.CURSOR, command="/opt/wb")
    path = user.path(samples.CURSOR)
    path.write_text(path.read_text().replace('"command": "/opt/wb"', '"command": "/opt/wb", "timeout": 9'))
    assert run(user, "install", samples.CURSOR, command="/opt/wb2").status == 0
    assert servers(user, samples.CURSOR)["workbench"] == {"command": "/opt/wb2", "args": ["serve"], "timeout": 9}
    assert run(user, "uninstall", samples.CURSOR).status == 0
    assert path.read_bytes() == samples.CURSOR.data


def test_only_servers_that_the_workbench_has_are_moved(user: User):
    user.has(samples.GEMINI)
    user.run("import_", by_host="true")
    config = json.loads(user.config.read_text())
    del config["toolboxes"]["gemini"]["mcpServers"]["maps"]
    user.config.write_text(json.dumps(config))
    done = run(user, "install", samples.GEMINI, remove_imported="true", json="true")
    assert done.document["moved"] == ["git", "events"]
    assert list(servers(user, samples.GEMINI)) == ["maps", "workbench"]


def test_a_server_that_came_back_by_itself_is_not_overwritten(user: User):
    user.has(samples.GEMINI)
    user.run("import_")
    run(user, "install", samples.GEMINI, remove_imported="true")
    path = user.path(samples.GEMINI)
    held = json.loads(path.read_text())
    held["mcpServers"]["git"] = {"command": "mine"}
    path.write_text(json.dumps(held))
    done = run(user, "uninstall", samples.GEMINI)
    assert "left unchanged, since it was added later: git" in done.out
    assert servers(user, samples.GEMINI)["git"] == {"command": "mine"}


def test_without_a_configuration_nothing_can_be_moved(user: User):
    user.has(samples.GEMINI)
    done = run(user, "install", samples.GEMINI, remove_imported="true")
    assert done.status == 2
    assert "hint: Run mcp-workbench import first." in done.err
    assert user.path(samples.GEMINI).read_bytes() == samples.GEMINI.data


def test_another_server_of_the_same_name_is_not_overwritten(user: User):
    user.has(samples.CURSOR._replace(text='{"mcpServers": {"workbench": {"command": "other"}}}'))
    done = run(user, "install", samples.CURSOR)
    assert done.status == 1
    assert "hint: Choose another name for the workbench with --name." in done.err
    assert run(user, "install", samples.CURSOR, name="mcp-workbench").status == 0
    assert set(servers(user, samples.CURSOR)) == {"workbench", "mcp-workbench"}


def test_the_configuration_that_was_named_is_given_to_the_workbench(user: User, monkeypatch: pytest.MonkeyPatch):
    run(user, "install", samples.CURSOR, config="mine.json", command="/x")
    assert servers(user, samples.CURSOR)["workbench"]["args"] == ["serve", "--config", str(user.project / "mine.json")]
    monkeypatch.setenv("WORKBENCH_CONFIG", "/etc/w.json")
    run(user, "install", samples.GEMINI)
    assert servers(user, samples.GEMINI)["workbench"]["args"][-2:] == ["--config", "/etc/w.json"]


def test_a_host_that_passes_on_no_variables_is_told_which_the_workbench_needs(user: User):
    inheriting = samples.CODEX.text.replace("startup_timeout_sec = 20", 'env_vars = ["SSH_AUTH_SOCK"]')
    user.has(samples.CODEX._replace(text=inheriting), samples.CURSOR)
    user.run("import_", by_host="true")
    needed = user.run("import_", json="true", config="other.json").document["variables"]
    run(user, "install", samples.CODEX)
    assert servers(user, samples.CODEX)["workbench"]["env_vars"] == [*needed, "SSH_AUTH_SOCK"]
    user.run("add", "x", "${A:-1}", toolbox="codex", server="more")
    run(user, "install", samples.CODEX)
    assert servers(user, samples.CODEX)["workbench"]["env_vars"] == [*needed, "A", "SSH_AUTH_SOCK"]
    run(user, "install", samples.CURSOR)
    assert "env_vars" not in servers(user, samples.CURSOR)["workbench"]


def test_a_host_is_told_of_a_variable_that_every_server_inherits(user: User):
    user.has(samples.CODEX)
    user.project.joinpath("own.json").write_text('{"inheritEnv": ["GPG_TTY", "AWS_*"], "toolboxes": {}}', "utf-8")
    run(user, "install", samples.CODEX, config="own.json")
    assert servers(user, samples.CODEX)["workbench"]["env_vars"] == ["GPG_TTY"]


def test_a_host_that_keeps_secrets_from_servers_is_told_to_pass_them_on(user: User, monkeypatch: pytest.MonkeyPatch):
    user.has(samples.CLAUDE_CODE, samples.GEMINI)
    user.run("import_", by_host="true")
    user.run("add", "x", "${SET:-1} ${UNSET:-2}", toolbox="gemini", server="more")
    monkeypatch.setenv("SET", "1")
    monkeypatch.delenv("UNSET", raising=False)
    run(user, "install", samples.GEMINI)
    passed = servers(user, samples.GEMINI)["workbench"]["env"]
    needed = {"GITHUB_PERSONAL_ACCESS_TOKEN", "GIT_TOKEN", "SET"}
    assert {name: passed.get(name) for name in needed} == {name: f"${name}" for name in needed}
    assert "UNSET" not in passed


def test_the_command_is_an_absolute_path_that_exists(user: User, monkeypatch: pytest.MonkeyPatch):
    command = installed_command()
    assert Path(command[0]).is_absolute()
    assert os.access(command[0], os.X_OK)
    program = user.home / "bin" / "mcp-workbench"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert installed_command() == [str(program)]


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_an_unknown_host_is_told_with_the_nearest(user: User, command: str):
    done = user.run(command, host="curser")
    assert done.status == 2
    assert done.err == "error: there is no host 'curser'\nhint: Did you mean 'cursor'?\n"


def test_a_host_without_projects_is_told(user: User):
    done = user.run("install", host="claude-desktop", project="true")
    assert (done.status, done.err.splitlines()[0]) == (2, "error: Claude Desktop has no project files")


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("prefix", [".cache/uv/archive-v0/x1", ".local/pipx/.cache/x1", ".cache/pipx/x1"])
def test_a_temporary_copy_of_the_program_is_never_written_into_a_host(
    user: User, prefix: str, monkeypatch: pytest.MonkeyPatch
):
    temporary = executable(user.home / prefix / "bin" / "mcp-workbench")
    monkeypatch.setattr(sys, "prefix", str(user.home / prefix))
    monkeypatch.setattr(sys, "executable", str(temporary.with_name("python")))
    monkeypatch.setattr(sys, "argv", [str(temporary)])
    monkeypatch.setenv("PATH", str(temporary.parent))
    done = user.run("install", host="cursor")
    assert (done.status, done.err.splitlines()[0].split(":")[1]) == (2, " this copy of mcp-workbench is temporary")
    assert not (user.home / ".cursor").exists()

    lasting = executable(user.home / ".local" / "bin" / "workbench-mcp")
    monkeypatch.setenv("PATH", f"{temporary.parent}{os.pathsep}{lasting.parent}")
    assert installed_command() == [str(lasting)]


# -- the values of variables


def values(user: User, sample: Sample) -> dict[str, str]:
    return servers(user, sample)["workbench"].get("env", {})


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (samples.CLAUDE_CODE, {"GITHUB_PERSONAL_ACCESS_TOKEN": CANARY, "SENTRY_X_API_KEY": HEADER}),
        (samples.CLAUDE_DESKTOP, {"MEMORY_API_KEY": CANARY}),
        (samples.CURSOR, {"GITHUB_PERSONAL_ACCESS_TOKEN": CANARY}),
        (samples.VSCODE, {"PERPLEXITY_KEY": "${input:perplexity-key}"}),
        (samples.WINDSURF, {"ZAPIER_KEY": CANARY}),
        (samples.CODEX, {"FILES_TOKEN": CANARY, "FIGMA_X_FIGMA_KEY": HEADER}),
        (samples.GEMINI, {"MAPS_AUTHORIZATION": HEADER, "GIT_TOKEN": "$GIT_TOKEN"}),
        (
            samples.ZED,
            {
                "MINE_TOKEN": CANARY,
                "DATABASE_URL_PASSWORD": PASSWORD,
                "REMOTE_AUTHORIZATION": HEADER,
                "REMOTE_CLIENT_SECRET": CANARY,
            },
        ),
    ],
    ids=lambda one: one.host if isinstance(one, Sample) else "",
)
def test_values_of_servers_that_move_stay_in_the_file_for_the_workbench(
    user: User, sample: Sample, expected: dict[str, str]
):
    user.has(sample)
    user.run("import_")
    done = run(user, "install", sample, remove_imported="true")
    assert values(user, sample) == expected
    assert not any(secret in done.out for secret in SECRETS)
    note = user.path(sample).with_name(user.path(sample).name + ".workbench.json").read_text()
    assert not any(secret in note for secret in SECRETS)


def test_a_server_that_does_not_move_keeps_its_values_for_itself(user: User):
    user.has(samples.CURSOR)
    user.run("import_")
    run(user, "install", samples.CURSOR)
    assert "env" not in servers(user, samples.CURSOR)["workbench"]
    run(user, "install", samples.CURSOR, remove_imported="true")
    assert values(user, samples.CURSOR) == {"GITHUB_PERSONAL_ACCESS_TOKEN": CANARY}


def test_variables_that_nobody_has_are_named(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LINEAR", raising=False)
    user.has(samples.CURSOR)
    user.run("import_")
    done = run(user, "install", samples.CURSOR, remove_imported="true")
    assert "  its env has the values of: GITHUB_PERSONAL_ACCESS_TOKEN\n" in done.out
    assert "  not set here; set them where Cursor starts: LINEAR\n" in done.out
    monkeypatch.setenv("LINEAR", "x")
    done = run(user, "install", samples.CURSOR, json="true")
    assert (done.document["variables"], done.document["missing"]) == (["GITHUB_PERSONAL_ACCESS_TOKEN"], [])


def test_what_a_person_changed_in_the_entry_stays_when_it_is_installed_again(user: User):
    user.has(samples.CLAUDE_CODE)
    user.run("import_")
    run(user, "install", samples.CLAUDE_CODE, remove_imported="true")
    path = user.path(samples.CLAUDE_CODE)
    held = json.loads(path.read_text())
    entry = held["mcpServers"]["workbench"]
    entry |= {"alwaysLoad": False, "timeout": 90}
    entry["env"] |= {"GITHUB_PERSONAL_ACCESS_TOKEN": "renewed", "MORE": ""}
    path.write_text(json.dumps(held))
    run(user, "install", samples.CLAUDE_CODE, command="/other/mcp-workbench")
    assert servers(user, samples.CLAUDE_CODE)["workbench"] == {**entry, "command": "/other/mcp-workbench"}
    assert "github" not in servers(user, samples.CLAUDE_CODE)
    run(user, "uninstall", samples.CLAUDE_CODE)
    assert tree(path) == json.loads(samples.CLAUDE_CODE.text)


def test_a_command_of_any_name_is_known_again_by_its_note(user: User):
    user.has(samples.CURSOR)
    user.run("import_")
    run(user, "install", samples.CURSOR, command="/x", remove_imported="true")
    path = user.path(samples.CURSOR)
    path.write_text(path.read_text().replace(CANARY, "renewed"))
    done = run(user, "uninstall", samples.CURSOR)
    assert done.status == 0, done.err
    assert set(servers(user, samples.CURSOR)) == {"github", "linear"}


def test_a_variable_of_the_terminal_is_written_where_that_is_asked_for(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LINEAR", HEADER)
    user.has(samples.CURSOR)
    user.run("import_")
    asked = {"env": ["LINEAR"]}
    done = user.run("install", host="cursor", repeated=asked)
    assert values(user, samples.CURSOR) == {"LINEAR": HEADER}
    assert HEADER not in done.out
    run(user, "install", samples.CURSOR, command="/y")
    assert values(user, samples.CURSOR) == {"LINEAR": HEADER}
    monkeypatch.setenv("LINEAR", "renewed")
    user.run("install", host="cursor", repeated=asked)
    assert values(user, samples.CURSOR) == {"LINEAR": "renewed"}


def test_who_writes_a_value_into_a_file_of_a_project_is_warned(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LINEAR", HEADER)
    warning = "this file belongs to the project"
    assert warning in user.run("install", host="cursor", project="true", repeated={"env": ["LINEAR"]}).out
    assert warning not in user.run("install", host="cursor", repeated={"env": ["LINEAR"]}).out


def test_a_variable_that_is_not_set_can_not_be_written_and_a_value_is_not_repeated(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("LINEAR", raising=False)
    user.has(samples.CURSOR)
    before = user.files()
    for names, error in (
        (["LINEAR"], "not set in the environment: LINEAR"),
        (["LINEAR", f"TOKEN={CANARY}"], "--env takes only the name of a variable"),
    ):
        done = user.run("install", host="cursor", repeated={"env": names})
        assert (done.status, done.err) == (2, f"error: {error}\nhint: Set it first: export NAME=value\n")
    assert user.files() == before


def test_names_that_a_person_lets_a_host_pass_on_stay(user: User):
    user.has(samples.CODEX)
    user.run("import_")
    run(user, "install", samples.CODEX, remove_imported="true")
    path = user.path(samples.CODEX)
    assert servers(user, samples.CODEX)["workbench"]["env_vars"] == ["FIGMA_TOKEN"]
    path.write_text(path.read_text().replace('["FIGMA_TOKEN"]', '["FIGMA_TOKEN", "MORE"]'))
    run(user, "install", samples.CODEX, command="/other/mcp-workbench")
    assert servers(user, samples.CODEX)["workbench"]["env_vars"] == ["FIGMA_TOKEN", "MORE"]


def test_a_program_that_is_not_on_this_machine_is_named(user: User, monkeypatch: pytest.MonkeyPatch):
    user.has(samples.CURSOR)
    program = executable(user.project / "bin" / "wb")
    monkeypatch.chdir(user.project)
    for named, written, is_here in (
        ("bin/wb", str(program), True),
        ("bin/none", str(user.project / "bin" / "none"), False),
        ("no-such-program", "no-such-program", False),
    ):
        done = run(user, "install", samples.CURSOR, command=named)
        assert servers(user, samples.CURSOR)["workbench"]["command"] == written
        assert ("check: there is no program" in done.out) is not is_here
