"""`call --output`: images, audio and large results go to files, whole or not at all."""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.cli import output
from tests.peers import odd_server
from tests.support import programs
from tests.support.catalogs import configured, desk
from tests.support.configs import Server
from tests.support.screens import at_terminal

PNG, WAV = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, b"RIFF\0\xff"
TEXT = {"type": "text", "text": "Took it"}
LINK = {"type": "resource_link", "name": "more", "uri": "x://more"}


def media(content: bytes, media_type: str, kind: str = "image") -> dict[str, Any]:
    return {"type": kind, "mimeType": media_type, "data": base64.b64encode(content).decode()}


def resource(**fields: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "x://y", **fields}}


IMAGE, SOUND = media(PNG, "image/png"), media(WAV, "audio/wav", "audio")
BLOB = resource(blob=base64.b64encode(b"%PDF").decode(), mimeType="application/pdf")
RESULTS: dict[str, dict[str, Any]] = {
    "image": {"content": [IMAGE]},
    "shot": {"content": [TEXT, IMAGE, LINK]},
    "sound": {"content": [SOUND]},
    "blob": {"content": [BLOB]},
    "empty_blob": {"content": [resource(blob="")]},
    "wrapped": {"content": [{**IMAGE, "data": "\n".join(re.findall(".{1,76}", str(IMAGE["data"])))}]},
    "text": {"content": [{"type": "text", "text": "no line end\x1b[2J"}]},
    "texts": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b\n"}]},
    "note": {"content": [resource(text="# é", mimeType="text/markdown")]},
    "table": {"content": [], "structuredContent": {"rows": [1, 2]}},
    "large": {"content": [{"type": "text", "text": "x" * 3_000_000}]},
    "several": {
        "content": [TEXT, IMAGE, SOUND, BLOB, LINK, resource(text="a,b", mimeType="text/csv; charset=utf-8")],
        "structuredContent": {"a": 1},
    },
    "odd": {"content": [media(b"1", "../../.bashrc"), media(b"2", "application/x-sh"), media(b"3", "IMAGE/PNG ;q=1")]},
    "broken": {"content": [TEXT, IMAGE, {**IMAGE, "data": "not base64!"}]},
    "urlsafe": {"content": [{**IMAGE, "data": "-_-_"}]},
    "no_data": {"content": [{"type": "image", "mimeType": "image/png"}]},
    "no_text": {"content": [{"type": "image", "mimeType": "image/png", "data": 5}]},
    "links": {"content": [LINK]},
    "nothing": {"content": []},
    "failed": {"content": [{"type": "text", "text": "it went wrong"}, IMAGE], "isError": True},
}


def odd(folder: Path, era: str = "handshake") -> Server:
    """A server whose tools answer what stands above."""
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in RESULTS]
    answers = folder / "answers.json"
    answers.write_text(json.dumps({"tools/list": {"tools": tools}, "tools/call": RESULTS}))
    return {"command": sys.executable, "args": ["-SE", str(odd_server.__file__), era, str(answers)]}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return configured(tmp_path, {"dev": {"odd": odd(tmp_path)}})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def call(env: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return programs.run([*programs.PROGRAM, "call", "dev", "odd", *words], env=env, cwd=folder)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("image", (PNG, "image/png, 1.0 KB", "")),
        ("shot", (PNG, "image/png, 1.0 KB", "Took it\n[link: more x://more]\n")),
        ("sound", (WAV, "audio/wav, 6 bytes", "")),
        ("blob", (b"%PDF", "application/pdf, 4 bytes", "")),
        ("empty_blob", (b"", "0 bytes", "")),
        ("wrapped", (PNG, "image/png, 1.0 KB", "")),
        ("text", (b"no line end\x1b[2J", "text/plain, 15 bytes", "")),
        ("texts", (b"a\nb\n", "text/plain, 4 bytes", "")),
        ("note", ("# é".encode(), "text/markdown, 4 bytes", "")),
        ("table", (b'{\n  "rows": [\n    1,\n    2\n  ]\n}', "application/json, 32 bytes", "")),
        ("large", (b"x" * 3_000_000, "text/plain, 3.0 MB", "")),
    ],
)
def test_a_file_gets_what_the_result_holds(
    env: dict[str, str], folder: Path, tool: str, expected: tuple[bytes, str, str]
):
    content, told, out = expected
    done = call(env, folder, tool, "--output", "out.x")
    assert (done.returncode, done.stdout) == (0, out)
    assert done.stderr == f"wrote out.x: {told}\n"
    assert files(folder) == {"out.x": content}


def test_several_images_get_numbers_and_nothing_is_lost_or_overwritten(env: dict[str, str], folder: Path):
    (folder / "shot-1.jpg").write_bytes(b"mine")
    done = call(env, folder, "several", "--output", "shot.png")
    assert (done.returncode, done.stdout) == (0, "Took it\n[link: more x://more]\na,b\n")
    named = {"shot-2.png": PNG, "shot-3.wav": WAV, "shot-4.pdf": b"%PDF"}
    assert files(folder) == {"shot-1.jpg": b"mine", **named}
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [f"wrote {name}" for name in named]


@pytest.mark.parametrize("given", ["shots/", "shots"])
def test_a_folder_gets_a_file_for_each_block_with_numbers_that_go_on(env: dict[str, str], folder: Path, given: str):
    if given == "shots":
        (folder / "shots").mkdir()
    expected: dict[str, bytes] = {}
    for first in (1, 7):
        done = call(env, folder, "several", "--output", given)
        assert (done.returncode, done.stdout) == (0, "[link: more x://more]\n")
        contents = ((".txt", b"Took it"), (".png", PNG), (".wav", WAV), (".pdf", b"%PDF"), (".csv", b"a,b"))
        every = (*contents, (".json", b'{\n  "a": 1\n}'))
        expected |= {f"shots/{first + at}{suffix}": content for at, (suffix, content) in enumerate(every)}
        assert files(folder) == expected


def test_no_name_comes_from_the_server(env: dict[str, str], folder: Path):
    assert call(env, folder, "odd", "--output", "d/").returncode == 0
    assert files(folder) == {"d/1.bin": b"1", "d/2.bin": b"2", "d/3.png": b"3"}
    executable = {".sh", ".py", ".exe", ".desktop", ".command", ".app", ".bat", ".js", ".jar"}
    assert executable.isdisjoint(output.EXTENSIONS.values())
    assert all(re.fullmatch(r"\.[a-z0-9]{2,5}", extension) for extension in output.EXTENSIONS.values())


def test_stdout_gets_the_bytes_alone(env: dict[str, str], folder: Path):
    line = [*programs.PROGRAM, "call", "dev", "odd", "--output", "-"]
    for tool, content, err in (
        ("shot", PNG, b"Took it\n[link: more x://more]\n"),
        ("text", b"no line end\x1b[2J", b""),
    ):
        done = subprocess.run([*line, tool], env=env, cwd=folder, capture_output=True, check=False, timeout=30)
        assert (done.returncode, done.stdout, done.stderr) == (0, content, err)
    done = call(env, folder, "several", "--output", "-")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: the result has 3 files, and stdout can take only one\nhint: Name a folder" in done.stderr
    assert files(folder) == {}


def test_with_json_the_file_has_the_result_as_the_server_sent_it(env: dict[str, str], folder: Path):
    done = call(env, folder, "shot", "--json", "--output", "result.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"wrote result\.json: application/json, 1\.\d KB\n", done.stderr)
    assert json.loads((folder / "result.json").read_bytes()) == RESULTS["shot"]
    assert call(env, folder, "shot", "--json", "--output", "d/").returncode == 0
    assert json.loads((folder / "d/1.json").read_bytes()) == RESULTS["shot"]


@pytest.mark.parametrize("given", ["x.png", "d/"])
@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("broken", "the server sent data that is not valid base64: [image: image/png, 8 bytes]"),
        ("urlsafe", "the server sent data that is not valid base64: [image: image/png, 3 bytes]"),
        ("no_data", "the server sent data that is not valid base64: [image: image/png]"),
        ("no_text", "the server sent data that is not valid base64: [image: image/png]"),
        ("links", "the result has nothing to write"),
        ("nothing", "the result has nothing to write"),
        ("failed", ""),
    ],
)
def test_where_something_is_wrong_with_a_result_nothing_is_written(
    env: dict[str, str], folder: Path, tool: str, error: str, given: str
):
    done = call(env, folder, tool, "--output", given)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (f"error: {error}" if error else "it went wrong")
    assert list(folder.iterdir()) == []


def test_a_failure_is_told_as_ever(env: dict[str, str], folder: Path):
    for more in ([], ["--json"]):
        plain, given = call(env, folder, "failed", *more), call(env, folder, "failed", *more, "--output", "x")
        assert (given.returncode, given.stdout, given.stderr) == (1, plain.stdout, plain.stderr)


# -- before the call


def test_what_can_not_be_written_is_told_before_the_tool_is_called(env: dict[str, str], folder: Path):
    (folder / "there.png").write_bytes(b"mine")
    (folder / "link.png").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    before = files(folder)
    cases = {
        ("--output", "there.png"): "there.png exists already",
        ("--output", "link.png"): "link.png exists already",
        ("--output", "there.png/"): "there.png is not a folder",
        ("--output", "there.png/x"): f"there is no folder {folder}/there.png",
        ("--output", "no/x.png"): f"there is no folder {folder}/no",
        ("--output", "no/such/"): f"there is no folder {folder}/no",
        ("--output", "pipe", "--force"): "pipe is not a regular file",
        ("--force",): "--force needs --output FILE",
    }
    for words, problem in cases.items():
        done = programs.run([*programs.PROGRAM, "call", "dev", "no-such-server", "x", *words], env=env, cwd=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[0] == f"error: {problem}"
    assert files(folder) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="platform: root may write anywhere")
def test_a_folder_that_can_not_be_written_is_told_before_the_tool_is_called(env: dict[str, str], folder: Path):
    folder.chmod(0o555)
    done = call(env, folder, "image", "--output", "x.png")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"error: is not writable {folder}")


def test_force_overwrites_whole_keeps_the_mode_and_follows_a_link(env: dict[str, str], folder: Path):
    target, link = folder / "target.png", folder / "link.png"
    target.write_bytes(b"old" * 1000)
    target.chmod(0o640)
    link.symlink_to(target)
    assert call(env, folder, "image", "--output", "link.png", "--force").returncode == 0
    assert link.is_symlink()
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (PNG, 0o640)
    assert sorted(path.name for path in folder.iterdir()) == ["link.png", "target.png"]


def test_a_new_file_has_the_mode_that_the_user_wants(env: dict[str, str], folder: Path):
    line = ["sh", "-c", 'umask 027; exec "$@"', "sh", *programs.PROGRAM, "call", "dev", "odd", "image", "--output", "x"]
    assert programs.run(line, env=env, cwd=folder).returncode == 0
    assert stat.S_IMODE((folder / "x").stat().st_mode) == 0o640


# -- whole or not at all


def test_of_several_files_all_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taken = tmp_path / "2"
    taken.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        output.write_files([(tmp_path / "1", b"a"), (taken, b"b")], overwrites=False)
    assert files(tmp_path) == {"2": b"mine"}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "hardlink_to", full)
    monkeypatch.setattr(Path, "replace", full)
    for overwrites in (False, True):
        with pytest.raises(OSError, match="No space"):
            output.write_files([(tmp_path / "1", b"a")], overwrites=overwrites)
        assert files(tmp_path) == {"2": b"mine"}


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def unsupported(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", unsupported)
    output.write_files([(tmp_path / "1", b"a"), (tmp_path / "2", b"b")], overwrites=False)
    assert files(tmp_path) == {"1": b"a", "2": b"b"}
    with pytest.raises(OSError, match="not permitted"):
        output.write_files([(tmp_path / "1", b"c")], overwrites=False)
    assert files(tmp_path) == {"1": b"a", "2": b"b"}


def test_a_full_disk_is_an_error_and_leaves_nothing_behind(env: dict[str, str], folder: Path):
    for given in ("x.txt", "d/"):
        limited = 'ulimit -f 200; trap "" XFSZ; exec "$@"'
        line = ["sh", "-c", limited, "sh", *programs.PROGRAM, "call", "dev", "odd", "large", "--output", given]
        done = programs.run(line, env=env, cwd=folder)
        assert done.returncode == 1
        assert "can't be written: File too large" in done.stderr.splitlines()[0]
        assert list(folder.iterdir()) == []


# -- at a terminal


def test_at_a_terminal_an_image_hints_at_the_option_and_stdout_is_refused(env: dict[str, str], folder: Path):
    cases = {
        ("image",): (0, "hint: --output FILE"),
        ("text",): (0, "no line end\\x1b[2J"),
        ("image", "--output", "-"): (2, "stdout is a terminal"),
    }
    for words, (status, told) in cases.items():
        with at_terminal("call", "dev", "odd", *words, env=env, cwd=folder) as screen:
            assert screen.finish() == status
            assert told in screen.text
            assert ("--output FILE" in screen.text) is (words == ("image",))


def test_the_image_of_a_server_on_the_official_sdk_is_written(tmp_path: Path, folder: Path):
    env = configured(tmp_path, {"dev": {"odd": desk()}})
    done = call(env, folder, "media", "--output", "x.png")
    assert (done.returncode, done.stderr) == (0, "wrote x.png: image/png, 1.5 KB\n")
    assert files(folder) == {"x.png": b"x" * 1500}
    assert done.stdout == "before\n[link: more desk://more text/csv, 2.5 MB]\na note\n"


def test_a_modern_server_is_no_different(tmp_path: Path, folder: Path):
    env = configured(tmp_path, {"dev": {"odd": odd(tmp_path, "modern")}})
    assert call(env, folder, "image", "--output", "x.png").returncode == 0
    assert files(folder) == {"x.png": PNG}
