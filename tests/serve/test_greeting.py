"""The first answer, before the event loop is loaded: the same as later, and nothing is lost by it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from mcp_workbench.serve import early_initialize as module
from mcp_workbench.serve.early_initialize import Greeting, greet
from mcp_workbench.serve.session import Session
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.wire.caller import Caller
from mcp_workbench.workbench import Workbench
from tests.serve.fakes import FakeLine
from tests.surfaces.benches import config_of

KNOWN = {"dev": {"fs": ["read"], "db": ["query"]}, "ops": {"fs": ["read"]}}

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "x"}}
GREETINGS = {"initialize": INITIALIZE, "server/discover": {"_meta": META}}


def line(method: str, params: Any, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}).encode() + b"\n"


def greeted(received: bytes, mode: Any = "proxy") -> tuple[Greeting, bytes]:
    """What `greet` makes of input that is there, and what it writes."""
    source, client = os.pipe()
    reader, sink = os.pipe()
    os.set_blocking(reader, False)
    try:
        if received:
            os.write(client, received)
        greeting = greet(config_of(KNOWN, tool_mode=mode), source, sink)
        try:
            return greeting, os.read(reader, 1 << 16)
        except BlockingIOError:
            return greeting, b""
    finally:
        for descriptor in (source, client, reader, sink):
            os.close(descriptor)


@pytest.mark.parametrize("method", GREETINGS)
async def test_the_answer_is_the_one_that_the_session_gives(method: str):
    _, written = greeted(line(method, GREETINGS[method]))
    workbench = Workbench(config_of(KNOWN))
    session = Session(workbench, ProxySurface(workbench), FakeLine(1), "client")
    modern = method != "initialize"
    caller = Caller(version="2026-07-28" if modern else "2025-06-18", modern=modern)
    later = await session.handle(caller, FakeLine(1), method, {}, {})
    assert json.loads(written) == {"jsonrpc": "2.0", "id": 1, "result": json.loads(bytes(later))}
    assert written.endswith(b"}\n")


@pytest.mark.parametrize("method", GREETINGS)
def test_a_surface_whose_extensions_depend_on_its_servers_leaves_the_greeting_to_the_session(method: str):
    greeting, written = greeted(line(method, GREETINGS[method]), "dynamic")
    assert (greeting.unread, written) == (b"", b"")


def test_the_era_and_what_followed_are_handed_on():
    greeting, _ = greeted(line("initialize", INITIALIZE) + b'{"more":1}\n{"ha')
    assert greeting.unread == b'{"more":1}\n{"ha'
    caller = greeting.callers.of("tools/list", {}, {})
    assert (caller.version, caller.modern, bool(caller.answers)) == ("2025-06-18", False, True)


@pytest.mark.parametrize(
    "received",
    [
        b"",
        b'{"jsonrpc":"2.0","id":1,"method":"initialize"',
        b"garbage\n",
        line("ping", {}),
        line("tools/list", {}),
        line("tools/list", {"_meta": META}),
        line("initialize", {}),
        line("initialize", INITIALIZE, id=None),
        line("initialize", INITIALIZE, jsonrpc="1.0"),
        line("server/discover", {}),
        line("server/discover", {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}}),
    ],
)
def test_what_is_no_good_greeting_is_left_for_later_untouched(received: bytes):
    greeting, written = greeted(received)
    assert written == b""
    assert greeting.unread == received
    assert greeting.callers.of("ping", {}, {}).modern is False, "no era was decided"


def test_an_answer_that_a_pipe_might_not_take_is_left_for_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "GREETING_BYTES", 100)
    received = line("initialize", INITIALIZE)
    greeting, written = greeted(received)
    assert (written, greeting.unread) == (b"", received)


def test_the_event_loop_is_not_loaded_for_it():
    code = (
        "import sys, mcp_workbench.cli.serve, mcp_workbench.serve.early_initialize; sys.exit('asyncio' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_a_first_call_does_not_need_is_not_loaded_to_serve():
    late = ("mcp_workbench.servers", "mcp_workbench.activity", "mcp_workbench.surfaces.corrections", "sqlite3", "mcp")
    code = (
        f"import sys, mcp_workbench.serve.stdio; sys.exit(str([name for name in {late} if name in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_the_end_of_the_input_is_left_to_who_reads_it_at_a_terminal():
    person, source = pty.openpty()
    try:
        os.write(person, b"\x04")
        assert greet(config_of(KNOWN), source, source).unread == b""
        assert os.read(source, 1) == b""  # and would wait if it was read before
    finally:
        os.close(person)
        os.close(source)
