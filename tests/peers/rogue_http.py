"""An MCP server over HTTP with one fault per path. Raw sockets and the standard library only.

`http://127.0.0.1:PORT/MODE`: a mode says how a `tools/call` is answered, and what it does not say is as in `ok`, a
server of the handshake era that answers with JSON. Everything that it gets is kept, and so is the number of
connections. It runs in the test's own event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import Any

Json = dict[str, Any]
MODERN = "2026-07-28"
MEGABYTE = 1024 * 1024
HUGE = 300
POLL_SECONDS = 0.01
TLS = b"\x16"
"""The first byte of a client that wants a secure connection."""
SCHEMA = {"type": "object", "properties": {"nonce": {"type": "string"}}}


class Request:
    """One HTTP request, and where its response goes."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter):
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.message: Json = json.loads(body) if body else {}
        self.writer = writer
        self.closed = False
        """Whether the client hung up before it was answered."""

    @property
    def rpc(self) -> str:
        return self.message.get("method", "")

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int, **headers: str) -> None:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([f"HTTP/1.1 {status} Status", *lines, "", ""]).encode())

    async def reply(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        await self.head(status, content_type=kind, content_length=str(len(body)), **headers)
        await self.send(body)

    async def result(self, result: Any, **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()
        await self.reply(200, body, **headers)

    async def error(self, status: int, code: int, text: str, id_: Any = None, **error: Any) -> None:
        body = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text, **error}}
        await self.reply(status, json.dumps(body).encode())

    async def stream(self) -> None:
        """Begin a stream of events that ends with the connection."""
        await self.head(200, content_type="text/event-stream", connection="close")

    async def event(self, message: Any, **fields: object) -> None:
        lines = [*(f"{name}: {value}" for name, value in fields.items()), f"data: {json.dumps(message)}"]
        await self.send(("\n".join(lines) + "\n\n").encode())

    def said(self, text: str = "") -> Json:
        result = {"content": [{"type": "text", "text": text or json.dumps(self.message["params"].get("arguments"))}]}
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": result}


Mode = Callable[["Rogue", Request], Awaitable[None]]
MODES: dict[str, Mode] = {}


def mode(*names: str) -> Callable[[Mode], Mode]:
    def enter(handler: Mode) -> Mode:
        for name in names:
            MODES[name] = handler
        return handler

    return enter


class Rogue:
    """A running server."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = 0
        self.requests: list[Request] = []
        self.connections = 0
        self.open = 0
        self.sessions = 0
        self.elsewhere = ""
        """Where its redirects lead."""
        self.notes: list[str] = []
        self.stream: Request | None = None
        """The stream of the old transport."""

    def url(self, mode: str) -> str:
        return f"http://{self.host}:{self.port}/{mode}"

    def got(self, rpc: str) -> list[Request]:
        return [request for request in self.requests if request.rpc == rpc]

    def sent(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while (request := await read(reader, writer)) is not None:
                self.requests.append(request)
                handling = asyncio.ensure_future(self.handle(request))
                while not handling.done():
                    await asyncio.wait((handling,), timeout=POLL_SECONDS)
                    if (reader.at_eof() or reader.exception()) and not handling.done():
                        request.closed = True
                        handling.cancel()
                        return
                handling.result()
        except (ConnectionError, asyncio.IncompleteReadError, Hangup):
            pass
        finally:
            self.open -= 1
            with contextlib.suppress(OSError):
                writer.close()

    async def handle(self, request: Request) -> None:
        name = request.path.strip("/").partition("?")[0]
        if name == "old_posts":
            await request.reply(202)
            await self.behave(Relayed(request, self))
        elif name.startswith("all_") or request.rpc == "tools/call":
            await MODES[name.removeprefix("all_")](self, request)
        elif f"{name} {request.rpc or request.method}" in MODES:
            await MODES[f"{name} {request.rpc or request.method}"](self, request)
        else:
            await self.behave(request)

    async def behave(self, request: Request) -> None:
        """As an ordinary server does."""
        if request.method != "POST":
            await request.reply(405 if request.method == "GET" else 200)
        elif request.rpc == "initialize":
            self.sessions += 1
            hello: Json = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            hello["serverInfo"] = {"name": "rogue", "version": "1"}
            await request.result(hello, mcp_session_id=self.session)
        elif request.rpc == "tools/list":
            await request.result({"tools": [{"name": "echo", "inputSchema": SCHEMA}]})
        elif request.rpc == "tools/call":
            await request.result(request.said()["result"])
        elif request.rpc == "ping":
            await request.result({})
        elif "id" not in request.message or not request.rpc:
            await request.reply(202)
        else:
            await request.error(200, -32601, "Method not found", request.message["id"])

    @property
    def session(self) -> str:
        return f"session-{self.sessions}"


class Relayed(Request):
    """A request whose answer goes to the stream of the old transport."""

    def __init__(self, request: Request, server: Rogue) -> None:
        super().__init__(request.method, request.path, request.headers, request.body, request.writer)
        self._server = server

    async def reply(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        del status, kind, headers
        if body and self._server.stream is not None:
            await self._server.stream.send(b"event: message\ndata: " + body + b"\n\n")


class Hangup(Exception):
    """The server closes the connection."""


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    begin = await reader.readexactly(1)
    if begin == TLS:
        writer.write(b"HTTP/1.1 400 This is not TLS\r\n\r\n")
        raise Hangup
    head = begin + await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body, writer)


@contextlib.asynccontextmanager
async def rogue(host: str = "127.0.0.1") -> AsyncIterator[Rogue]:
    """A server while it is needed."""
    running = Rogue(host)
    server = await asyncio.start_server(running.serve, host, 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()


# -- good answers


@mode("ok", "no_session")
async def _(_: Rogue, request: Request) -> None:
    await request.result(request.said()["result"])


@mode("pretty")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(200, json.dumps(request.said(), indent=2).encode())


@mode("events")
async def _(_: Rogue, request: Request) -> None:
    await request.stream()
    await request.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    await request.event(request.said())
    raise Hangup


@mode("no_session initialize")
async def _(_: Rogue, request: Request) -> None:
    await request.result({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}})


@mode("gzip")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(200, gzip.compress(json.dumps(request.said()).encode()), content_encoding="gzip")


# -- statuses


def status_mode(status: int, **headers: str) -> None:
    @mode(f"status{status}")
    async def _(_: Rogue, request: Request) -> None:
        await request.reply(status, b"the body has a s3cret-token-123", "text/plain", **headers)


status_mode(401, www_authenticate='Basic realm="s3cret-token-123"')
status_mode(403)
status_mode(404)
status_mode(429, retry_after="7")
status_mode(500)
status_mode(503, retry_after="Fri, 31 Dec 2100 23:59:59 GMT")


@mode("refused400")
async def _(_: Rogue, request: Request) -> None:
    await request.error(400, -32602, "no such thing", request.message["id"])


@mode("html")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(200, b"<html>Log in</html>", "text/html; charset=utf-8")


@mode("accepted")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(202)


@mode("expires_once")
async def _(_: Rogue, request: Request) -> None:
    if request.headers.get("mcp-session-id") == "session-1":
        await request.error(404, -32001, "Session not found")
    else:
        await request.result(request.said()["result"])


@mode("expires_always")
async def _(_: Rogue, request: Request) -> None:
    await request.error(404, -32600, "Session not found", "server-error")


@mode("expires_400")
async def _(_: Rogue, request: Request) -> None:
    if request.headers.get("mcp-session-id") == "session-1":
        await request.error(400, -32000, "Bad Request: No valid session ID provided", request.message["id"])
    else:
        await request.result(request.said()["result"])


@mode("waits_then_expires")
async def _(server: Rogue, request: Request) -> None:
    """The first call hangs, the second one ends the session under it."""
    if request.message["params"]["arguments"].get("nonce") == "hang":
        await asyncio.Event().wait()
    await MODES["expires_once"](server, request)


# -- slow ones


@mode("silent")
async def _(_: Rogue, __: Request) -> None:
    await asyncio.Event().wait()


@mode("hang")
async def _(_: Rogue, request: Request) -> None:
    await request.head(200, content_type="application/json", content_length="100")
    await asyncio.Event().wait()


@mode("drip")
async def _(_: Rogue, request: Request) -> None:
    await request.head(200, content_type="application/json", content_length="100000")
    while True:
        await request.send(b" ")
        await asyncio.sleep(0.1)


@mode("comments")
async def _(_: Rogue, request: Request) -> None:
    await request.stream()
    while True:
        await request.send(b": still here\n\n")
        await asyncio.sleep(0.05)


# -- large ones


async def flood(request: Request, head: bytes, piece: bytes, count: int) -> None:
    await request.send(head)
    for _ in range(count):
        await request.send(piece)


@mode("big_json")
async def _(_: Rogue, request: Request) -> None:
    await request.head(200, content_type="application/json", connection="close")
    await flood(request, b'{"jsonrpc":"2.0","result":"', b"x" * MEGABYTE, HUGE)


@mode("big_event")
async def _(_: Rogue, request: Request) -> None:
    await request.stream()
    await flood(request, b'data: {"jsonrpc":"2.0","result":"', b"x" * MEGABYTE, HUGE)


@mode("big_comment")
async def _(_: Rogue, request: Request) -> None:
    await request.stream()
    await flood(request, b": ", b"x" * MEGABYTE, HUGE)


@mode("many_lines")
async def _(_: Rogue, request: Request) -> None:
    await request.stream()
    await flood(request, b"", b"data\n" * (MEGABYTE // 5), HUGE)


@cache
def bomb() -> bytes:
    """300 MB in 300 KB."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return b"".join(packer.compress(b" " * MEGABYTE) for _ in range(HUGE)) + packer.flush()


@mode("bomb", "bomb_twice")
async def _(_: Rogue, request: Request) -> None:
    small = await asyncio.to_thread(bomb)
    twice = "twice" in request.path
    body = gzip.compress(small) if twice else small
    await request.reply(200, body, content_encoding="gzip, gzip" if twice else "gzip")


# -- broken ones


@mode("reset")
async def _(_: Rogue, request: Request) -> None:
    request.writer.transport.abort()


@mode("truncated")
async def _(_: Rogue, request: Request) -> None:
    await request.head(200, content_type="application/json", content_length="1000")
    await request.send(b'{"jsonrpc"')
    raise Hangup


@mode("not_http")
async def _(_: Rogue, request: Request) -> None:
    await request.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    raise Hangup


@mode("wrong_id")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode())


@mode("no_json")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(200, b'{"jsonrpc": "2.0", "id": oops')


# -- redirects


@mode("moved")
async def _(server: Rogue, request: Request) -> None:
    await request.reply(307, location=server.url("ok"))


@mode("moved_away")
async def _(server: Rogue, request: Request) -> None:
    await request.reply(308, location=server.elsewhere)


@mode("moved_302")
async def _(server: Rogue, request: Request) -> None:
    await request.reply(302, location=server.url("ok"))


@mode("moved_round")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(307, location=request.path)


# -- streams that go on later


@mode("resumed")
async def _(server: Rogue, request: Request) -> None:
    server.notes.append(json.dumps(request.said("after the break")))
    await request.stream()
    await request.send(b"id: first\nretry: 10\ndata:\n\n")
    raise Hangup


@mode("resumed GET")
async def _(server: Rogue, request: Request) -> None:
    if request.headers.get("last-event-id") != "first":
        await request.reply(405)
        return
    await request.stream()
    await request.event(json.loads(server.notes[0]), id="second")
    raise Hangup


@mode("forgotten")
async def _(_: Rogue, request: Request) -> None:
    """It begins an answer, and has forgotten the session when the rest is asked for."""
    await request.stream()
    await request.send(b"id: first\nretry: 10\ndata:\n\n")
    raise Hangup


@mode("forgotten GET")
async def _(_: Rogue, request: Request) -> None:
    await request.reply(404 if "last-event-id" in request.headers else 405)


@mode("never_resumed")
async def _(_: Rogue, request: Request) -> None:
    await request.stream()
    await request.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
    raise Hangup


@mode("fruitless", "fruitless GET")
async def _(_: Rogue, request: Request) -> None:
    """Every stream of an answer ends without it, and the next is wanted at once."""
    await request.stream()
    if request.rpc:
        await request.send(b"id: first\nretry: 0\ndata:\n\n")
    raise Hangup


@mode("listens GET")
async def _(server: Rogue, request: Request) -> None:
    """The stream of its own breaks off after each message."""
    count = len(server.sent("GET"))
    await request.stream()
    await request.send(b"retry: 10\n")
    await request.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id=count)
    raise Hangup


MODES["listens"] = MODES["ok"]


# -- a modern server


@mode("modern server/discover", "mirrors server/discover", "late_mirrors server/discover")
async def _(_: Rogue, request: Request) -> None:
    await request.result({"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "resultType": "complete"})


@mode("picky server/discover")
async def _(server: Rogue, request: Request) -> None:
    """It refuses a version that it speaks, the first time."""
    if len(server.got("server/discover")) == 1:
        versions = {"supported": [MODERN], "requested": MODERN}
        await request.error(400, -32022, "Unsupported protocol version", request.message["id"], data=versions)
    else:
        await MODES["modern server/discover"](server, request)


@mode("modern", "picky")
async def _(_: Rogue, request: Request) -> None:
    await request.result(request.said()["result"])


@mode("mirrors tools/list", "late_mirrors tools/list")
async def _(_: Rogue, request: Request) -> None:
    region = {"type": "string", "x-mcp-header": "Region"}
    good = {"name": "echo", "inputSchema": {"type": "object", "properties": {"region": region}}}
    bad = {
        "name": "bad",
        "inputSchema": {"type": "object", "properties": {"r": {"type": "number", "x-mcp-header": "R"}}},
    }
    await request.result({"tools": [good, bad], "resultType": "complete"})


@mode("mirrors")
async def _(_: Rogue, request: Request) -> None:
    if "mcp-param-region" not in request.headers:
        await request.error(400, -32020, "Mcp-Param-Region header is missing", request.message["id"])
    else:
        await request.result(request.said(request.headers["mcp-param-region"])["result"])


@mode("late_mirrors")
async def _(server: Rogue, request: Request) -> None:
    """The first call is refused when another one has been made."""
    while len(server.got("tools/call")) < 2:  # noqa: ASYNC110 -- what arrives has no event
        await asyncio.sleep(POLL_SECONDS)
    await MODES["mirrors"](server, request)


# -- the transport of 2024


@mode("old GET", "old_away GET")
async def _(server: Rogue, request: Request) -> None:
    await request.stream()
    where = server.elsewhere if "away" in request.path else "/old_posts?session=1"
    await request.send(f"event: endpoint\ndata: {where}\n\n".encode())
    server.stream = request
    await asyncio.Event().wait()
