"""The workbench over HTTP for tests: in this process with small limits, or as a program; and raw clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_workbench import Limits, Workbench, load_config
from mcp_workbench.serve.http.address import Address
from mcp_workbench.serve.http.guard import Guard
from mcp_workbench.serve.http.listener import Listener, listen
from tests.support import programs
from tests.support.wire import HANDSHAKE_VERSION, MODERN_VERSION, Json, environment

ALICE = "alice-has-a-token-of-her-own"
BOB = "bob-has-another-token-than-she"
TOKENS = {"alice": ALICE, "bob": BOB}
BOTH = "application/json, text/event-stream"
META = "io.modelcontextprotocol/"
SECONDS = 20.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without the certificates of all authorities, which take long to read: no client here needs them."""


@dataclass
class Served:
    """A workbench that listens."""

    port: int
    workbench: Workbench | None = None
    process: asyncio.subprocess.Process | None = None
    stderr: bytearray = field(default_factory=bytearray)
    listener: Listener | None = None

    @property
    def connections(self) -> set[object]:
        """Those that are open."""
        assert self.listener is not None
        return set(self.listener._state.connections)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str = ALICE, **headers: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=self.url,
            headers={"authorization": f"Bearer {token}", "accept": BOTH} | headers,
            timeout=SECONDS,
            verify=NO_TLS,
        )


@contextlib.asynccontextmanager
async def served(
    config: Path, tokens: Mapping[str, str] = TOKENS, limits: Limits | None = None, *, send_buffer: int = 0
) -> AsyncIterator[Served]:
    """In this process; with so many bytes that the system takes for a client that does not read."""
    opened, address = listen(Address(port=0))
    if send_buffer:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    async with Workbench(load_config(config), limits=limits or Limits()) as workbench:
        listener = Listener(workbench, Guard(address, tokens))
        await listener.start(opened)
        try:
            yield Served(address.port, workbench, listener=listener)
        finally:
            await listener.close()


@contextlib.asynccontextmanager
async def program(
    config: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = programs.PROGRAM,
) -> AsyncIterator[Served]:
    """As a program of its own."""
    process = await programs.start(
        [*command, "serve", "--config", str(config), "--http", "127.0.0.1:0", *arguments],
        env=environment(config.parent / "home") | {"WORKBENCH_TOKEN": ALICE} | dict(env or {}),
        stdin=asyncio.subprocess.DEVNULL,
    )
    running = Served(0, process=process)
    reader = None
    try:
        running.port = await _port(running)
        reader = asyncio.create_task(_collect(running))
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reader is not None:
            await reader
        process._transport.close()  # type: ignore[attr-defined]


async def _port(running: Served) -> int:
    assert running.process is not None
    assert running.process.stderr is not None
    async with asyncio.timeout(SECONDS):
        while line := await running.process.stderr.readline():
            running.stderr += line
            if b"listens on" in line:
                return int(line.rpartition(b":")[2].partition(b"/")[0])
    pytest.fail(f"it does not listen: {running.stderr.decode()}")


async def _collect(running: Served) -> None:
    assert running.process is not None
    assert running.process.stderr is not None
    while data := await running.process.stderr.read(65536):
        running.stderr += data


def events(text: str) -> list[Json]:
    """The messages of a stream."""
    data = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
    return [json.loads(one) for one in data if one]


def answer_in(response: httpx2.Response) -> Json:
    """The answer in a response, as JSON or on a stream."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    return events(response.text)[-1]


def rpc(method: str, params: Json | None = None, id_: object = 1) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}


def greeting(capabilities: Json | None = None, version: str = HANDSHAKE_VERSION) -> Json:
    params = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    return rpc("initialize", params, 0)


def use(tool: str, arguments: Json | None = None, toolbox: str = "dev", server: str = "fs") -> Json:
    """The params of a `use_tool`."""
    identifier = {"toolbox": toolbox, "server": server, "tool": tool}
    return {"name": "use_tool", "arguments": {"tool": identifier, "arguments": arguments or {}}}


def raw_modern(port: int, message: Json, path: str) -> bytes:
    """A modern request as it stands on the wire."""
    body = json.dumps(message).encode()
    headers = {
        "host": f"127.0.0.1:{port}",
        "authorization": f"Bearer {ALICE}",
        "accept": BOTH,
        "content-type": "application/json",
        "content-length": str(len(body)),
        **modern_headers(message),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class Handshake:
    """A raw client of the handshake era."""

    def __init__(self, http: httpx2.AsyncClient, path: str, session: str, hello: Json) -> None:
        self.http = http
        self.path = path
        self.session = session
        self.hello = hello
        self._last = 0

    @classmethod
    async def begin(cls, http: httpx2.AsyncClient, path: str = "/mcp", capabilities: Json | None = None) -> Handshake:
        response = await http.post(path, json=greeting(capabilities))
        assert response.status_code == 200, response.text
        self = cls(http, path, response.headers["mcp-session-id"], answer_in(response))
        await self.notify("notifications/initialized")
        return self

    @property
    def headers(self) -> dict[str, str]:
        return {"mcp-session-id": self.session, "mcp-protocol-version": HANDSHAKE_VERSION}

    async def post(self, message: object, **headers: str) -> httpx2.Response:
        return await self.http.post(self.path, json=message, headers=self.headers | headers)

    async def notify(self, method: str, params: Json | None = None) -> None:
        response = await self.post({"jsonrpc": "2.0", "method": method, "params": params or {}})
        assert response.status_code == 202, response.text

    async def request(self, method: str, params: Json | None = None) -> Json:
        self._last += 1
        return answer_in(await self.post(rpc(method, params, self._last)))

    async def call(self, params: Json) -> Json:
        return (await self.request("tools/call", params))["result"]

    @contextlib.asynccontextmanager
    async def stream(self, message: object) -> AsyncIterator[Events]:
        """A POST whose stream is read event by event."""
        async with self.http.stream("POST", self.path, json=message, headers=self.headers) as response:
            yield Events(response)

    @contextlib.asynccontextmanager
    async def listen(self, **headers: str) -> AsyncIterator[Events]:
        """The stream for what belongs to no request."""
        async with self.http.stream("GET", self.path, headers=self.headers | headers) as response:
            yield Events(response)


class Events:
    """A stream, message by message."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.last_id = ""

    async def next(self, seconds: float = SECONDS) -> Json:
        """The next message; priming events and comments are passed over."""
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                if line.startswith("id:"):
                    self.last_id = line[3:].strip()
                if line.startswith("data:") and line[5:].strip():
                    return json.loads(line[5:])
        pytest.fail("the stream ended")

    async def primed(self) -> str:
        """The id of the first event."""
        async with asyncio.timeout(SECONDS):
            async for line in self._lines:
                if line.startswith("id:"):
                    self.last_id = line[3:].strip()
                    return self.last_id
        pytest.fail("the stream ended")

    async def until(self, wanted: Callable[[Json], bool]) -> Json:
        while not wanted(message := await self.next()):
            pass
        return message


def modern(method: str, params: Json | None = None, id_: object = 1, capabilities: Json | None = None) -> Json:
    """A modern request."""
    envelope = {
        META + "protocolVersion": MODERN_VERSION,
        META + "clientCapabilities": capabilities or {},
        META + "clientInfo": {"name": "t", "version": "1"},
    }
    given = dict(params or {})
    return rpc(method, {**given, "_meta": envelope | given.get("_meta", {})}, id_)


def modern_headers(message: Json) -> dict[str, str]:
    """What a modern client repeats of a request in its headers."""
    params: dict[str, Any] = message["params"]
    name = params.get("name") or params.get("uri")
    named = {"mcp-name": name} if name and message["method"] in ("tools/call", "prompts/get", "resources/read") else {}
    return {"mcp-protocol-version": MODERN_VERSION, "mcp-method": message["method"], **named}


async def post_modern(
    http: httpx2.AsyncClient, message: Json, path: str = "/mcp", headers: dict[str, str] | None = None
) -> httpx2.Response:
    return await http.post(path, json=message, headers=modern_headers(message) | (headers or {}))


async def raw_exchange(port: int, request: bytes, seconds: float = SECONDS) -> bytes:
    """Send bytes and read until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(seconds):
            return await reader.read(-1)
    finally:
        writer.close()
