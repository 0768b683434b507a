"""Wire transcripts of `serve --http`: raw requests of both eras, and what is recorded of their responses.

`python -m tests.serve.http.transcripts` records them again. Do that only for a change that clients are meant to notice.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_workbench import Limits
from tests.serve.http.serving import (
    ALICE,
    BOTH,
    META,
    Served,
    events,
    greeting,
    modern,
    modern_headers,
    rpc,
    served,
    use,
)
from tests.support.configs import rogue, write_config
from tests.support.wire import HANDSHAKE_VERSION, Json

FILE = Path(__file__).with_name("transcripts.json")
SESSION = "mcp-session-id"
JSON = {"content-type": "application/json"}
_DROPPED = {"host", "content-length", "user-agent", "accept-encoding", "connection", "authorization"}
_WORDS = {"description", "instructions", "message", "inputSchema"}
_VOLATILE = re.compile(r"(pid\W+|progressToken\W+)\d+")


def step(method: str = "POST", body: Any = None, *, path: str = "/mcp", bare: bool = False, **headers: str) -> Json:
    """One request. A `str` body is sent as it is; without `bare` it has the usual headers."""
    usual = {"accept": BOTH, **(JSON if body is not None else {})}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    return {"method": method, "path": path, "headers": given if bare else usual | given, "body": text}


def _in_session(*steps: Json, version: str = HANDSHAKE_VERSION) -> list[Json]:
    headers = {SESSION: "SESSION", "mcp-protocol-version": version}
    return [{**one, "headers": headers | one["headers"]} for one in steps]


def _modern(message: Json, **more: Any) -> Json:
    headers = {name.replace("-", "_"): value for name, value in modern_headers(message).items()}
    return step(body=message, **{**headers, **more})


_NO_MESSAGES = [
    "",
    "{",
    "[]",
    "7",
    '"x"',
    "null",
    "{}",
    "\xff{",
    '{"jsonrpc":"2.0"}',
    '{"jsonrpc":"1.0","id":1,"method":"x"}',
]
_ODD = [
    '{"jsonrpc":"2.0","id":null,"method":"ping"}',
    '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    '{"jsonrpc":"2.0","id":true,"method":"ping"}',
    '{"jsonrpc":"2.0","id":8,"method":7}',
    '{"jsonrpc":"2.0","id":9,"method":"ping","params":[]}',
    '{"jsonrpc":"2.0","id":10,"method":"ping","params":{"n":NaN}}',
    '{"jsonrpc":"2.0","id":11,"result":{},"error":{"code":1,"message":"x"}}',
    '{"jsonrpc":"2.0","id":12,"result":{}}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
    '{"jsonrpc":"2.0","id":13,"method":"tools/list","params":{"x":' + "[" * 20_000 + "]" * 20_000 + "}}",
    '{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"name":"use_tool","arguments":{"x":"\\ud800"}}}',
]

HANDSHAKE: list[Json] = [
    step("GET"),
    step("DELETE"),
    step("PUT"),
    step("OPTIONS"),
    *(step(body=body) for body in _NO_MESSAGES),
    step(body=rpc("tools/list")),
    step(body=greeting(), accept="application/json"),
    step(body=greeting(), accept="text/event-stream"),
    step(body=greeting(), content_type="text/plain"),
    step(body=json.dumps(greeting()), bare=True, accept=BOTH),
    step(body=rpc("initialize", {})),
    step(body=greeting(version="2025-03-26")),
    step(body=greeting()),
    *_in_session(
        step(body={"jsonrpc": "2.0", "method": "notifications/initialized"}),
        step(body=rpc("ping", {}, "a")),
        step(body=rpc("tools/list", {}, 2)),
        step(body=rpc("tools/call", use("nonce", {"nonce": "7"}), 3)),
        step(body=rpc("tools/call", {**use("echo"), "_meta": {"progressToken": "mine"}}, 4)),
        step(body=rpc("tools/call", use("missing"), 5)),
        step(body=rpc("nothing/there", {}, 6)),
        step(body=rpc("server/discover", {}, 7)),
        step(body=greeting()),
        *(step(body=body) for body in [*_NO_MESSAGES, *_ODD]),
        step(body=rpc("ping", {}, 20), accept="*/*"),
        step(body=rpc("ping", {}, 21), accept="application/*, text/*;q=0.1"),
        step(body=rpc("ping", {}, 22), accept="application/json"),
        step(body=rpc("ping", {}, 23), accept="text/html"),
        step(body=rpc("ping", {}, 24), content_type="application/json; charset=utf-8"),
        step(body=rpc("ping", {}, 25), content_type="application/jsonp"),
        step(body=rpc("ping", {}, 26), content_type="text/plain"),
        step(body=[rpc("ping", {}, 27), rpc("tools/list", {}, 28)]),
        step("GET", last_event_id="1", accept="application/json"),
        step("GET", last_event_id="999999"),
        step("GET", last_event_id="x"),
        step("PUT"),
    ),
    *_in_session(step(body=rpc("ping", {}, 30)), version="2025-06-18"),
    *_in_session(step(body=rpc("ping", {}, 31)), version="2024-10-07"),
    step(body=rpc("ping", {}, 32), mcp_session_id="SESSION"),
    step(body=rpc("ping", {}, 33), mcp_session_id="0" * 64),
    *_in_session(step("DELETE"), step("DELETE"), step(body=rpc("ping", {}, 34)), step("GET")),
    *(step(path=path, body=greeting()) for path in ("/", "/mcp/", "/mcp/no", "/mcp/dev/no", "/mcp/dev/fs/x", "/x")),
]
_LIST, _CALL = modern("tools/list"), modern("tools/call", use("nonce", {"nonce": "7"}))
_FUTURE = modern("tools/list", {"_meta": {META + "protocolVersion": "2099-01-01"}})
MODERN: list[Json] = [
    _modern(modern("server/discover")),
    _modern(_LIST),
    _modern(_CALL),
    _modern(modern("tools/call", {**use("echo"), "_meta": {"progressToken": "mine"}}, "p")),
    _modern(modern("tools/call", use("missing"))),
    _modern(modern("initialize")),
    _modern(modern("ping")),
    _modern(modern("nothing/there")),
    _modern(modern("subscriptions/listen", {"notifications": 7})),
    _modern(modern("tools/call", {**use("echo"), "requestState": "mcp-workbench.x"})),
    _modern(_LIST, accept="application/json"),
    _modern(_LIST, accept="text/event-stream"),
    _modern(_LIST, content_type="text/plain"),
    _modern(_LIST, mcp_method="tools/call"),
    _modern(_CALL, mcp_name="other"),
    _modern(_CALL, mcp_name="=?base64?dXNlX3Rvb2w=?="),
    _modern(_CALL, mcp_name="=?base64?dXNlX3Rvb2x=?="),
    _modern(_CALL, mcp_name="=?base64?%%?="),
    _modern(_LIST, mcp_protocol_version="2025-11-25"),
    _modern(_FUTURE, mcp_protocol_version="2099-01-01"),
    _modern(_FUTURE),
    step("GET", mcp_protocol_version="2026-07-28"),
    step("DELETE", mcp_protocol_version="2026-07-28"),
    step(body=_LIST),
    step(body=rpc("tools/list"), mcp_protocol_version="2026-07-28", mcp_method="tools/list"),
    step(body=rpc("tools/list", {"_meta": 7}), mcp_protocol_version="2026-07-28", mcp_method="tools/list"),
    step(
        body=rpc("tools/list", {"_meta": {META + "protocolVersion": "2026-07-28"}}),
        mcp_protocol_version="2026-07-28",
        mcp_method="tools/list",
    ),
    step(body={"jsonrpc": "2.0", "method": "notifications/cancelled"}, mcp_protocol_version="2026-07-28"),
    step(body={"jsonrpc": "2.0", "method": "notifications/cancelled"}, mcp_protocol_version="2099-01-01"),
    step(body={"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_protocol_version="2026-07-28"),
    step(body=[_LIST], mcp_protocol_version="2026-07-28"),
    *(step(body=body, mcp_protocol_version="2026-07-28") for body in [*_NO_MESSAGES, *_ODD]),
]


async def play(running: Served, steps: list[Json]) -> list[Json]:
    """Send each request, and what is recorded of its response."""
    recorded: list[Json] = []
    session = ""
    async with httpx2.AsyncClient(base_url=running.url, timeout=20) as http:
        for one in steps:
            headers = {"authorization": f"Bearer {ALICE}"} | one["headers"]
            if headers.get(SESSION) == "SESSION":
                headers[SESSION] = session
            body = one["body"]
            content = None if body is None else body.encode("latin-1" if body.startswith("\xff") else "utf-8")
            response = await http.request(one["method"], one["path"], headers=headers, content=content)
            session = response.headers.get(SESSION, session)
            recorded.append(seen(response))
    return recorded


def seen(response: httpx2.Response) -> Json:
    """A response as far as the transport decides it: what tools and errors say in words is tested elsewhere."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    messages: list[Any] = []
    if kind == "text/event-stream":
        messages = events(response.text)
    elif kind == "application/json" and response.content:
        messages = [response.json()]
    return {
        "status": response.status_code,
        "type": kind,
        "allow": response.headers.get("allow"),
        "session": SESSION in response.headers,
        "messages": json.loads(_VOLATILE.sub(r"\g<1>0", json.dumps(wordless(messages)))),
    }


def wordless(value: Any) -> Any:
    """The same without texts for people and models."""
    if isinstance(value, list):
        return [wordless(one) for one in value]
    if isinstance(value, dict):
        return {name: wordless(one) for name, one in value.items() if name not in _WORDS}
    return "<words>" if isinstance(value, str) and " " in value else value


async def official(running: Served, mode: str) -> list[Json]:
    """The requests that the official client sends, in a form that `play` takes."""
    sent: list[Json] = []

    async def on_request(request: httpx2.Request) -> None:
        headers = {name: value for name, value in request.headers.items() if name not in _DROPPED}
        if SESSION in headers:
            headers[SESSION] = "SESSION"
        body = request.content.decode() if request.method == "POST" else None
        if request.method != "GET":  # a stream that lasts as long as its session
            sent.append({"method": request.method, "path": request.url.path, "headers": headers, "body": body})

    hooks: Any = {"request": [on_request]}
    headers = {"authorization": f"Bearer {ALICE}"}
    async with httpx2.AsyncClient(headers=headers, event_hooks=hooks, timeout=20) as http:
        transport = streamable_http_client(f"{running.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:  # type: ignore[arg-type]
            await client.list_tools()
            await client.call_tool("open_toolbox", {"toolbox": "dev"})
            await client.call_tool("use_tool", use("nonce", {"nonce": "7"})["arguments"])
    return sent


def serving(folder: Path) -> Any:
    config = write_config(folder, {"dev": {"fs": rogue("progress", 2)}}, catalog={"path": "catalog.sqlite"})
    return served(config, limits=Limits(http_prime_seconds=0.01))


async def _record() -> Json:
    recorded: Json = {}
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as running:
            requests = {
                "handshake": HANDSHAKE,
                "modern": MODERN,
                "official handshake": await official(running, "legacy"),
                "official modern": await official(running, "auto"),
            }
    for name, steps in requests.items():
        with tempfile.TemporaryDirectory() as folder:
            async with serving(Path(folder)) as running:
                responses = await play(running, steps)
                recorded[name] = [{"request": a, "response": b} for a, b in zip(steps, responses, strict=True)]
    return recorded


if __name__ == "__main__":
    FILE.write_text(json.dumps(asyncio.run(_record()), indent=1, sort_keys=True) + "\n")
