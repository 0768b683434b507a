"""A protected server and its authorization server in one, whose every answer a test can replace. No SDK.

It runs in the test's own event loop; `answers` has what a path is answered with instead: a status, a body, and headers
if there are any. What it got is kept in `got`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs

SECONDS = 30


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class Answer(NamedTuple):
    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = MappingProxyType({})


Special = Answer | Callable[[Asked], Awaitable[Answer]]


class RogueAuthority:
    """The servers while they run."""

    def __init__(self) -> None:
        self.address = ""
        self.got: list[Asked] = []
        self.answers: dict[str, Special] = {}
        self.tokens: dict[str, Any] = {"access_token": "at-0", "token_type": "Bearer", "refresh_token": "rt-0"}
        self.is_open = False
        """Whether it answers what is no call without a login."""

    @property
    def url(self) -> str:
        return f"{self.address}/mcp"

    def asked(self, path: str) -> list[Asked]:
        return [one for one in self.got if one.path == path]

    @property
    def metadata(self) -> dict[str, Any]:
        ends = {f"{name}_endpoint": f"{self.address}/{name}" for name in ("token", "registration", "revocation")}
        return {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "response_types_supported": ["code"],
            **ends,
        }

    async def answer(self, asked: Asked) -> Answer:
        special = self.answers.get(asked.path)
        if special is not None:
            return special if isinstance(special, Answer) else await special(asked)
        usual = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": self.url,
                "authorization_servers": [self.address],
            },
            "/.well-known/oauth-authorization-server": self.metadata,
            "/token": self.tokens,
            "/revocation": {},
        }
        if asked.path == "/mcp":
            return self.mcp(asked)
        if asked.path == "/registration":
            return Answer(201, json.loads(asked.body) | {"client_id": "client-1"})
        return Answer(200, usual[asked.path]) if asked.path in usual else Answer(404)

    def mcp(self, asked: Asked) -> Answer:
        message = json.loads(asked.body or b"{}")
        if "authorization" not in asked.headers and not (self.is_open and message.get("method") != "tools/call"):
            return Answer(401, b"", {"www-authenticate": "Bearer"})
        if message.get("method") == "server/discover":
            return Answer(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
        return Answer(200, {"jsonrpc": "2.0", "id": message.get("id"), "result": {"protocolVersion": "2025-11-25"}})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                pairs = (line.partition(":") for line in head[1:] if line)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                asked = Asked(method, path.partition("?")[0], headers, body)
                self.got.append(asked)
                status, content, more = await self.answer(asked)
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                more = {"content-type": "application/json", **more}
                lines = [f"{name}: {value}" for name, value in more.items()]
                sent = [
                    f"HTTP/1.1 {status} Status",
                    *lines,
                    f"content-length: {len(data)}",
                    "connection: close",
                    "",
                    "",
                ]
                writer.write("\r\n".join(sent).encode() + data)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def rogue_authority() -> AsyncIterator[RogueAuthority]:
    running = RogueAuthority()
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
