"""INVARIANT: whatever bytes a client sends, each request under a usable id has one answer, and the next is served.

What has the wrong shape, or names a toolbox or a server that does not exist, contacts no server.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.fuzz.clock import run
from tests.fuzz.corpus import pack
from tests.fuzz.puppets import SMALL, Host, Puppet, bench, chunks, hosted, settle
from tests.fuzz.server_wire import plain
from tests.fuzz.server_words import INITIALIZE, META, VIEWS

ENVELOPE = {key: META[key] for key in META if key.endswith(("protocolVersion", "clientCapabilities"))}
USE = {"name": "use_tool", "arguments": {"tool": {"toolbox": "dev", "server": "a", "tool": "t"}, "arguments": {}}}
NATIVE = {"name": "t", "arguments": {}}
OURS = ("first", "greeting", "good", "good too")
TOO_LARGE = ("the client's input can't be read",)


def check(case: dict[str, Any]) -> dict[str, Any]:
    """`stream` are the bytes, in pieces that `cuts` make, after what an honest client of the era `begins` with.

    With `contacts` the servers are contacted so often before the good request that follows. What was answered.
    """
    return run(_scene(case), errors=TOO_LARGE)


async def _scene(case: dict[str, Any]) -> dict[str, Any]:
    puppet = Puppet("a", modern=case.get("server") == "modern")
    view = case.get("view", "proxy")
    stream = pack(case["stream"])
    mode = "dynamic" if view == "dynamic" else "proxy"
    async with bench({"dev": {"a": puppet}}, tool_mode=mode) as workbench:
        async with hosted(workbench, VIEWS[view]) as host:
            begins = case.get("begins", "")
            if begins == "handshake":
                await host.ask("first", "initialize", INITIALIZE)
            elif begins == "modern":
                await host.ask("first", "server/discover", {"_meta": ENVELOPE})
            for chunk in chunks(stream, case.get("cuts", [])):
                host.say(chunk)
                await host.said()
                await settle(3)
            host.say(b"\n")
            if (contacts := case.get("contacts")) is not None:
                await settle()
                assert puppet.starts == contacts
            is_over = any(len(line) > SMALL.message_bytes for line in stream.split(b"\n"))
            if not is_over:
                await _be_served(host, begins, USE if view in ("proxy", "dynamic") else NATIVE)
                assert puppet.starts == 1 or contacts is None
        _check_answers(host, stream)
        return {"answers": [answer_of(one) for one in host.messages if "method" not in one and one["id"] not in OURS]}


def answer_of(message: dict[str, Any]) -> list[Any]:
    """The id of an answer, and the code of its error, if it is one."""
    result = message.get("result", {})
    code = result.get("_meta", {}).get("mcp-workbench/error", {}).get("code", "result")
    return [message["id"], message["error"]["code"] if "error" in message else code]


async def _be_served(host: Host, begins: str, good: dict[str, Any]) -> None:
    """The good request: in the era that was begun, or in the one that the first request chose."""
    if not begins:
        await host.ask("greeting", "initialize", INITIALIZE)
    answers: list[dict[str, Any]] = []
    if begins != "modern":
        answers.append(await host.ask("good", "tools/call", good))
    if begins != "handshake":
        answers.append(await host.ask("good too", "tools/call", {**good, "_meta": ENVELOPE}))
    results = [answer["result"] for answer in answers if "result" in answer]
    assert any(result.get("content") == [{"type": "text", "text": "a"}] for result in results), answers


def _check_answers(host: Host, stream: bytes) -> None:
    lines = [line for line in stream.split(b"\n") if line.strip()]
    asked: Counter[str] = Counter()
    unsure: list[bytes] = []
    for line in lines:
        message = plain(line)
        if message is not None and "method" in message:
            asked[json.dumps(message["id"])] += 1
        else:
            unsure.append(line)
    ours = set(map(json.dumps, OURS))
    answers = [message for message in host.messages if "method" not in message]
    answered = Counter(json.dumps(message["id"]) for message in answers)
    assert sum(answered[id_] for id_ in answered if id_ not in ours) <= len(lines) + 1
    if b"cancelled" in stream or any(len(line) > SMALL.message_bytes for line in lines):
        return
    for id_, times in asked.items():
        text = id_.strip('"').encode()
        assert times <= answered[id_] <= times + sum(text in line for line in unsure) + (id_ in ours), id_
