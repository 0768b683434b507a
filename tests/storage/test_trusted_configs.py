"""Which project files are trusted: as they are, where they are, and no other."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_workbench import logger
from mcp_workbench.command_errors import TrustFailed
from mcp_workbench.config.jsonc import source as sources
from mcp_workbench.config.jsonc.source import read_source
from mcp_workbench.config.load import config_of
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.storage import trusted_configs
from mcp_workbench.storage.trusted_configs import TRUST_STORE_BYTES, Trust, digest, place_of, standing, trusted_source
from tests.support.wire import environment

CONTENT = '{"mcpServers": {"fs": {"command": "./server", "args": ["ä", "\\u0041"]}}} // end\r\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a configuration, as the current folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "workbench-config.json").write_bytes(CONTENT.encode())
    monkeypatch.chdir(folder)
    monkeypatch.setattr(logger, "log", logger.Log(level="off"))
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}


def trust(environ: dict[str, str], folder: Path) -> str:
    place = place_of(str(folder / "workbench-config.json"))
    Trust(environ).add(place, digest(read_source(place, DEFAULTS)))
    return place


# -- when it is used


@pytest.mark.row("C7")
def test_a_file_is_used_once_it_is_trusted(project: Path, environ: dict[str, str]):
    assert trusted_source(environ) is None
    trust(environ, project)
    source = trusted_source(environ)
    assert source is not None
    assert source.text.encode() == CONTENT.encode()
    assert config_of(source).file == str(project / "workbench-config.json")


def test_it_is_used_no_more_once_trust_is_taken_back(project: Path, environ: dict[str, str]):
    place = trust(environ, project)
    assert Trust(environ).remove(place) is True
    assert Trust(environ).remove(place) is False
    assert trusted_source(environ) is None


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, len(CONTENT.encode()) - 1), byte=st.integers(0, 255), kind=st.sampled_from("rid"))
@pytest.mark.row("C7")
def test_one_changed_byte_is_another_file(project: Path, environ: dict[str, str], position: int, byte: int, kind: str):
    """Replaced, inserted or deleted, wherever it is; whether the file can still be read or not."""
    original = CONTENT.encode()
    file = project / "workbench-config.json"
    file.write_bytes(original)
    trust(environ, project)
    after = {"r": bytes((byte,)) + original[position + 1 :], "i": bytes((byte,)) + original[position:]}
    changed = original[:position] + after.get(kind, original[position + 1 :])
    file.write_bytes(changed)
    assert (trusted_source(environ) is not None) == (changed == original)


def test_what_looks_the_same_is_not_the_same(project: Path, environ: dict[str, str]):
    """A byte order mark, other line ends, another way to write a character."""
    trust(environ, project)
    file = project / "workbench-config.json"
    for other in ("\ufeff" + CONTENT, CONTENT.replace("\r\n", "\n"), CONTENT.replace("ä", "a\u0308"), CONTENT + " "):
        file.write_bytes(other.encode())
        assert trusted_source(environ) is None
    file.write_bytes(CONTENT.encode())
    assert trusted_source(environ) is not None


def test_the_same_file_in_another_folder_is_not_trusted(
    project: Path, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trust(environ, project)
    other = tmp_path / "other"
    other.mkdir()
    (other / "workbench-config.json").write_bytes(CONTENT.encode())
    monkeypatch.chdir(other)
    assert trusted_source(environ) is None


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_to_a_trusted_file_is_not_trusted_since_its_folder_decides_what_starts(
    project: Path, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: object
):
    trust(environ, project)
    other = tmp_path / "other"
    other.mkdir()
    link(project / "workbench-config.json", other / "workbench-config.json")  # type: ignore[operator]
    monkeypatch.chdir(other)
    assert trusted_source(environ) is None


def test_a_folder_is_the_same_by_whichever_way_one_comes_to_it(
    project: Path, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "way").symlink_to(project)
    trust(environ, tmp_path / "way")
    monkeypatch.chdir(tmp_path / "way")
    assert trusted_source(environ) is not None
    monkeypatch.chdir(project)
    assert trusted_source(environ) is not None


def test_a_trusted_link_is_bound_to_what_it_leads_to(project: Path, environ: dict[str, str], tmp_path: Path):
    file = project / "workbench-config.json"
    real = tmp_path / "real.json"
    file.rename(real)
    file.symlink_to(real)
    trust(environ, project)
    assert trusted_source(environ) is not None
    real.write_text("{}", encoding="utf-8")
    assert trusted_source(environ) is None


def test_what_was_compared_is_what_is_parsed(project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """The file is read once: one that is changed right after that changes nothing."""
    trust(environ, project)
    reads: list[str] = []

    def read_and_change(path: str, limits: Limits) -> sources.SourceText:
        reads.append(path)
        source = read_source(path, limits)
        Path(path).write_text('{"mcpServers": {"evil": {"command": "/evil"}}}', encoding="utf-8")
        return source

    monkeypatch.setattr(trusted_configs, "read_source", read_and_change)
    source = trusted_source(environ)
    assert source is not None
    assert [server.name for server in config_of(source).servers()] == ["fs"]
    assert len(reads) == 1


@pytest.mark.row("C7")
def test_a_file_that_nobody_trusted_is_not_even_read(
    project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    def fail(path: str, limits: Limits) -> sources.SourceText:
        raise AssertionError(path, limits)

    monkeypatch.setattr(trusted_configs, "read_source", fail)
    assert trusted_source(environ) is None
    assert project.exists()


def test_a_trusted_file_that_became_something_else_is_not_used(project: Path, environ: dict[str, str]):
    trust(environ, project)
    file = project / "workbench-config.json"
    file.unlink()
    os.mkfifo(file)
    assert trusted_source(environ) is None


# -- how it is kept


def test_what_is_trusted_is_kept_from_others(project: Path, environ: dict[str, str]):
    trust(environ, project)
    path = Path(Trust(environ).path)
    assert path == Path(environ["XDG_STATE_HOME"]) / "mcp-workbench" / "trusted.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text())["version"] == 1


def test_macos_has_its_own_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert trusted_configs.store_path({"HOME": "/h"}) == "/h/Library/Application Support/mcp-workbench/trusted.json"


def test_a_relative_state_folder_is_ignored():
    assert (
        trusted_configs.store_path({"HOME": "/h", "XDG_STATE_HOME": "x"})
        == "/h/.local/state/mcp-workbench/trusted.json"
    )


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o620), "others can write it"),
        (lambda path: path.chmod(0o602), "others can write it"),
        (lambda path: path.write_text("{"), "damaged"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "damaged"),
        (lambda path: path.write_text('{"version": 1, "files": [{"path": 1}]}'), "damaged"),
        (lambda path: path.write_text('{"version": 2, "files": []}'), "newer version"),
        (lambda path: path.write_text(" " * (TRUST_STORE_BYTES + 1)), "too large"),
        (lambda path: (path.rename(path.with_name("other")), path.symlink_to(path.with_name("other"))), "link"),
        (lambda path: (path.unlink(), path.mkdir()), "not a regular file"),
    ],
)
def test_a_record_that_is_not_ours_alone_makes_nothing_trusted(
    project: Path, environ: dict[str, str], spoil: object, why: str
):
    place = trust(environ, project)
    spoil(Path(Trust(environ).path))  # type: ignore[operator]
    assert trusted_source(environ) is None
    for attempt in (lambda: Trust(environ).files(), lambda: Trust(environ).add(place, "0" * 64)):
        with pytest.raises(TrustFailed, match=why) as caught:
            attempt()
        assert "remove the file" in caught.value.hint


def test_a_folder_that_everyone_can_write_to_is_not_used(project: Path, environ: dict[str, str], tmp_path: Path):
    folder = tmp_path / "state" / "mcp-workbench"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(TrustFailed, match="everyone can write"):
        trust(environ, project)


def test_trusting_again_replaces_what_was_known(project: Path, environ: dict[str, str]):
    trust(environ, project)
    (project / "workbench-config.json").write_text("{}", encoding="utf-8")
    [before] = Trust(environ).files()
    assert standing(before) == "changed"
    trust(environ, project)
    [after] = Trust(environ).files()
    assert standing(after) == "trusted"
    (project / "workbench-config.json").unlink()
    assert standing(after) == "gone"


def test_what_was_trusted_longest_ago_goes_first(environ: dict[str, str]):
    few = Trust(environ, Limits(trusted_files=3))
    for number in range(5):
        few.add(f"/p{number}/workbench-config.json", "0" * 64)
    assert [file.path for file in few.files()] == [f"/p{number}/workbench-config.json" for number in (2, 3, 4)]


def test_several_processes_lose_nothing(project: Path, tmp_path: Path):
    env = environment(tmp_path / "home")
    code = (
        "import os, sys\nfrom mcp_workbench.storage.trusted_configs import Trust\n"
        "for n in range(10): Trust(os.environ).add(f'/{sys.argv[1]}/{n}', '0' * 64)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(one)], env=env) for one in range(3)]
    assert [process.wait(30) for process in running] == [0, 0, 0]
    assert len(Trust(env).files()) == 30
    assert project.exists()


def test_one_that_waits_in_vain_for_another_says_so(
    project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trusted_configs, "TRUST_LOCK_SECONDS", 0.01)
    trust(environ, project)
    path = Trust(environ).path
    descriptor = trusted_configs.secure_files.lock(f"{path}.lock")
    assert descriptor is not None
    try:
        with pytest.raises(TrustFailed, match=rf"process {os.getpid()} \(.+\) has locked it"):
            Trust(environ).add("/x", "0" * 64)
    finally:
        os.close(descriptor)


def test_a_path_that_json_can_not_hold_is_refused(environ: dict[str, str]):
    with pytest.raises(TrustFailed, match="not valid UTF-8"):
        Trust(environ).add("/\udcff/workbench-config.json", "0" * 64)


# -- a start


MODULES = "import sys\nfrom mcp_workbench.cli import serve\nserve._load({})\nprint(*sys.modules)"


@pytest.mark.parametrize("has_file", [False, True])
def test_a_start_pays_for_trust_only_where_there_is_such_a_file(tmp_path: Path, *, has_file: bool):
    env = environment(tmp_path / "home")
    own = Path(env["XDG_CONFIG_HOME"]) / "mcp-workbench" / "workbench-config.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"toolboxes": {}}', encoding="utf-8")
    if has_file:
        (tmp_path / "workbench-config.json").write_text("{", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", MODULES],
        capture_output=True, text=True, check=True, timeout=20, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    modules = done.stdout.split()
    assert "mcp_workbench.cli.serve" in modules
    assert ("mcp_workbench.storage.trusted_configs" in modules) is has_file
    assert "hashlib" not in modules, "nothing is compared where nothing is trusted"
