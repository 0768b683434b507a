"""Files of other programs are read with care, and replaced whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts import files
from mcp_workbench.hosts.files import HOST_FILE_BYTES


def test_a_file_that_is_not_there_is_none(tmp_path: Path):
    assert files.read(tmp_path / "x" / "y") is None


@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HostFileError, match="is not a regular file"):
        files.read(tmp_path / "pipe")
    with pytest.raises(HostFileError, match="is not a regular file"):
        files.read(tmp_path)


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(HostFileError, match="broken link"):
        files.read(tmp_path / "link")
    with pytest.raises(HostFileError, match="broken link"):
        files.replace(tmp_path / "link", b"x", None)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path):
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(HOST_FILE_BYTES + 1)
    with pytest.raises(HostFileError, match=f"is larger than {HOST_FILE_BYTES} bytes"):
        files.read(large)


def test_a_file_is_replaced_only_if_it_is_what_was_read(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("theirs")
    for known in (None, b"mine"):
        with pytest.raises(HostFileError, match="changed while"):
            files.replace(file, b"new", known)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]
    files.replace(file, b"new", b"theirs")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]


def test_the_folders_that_were_made_are_removed_while_they_are_empty(tmp_path: Path):
    file = tmp_path / "a" / "b" / "file"
    missing = files.missing_folders(file)
    assert missing == [tmp_path / "a", tmp_path / "a" / "b"]
    files.replace(file, b"x", None)
    (tmp_path / "a" / "other").write_text("")
    files.remove(file, b"x")
    files.remove_folders(file, len(missing))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "other"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "file").write_text("old")
    with pytest.raises(HostFileError, match="no space left on device"):
        files.replace(tmp_path / "file", b"new", b"old")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
