"""Files that several programs change at once, and files that can't be replaced by a rename."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_workbench.command_errors import FileBusy, HostFileError
from mcp_workbench.config.load import load_config
from mcp_workbench.hosts import files
from mcp_workbench.storage import secure_files
from tests.support import programs
from tests.support.procs import needs_proc
from tests.support.wire import environment

HOLDER = """import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def test_servers_that_are_added_at_the_same_time_are_all_added(tmp_path: Path):
    config, env = tmp_path / "new" / "workbench-config.json", environment(tmp_path)
    names = [f"server{number}" for number in range(24)]

    def add(name: str) -> tuple[int, str]:
        words = ["add", "--config", str(config), "--description", "All", "dev", name, "--", "true"]
        done = programs.run([*programs.PROGRAM, *words], env=env)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(12) as pool:
        done = list(pool.map(add, names))
    assert {status for status, _ in done} == {0}, done
    assert set(load_config(config).toolboxes["dev"].servers) == set(names)


@needs_proc
def test_one_that_waits_in_vain_is_told_which_process_holds_the_lock(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(FileBusy) as busy, files.locked(tmp_path / "file", seconds=0.1):
            pytest.fail("two had the lock")
        holder.communicate()
    assert f"is locked by process {holder.pid} ({Path(sys.executable).name})" in str(busy.value)
    with files.locked(tmp_path / "file", seconds=0.1):
        pass


def test_a_command_that_fails_leaves_no_folder_behind(tmp_path: Path):
    with files.locked(tmp_path / "a" / "b" / "file", makes_folder=True):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("new", [b"n", b"the new one, and longer"])
def test_a_file_with_several_names_keeps_them(tmp_path: Path, new: bytes):
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(b"the old one")
    other.hardlink_to(file)
    files.replace(file, new, b"the old one")
    assert other.read_bytes() == file.read_bytes() == new
    assert other.samefile(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="platform: only root can mount")
def test_a_file_that_is_mounted_by_itself_is_written_in_place(tmp_path: Path):
    outside, inside = tmp_path / "outside.json", tmp_path / "workbench-config.json"
    old = {"toolboxes": {"dev": {"description": "d", "mcpServers": {"a": {"command": "true"}}}}}
    outside.write_text(json.dumps(old))
    inside.touch()
    add = "exec {} add --config {} dev b -- true".format(" ".join(programs.PROGRAM), inside)
    script = f"mount --bind {outside} {inside} || exit 77; {add}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], env=environment(tmp_path), capture_output=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("platform: this system does not let us mount")
    assert done.returncode == 0, done.stderr
    assert set(load_config(outside).toolboxes["dev"].servers) == {"a", "b"}


@pytest.mark.parametrize("write", ["files", "private"])
def test_where_a_rename_finds_a_mount_the_file_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
):
    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    file = tmp_path / "file"
    file.write_bytes(b"old")
    inode = file.stat().st_ino
    monkeypatch.setattr(os, "replace", busy)
    monkeypatch.setattr(Path, "replace", busy)
    files.replace(file, b"newer", b"old") if write == "files" else secure_files.replace(str(file), b"newer")
    assert (file.read_bytes(), file.stat().st_ino) == (b"newer", inode)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("fails", ["growing", "writing over", "cutting"])
def test_a_file_that_can_not_be_written_in_place_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
):
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(old := b"the old one")
    other.hardlink_to(file)
    at, new = {
        "growing": (1, b"the new one, longer"),
        "writing over": (2, b"the new one, longer"),
        "cutting": (1, b"n"),
    }[fails]
    calls, pwrite = 0, os.pwrite

    def full(descriptor: int, content: bytes, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls == at:
            pwrite(descriptor, content[:3], offset)
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(HostFileError, match="no space left"):
        files.replace(file, new, old)
    assert file.read_bytes() == old
