"""Large bodies: they reach a server whole, and the SDK sees no more of them than it needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_workbench import Limits
from mcp_workbench.serve.http.bodies import Glance, glance, outline
from tests.serve.http.serving import Handshake, modern, modern_headers, post_modern, rpc, served
from tests.support.configs import received, rogue, write_config

SMALL = Limits(http_whole_bytes=100)
FILLER = "x" * 200


def outlined(message: object) -> object:
    return json.loads(outline(json.dumps(message).encode(), SMALL))


def test_a_short_body_is_shown_as_it_is():
    assert outline(b'{"a": 1.00}', SMALL) == b'{"a": 1.00}'


def test_of_a_long_request_what_names_it_is_shown():
    arguments = {"region": "north", "text": FILLER}
    meta = {"k": "v"}
    message = rpc(
        "tools/call", {"name": "say", "arguments": arguments, "_meta": meta, "inputResponses": {"q": FILLER}}, "i"
    )
    params = {"name": "say", "_meta": meta}
    assert outlined(message) == {"jsonrpc": "2.0", "id": "i", "method": "tools/call", "params": params}


@pytest.mark.parametrize("kind", ["result", "error"])
def test_of_a_long_answer_only_its_kind_is_shown(kind: str):
    shown = outlined({"jsonrpc": "2.0", "id": 7, kind: {"text": FILLER, "code": 5, "message": FILLER}})
    assert shown == {"jsonrpc": "2.0", "id": 7, kind: {} if kind == "result" else {"code": 0, "message": ""}}


NO_MESSAGES = {
    b"[" + b"[]," * 200 + b"0]": b"[]",
    b'"' + b"x" * 200 + b'"': b"[]",
    b"{" * 200: b"{",
    b"[" * 200_000: b"[]",
}


@pytest.mark.parametrize("body", NO_MESSAGES, ids=["array", "text", "broken", "deep"])
def test_what_is_long_and_no_message_is_none_still(body: bytes):
    assert outline(body, SMALL) == NO_MESSAGES[body]


@pytest.mark.parametrize("params", [b'"text"', b"7", b"[1]"])
def test_long_params_that_are_no_object_are_none_still(params: bytes):
    body = b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + params + b" " * 200 + b"}"
    assert json.loads(outline(body, SMALL))["params"] == []


def test_a_glance_tells_what_a_body_is_about():
    assert glance(json.dumps(modern("tools/list", {}, 7)).encode()) == Glance("tools/list", 7, is_modern=True)
    assert glance(json.dumps(modern("initialize", {}, 7)).encode()) == Glance("initialize", 7)
    for nothing in (b"", b"[]", b"7", b"{", b'{"id":{}}', b'{"method":7}', b"\xff"):
        assert glance(nothing) == Glance()


@pytest.mark.parametrize("path", ["/mcp/dev", "/mcp/dev/fs"])
async def test_a_large_call_reaches_its_server_whole(tmp_path: Path, path: str):
    log = tmp_path / "log"
    arguments = {"nonce": "n" * 1_000_000, "list": [{"a": [number]} for number in range(20_000)]}
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as running, running.client() as http:
        answer = await post_modern(http, modern("tools/call", {"name": "nonce", "arguments": arguments}), path)
        assert answer.json()["result"]["content"][0]["text"] == arguments["nonce"]
        client = await Handshake.begin(http, path)
        answered = await client.call({"name": "nonce", "arguments": arguments})
        assert answered["content"][0]["text"] == arguments["nonce"]
    assert [call["params"]["arguments"] for call in received(log, "tools/call")] == [arguments, arguments]


@pytest.mark.parametrize("filler", ["[],", "{},", '"a",'])
async def test_a_large_body_of_many_parts_is_answered_soon(tmp_path: Path, filler: str):
    """The SDK alone makes objects of everything, and nothing else happens for up to a second."""
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        message = modern("tools/call", {"name": "use_tool", "arguments": {"tool": {}, "arguments": "FILLER"}})
        body = json.dumps(message).replace('"FILLER"', "[" + filler * (3_500_000 // len(filler)) + "0]")
        headers = modern_headers(message) | {"content-type": "application/json"}
        answer = await http.post("/mcp", content=body, headers=headers)
        assert answer.json()["result"]["isError"] is True
