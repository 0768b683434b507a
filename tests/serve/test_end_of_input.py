"""The end of a client's input: what it asked for is answered, for a moment, on one socket and in both eras."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_workbench.limits import Limits
from tests.nemesis.scene import SERVER
from tests.serve.http.serving import modern, rpc
from tests.support.configs import read_log, write_config
from tests.support.lag import elapsed
from tests.support.wire import Era, environment

ERAS: tuple[Era, ...] = ("handshake", "modern")
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
CALLS = 20


class Link(NamedTuple):
    """A client's end of a program that serves."""

    program: subprocess.Popen[bytes]
    stream: socket.socket
    era: Era

    def ask(self, number: int, method: str, params: Any = None) -> None:
        message = modern(method, params, number) if self.era == "modern" else rpc(method, params, number)
        self.stream.sendall(json.dumps(message).encode() + b"\n")

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        given = {"tool": {"toolbox": "dev", "server": "s", "tool": tool}, "arguments": {"nonce": "n", **arguments}}
        self.ask(number, "tools/call", {"name": "use_tool", "arguments": given})

    def rest(self) -> list[Any]:
        """The ids of all that comes until the other side closes."""
        with self.stream.makefile("rb") as lines:
            return [json.loads(line).get("id") for line in lines]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def link(tmp_path: Path, log: Path, era: Era) -> Iterator[Link]:
    """A program on one socket, whose server has answered a call."""
    options = {"log": str(log), "calm": str(tmp_path / "calm"), "starts": str(tmp_path / "starts"), "seed": 1}
    entry = {"command": sys.executable, "args": ["-SE", str(SERVER), "s", json.dumps(options)]}
    command = [
        sys.executable,
        "-m",
        "mcp_workbench",
        "serve",
        "--config",
        str(write_config(tmp_path, {"dev": {"s": entry}})),
    ]
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment(tmp_path)) as program:
        theirs.close()
        ours.settimeout(30)
        link = Link(program, ours, era)
        if era == "handshake":
            link.ask(-1, "initialize", GREETING)
            assert json.loads(ours.recv(100_000))["id"] == -1
        link.call(0, "echo")
        assert json.loads(ours.recv(100_000))["id"] == 0
        yield link
        program.kill()


def wait_for_calls(log: Path, count: int) -> None:
    until = time.monotonic() + 10
    while sum(event["kind"] == "delivered" for event in read_log(log)) < count:
        assert time.monotonic() < until, "the calls did not reach the server"
        time.sleep(0.01)


def test_every_call_under_way_is_answered_when_the_input_ends(link: Link, log: Path):
    for number in range(1, CALLS + 1):
        link.call(number, "slow", seconds=0.25)
    wait_for_calls(log, CALLS + 1)
    link.stream.shutdown(socket.SHUT_WR)
    since = time.monotonic()
    assert sorted(link.rest()) == list(range(1, CALLS + 1))
    assert link.program.wait(10) == 0
    assert elapsed(since) < 5


def test_a_call_that_does_not_end_is_given_up_and_all_is_over_within_five_seconds(link: Link, log: Path):
    link.call(1, "hang")
    link.call(2, "slow", seconds=0.1)
    wait_for_calls(log, 3)
    link.stream.shutdown(socket.SHUT_WR)
    since = time.monotonic()
    assert 2 in link.rest()
    assert link.program.wait(10) == 0
    assert elapsed(since) < 5


def test_a_client_that_vanished_is_not_waited_for(link: Link, log: Path):
    link.call(1, "hang")
    wait_for_calls(log, 2)
    since = time.monotonic()
    link.stream.close()
    assert link.program.wait(10) == 0
    assert elapsed(since) < Limits().drain_seconds


@pytest.mark.skipif(shutil.which("socat") is None, reason="platform: socat is not installed")
def test_a_client_reaches_it_through_socat(tmp_path: Path, era: Era):
    config, path = write_config(tmp_path, {}), str(tmp_path / "socket")
    program = f"EXEC:{sys.executable} -m mcp_workbench serve --config {config}"
    with (
        subprocess.Popen(["socat", f"UNIX-LISTEN:{path}", program], env=environment(tmp_path)) as relay,
        socket.socket(socket.AF_UNIX) as client,
    ):
        until = time.monotonic() + 10
        while client.connect_ex(path) != 0:
            assert time.monotonic() < until
            time.sleep(0.01)
        client.settimeout(30)
        link = Link(relay, client, era)
        link.ask(1, "tools/list") if era == "modern" else link.ask(1, "initialize", GREETING)
        link.ask(2, "tools/list")
        assert json.loads(client.recv(100_000).splitlines()[0])["id"] == 1
        client.shutdown(socket.SHUT_WR)
        assert link.rest()[-1:] in ([2], [])
        assert relay.wait(10) == 0
