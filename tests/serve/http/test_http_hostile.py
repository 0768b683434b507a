"""Clients over HTTP that look for a way around: in heads, in bodies, in what two readers see differently."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import Limits, logger
from mcp_workbench.serve.endpoint import ClientEndpoint
from mcp_workbench.serve.http.address import Address
from mcp_workbench.serve.http.guard import Guard
from mcp_workbench.serve.http.request import RequestHead, RequestRefused
from tests.serve.http.serving import (
    ALICE,
    BOTH,
    TOKENS,
    Handshake,
    answer_in,
    greeting,
    modern,
    modern_headers,
    post_modern,
    raw_exchange,
    rpc,
    served,
)
from tests.support.configs import LAUNCH, Server, received, rogue, starts, write_config
from tests.support.procs import wait_until
from tests.support.wire import Json

RAW_ECHO = LAUNCH.with_name("raw_echo.py")
LONG = "x" * 100_000
"""So long that the SDK is not shown all of a body."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def config(tmp_path: Path, log: Path) -> Path:
    return write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})


def head(*lines: str, host: str, path: str = "/mcp") -> bytes:
    own = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {ALICE}", f"Accept: {BOTH}"]
    return "\r\n".join([*own, "Content-Type: application/json", *lines]).encode() + b"\r\n\r\n"


# -- who asks

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get")
PATHS = ("/mcp", "/mcp/", "/mcp/dev", "/mcp/dev/fs", "/", "//healthz", "/healthz/x", "/mcp/..", "/nothing", "*")


@pytest.mark.row("E9")
@pytest.mark.parametrize("method", METHODS)
async def test_without_a_token_every_method_on_every_path_says_the_same(config: Path, log: Path, method: str):
    async with served(config) as running:
        heads, bodies = set[bytes](), set[bytes]()
        for path in PATHS:
            request = f"{method} {path} HTTP/1.1\r\nHost: localhost:{running.port}\r\n\r\n".encode()
            answer = await raw_exchange(running.port, request)
            assert answer.startswith(b"HTTP/1.1 401 "), (path, answer)
            heads.add(answer.partition(b"\r\n\r\n")[0])
            bodies.add(answer.partition(b"\r\n\r\n")[2])
        assert (len(heads), len(bodies)) == (1, 1)
    assert starts(log) == []


# -- where a request is for, and where it comes from


@pytest.mark.row("E10")
@pytest.mark.parametrize("port", ["8" * 5000, "0{port}", "{port}0", "+{port}", " {port}"])
async def test_a_port_that_is_not_written_as_ports_are_is_another_one(config: Path, log: Path, port: str):
    async with served(config) as running:
        given = port.format(port=running.port)
        request = head("Content-Length: 0", host=f"localhost:{given}")
        assert (await raw_exchange(running.port, request)).startswith(b"HTTP/1.1 421 ")
        request = head("Content-Length: 0", f"Origin: http://localhost:{given}", host=f"localhost:{running.port}")
        assert (await raw_exchange(running.port, request)).startswith(b"HTTP/1.1 403 ")
    assert starts(log) == []


def status_of(guard: Guard, **headers: str) -> int:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        guard.check_place(RequestHead({"method": "GET", "headers": pairs}))
    except RequestRefused as refused:
        return refused.status
    return 200


@pytest.mark.row("E10")
@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])  # noqa: S104 -- what it is about
def test_a_page_from_some_other_address_is_foreign_though_all_addresses_are_served(everywhere: str):
    guard = Guard(Address(everywhere, 8300), TOKENS)
    for host in ("127.0.0.1:8300", "192.168.1.5:8300", "[fe80::1]:8300"):
        assert status_of(guard, host=host, origin=f"http://{host}") == 200
        assert status_of(guard, host=host, origin="http://203.0.113.66:8300") == 403
        assert status_of(guard, host=host, origin="http://[2001:db8::66]:8300") == 403


@pytest.mark.row("E11")
@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
async def test_a_body_with_a_length_and_in_chunks_is_refused_before_somebody_reads_it_differently(
    config: Path, path: str
):
    """Whoever stands in front of us may go by the length, and take the rest for the next request."""
    async with served(config) as running:
        hidden = f"GET /healthz HTTP/1.1\r\nHost: localhost:{running.port}\r\n\r\n".encode()
        body = json.dumps(greeting()).encode()
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) + hidden
        lines = ("Transfer-Encoding: chunked", f"Content-Length: {len(chunked)}")
        answer = await raw_exchange(running.port, head(*lines, host=f"localhost:{running.port}", path=path) + chunked)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.row("E11")
@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("framing", ["Transfer-Encoding: chunked", "Content-Length: 1000000000"])
async def test_a_body_that_nobody_reads_is_not_waited_for(config: Path, path: str, method: str, framing: str):
    """Chunks of one byte each cost much to take apart, and no token is asked for to be healthy."""
    async with served(config, limits=Limits(http_ending_seconds=0.2)) as running:
        lines = head(framing, host=f"localhost:{running.port}", path=path).replace(b"POST", method.encode(), 1)
        answer = await raw_exchange(running.port, lines + b"1\r\na\r\n" * 1000, 5)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close" in answer.lower()


async def test_a_body_of_nothing_is_none(config: Path):
    async with served(config) as running:
        request = head("Content-Length: 0", "Connection: close", host=f"localhost:{running.port}", path="/healthz")
        answer = await raw_exchange(running.port, request.replace(b"POST", b"GET", 1), 5)
        assert answer.startswith(b"HTTP/1.1 200 ")


# -- ids

NO_IDS = {
    "half a number": "1.5",
    "a number with a point": "7.0",
    "an exponent": "7e0",
    "true": "true",
    "null": "null",
    "an object": "{}",
    "a list": "[7]",
}


@pytest.mark.parametrize("size", ["short", "long"])
@pytest.mark.parametrize("case", NO_IDS)
async def test_a_request_whose_id_is_none_is_refused_and_not_taken_for_a_notification(
    config: Path, log: Path, case: str, size: str
):
    async with served(config) as running, running.client(**{"content-type": "application/json"}) as http:
        client = await Handshake.begin(http)
        filler = LONG if size == "long" else ""
        call = json.dumps({"name": "use_tool", "arguments": {"filler": filler}})
        body = f'{{"jsonrpc":"2.0","id":{NO_IDS[case]},"method":"tools/call","params":{call}}}'
        refused = await http.post("/mcp", content=body, headers=client.headers)
        assert refused.status_code == 400
        assert "error" in refused.json()
        assert "result" in await client.request("tools/list")
    assert starts(log) == []


async def test_what_only_the_sdk_takes_for_json_does_not_take_the_place_of_a_request(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config) as running, running.client(**{"content-type": "application/json"}) as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        async with client.stream(rpc("tools/call", {"name": "hang"}, 7)) as stream:
            await wait_until(lambda: received(log, "tools/call"), what="the call")
            for number in ("NaN", "Infinity", "-Infinity"):
                body = f'{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"n":{number}}}}}'
                refused = await http.post("/mcp/dev/fs", content=body, headers=client.headers)
                assert refused.status_code == 400
                assert refused.json()["error"]["code"] == -32700
            await client.call({"name": "echo"})
            assert (await stream.next())["result"]["content"][0]["text"] == "late"


# -- arguments that are headers too


def mirroring(folder: Path, schema: Json) -> Server:
    """A server whose tool `say` has this schema."""
    line = next(line for line in RAW_ECHO.read_text().splitlines() if line.startswith("SCHEMA = "))
    program = folder / "mirroring.py"
    program.write_text(RAW_ECHO.read_text().replace(line, f"SCHEMA = {schema!r}"))
    return {"command": sys.executable, "args": [str(program)]}


REGION = {"type": "string", "x-mcp-header": "Region"}
FLAT = {"type": "object", "properties": {"region": REGION}}
NESTED = {"type": "object", "properties": {"where": {"type": "object", "properties": {"region": REGION}}}}
MANY = {f"a{number}": number for number in range(2000)}

SHOWN: dict[str, tuple[Json, Json]] = {
    "after many others": (FLAT, {"filler": LONG, **MANY, "region": "north"}),
    "after something long": (FLAT, {"filler": LONG, "region": "north"}),
    "deeper": (NESTED, {"where": {"region": "north"}}),
    "deeper, after many others": (NESTED, {**MANY, "filler": LONG, "where": {**MANY, "region": "north"}}),
    "deeper, beside something long": (NESTED, {"where": {"filler": LONG, "region": "north"}}),
}


@pytest.mark.row("E12")
@pytest.mark.parametrize("case", SHOWN)
async def test_an_argument_is_compared_with_its_header_wherever_it_stands(tmp_path: Path, case: str):
    schema, arguments = SHOWN[case]
    config = write_config(tmp_path, {"dev": {"fs": mirroring(tmp_path, schema)}})
    async with served(config) as running, running.client() as http:
        assert "x-mcp-header" in (await post_modern(http, modern("tools/list"), "/mcp/dev/fs")).text
        message = modern("tools/call", {"name": "say", "arguments": arguments})
        for given, status in (({"mcp-param-region": "north"}, 200), ({"mcp-param-region": "south"}, 400), ({}, 400)):
            answer = await post_modern(http, message, "/mcp/dev/fs", given)
            assert answer.status_code == status, answer.text[:300]
            assert status == 200 or answer.json()["error"]["code"] == -32020


ODD: dict[str, tuple[str, str, int]] = {
    "null is absent": ("null", "", 200),
    "null is not a text": ("null", "null", 400),
    "an object is no header": ('{"region":1}', "x", 400),
    "a list is no header": ('["north"]', "north", 400),
    "a number as its text": ("7", "7", 200),
    "a number of many digits": ("9" * 5000, "9", 400),
    "the last of two": ('"south","region":"north"', "north", 200),
    "the first of two": ('"south","region":"north"', "south", 400),
    "half a character": ('"\\ud800"', "x", 400),
    "escapes": ('"\\u006eorth"', "north", 200),
}


@pytest.mark.row("E12")
@pytest.mark.parametrize("size", ["short", "long"])
@pytest.mark.parametrize("case", ODD)
async def test_an_argument_of_any_kind_is_compared_the_same_in_a_long_body(tmp_path: Path, case: str, size: str):
    value, header, status = ODD[case]
    config = write_config(tmp_path, {"dev": {"fs": mirroring(tmp_path, FLAT)}})
    async with served(config) as running, running.client(**{"content-type": "application/json"}) as http:
        await post_modern(http, modern("tools/list"), "/mcp/dev/fs")
        arguments = {"filler": LONG if size == "long" else "", "region": "VALUE"}
        message = modern("tools/call", {"name": "say", "arguments": arguments})
        body = json.dumps(message).replace('"VALUE"', value)
        headers = modern_headers(message) | ({"mcp-param-region": header} if header else {})
        answer = await http.post("/mcp/dev/fs", content=body, headers=headers)
        assert answer.status_code == status, answer.text[:300]


# -- what goes wrong inside


async def test_a_defect_of_ours_is_one_line_in_the_log_and_an_answer_that_tells_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def answer(*_: object) -> Any:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(ClientEndpoint, "request", answer)
    monkeypatch.setattr(logger.log, "_rank", logger.LEVELS.index("error"))
    async with served(config) as running, running.client() as http:
        answered = await post_modern(http, modern("tools/list"))
        handshake = await http.post("/mcp", json=greeting())
        for answer in (answered, handshake):
            assert answer_in(answer)["error"] == {"code": -32603, "message": "Internal error"}
    said = capfd.readouterr().err.splitlines()
    assert len([line for line in said if "ZeroDivisionError('a defect')" in line]) == 2
    assert not [line for line in said if "Traceback" in line]
