"""`mcp-workbench uninstall`, where the way back is not the way that one came."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_workbench.hosts.files import backup_of, record_of
from tests.hosts import samples
from tests.support.users import User, made_user


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    return made_user(tmp_path, monkeypatch, capsys)


def test_what_is_not_installed_can_not_be_removed(user: User):
    user.has(samples.CURSOR)
    for host in ("cursor", "zed"):
        done = user.run("uninstall", host=host)
        assert done.status == 1
        assert "the workbench is not installed there" in done.err
    assert user.files() == {".cursor/mcp.json": samples.CURSOR.data}


def test_a_workbench_that_was_put_in_by_hand_is_taken_out(user: User):
    text = samples.CURSOR.text.replace(
        '"mcpServers": {', '"mcpServers": {\n        "wb": {"command": "mcp-workbench"},', 1
    )
    user.has(samples.CURSOR._replace(text=text))
    assert user.run("uninstall", host="cursor").status == 0
    assert user.path(samples.CURSOR).read_text() == samples.CURSOR.text


def test_a_workbench_that_somebody_took_out_already_is_no_error(user: User):
    user.has(samples.CURSOR)
    user.run("install", host="cursor")
    user.path(samples.CURSOR).write_bytes(samples.CURSOR.data)
    done = user.run("uninstall", host="cursor", json="true")
    assert (done.status, done.document["exact"]) == (0, False)
    assert user.files() == {".cursor/mcp.json": samples.CURSOR.data}


def test_a_file_that_is_gone_stays_gone(user: User):
    user.has(samples.CURSOR)
    user.run("install", host="cursor")
    user.path(samples.CURSOR).unlink()
    assert user.run("uninstall", host="cursor").status == 0
    assert user.files() == {}


def test_without_its_copy_the_file_still_loses_the_workbench(user: User):
    user.has(samples.CURSOR)
    user.run("install", host="cursor")
    backup_of(user.path(samples.CURSOR)).unlink()
    assert user.run("uninstall", host="cursor").status == 0
    assert user.files() == {".cursor/mcp.json": samples.CURSOR.data}


def test_a_record_that_is_none_is_told_and_nothing_is_changed(user: User):
    user.has(samples.CURSOR)
    user.run("install", host="cursor")
    record_of(user.path(samples.CURSOR)).write_text("{")
    before = user.files()
    done = user.run("uninstall", host="cursor")
    assert done.status == 1
    assert "is not a record of an installation" in done.err
    assert user.files() == before


def test_a_file_that_was_made_stays_if_somebody_put_something_into_it(user: User):
    user.run("install", host="cursor")
    path = user.path(samples.CURSOR)
    path.write_text(path.read_text().replace("{", '{\n  "mine": 1,', 1))
    done = user.run("uninstall", host="cursor")
    assert "other changes stay" in done.out
    assert path.read_text() == '{\n  "mine": 1\n}\n'


def test_a_file_that_was_made_goes_if_nothing_but_its_layout_changed(user: User):
    before = set(user.home.rglob("*"))
    user.run("install", host="cursor")
    path = user.path(samples.CURSOR)
    path.write_text(path.read_text() + "\n\n")
    assert user.run("uninstall", host="cursor", json="true").document["removed"] is True
    assert set(user.home.rglob("*")) == before


def test_a_broken_file_is_left_alone_with_all_that_is_needed_to_undo(user: User):
    user.has(samples.CURSOR)
    user.run("install", host="cursor")
    user.path(samples.CURSOR).write_text("{")
    before = user.files()
    assert user.run("uninstall", host="cursor").status == 1
    assert user.files() == before


def test_a_file_that_its_host_wrote_in_another_layout_is_as_it_was_to_the_byte(user: User):
    user.has(samples.CLAUDE_CODE)
    before = user.files()
    user.run("import_")
    user.run("install", host="claude-code", remove_imported="true")
    path = user.path(samples.CLAUDE_CODE)
    path.write_text(json.dumps(json.loads(path.read_text()), indent="\t"))
    assert user.run("uninstall", host="claude-code", json="true").document["exact"]
    assert user.files() == before


def test_a_comment_that_was_added_meanwhile_is_a_change_that_stays(user: User):
    user.has(samples.CURSOR)
    user.run("install", host="cursor")
    path = user.path(samples.CURSOR)
    path.write_text(f"// mine\n{path.read_text()}")
    assert not user.run("uninstall", host="cursor", json="true").document["exact"]
    assert path.read_text() == f"// mine\n{samples.CURSOR.text}"


def test_a_number_that_its_host_turned_into_a_boolean_is_a_change_that_stays(user: User):
    user.has(samples.CLAUDE_CODE)
    user.run("install", host="claude-code")
    path = user.path(samples.CLAUDE_CODE)
    path.write_text(path.read_text().replace('"new-user-warmup": 1', '"new-user-warmup": true'))
    assert not user.run("uninstall", host="claude-code", json="true").document["exact"]
    assert '"new-user-warmup": true' in path.read_text()
