"""Large bodies reach a server whole, and take no longer than their size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.serve.http.serving import Handshake, modern, modern_headers, post_modern, served
from tests.support.configs import received, rogue, write_config


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
    """It is never decoded into objects, which would block the event loop for up to a second."""
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        message = modern("tools/call", {"name": "use_tool", "arguments": {"tool": {}, "arguments": "FILLER"}})
        body = json.dumps(message).replace('"FILLER"', "[" + filler * (3_500_000 // len(filler)) + "0]")
        headers = modern_headers(message) | {"content-type": "application/json"}
        answer = await http.post("/mcp", content=body, headers=headers)
        assert answer.json()["result"]["isError"] is True
