"""Nothing that a person or a host does in between costs a server, a comment, an owner or a permission."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_workbench.config.jsonc.parser import parse, plain, tokens
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.hosts import files
from mcp_workbench.hosts.files import record_of
from tests.hosts import samples
from tests.hosts.samples import CURSOR, WRITTEN, Sample, name_of
from tests.support.users import User

ONE_SERVER = '{"mcpServers": {"a": {"command": "a"}}}'


def servers(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["mcpServers"]


def has(user: User, text: str) -> Path:
    user.has(CURSOR._replace(text=text))
    return user.path(CURSOR)


# -- servers that come and go between two installations


def test_a_server_that_came_after_the_first_installation_and_was_moved_by_the_second_comes_back(user: User):
    path = has(user, ONE_SERVER)
    user.run("install", host="cursor")
    late = {"command": "b", "env": {"B_TOKEN": "hunter2hunter2"}}
    path.write_text(json.dumps({"mcpServers": {**servers(path), "b": late}}))
    user.run("import_")
    user.run("install", host="cursor", remove_imported="true")
    assert list(servers(path)) == ["workbench"]
    assert sorted(user.run("uninstall", host="cursor", json="true").document["back"]) == ["a", "b"]
    assert servers(path) == {"a": {"command": "a"}, "b": late}


def test_servers_of_two_installations_come_back_after_somebody_changed_the_file(user: User):
    path = has(user, ONE_SERVER)
    user.run("import_")
    user.run("install", host="cursor", remove_imported="true")
    for name in ("b", "c"):
        path.write_text(json.dumps({"mcpServers": {**servers(path), name: {"command": name}}}))
        user.run("import_", force="true")
        user.run("install", host="cursor", remove_imported="true")
        assert list(servers(path)) == ["workbench"]
    path.write_text(json.dumps({"mine": 1, "mcpServers": servers(path)}))
    user.run("uninstall", host="cursor")
    assert json.loads(path.read_text()) == {"mine": 1, "mcpServers": {name: {"command": name} for name in "abc"}}


def test_a_server_that_somebody_put_back_by_hand_is_not_moved_again_unasked(user: User):
    path = has(user, ONE_SERVER)
    user.run("import_")
    user.run("install", host="cursor", remove_imported="true")
    path.write_text(json.dumps({"mcpServers": {**servers(path), "a": {"command": "a"}}}))
    user.run("install", host="cursor", command="/other/mcp-workbench")
    assert sorted(servers(path)) == ["a", "workbench"]


def test_servers_that_were_moved_come_back_though_somebody_removed_the_file(user: User):
    path = has(user, ONE_SERVER)
    user.run("import_")
    user.run("install", host="cursor", remove_imported="true")
    path.unlink()
    assert user.run("uninstall", host="cursor", json="true").document["back"] == ["a"]
    assert servers(path) == {"a": {"command": "a"}}


def test_a_second_name_replaces_the_first(user: User):
    path = has(user, ONE_SERVER)
    user.run("install", host="cursor")
    user.run("install", host="cursor", name="bench")
    assert list(servers(path)) == ["a", "bench"]
    path.write_text(path.read_text() + "\n")
    user.run("uninstall", host="cursor")
    assert list(servers(path)) == ["a"]


def test_an_entry_that_somebody_made_their_own_stays_and_is_told(user: User):
    path = has(user, ONE_SERVER)
    user.run("install", host="cursor")
    path.write_text(json.dumps({"mcpServers": {**servers(path), "workbench": {"command": "mine"}}}))
    done = user.run("uninstall", host="cursor", json="true")
    assert done.document["left"] == ["workbench"]
    assert servers(path)["workbench"] == {"command": "mine"}


@pytest.mark.parametrize("sample", [one for one in WRITTEN if one.servers], ids=name_of)
def test_servers_come_back_with_their_comments_and_in_their_order_though_somebody_changed_the_file(
    user: User, sample: Sample
):
    user.has(sample)
    user.run("import_")
    project: dict[str, Any] = {"project": "true"} if sample.project else {}
    user.run("install", host=sample.host, remove_imported="true", **project)
    path = user.path(sample)
    path.write_bytes(path.read_bytes() + (b"# mine\n" if path.suffix == ".toml" else b" // mine\n"))
    done = user.run("uninstall", host=sample.host, json="true", **project)
    assert done.document["exact"] is False
    assert done.document["back"]
    order, comments = content(path.read_bytes().decode(), sample)
    comments.remove("mine")
    assert (order, comments) == content(sample.text, sample)


def content(text: str, sample: Sample) -> tuple[str, list[str]]:
    """All values in their order, and all comments in any."""
    if sample.path.endswith(".toml"):
        return json.dumps(tomllib.loads(text)), sorted(re.findall("# ?(.*)", text))
    comments = [token.text for token in tokens(SourceText(text)) if token.kind == "comment"]
    return json.dumps(plain(parse(SourceText(text)))), sorted(comment.strip("/* ") for comment in comments)


# -- what looks like the workbench


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/src/mcp-workbench"]},
        {"command": "uvx", "args": ["mcp-server-git", "--repository", "mcp-workbench"]},
        {"command": "docker", "args": ["run", "-v", "x:/mcp_workbench", "mcp/git"]},
    ],
)
def test_a_server_that_works_on_the_workbench_is_not_the_workbench(user: User, entry: dict[str, Any]):
    path = has(user, json.dumps({"mcpServers": {"work": entry}}))
    assert user.run("uninstall", host="cursor").status == 1
    assert servers(path) == {"work": entry}
    assert [one["name"] for one in user.run("import_", json="true").document["sources"][0]["servers"]] == ["work"]


# -- copies, records and crashes


def test_a_copy_whose_record_is_gone_is_not_overwritten(user: User):
    path = has(user, ONE_SERVER)
    user.run("import_")
    user.run("install", host="cursor", remove_imported="true")
    record_of(path).unlink()
    before = user.files()
    done = user.run("install", host="cursor", command="/other/mcp-workbench")
    assert done.status == 1
    assert "copy" in done.err
    assert user.files() == before


@pytest.mark.parametrize(
    ("sample", "meanwhile"),
    [(samples.CURSOR, b""), (samples.CODEX, b"\n")],
    ids=["alone", "with a host that writes"],
)
def test_a_crash_at_any_step_loses_nothing(
    user: User, sample: Sample, meanwhile: bytes, monkeypatch: pytest.MonkeyPatch
):
    """Every call that changes a file is the last one once, and what follows must still lead back."""
    user.has(sample)
    path = user.path(sample)
    user.run("import_")
    for crashing in ("install", "uninstall"):
        crashes = 0
        crashed = True
        while crashed:
            path.write_bytes(sample.data)
            if crashing == "uninstall":
                user.run("install", host=sample.host, remove_imported="true")
            with monkeypatch.context() as patched:
                crash_after(patched, crashes + 1)
                crashed = crash(user, crashing, sample)
            crashes += crashed
            path.write_bytes(path.read_bytes() + meanwhile)
            again = user.run("install", host=sample.host, remove_imported="true")
            assert again.status == 0, again.err
            assert user.run("uninstall", host=sample.host).status == 0
            assert list(user.files()) == [sample.path], (crashing, crashes)
            assert content(path.read_bytes().decode(), sample) == content(sample.text, sample), (crashing, crashes)
            assert meanwhile or path.read_bytes() == sample.data, (crashing, crashes)
        assert crashes > 3


class Crash(BaseException):
    """The process is gone: nothing is tidied up."""


def crash_after(patched: pytest.MonkeyPatch, number: int) -> None:
    """The call with this number of those that change a folder never comes back, and no other after it."""
    left = [number]

    def counted(real: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            left[0] -= real is not opened or bool(arguments[1] & os.O_CREAT)
            if left[0] <= 0:
                raise Crash
            return real(*arguments, **more)

        return call

    opened = os.open
    for name in ("open", "unlink", "rmdir", "mkdir", "replace"):
        patched.setattr(os, name, counted(getattr(os, name)))


def crash(user: User, command: str, sample: Sample) -> bool:
    options: dict[str, Any] = {"remove_imported": "true"} if command == "install" else {}
    try:
        user.run(command, host=sample.host, **options)
    except Crash:
        return True
    return False


# -- permissions, owners and links


def test_a_file_that_is_read_only_is_left_alone(user: User):
    path = has(user, ONE_SERVER)
    path.chmod(0o444)
    before = user.files()
    done = user.run("install", host="cursor")
    assert (done.status, done.err) == (
        1,
        f"error: {path}: is read-only\nhint: Make it writable, and try again.\n",
    )
    assert user.files() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


@pytest.mark.skipif(os.geteuid() != 0, reason="platform: only root can give files to others")
def test_a_file_keeps_its_owner_and_its_attributes(user: User):
    path = has(user, ONE_SERVER)
    os.chown(path, 1234, 1235)
    path.chmod(0o640)
    has_attributes = True
    try:
        os.setxattr(path, "user.mine", b"kept")
    except OSError:
        has_attributes = False
    for command in ("install", "uninstall"):
        assert user.run(command, host="cursor").status == 0
        status = path.stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 1235, 0o640)
        assert not has_attributes or os.getxattr(path, "user.mine") == b"kept"


def test_a_file_whose_owner_can_not_be_kept_is_left_alone(user: User, monkeypatch: pytest.MonkeyPatch):
    path = has(user, ONE_SERVER)
    before = user.files()
    real = os.fstat

    def other(descriptor: int) -> os.stat_result:
        found = list(real(descriptor))
        found[4] += 1
        return os.stat_result(found)

    def refused(*_arguments: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", other)
        patched.setattr(os, "fchown", refused)
        done = user.run("install", host="cursor")
    assert done.status == 1
    assert "operation not permitted" in done.err
    assert path.read_text() == ONE_SERVER
    assert user.files() == before


def test_a_file_that_was_made_is_not_removed_if_it_changes_meanwhile(user: User, monkeypatch: pytest.MonkeyPatch):
    user.run("install", host="cursor")
    path = user.path(CURSOR)
    load = files.load

    def meanwhile(file: Path) -> files.InstallRecord | None:
        if undoing:
            path.write_text('{"mine": 1}')
        undoing.append(True)
        return load(file)

    undoing: list[bool] = []
    monkeypatch.setattr(files, "load", meanwhile)
    done = user.run("uninstall", host="cursor")
    assert "changed while it was being edited" in done.err
    assert path.read_text() == '{"mine": 1}'
    assert record_of(path).exists()


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_second_workbench_waits_while_one_changes_a_file(user: User, command: str, monkeypatch: pytest.MonkeyPatch):
    path = has(user, ONE_SERVER)
    if command == "uninstall":
        user.run("install", host="cursor")
    replace = files.replace
    refused: list[bool] = []

    def watched(target: Path, data: bytes, known: bytes | None, mode: int = files.PRIVATE) -> None:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refused.append(True)
        finally:
            os.close(folder)
        replace(target, data, known, mode)

    monkeypatch.setattr(files, "replace", watched)
    assert user.run(command, host="cursor").status == 0
    assert refused == ([True] * 3 if command == "install" else [True])


# -- names that are no text


def test_a_home_folder_whose_name_is_no_text_is_one_like_any_other(user: User, monkeypatch: pytest.MonkeyPatch):
    home = user.home / os.fsdecode(b"h\xff x")
    (home / ".cursor").mkdir(parents=True)
    (home / ".cursor" / "mcp.json").write_text(ONE_SERVER)
    monkeypatch.setenv("HOME", str(home))
    before = user.files()
    steps: list[tuple[str, Any]] = [("import_", {}), ("install", {"host": "cursor"}), ("install", {"host": "zed"})]
    for command, options in steps:
        assert user.run(command, json="true", **options).document["ok"] is True
    assert user.run("import_", dry_run="true").status == 0
    for host in ("zed", "cursor"):
        assert user.run("uninstall", host=host, json="true").document["ok"] is True
    assert {name: data for name, data in user.files().items() if "workbench-config" not in name} == before


@pytest.mark.parametrize("option", ["config", "command"])
def test_what_can_not_be_written_into_a_file_is_refused(user: User, option: str):
    path = has(user, ONE_SERVER)
    before = user.files()
    done = user.run("install", host="cursor", **cast("Any", {option: "/x\udcff/y"}))
    assert done.status == 2
    assert "is not UTF-8" in done.err
    assert user.files() == before
    assert path.read_text() == ONE_SERVER


@pytest.mark.parametrize("name", ["a b", "x\ny", "a.b", "ä", '"'])
def test_a_name_that_not_every_host_takes_is_refused(user: User, name: str):
    done = user.run("install", host="codex", name=name)
    assert done.status == 2
    assert "hint: Use letters, digits, - and _ only." in done.err
    assert user.files() == {}


def test_half_an_emoji_that_a_host_left_is_no_obstacle_and_stays(user: User):
    text = '{"history": ["cut \\ud83d"], "mcpServers": {"a": {"command": "a"}, "\\ud83d": {"command": "b"}}}'
    path = has(user, text)
    reasons = {one["name"]: one["reason"] for one in user.run("import_", json="true").document["sources"][0]["servers"]}
    assert reasons == {"a": None, "\ud83d": "its name is not valid text"}
    assert user.run("install", host="cursor", remove_imported="true", json="true").document["moved"] == ["a"]
    assert r'["cut \ud83d"]' in path.read_text()
    path.write_text(path.read_text() + "\n")
    assert user.run("uninstall", host="cursor").status == 0
    assert path.read_text() == text + "\n"


def test_a_server_that_came_with_the_folder_is_marked(user: User):
    user.has(samples.CURSOR, samples.CURSOR_PROJECT)
    out = user.run("import_").out
    note = "it comes with this folder, perhaps from somebody else: check what it starts"
    assert f"  here\n    {note}\n" in out
    assert out.count(note) == 1
