"""`serve --http` that is started in ways that nobody means: odd addresses, files of tokens, and no stderr."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from mcp_workbench import logger
from mcp_workbench.errors import ConfigError
from mcp_workbench.serve.http.address import Address, read_address
from mcp_workbench.serve.http.guard import Guard
from mcp_workbench.serve.http.request import RequestHead, RequestRefused
from mcp_workbench.serve.http.tokens import find_tokens
from mcp_workbench.serve.signals import UncaughtReporter
from tests.serve.http.serving import ALICE, BOB, Served, modern, post_modern, use
from tests.support.configs import rogue, write_config
from tests.support.procs import needs_proc, poll_until, queued_seconds, wait_until
from tests.support.wire import environment

LOCAL = Address("127.0.0.1", 8300)


@pytest.mark.row("E14")
@pytest.mark.parametrize("host", ["0", "00", "0.0", "0x0", "127.1", "0x7f.1", "2130706433", "1.2.3"])
def test_an_address_in_short_is_refused_as_only_the_system_reads_it(host: str):
    """`0` is every address of the machine to the system, and a name to everybody else."""
    with pytest.raises(ConfigError, match="is not a host"):
        read_address(f"{host}:9000")


NO_HOSTS = {
    "too long a part": "a" * 64,
    "too long": ".".join(["a" * 60] * 5),
    "an empty part": "a..b",
    "only a dot": ".",
    "a line break": "a\nb",
    "a control character": "a\x1b[2J",
    "no text": "\udcff",
    "a star": "*",
    "userinfo": "me@host",
    "brackets in brackets": "[[",
}


@pytest.mark.parametrize("case", NO_HOSTS)
def test_what_can_be_no_host_is_told_in_one_line(case: str):
    with pytest.raises(ConfigError) as raised:
        read_address(f"{NO_HOSTS[case]}:9000")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("text", "host"),
    [("[::0001]:1", "::1"), ("[FE80:0::1]:1", "fe80::1"), ("bücher.example:1", "xn--bcher-kva.example")],
)
def test_a_host_is_known_as_clients_write_it(text: str, host: str):
    assert read_address(text) == Address(host, 1)


# -- files of tokens


def token_file(folder: Path, content: bytes) -> str:
    file = folder / "tokens"
    file.write_bytes(content)
    file.chmod(0o600)
    return str(file)


A, B = ALICE.encode(), BOB.encode()
GOOD: dict[str, tuple[bytes, dict[str, str]]] = {
    "no line break at the end": (A, {"line 1": ALICE}),
    "lines as on Windows": (b"alice: " + A + b"\r\n" + B + b"\r\n", {"alice": ALICE, "line 2": BOB}),
    "spaces around": (b"  alice:   " + A + b" \t\n", {"alice": ALICE}),
    "a name with spaces": (b"my host: " + A, {"my host": ALICE}),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_file_of_tokens_is_read_however_its_lines_end(tmp_path: Path, case: str):
    content, expected = GOOD[case]
    assert dict(find_tokens(LOCAL, {}, token_file(tmp_path, content)).by_name) == expected


BAD = {
    "an empty name": b": " + A,
    "an empty token": b"alice: ",
    "a byte order mark": b"\xef\xbb\xbf" + A,
    "UTF-16": A.decode().encode("utf-16"),
    "a NUL": A + b"\0",
    "a tab inside": A + b"\t" + B,
    "an escape": A + b"\x1b[2J",
    "too much": b"#" * 70_000,
}


@pytest.mark.row("E9")
@pytest.mark.parametrize("case", BAD)
def test_a_token_that_nobody_could_show_is_refused_at_the_start_and_not_told(tmp_path: Path, case: str):
    with pytest.raises(ConfigError) as raised:
        find_tokens(LOCAL, {}, token_file(tmp_path, BAD[case]))
    said = f"{raised.value}{raised.value.hint}"
    assert ALICE not in said
    assert str(raised.value).isprintable()


def head(token: str) -> RequestHead:
    return RequestHead({"method": "GET", "headers": [(b"authorization", f"Bearer {token}".encode())]})


@pytest.mark.parametrize("case", GOOD)
def test_every_token_that_is_taken_is_known_to_the_guard(tmp_path: Path, case: str):
    tokens = find_tokens(LOCAL, {}, token_file(tmp_path, GOOD[case][0])).by_name
    guard = Guard(LOCAL, tokens)
    for name, token in tokens.items():
        assert guard.owner(head(token)) == name
        with pytest.raises(RequestRefused):
            guard.owner(head(token[1:]))


# -- nobody listens to what it says


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def start(folder: Path, redirection: str, port: int, token: str, before: str = "") -> asyncio.subprocess.Process:
    config = write_config(folder, {"dev": {"fs": rogue()}})
    serve = f'-m mcp_workbench serve --config "{config}" --http 127.0.0.1:{port}'
    command = f'{before} exec "{sys.executable}" {serve} {redirection}'
    env = environment(folder / "home") | {"WORKBENCH_TOKEN": token}
    return await asyncio.create_subprocess_exec("/bin/sh", "-c", command, env=env, stdin=asyncio.subprocess.DEVNULL)


def standard_streams(pid: int) -> list[str]:
    return [str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)]


@needs_proc
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "0<&- 1>&- 2>&-"])
async def test_it_serves_also_where_nothing_can_be_told(tmp_path: Path, redirection: str):
    port = free_port()
    process = await start(tmp_path, redirection, port, ALICE)

    async def healthy() -> bool:
        assert process.returncode is None, "it ended"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.write(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read(-1)
        writer.close()
        # What is logged must not go where a connection has taken the number of stderr.
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"\r\n\r\nok\n")
        return True

    try:
        await poll_until(healthy, 20, what="an answer")
        assert not [where for where in standard_streams(process.pid) if where.startswith("socket:")]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 143
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@needs_proc
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
async def test_it_does_not_serve_with_a_token_that_nobody_was_told(tmp_path: Path, redirection: str):
    process = await start(tmp_path, redirection, free_port(), "")
    try:
        assert await asyncio.wait_for(process.wait(), 20) == 1
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# -- few files may be open


@needs_proc
@pytest.mark.row("E11")
@pytest.mark.parametrize("files", ["ulimit -Sn 128;", "ulimit -n 128;"])
async def test_silent_connections_leave_files_for_servers_where_few_may_be_open(tmp_path: Path, files: str):
    """A busy machine may delay connects by itself, but not twice."""
    seconds = await served_after(tmp_path, files)
    assert seconds < 8 or await served_after(tmp_path, files) < 8  # silent connections are closed after 10


async def served_after(tmp_path: Path, files: str) -> float:
    """How long a call waits that comes after many silent connections."""
    port = free_port()
    log = tmp_path / "said"
    process = await start(tmp_path, f'2>"{log}"', port, ALICE, files)
    idle: list[asyncio.StreamWriter] = []
    try:
        await wait_until(lambda: "listens on" in read(log), 20, what="the workbench")
        async with Served(port).client() as http:
            assert (await http.get("/healthz")).status_code == 200
            for _ in range(200):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                idle.append(writer)

            async def is_served() -> bool:
                """The system waits longer and longer before it tries again to connect where too many wait already."""
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2):
                        answer = await post_modern(http, modern("tools/call", use("echo")))
                        return "structuredContent" in answer.text
                return False

            began, queued = time.monotonic(), queued_seconds() + queued_seconds(process.pid)
            await poll_until(is_served, 60, what="a call, while silent connections are there")
            waited = time.monotonic() - began - (queued_seconds() + queued_seconds(process.pid) - queued)
    finally:
        process.kill()
        await process.wait()
        for writer in idle:
            writer.close()
    assert read(log).count("unexpected") < 10
    return waited


def read(log: Path) -> str:
    return log.read_text() if log.exists() else ""


async def test_the_same_failure_over_and_over_is_not_told_each_time(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logger, "log", logger.Log())
    report, loop = UncaughtReporter(), asyncio.get_running_loop()
    for _ in range(100):
        report(loop, {"message": "no files", "exception": OSError(24, "Too many open files")})
    report(loop, {"message": "no files", "exception": OSError(23, "Too many open files in system")})
    said = capfd.readouterr().err.splitlines()
    assert ["OSError(24," in line for line in said] == [True, False]
