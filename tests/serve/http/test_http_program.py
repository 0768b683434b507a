"""`serve --http` as a program: how it starts, what it tells, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mcp_workbench import logger
from mcp_workbench.__main__ import main
from tests.serve.http.serving import (
    ALICE,
    BOB,
    Handshake,
    modern,
    post_modern,
    program,
    rpc,
    served,
    use,
)
from tests.support import programs
from tests.support.configs import received, rogue, starts, write_config
from tests.support.procs import census, needs_proc, new_marker, wait_until
from tests.support.wire import environment


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path, {"dev": {"fs": rogue(log=tmp_path / "log")}})


def refused(config: Path, *arguments: str) -> str:
    """What the program says that does not start."""
    command = [*programs.PROGRAM, "serve", "--config", str(config), *arguments]
    done = programs.run(command, env=environment(config.parent / "home"), timeout=20)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    return done.stderr


def refused_here(config: Path, *arguments: str) -> str:
    """The same of the program as it is run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as log:
        patch.setattr(logger, "log", logger.Log(log.fileno()))
        for hook in ("excepthook", "unraisablehook"):
            patch.setattr(sys, hook, getattr(sys, hook))
        patch.setattr(sys, "argv", ["mcp-workbench", "serve", "--config", str(config), *arguments])
        env = environment(config.parent / "home")
        for name in set(os.environ) - set(env):
            patch.delenv(name)
        for name, value in env.items():
            patch.setenv(name, value)
        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(20)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main()
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
        log.seek(0)
        logged = log.read().decode()
    assert ended.value.code in (1, 2)
    assert out.getvalue() == ""
    return logged + err.getvalue()


def late(*_: object) -> None:
    raise TimeoutError("it started instead")


def token_file(folder: Path, text: str, mode: int = 0o600) -> str:
    file = folder / "tokens"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


@pytest.mark.row("E14")
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0"])
def test_beyond_this_machine_nothing_is_served_without_a_token_that_was_chosen(config: Path, address: str):
    run = refused if address == "0.0.0.0:0" else refused_here
    said = run(config, "--http", address).splitlines()
    assert len(said) == 2
    assert said[0].startswith("error: ")
    assert "needs a token" in said[0]
    assert said[1].startswith("hint: ")


@pytest.mark.row("E14")
async def test_beyond_this_machine_a_chosen_token_is_enough(config: Path):
    async with program(config, "--http=0.0.0.0:0") as running, running.client() as http:
        assert "result" in (await post_modern(http, modern("tools/list"))).json()


def test_a_port_that_is_in_use_is_told_in_two_lines(config: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(config, "--http", address).splitlines()
    assert said[0] == f"error: Can't listen on {address}: Address already in use"
    assert len(said) == 2
    assert said[1].startswith("hint: ")


WRONG = {
    "no port": ("--http", "localhost:x"),
    "too large a port": ("--http", "localhost:65536"),
    "IPv6 without brackets": ("--http", "::1:80"),
    "a URL": ("--http", "http://localhost:80"),
    "a toolbox": ("--http", "127.0.0.1:0", "--toolbox", "dev"),
    "tokens on stdio": ("--token-file", "x"),
    "no file of tokens": ("--http", "127.0.0.1:0", "--token-file", "/nowhere/tokens"),
}


@pytest.mark.parametrize("case", WRONG)
def test_options_that_do_not_fit_are_told_without_a_traceback(config: Path, case: str):
    run = refused if case == "a toolbox" else refused_here
    said = run(config, *WRONG[case])
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 2


TOKEN_FILES = {
    "others can read it": (f"{ALICE}\n", 0o640, "chmod 600"),
    "others can write it": (f"{ALICE}\n", 0o602, "chmod 600"),
    "empty": ("# nothing\n\n", 0o600, "there is no token"),
    "too short": ("short\n", 0o600, "at least 16 characters"),
    "with spaces": (f"{ALICE} {BOB}\n", 0o600, "without spaces"),
    "not ASCII": ("töken-of-many-letters\n", 0o600, "ASCII"),
    "a name twice": (f"a: {ALICE}\na: {BOB}\n", 0o600, "two tokens have the name 'a'"),
    "a token twice": (f"a: {ALICE}\nb: {ALICE}\n", 0o600, "the same token has two names"),
}


@pytest.mark.parametrize("case", TOKEN_FILES)
def test_a_file_of_tokens_that_is_not_good_is_refused_and_not_shown(config: Path, tmp_path: Path, case: str):
    text, mode, problem = TOKEN_FILES[case]
    run = refused if case == "empty" else refused_here
    said = run(config, "--http", "127.0.0.1:0", "--token-file", token_file(tmp_path, text, mode))
    assert problem in said
    assert ALICE not in said
    assert "short" not in said.replace("shorter", "")


async def test_a_file_of_tokens_is_one_owner_a_line(config: Path, tmp_path: Path):
    file = token_file(tmp_path, f"# tokens\nalice: {ALICE}\n\n{BOB}\n")
    async with program(config, "--token-file", file, env={"WORKBENCH_TOKEN": ""}) as running:
        for token, status in ((ALICE, 200), (BOB, 200), ("alice", 401), (f"alice: {ALICE}", 401)):
            async with running.client(token) as http:
                assert (await post_modern(http, modern("tools/list"))).status_code == status
        assert ALICE.encode() not in running.stderr


async def test_a_token_that_is_made_up_is_told_once_with_what_a_host_needs(config: Path):
    async with program(config, "--log-level", "debug", env={"WORKBENCH_TOKEN": ""}) as running:
        await wait_until(lambda: running.stderr.rstrip().endswith(b"}"), what="what a host needs")
        text = running.stderr.decode()
        host = json.loads(text[text.index("{") :])["mcpServers"]["workbench"]
        assert host["url"] == f"{running.url}/mcp"
        token = host["headers"]["Authorization"].removeprefix("Bearer ")
        assert len(token) >= 43
        assert text.count(token) == 2
        async with running.client(token) as http:
            await Handshake.begin(http)
            assert "result" in (await post_modern(http, modern("tools/list"))).json()
            await post_modern(http, modern(f"no/{token}"))
        assert running.process is not None
        running.process.terminate()
        await running.process.wait()
        await wait_until(lambda: b"ending" in running.stderr, what="the end")
        assert running.stderr.decode().count(token) == 2


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_all_that_was_started(tmp_path: Path, number: signal.Signals):
    marker = new_marker()
    servers = {
        name: rogue(mode, env=marker) for name, mode in (("a", "ok"), ("b", "ignore_eof"), ("c", "ignore_sigterm"))
    }
    async with program(write_config(tmp_path, {"dev": servers})) as running, running.client() as http:
        client = await Handshake.begin(http)
        for server in servers:
            await client.call(use("echo", server=server))
            await post_modern(http, modern("tools/call", use("echo", server=server)))
        assert len(census(marker)) >= 6
        async with client.listen():
            began = time.monotonic()
            assert running.process is not None
            running.process.send_signal(number)
            assert await asyncio.wait_for(running.process.wait(), 10) == 128 + number
            assert time.monotonic() - began < 6
        assert census(marker) == []
    assert b"Traceback" not in running.stderr


@needs_proc
async def test_a_second_signal_ends_it_at_once(tmp_path: Path):
    marker = new_marker()
    config = write_config(tmp_path, {"dev": {"fs": rogue("ignore_sigterm", env=marker)}})
    async with program(config) as running, running.client() as http:
        await post_modern(http, modern("tools/call", use("echo")))
        assert running.process is not None
        began = time.monotonic()
        running.process.terminate()
        await wait_until(lambda: b"ending" in running.stderr, what="the first signal")
        running.process.terminate()
        assert await asyncio.wait_for(running.process.wait(), 5) == 143
        assert time.monotonic() - began < 1.5
        await wait_until(lambda: not census(marker), what="the end of the server")


async def test_what_is_under_way_is_answered_before_the_end(tmp_path: Path):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"fs": rogue("progress", 3, log=log)}})
    async with program(config) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        params = {"name": "echo", "arguments": {"gap": 0.1}}
        handshake = asyncio.ensure_future(client.request("tools/call", params))
        other = asyncio.ensure_future(post_modern(http, modern("tools/call", params), "/mcp/dev/fs"))
        await wait_until(lambda: len(received(log, "tools/call")) == 2, what="the calls")
        assert running.process is not None
        running.process.terminate()
        assert "result" in await handshake
        assert "result" in (await other).json()
        assert await running.process.wait() == 143


@needs_proc
async def test_the_servers_end_with_a_workbench_that_is_killed(tmp_path: Path):
    marker = new_marker()
    config = write_config(tmp_path, {"dev": {"fs": rogue("ignore_eof", env=marker)}})
    async with program(config) as running, running.client() as http:
        await post_modern(http, modern("tools/call", use("echo")))
        assert running.process is not None
        running.process.kill()
        await running.process.wait()
        await wait_until(lambda: not census(marker), 8, what="the end of the server")


async def test_nothing_is_started_before_it_is_needed(config: Path, tmp_path: Path):
    async with served(config) as running, running.client() as http:
        for path in ("/mcp", "/mcp/dev"):
            client = await Handshake.begin(http, path)
            await client.post(rpc("ping"))
        await post_modern(http, modern("server/discover"))
        await post_modern(http, modern("tools/list"))
    assert starts(tmp_path / "log") == []


async def test_a_closed_stderr_harms_nobody(config: Path):
    command = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), "--http", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment(config.parent / "home") | {"WORKBENCH_TOKEN": ALICE},
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    assert process.stderr is not None
    line = await process.stderr.readline()
    while b"listens" not in line:
        line = await process.stderr.readline()
    port = int(line.rpartition(b":")[2].partition(b"/")[0])
    process.stderr._transport.close()  # type: ignore[attr-defined]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    os.kill(process.pid, signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 10) == 143


LARGE = {"mcp", "mcp_types", "pydantic", "pydantic_core", "jsonschema", "httpx2", "sse_starlette", "rich"}
DUMP = """
import atexit, json, os, sys
atexit.register(lambda: open(os.environ["DUMP_MODULES"], "w").write(json.dumps(sorted(sys.modules))))
"""


async def test_serving_calls_over_http_imports_none_of_the_large_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WORKBENCH_TESTS_FORK", "no")  # a forked program shares what its parent imported
    (tmp_path / "sitecustomize.py").write_text(DUMP, encoding="utf-8")
    config, dump = write_config(tmp_path, {"dev": {"fs": rogue()}}), tmp_path / "modules.json"
    paths = f"{tmp_path}:{environment(tmp_path)['PYTHONPATH']}"
    env = {"DUMP_MODULES": str(dump), "PYTHONPATH": paths}
    async with program(config, env=env) as running, running.client() as http:
        answer = await post_modern(http, modern("tools/call", use("nonce", {"nonce": "7"})))
        assert answer.json()["result"]["content"][0]["text"] == "7"
        client = await Handshake.begin(http)
        assert (await client.call(use("nonce", {"nonce": "8"})))["content"][0]["text"] == "8"
        assert running.process is not None
        running.process.terminate()
        assert await running.process.wait() == 143
    imported = {name.partition(".")[0] for name in json.loads(dump.read_text())}
    assert "uvicorn" in imported
    assert imported & LARGE == set()


SLEEPER = "import uvicorn, starlette.applications; print('ready', flush=True); input()"


def cpu_seconds(pid: int) -> float:
    """The CPU time of all threads of a process so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def imported_in() -> float:
    """The CPU time of a Python that imports the HTTP server."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        seconds = cpu_seconds(process.pid)
        process.kill()
    return seconds


@needs_proc
async def test_it_listens_in_little_more_time_than_its_http_server_takes_to_import(
    config: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WORKBENCH_TESTS_FORK", "no")
    ours: list[float] = []
    imports: list[float] = []
    for _ in range(5):  # in turns: the caches of a busy machine are shared
        async with program(config) as running:
            assert running.process is not None
            ours.append(cpu_seconds(running.process.pid))
        imports.append(imported_in())
    assert min(ours) < 1.8 * min(imports)


@needs_proc
async def test_it_holds_little_memory(config: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_TESTS_FORK", "no")
    async with program(config) as running, running.client() as http:
        await post_modern(http, modern("tools/call", use("nonce", {"nonce": "7"})))
        client = await Handshake.begin(http)
        await client.call(use("nonce", {"nonce": "8"}))
        assert running.process is not None
        assert resident_bytes(running.process.pid) < 45e6
