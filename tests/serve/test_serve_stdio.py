"""The workbench on stdin and stdout: what reaches descriptor 1, how it starts and ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.nursery import SWITCH
from tests.support.procs import census, needs_proc, new_marker, wait_until
from tests.support.wire import environment, serving

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}}


@pytest.fixture(autouse=True)
def _started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program as hosts start it, and never a forked one."""
    monkeypatch.setenv(SWITCH, "no")


def line(number: object, method: str, params: Any = None) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, **({} if params is None else {"params": params})}
    return json.dumps(message).encode() + b"\n"


def use(number: int, tool: str, **arguments: Any) -> bytes:
    call = {"tool": {"toolbox": "dev", "server": "fs", "tool": tool}, "arguments": arguments}
    return line(number, "tools/call", {"name": "use_tool", "arguments": call})


HELLO = line(0, "initialize", INITIALIZE)


def command(config: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), *more]


def served(
    config: Path, stdin: bytes, *, redirect: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run it on this input; `redirect`: of the shell."""
    words = command(config)
    if redirect:
        words = ["/bin/sh", "-c", f'exec "$@" {redirect}', "sh", *words]
    chosen = environment(config.parent / "home") | (env or {})
    return subprocess.run(words, input=stdin, capture_output=True, check=False, timeout=20, env=chosen)


def answers(output: bytes) -> dict[Any, Any]:
    return {message.get("id"): message for message in map(json.loads, output.splitlines())}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path, {"dev": {"fs": rogue()}})


# -- descriptors


def test_nothing_but_the_protocol_reaches_descriptor_1(config: Path, tmp_path: Path):
    """A module that prints, and one that writes to descriptor 1 as C libraries do."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, sys, threading\n"
        "import asyncio\n"
        "real = asyncio.run\n"
        "def run(main):\n"
        "    print('printed'); sys.stdout.flush(); os.write(1, b'written\\n'); os.system('echo by a child')\n"
        "    return real(main)\n"
        "asyncio.run = run\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{environment(tmp_path)['PYTHONPATH']}"}
    done = served(config, HELLO, env=env)
    assert [json.loads(one)["id"] for one in done.stdout.splitlines()] == [0]
    for noise in (b"printed", b"written", b"by a child"):
        assert noise in done.stderr


def test_without_stderr_it_serves_and_logs_nowhere(config: Path):
    done = served(config, HELLO + use(1, "nonce", nonce="7") + line(2, "ping"), redirect="2>&-")
    assert done.returncode == 0
    assert answers(done.stdout)[0]["result"]
    assert all(json.loads(one) for one in done.stdout.splitlines())


def test_a_file_of_requests_is_answered_to_its_end(config: Path, tmp_path: Path):
    requests, replies = tmp_path / "requests", tmp_path / "answers"
    requests.write_bytes(HELLO + b"".join(use(number, "nonce", nonce=str(number)) for number in range(1, 50)))
    done = served(config, b"", redirect=f"< {requests} > {replies}")
    assert done.returncode == 0
    texts = {
        id_: message["result"]["content"][0]["text"] for id_, message in answers(replies.read_bytes()).items() if id_
    }
    assert texts == {number: str(number) for number in range(1, 50)}


def test_a_call_in_a_file_whose_server_asks_something_is_made_once(tmp_path: Path):
    """Nobody can answer any more; the server has the call all the same."""
    log, requests = tmp_path / "log", tmp_path / "requests"
    config = write_config(tmp_path, {"dev": {"fs": rogue("modern_asks", log=log)}})
    requests.write_bytes(line(0, "initialize", INITIALIZE | {"capabilities": {"elicitation": {}}}) + use(1, "echo"))
    done = served(config, b"", redirect=f"< {requests}")
    assert answers(done.stdout)[1]["result"]["isError"] is True
    assert len(received(log, "tools/call")) == 1


def test_a_slow_reader_gets_every_answer(config: Path, tmp_path: Path):
    requests = tmp_path / "requests"
    requests.write_bytes(HELLO + b"".join(line(number, "tools/list") for number in range(1, 300)))
    done = served(config, b"", redirect=f"< {requests} | (sleep 0.5; cat)")
    assert set(answers(done.stdout)) == set(range(300))


@pytest.mark.parametrize("redirect", ["< /dev/null", "> /dev/null", "< /dev/null > /dev/null 2> /dev/null"])
def test_the_null_device_on_either_side_is_an_end_like_any_other(config: Path, redirect: str):
    assert served(config, HELLO, redirect=redirect).returncode == 0


def test_a_closed_input_is_no_crash(config: Path):
    done = served(config, b"", redirect="<&-")
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


# -- what is no request


DEEP = b"[" * 100_000 + b"]" * 100_000
UNREADABLE: list[tuple[bytes, int | None]] = [
    (b"{", -32700),
    (b"hello", -32700),
    (b"\xff\xfe", -32700),
    (b"[]", -32600),
    (line(1, "tools/list").strip().join((b"[", b"]")), -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","method":"x","params":' + DEEP + b',"id":1}', None),
]
"""Lines that are no request, each with the code of its refusal."""


def refused(config: Path, bad: list[bytes]) -> list[Any]:
    """The one refusal of each of these lines, after which a request is answered, and at last the handshake."""
    pings = [f"ping {number}" for number in range(len(bad))]
    sent = b"".join(one + b"\n" + line(ping, "ping") for one, ping in zip(bad, pings, strict=True)) + HELLO
    messages = [json.loads(one) for one in served(config, sent).stdout.splitlines()]
    assert [message["id"] for message in messages if "result" in message] == [*pings, 0]
    refusals = [message for message in messages if "error" in message]
    assert len(refusals) == len(bad)
    return refusals


def test_what_cannot_be_read_is_refused_and_the_next_request_is_answered(config: Path):
    for (bad, code), refusal in zip(UNREADABLE, refused(config, [bad for bad, _ in UNREADABLE]), strict=True):
        assert refusal["id"] is None, bad[:100]
        assert refusal["error"]["code"] == (code or refusal["error"]["code"]), bad[:100]


UNDER_ITS_ID: list[tuple[bytes, object]] = [
    (b'{"jsonrpc":"1.0","id":1,"method":"x"}', 1),
    (b'{"jsonrpc":"2.0","id":"a","method":"x","params":' + DEEP + b"}", "a"),
    (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"n":NaN}}', 5),
    (b'{"jsonrpc":"2.0","id":"a","method":"x","params":{"n":1', "a"),
    (b'{"jsonrpc":"1.0","id":5,"method":"x","params":{}}', 5),
    (b'{"jsonrpc":"2.0","method":"x","params":{"id":5,', None),
    (b'{"jsonrpc":"2.0","id":"\xff","method":"x","params":{', None),
]


def test_an_unreadable_request_is_refused_under_the_id_before_its_params(config: Path):
    refusals = refused(config, [bad for bad, _ in UNDER_ITS_ID])
    assert refusals[0]["error"]["code"] == -32600
    for (bad, id_), refusal in zip(UNDER_ITS_ID, refusals, strict=True):
        assert refusal["id"] == id_, bad[:100]


def test_a_request_with_an_id_that_is_too_long_is_refused(config: Path):
    done = served(config, line("x" * 1025, "ping") + line("y" * 1024, "ping") + HELLO)
    codes = {str(id_)[:1]: message.get("error", {}).get("code") for id_, message in answers(done.stdout).items()}
    assert codes["y"] is None
    assert -32600 in codes.values()


def test_params_that_are_no_object_are_invalid(config: Path):
    wrong = {"list": [], "text": "x", "number": 5}
    done = served(config, HELLO + b"".join(line(kind, "tools/list", params) for kind, params in wrong.items()))
    for kind in wrong:
        assert answers(done.stdout)[kind]["error"]["code"] == -32602, kind


def test_a_message_over_the_cap_ends_the_session_with_an_error(config: Path):
    done = served(config, HELLO + b"x" * (8 * 1024 * 1024 + 2))
    by_id = answers(done.stdout)
    assert by_id[0]["result"]
    assert by_id[None]["error"]["code"] == -32600
    assert done.returncode == 0


def test_one_socket_can_be_both_standard_input_and_standard_output(config: Path):
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config)]
    with (
        ours,
        subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment(config.parent / "home")) as program,
    ):
        theirs.close()
        ours.settimeout(30)
        with ours.makefile("rwb") as stream:
            for number, sent in enumerate((HELLO, use(1, "echo", text="one"), line(2, "ping"))):
                stream.write(sent)
                stream.flush()
                assert json.loads(stream.readline())["id"] == number
            ours.shutdown(socket.SHUT_WR)
            assert program.wait(30) == 0


# -- the end


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_and_everything_that_it_started(number: signal.Signals, tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("ignore_eof", env=marker)}})) as wire:
        await wire.open("dev")
        wire.process.send_signal(number)
        assert await wire.ended() == 128 + number
    assert census(marker) == []


@needs_proc
async def test_a_second_signal_ends_it_at_once(tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("ignore_sigterm", env=marker)}})) as wire:
        await wire.open("dev")
        wire.process.send_signal(signal.SIGTERM)
        await wait_until(lambda: "ending" in wire.stderr)
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended(seconds=1.5) == 128 + signal.SIGTERM
        await wait_until(lambda: not census(marker), what="the end of the server")


async def test_one_signal_after_the_end_of_input_lets_a_server_finish_what_it_does(tmp_path: Path):
    """Hosts close stdin and send SIGTERM soon after; only a second signal is impatience."""
    log = tmp_path / "log"
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("slow_eof", 0.6, log=log)}})) as wire:
        await wire.open("dev")
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        await wait_until(lambda: events(log)[-1] == "eof", what="the end of input at the server")
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 0
    assert events(log)[-1] == "exit", "it was killed before it had saved its state"


def events(log: Path) -> list[str]:
    return [entry["event"] for entry in read_log(log)]


@needs_proc
async def test_a_client_that_stops_reading_for_good_is_the_end(tmp_path: Path):
    marker = new_marker()
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(env=marker)}})) as wire:
        await wire.open("dev")
        wire.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        await wire.send({"jsonrpc": "2.0", "id": 99, "method": "ping"})
        async with asyncio.timeout(20):
            assert await wire.process.wait() == 0
        assert census(marker) == []


async def test_a_cancelled_call_gets_no_answer_and_its_server_is_told(tmp_path: Path):
    log = tmp_path / "log"
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})) as wire:
        await wire.open("dev")
        tool = {"toolbox": "dev", "server": "fs", "tool": "hang"}
        number = await wire.begin("tools/call", {"name": "use_tool", "arguments": {"tool": tool}})
        await wait_until(lambda: '"hang"' in log.read_text())
        await wire.notify("notifications/cancelled", {"requestId": number})
        await wait_until(lambda: "notifications/cancelled" in log.read_text())
        await wire.request("ping")
        assert not any(message.get("id") == number for message in wire.order)
        assert len(starts(log)) == 1
