"""Rows C of the faults, as the program meets them: a wrong file stops the start, and a hostile one runs nothing.

What each mistake is told, place by place, is tested in tests/config.
"""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mcp_workbench import load_config
from tests.faults.watched_log import hidden
from tests.support import programs
from tests.support.configs import read_log, rogue, starts, write_config
from tests.support.wire import SRC, environment, error_of, heard, serving

MIB = 1024 * 1024


class Ended(NamedTuple):
    """How the program ended, and what it took, where that was measured."""

    status: int
    stdout: str
    stderr: str
    cpu_seconds: float = math.nan
    memory_bytes: float = math.nan

    @property
    def errors(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("error: ")]


MEASURE = """
import json, resource, subprocess, sys
pipes = dict(stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
done = subprocess.run(sys.argv[1:], timeout=20, **pipes)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stdout, done.stderr, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
"""
"""A process that has one child, and so can tell what that one took."""


def run(config: Path, *arguments: str, command: str = "serve", env: dict[str, str] | None = None) -> Ended:
    """`mcp-workbench serve` without a client, or another command."""
    line = [*programs.PROGRAM, command, "--config", str(config), *arguments]
    done = programs.run(line, env=environment(config.parent / "home") | (env or {}), timeout=20)
    return Ended(done.returncode, done.stdout, done.stderr)


def measured(config: Path) -> Ended:
    """`mcp-workbench serve` without a client, with what it took."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", MEASURE, *programs.PROGRAM, "serve", "--config", str(config)],
        capture_output=True,
        text=True,
        check=True,
        env=environment(config.parent / "home"),
    )
    return Ended(*json.loads(done.stdout))


def check_refused(ended: Ended) -> str:
    """One line says what is wrong; nothing is served. The line."""
    assert ended.status == 2
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    [error] = ended.errors
    assert not hidden(error)
    assert all(line.startswith(("error: ", "hint: ")) for line in ended.stderr.splitlines())
    return error


# -- C1, C2: mistakes


def with_server(entry: str) -> str:
    return '{"toolboxes": {"dev": {"description": "d", "mcpServers": {"fs":\n' + entry + "}}}}"


TYPOS = [
    ('{"comand": "x"}', "2:2", ".comand", "'command'"),
    ('{"command": "x", "arg": []}', "2:18", ".arg", "'args'"),
    ('{"command": "x",\n "evn": {}}', "3:2", ".evn", "'env'"),
    ('{"command": "x", "toolFilter": ["a"]}', "2:18", ".toolFilter", "'toolFilters'"),
    ('{"command": "x", "calltimeout": 5}', "2:18", ".calltimeout", "'callTimeout'"),
    ('{"command": "x", "maxConcurent": 5}', "2:18", ".maxConcurent", "'maxConcurrent'"),
]


@pytest.mark.row("C1")
@pytest.mark.parametrize(("entry", "place", "path", "meant"), TYPOS)
def test_c1_a_key_that_does_not_exist_stops_the_start_with_its_place_and_the_nearest_one(
    tmp_path: Path, entry: str, place: str, path: str, meant: str
):
    config = tmp_path / "c.json"
    config.write_text(with_server(entry), encoding="utf-8")
    ended = run(config)
    error = check_refused(ended)
    assert error.startswith(f"error: {config}:{place}: toolboxes.dev.mcpServers.fs{path}: ")
    assert f"hint: Did you mean {meant}?" in ended.stderr.splitlines()


@pytest.mark.row("C1")
@pytest.mark.parametrize("command", ["serve", "check"])
def test_c1_a_mistake_anywhere_starts_no_server_of_the_file(tmp_path: Path, command: str):
    log = tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"good": rogue(log=log), "bad": rogue(log=log, colour="red")}})
    check_refused(run(config, command=command))
    assert read_log(log) == []


@pytest.mark.row("C2")
def test_c2_a_key_that_stands_twice_stops_the_start_with_both_places(tmp_path: Path):
    config = tmp_path / "c.json"
    config.write_text(with_server('{"command": "x",\n "args": [],\n  "\\u0061rgs": []}'), encoding="utf-8")
    error = check_refused(run(config))
    assert error.startswith(f"error: {config}:4:3: toolboxes.dev.mcpServers.fs.args: ")
    assert "line 3, column 2" in error


# -- C3: what is no configuration


def holding(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "c.json").write_bytes(content)
        return folder / "c.json"

    return write


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def loop(folder: Path) -> Path:
    (folder / "loop").symlink_to("loop")
    return folder / "loop"


def hundred_megabytes(folder: Path) -> Path:
    with (folder / "big").open("wb") as file:
        file.write(b'{"toolboxes": {"a": "')
        for _ in range(100):
            file.write(b"x" * MIB)
    return folder / "big"


NO_CONFIGURATION: dict[str, Callable[[Path], Path]] = {
    "UTF-16": holding('{"mcpServers": {}}'.encode("utf-16")),
    "invalid UTF-8": holding(b'{"mcpServers": {"\xff": {}}}'),
    "NaN": holding(b'{"openTimeout": NaN, "mcpServers": {}}'),
    "deep": holding(b'{"a":' * 100_000),
    "100 MB": hundred_megabytes,
    "4 MB of values": holding(b"[" + b"0," * (2 * MIB - 2) + b"0]"),
    "4 MB of text": holding(b'{"mcpServers": {"a": {"command": "' + b"\\u0041" * (4 * MIB // 6 - 20) + b'", "x": 1}}}'),
    "empty": holding(b""),
    "a directory": lambda folder: folder,
    "a FIFO": fifo,
    "a symlink loop": loop,
    "nothing": lambda folder: folder / "none",
    "no text": holding(bytes(range(256))),
}


@pytest.mark.row("C3")
@pytest.mark.parametrize("kind", NO_CONFIGURATION)
def test_c3_what_is_no_configuration_is_one_line_at_once_and_in_little_memory(tmp_path: Path, kind: str):
    ended = measured(NO_CONFIGURATION[kind](tmp_path))
    check_refused(ended)
    assert ended.cpu_seconds < 1
    assert ended.memory_bytes < 64 * MIB


@pytest.mark.row("C3")
def test_c3_a_byte_order_mark_is_accepted(tmp_path: Path):
    config = tmp_path / "c.json"
    config.write_bytes(b"\xef\xbb\xbf" + with_server('{"command": "x"}').encode())
    assert run(config).status == 0


@pytest.mark.row("C3")
@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o644, False), (0o664, True), (0o646, True)])
def test_c3_check_warns_of_a_file_that_others_can_write(tmp_path: Path, mode: int, *, warned: bool):
    config = write_config(tmp_path, {"dev": {"fs": {"command": "x"}}})
    config.chmod(mode)
    ended = run(config, command="check")
    assert ended.status == 0
    assert ("other users can write this file" in ended.stdout) is warned


# -- C4: variables


@pytest.mark.row("C4")
def test_c4_a_missing_variable_is_named_with_its_place_and_no_value_is(tmp_path: Path):
    log = tmp_path / "rogue.log"
    bad = rogue(log=log, env={"A": "${PRESENT_4711}", "B": "${MISSING_4711}"})
    config = write_config(tmp_path, {"dev": {"good": rogue(log=log), "bad": bad}})
    for ended in (run(config, "--strict", env={"PRESENT_4711": "canary"}), run(config, command="check")):
        assert ended.status == 2
        said = ended.stdout + ended.stderr
        assert "MISSING_4711" in said
        assert "toolboxes.dev.mcpServers.bad.env.B" in said
        assert "canary" not in said
    assert read_log(log) == []


@pytest.mark.row("C4")
async def test_c4_a_missing_variable_costs_its_own_server_alone(tmp_path: Path):
    log = tmp_path / "rogue.log"
    boxes = {"dev": {"good": rogue(), "bad": rogue(log=log, env={"B": "${MISSING_4711}"})}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        result = await wire.use("dev", "bad", "echo")
        assert result["_meta"]["mcp-workbench/error"]["code"] == "variable_missing"
        assert "MISSING_4711" in error_of(result)
        assert heard(await wire.use("dev", "good", "echo"))
        assert (await wire.open("dev"))["servers_connected"] == 1
    assert starts(log) == []


@pytest.mark.row("C4")
async def test_c4_what_a_variable_brings_in_reaches_the_server_as_it_is(tmp_path: Path):
    """In values once, never in keys, never again."""
    brought = "${OTHER} $${OTHER} ${ $(id) `id` ${OTHER:-x}"
    entry = rogue("dump_env", env={"VALUE": "<${BROUGHT}>", "LITERAL": "$${OTHER}", "KEY_${OTHER}": "1"})
    entry["args"] = [*entry["args"], "${BROUGHT}"]
    extra = {"BROUGHT": brought, "OTHER": "never"}
    async with serving(
        write_config(tmp_path, {"dev": {"fs": entry, "echo": rogue("ok", "${BROUGHT}")}}), env=extra
    ) as wire:
        seen = json.loads((await wire.use("dev", "fs", "echo"))["content"][0]["text"])
        assert seen["VALUE"] == f"<{brought}>"
        assert seen["LITERAL"] == "${OTHER}"
        assert seen["KEY_${OTHER}"] == "1"
        assert heard(await wire.use("dev", "echo", brought))["argv"] == ["ok", brought]


# -- C8: no shell

LINES = ["; touch {}", "$(touch {})", "`touch {}`", "| touch {}", "&& touch {}", "\ntouch {}\n", "> {}"]
WORDS = ["-rf", "--", "*", "~", "a b", "", "'", '"', "\\"]


@pytest.mark.row("C8")
async def test_c8_arguments_reach_the_program_as_they_are_and_no_shell_reads_them(tmp_path: Path):
    trace = tmp_path / "touched"
    args = [*(text.format(trace) for text in LINES), *WORDS]
    hostile = rogue("ok", *args, env={"X": f"$(touch {trace})"})
    command = {"command": f"echo; touch {trace}", "args": [f"; touch {trace}"]}
    dashed = {"command": "-c", "args": [f"touch {trace}"]}
    boxes = {"dev": {"fs": hostile, "line": command, "dash": dashed}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        assert heard(await wire.use("dev", "fs", args[0], {"x": f"$(touch {trace})"}))["argv"] == ["ok", *args]
        for server in ("line", "dash"):
            result = await wire.use("dev", server, "echo")
            assert result["_meta"]["mcp-workbench/error"]["code"] == "spawn_failed"
    assert not trace.exists()


@pytest.mark.row("C8")
async def test_c8_an_address_is_never_run(tmp_path: Path):
    trace = tmp_path / "touched"
    addresses = [f"https://a/$(echo>{trace})", f"https://a/`>{trace}`", f"https://a/;>{trace}", "https://-x"]
    remotes = {f"r{number}": {"url": address} for number, address in enumerate(addresses)}
    async with serving(write_config(tmp_path, {"dev": {**remotes, "good": rogue()}})) as wire:
        assert (await wire.open("dev"))["servers_connected"] == 1
    assert not trace.exists()
    for address in (f"file://{trace}", f"touch {trace}", f"; touch {trace}"):
        check_refused(run(write_config(tmp_path, {"dev": {"remote": {"url": address}}})))
    assert not trace.exists()


SHELL_CALLS = {"os.system", "os.popen", "subprocess.getoutput", "asyncio.create_subprocess_shell"}


@pytest.mark.row("C8")
def test_c8_the_program_has_no_call_of_a_shell_and_starts_processes_in_one_place():
    """What is started there is an argument vector of the configuration, or a script of our own.

    A browser is another matter: `mcp-workbench auth` has the system show an address, which is checked before. Where
    there is no /proc, `/bin/ps` tells when a process was started. `mcp-workbench docs` starts the pager that the person
    named in `$PAGER`, as an argument vector too.
    """
    places = []
    for path in (SRC / "mcp_workbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in SHELL_CALLS, path
                assert "shell" not in [keyword.arg for keyword in node.keywords], path
                if name.startswith(("subprocess.", "os.exec", "os.spawn", "os.posix_spawn", "webbrowser.")):
                    places.append(path.relative_to(SRC / "mcp_workbench").as_posix())
    servers = {"servers/processes.py"}
    assert set(places) == servers | {"cli/login.py", "cli/docs.py", "activity/process_identity.py"}


# -- C10: names as paths

PATHS = ["../../escaped", "/tmp/escaped-4711", "..", "a/b", "~/x", "link"]  # noqa: S108 -- a name


@pytest.mark.row("C10")
async def test_c10_no_name_is_ever_used_as_a_file_name(tmp_path: Path):
    """A run writes nothing but the catalog and the record, whatever toolboxes, servers and tools are called."""
    (tmp_path / "names.json").write_text(json.dumps(PATHS), encoding="utf-8")
    work = tmp_path / "deep" / "er"
    (work / "home").mkdir(parents=True)
    (work / "link").symlink_to(tmp_path / "outside")
    boxes = {name: {name: rogue("names_of", tmp_path / "names.json")} for name in PATHS}
    config = write_config(work, boxes)
    before = tree(tmp_path)
    async with serving(config, "--log-level", "debug", cwd=work, env={"HOME": str(work / "home")}) as wire:
        for name in PATHS:
            await wire.open(name)
            assert heard(await wire.use(name, name, name))["name"] == name
        assert await wire.hang_up() == 0
    cache = work / "home" / "XDG_CACHE_HOME"
    kept = [cache, *(cache / "mcp-workbench" / name for name in ("", "catalog.key", "catalog.sqlite"))]
    state = work / "home" / "XDG_STATE_HOME"
    kept += [state, state / "mcp-workbench", state / "mcp-workbench" / "record.sqlite"]
    after = tree(tmp_path)
    assert set(after) - set(before) == set(map(str, kept))
    assert {path: seen for path, seen in after.items() if path in before} == before
    assert not Path("/tmp/escaped-4711").exists()  # noqa: S108, ASYNC240 -- the name that was not used


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder, and what the files hold."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


NAME_PARTS = st.lists(
    st.sampled_from(["..", ".", "/", "a", "~", "\\", ":", "%2e", "\u2024", " "]), min_size=1, max_size=6
)


@pytest.mark.row("C10")
@settings(max_examples=30, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(NAME_PARTS.map("".join), NAME_PARTS.map("".join))
def test_c10_checking_a_file_with_any_names_writes_nothing(toolbox: str, server: str):
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder), {toolbox: {server: {"command": "x"}}})
        before = tree(Path(folder))
        assert list(load_config(config, environ={}).toolboxes) == [toolbox]
        assert tree(Path(folder)) == before
