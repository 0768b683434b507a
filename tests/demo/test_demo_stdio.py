"""The demo servers over real pipes, in raw JSON lines and with the official client, in both eras."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Event, Thread
from typing import IO

import pytest
from mcp import Client, MCPError, StdioServerParameters

from mcp_workbench.demo.server import Server
from mcp_workbench.limits import DEFAULTS
from tests.demo.lines import ENVELOPE, SOURCES, Pipes

HANDSHAKE_ONLY = ["notes", "text", "database"]
BOTH_ERAS = ["calculator", "calendar"]
ALL = HANDSHAKE_ONLY + BOTH_ERAS


@pytest.fixture(scope="module")
def running() -> Iterator[Callable[[str], Pipes]]:
    """Servers that run on, for tests that only ask them."""
    with ExitStack() as stack:
        yield cache(lambda server: stack.enter_context(Pipes(server)))


def initialize(version: str) -> dict:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.mark.parametrize("server", ALL)
def test_a_server_introduces_itself_lists_its_tools_and_ends_when_its_input_does(server):
    with Pipes(server) as pipes:
        result = pipes.ask("initialize", initialize("2025-11-25"))["result"]
        pipes.send(method="notifications/initialized")
        tools = pipes.ask("tools/list")["result"]
    assert result["serverInfo"]["name"] == server
    assert result["capabilities"] == {"tools": {}}
    assert tools.keys() == {"tools"}
    assert len(tools["tools"]) >= 2
    assert pipes.process.returncode == 0


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2020-01-01", "2025-11-25"),
    ],
)
def test_a_handshake_settles_on_the_wanted_version_or_the_newest(running, wanted, given):
    pipes = running("calendar")
    assert pipes.ask("initialize", initialize(wanted))["result"]["protocolVersion"] == given


def test_a_call_is_answered_with_structure_and_text(running):
    pipes = running("calculator")
    result = pipes.call("evaluate", expression="6 * 7")
    assert result == {"content": [{"type": "text", "text": '{"value": 42}'}], "structuredContent": {"value": 42}}


def test_a_server_keeps_its_state_between_calls():
    with Pipes("notes") as pipes:
        pipes.call("add_note", title="Launch", text="Ship on Friday — früh")
        found = pipes.call("search", query="FRÜH")["structuredContent"]["notes"]
    assert [note["title"] for note in found] == ["Launch"]


def test_a_database_query_runs_although_tools_have_their_own_thread():
    with Pipes("database") as pipes:
        assert pipes.call("query", sql="SELECT count(*) FROM missions")["structuredContent"]["rows"] == [[8]]


def test_bad_input_is_a_result_and_not_a_protocol_error(running):
    pipes = running("calculator")
    result = pipes.call("evaluate", expression="1 / 0")
    assert result == {"content": [{"type": "text", "text": "Division by zero"}], "isError": True}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "nothing"}, -32602),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "now", "arguments": []}, -32602),
        ("tools/call", {"name": "now", "_meta": 1}, -32602),
        ("tools/list", {"cursor": "x"}, -32602),
        ("tools/list", [], -32602),
        ("initialize", {}, -32602),
        ("resources/list", {}, -32601),
        ("subscriptions/listen", {"_meta": ENVELOPE}, -32601),
        ("ping", {"_meta": ENVELOPE}, -32601),
        ("initialize", {"_meta": ENVELOPE}, -32601),
    ],
)
def test_a_request_that_cannot_be_answered_gets_the_protocols_error(running, method, params, code):
    pipes = running("calendar")
    answer = pipes.ask(method, params, "seven")
    assert (answer["id"], answer["error"]["code"]) == ("seven", code)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"id": NaN}', -32700),
        (b"[" * 100_000, -32600),
        (b'{"params": ' + b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_bad_line_gets_an_error_and_the_next_one_is_read(running, line, code):
    pipes = running("text")
    pipes.write(line)
    answer = pipes.read()
    assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert pipes.ask("ping", request_id=8) == {"jsonrpc": "2.0", "id": 8, "result": {}}


def test_a_line_over_the_limit_is_refused_and_ends_the_server():
    with Pipes("text") as pipes:
        pipes.write(b" " * (DEFAULTS.message_bytes + 1))
        answer = pipes.read()
        assert pipes.process.wait(timeout=20) == 0
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert "larger than" in answer["error"]["message"]


def test_notifications_and_answers_are_not_answered(running):
    pipes = running("text")
    pipes.send(method="notifications/whatever")
    pipes.send(method="notifications/cancelled", params={"requestId": 99})
    pipes.send(method="notifications/cancelled", params=[])
    pipes.send(id=5, result={})
    assert pipes.ask("ping", request_id=9)["id"] == 9


def test_progress_comes_before_the_answer_and_only_with_a_token(running):
    params = {"name": "count_primes", "arguments": {"limit": 600_000}}
    pipes = running("calculator")
    assert "result" in pipes.ask("tools/call", params)
    first = pipes.ask("tools/call", {**params, "_meta": {"progressToken": "p"}})
    messages = [first]
    while "result" not in messages[-1]:
        messages.append(pipes.read())
    assert [message["params"]["progress"] for message in messages[:-1]] == [250_001, 500_001, 600_000]
    assert {message["params"]["progressToken"] for message in messages[:-1]} == {"p"}


def test_a_cancelled_call_ends_early_without_an_answer_and_the_server_goes_on(running):
    params = {"name": "count_primes", "arguments": {"limit": 50_000_000}, "_meta": {"progressToken": 1}}
    pipes = running("calculator")
    first = pipes.ask("tools/call", params, request_id="long")
    pipes.send(method="notifications/cancelled", params={"requestId": "long"})
    pipes.send(id="next", method="tools/call", params={"name": "evaluate", "arguments": {"expression": "1"}})
    messages = [first]
    while "id" not in messages[-1]:
        messages.append(pipes.read())
    assert messages[-1]["id"] == "next"
    assert all(message["params"]["progress"] < 50_000_000 for message in messages[:-1])


@contextmanager
def serving(**functions: Callable[[], str]) -> Iterator[tuple[Callable[..., None], IO[bytes]]]:
    """A server with these tools: how to send it a message, and what it writes. Leaving the block ends its input."""
    server = Server("test", "Test", "")
    for name, run in functions.items():
        run.__name__ = name
        server.tool(name, {})(run)
    (source, sent), (received, sink) = os.pipe(), os.pipe()
    thread = Thread(target=lambda: asyncio.run(server.serve(source, sink)))
    thread.start()
    with os.fdopen(received, "rb") as written:
        with os.fdopen(sent, "wb", buffering=0) as script:
            yield lambda **message: script.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"), written
        assert written.read() == b""
    thread.join(20)
    assert not thread.is_alive()


def test_a_call_that_is_cancelled_while_it_waits_is_never_made():
    made: list[str] = []
    may_end = Event()

    def hold() -> str:
        assert may_end.wait(20)
        return "held"

    def change() -> str:
        made.append("change")
        return "changed"

    with serving(hold=hold, change=change) as (send, written):
        send(id=1, method="tools/call", params={"name": "hold"})
        send(id=2, method="tools/call", params={"name": "change"})
        send(method="notifications/cancelled", params={"requestId": 2})
        send(id=3, method="ping")
        assert json.loads(written.readline())["id"] == 3
        may_end.set()
        assert json.loads(written.readline())["id"] == 1
    assert made == []


def test_a_bug_in_a_tool_is_an_internal_error_and_the_next_call_works(capfd):
    def broken() -> str:
        raise KeyError("a bug")

    with serving(broken=broken, fine=lambda: "fine") as (send, written):
        send(id=1, method="tools/call", params={"name": "broken"})
        assert json.loads(written.readline())["error"] == {"code": -32603, "message": "Internal error"}
        send(id=2, method="tools/call", params={"name": "fine"})
        assert json.loads(written.readline())["result"]["content"][0]["text"] == "fine"
    assert "a bug" in capfd.readouterr().err


def test_a_ping_is_answered_while_a_tool_runs():
    params = {"name": "count_primes", "arguments": {"limit": 50_000_000}, "_meta": {"progressToken": 1}}
    with Pipes("calculator") as pipes:
        pipes.ask("tools/call", params, request_id="long")
        pipes.send(id="ping", method="ping")
        messages = [pipes.read()]
        while "id" not in messages[-1]:
            messages.append(pipes.read())
    assert messages[-1]["id"] == "ping"


@pytest.mark.parametrize("server", HANDSHAKE_ONLY)
def test_a_handshake_server_does_not_know_discovery(server):
    with Pipes(server) as pipes:
        assert pipes.ask("server/discover", {"_meta": ENVELOPE})["error"]["code"] == -32601
        assert "result" in pipes.ask("initialize", initialize("2025-11-25"))


@pytest.mark.parametrize("server", BOTH_ERAS)
def test_a_modern_server_answers_each_request_in_the_era_of_its_envelope(server):
    with Pipes(server) as pipes:
        discovered = pipes.ask("server/discover", {"_meta": ENVELOPE})["result"]
        modern = pipes.ask("tools/list", {"_meta": ENVELOPE})["result"]
        handshake = pipes.ask("tools/list")["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == server
    for result in (discovered, modern):
        assert (result["resultType"], result["cacheScope"], result["ttlMs"] > 0) == ("complete", "public", True)
    assert handshake == {"tools": modern["tools"]}


def test_a_modern_call_has_a_result_type(running):
    pipes = running("calculator")
    params = {"name": "evaluate", "arguments": {"expression": "1"}, "_meta": ENVELOPE}
    result = pipes.ask("tools/call", params)["result"]
    assert (result["resultType"], result["structuredContent"]) == ("complete", {"value": 1})


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, -32602),
        ({**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}, -32022),
    ],
)
def test_an_envelope_that_does_not_fit_is_refused(running, meta, code):
    pipes = running("calendar")
    error = pipes.ask("server/discover", {"_meta": meta})["error"]
    assert error["code"] == code
    if code == -32022:
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2030-01-01"}


def test_what_was_asked_before_the_input_ended_is_answered():
    with Pipes("calculator") as pipes:
        pipes.send(id=1, method="tools/call", params={"name": "count_primes", "arguments": {"limit": 1_000_000}})
        pipes.close_input()
        assert pipes.read()["result"]["structuredContent"]["count"] == 78_498


@pytest.mark.parametrize("how", ["interrupt", "hang up"])
def test_a_server_leaves_quietly_when_it_is_interrupted_or_nobody_reads(how):
    with Pipes("text") as pipes:
        pipes.ask("ping")
        if how == "interrupt":
            pipes.process.send_signal(signal.SIGINT)
        else:
            assert pipes.process.stdout is not None
            pipes.process.stdout.close()
            pipes.send(id=2, method="ping")
        assert pipes.process.wait(timeout=20) == 0
        assert pipes.process.stderr is not None
        assert pipes.process.stderr.read() == b""


# -- with the official client, in both of its modes

OFFICIAL = {
    "notes": ("2025-11-25", "add_note", {"title": "a", "text": "b"}),
    "text": ("2025-11-25", "slugify", {"text": "Hello, World"}),
    "calculator": ("2026-07-28", "evaluate", {"expression": "6 * 7"}),
    "calendar": ("2026-07-28", "weekday", {"date": "2026-07-28"}),
    "database": ("2025-11-25", "query", {"sql": "SELECT 1"}),
}


def connect(server: str, mode: str) -> Client:
    module = f"mcp_workbench.demo.servers.{server}"
    parameters = StdioServerParameters(command=sys.executable, args=["-m", module], env={"PYTHONPATH": SOURCES})
    return Client(parameters, mode=mode)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("server", OFFICIAL)
async def test_the_official_client_connects_lists_and_calls(server, mode):
    version, tool, arguments = OFFICIAL[server]
    async with connect(server, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else version)
        assert client.instructions
        listed = await client.list_tools()
        assert tool in [entry.name for entry in listed.tools]
        result = await client.call_tool(tool, arguments)
        assert not result.is_error
        assert result.structured_content


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_sees_progress_bad_input_and_unknown_tools(mode):
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    async with connect("calculator", mode) as client:
        await client.call_tool("count_primes", {"limit": 600_000}, progress_callback=note)
        refused = await client.call_tool("evaluate", {"expression": "1 / 0"})
        assert refused.is_error
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})
    assert seen[-1] == (600_000, 600_000, "49098 primes up to 600000")
