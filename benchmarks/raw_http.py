"""A load client for any MCP server over HTTP: raw requests on blocking sockets, the standard library.

As many connections as calls are in flight, each with one request at a time and kept open, as a pool of a client's
library does. Only what ends a response is looked for on the way; answers are read afterwards.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from typing import TYPE_CHECKING, Any, Literal

from raw_client import HELLO, Load, Request, RequestFailed, is_echo, result_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Era = Literal["handshake", "modern"]

CHUNK_BYTES = 1 << 18
VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
ENVELOPE = {
    META + "protocolVersion": MODERN_VERSION,
    META + "clientCapabilities": HELLO["capabilities"],
    META + "clientInfo": HELLO["clientInfo"],
}


class Response:
    """One response as it arrives."""

    def __init__(self) -> None:
        self._data = b""
        self._body_at = 0
        self._length: int | None = None
        self.status = 0
        self.headers: dict[str, str] = {}

    def feed(self, data: bytes) -> bool:
        """Whether it is complete."""
        self._data += data
        if not self._body_at and not self._read_head():
            return False
        if self._length is not None:
            return len(self._data) - self._body_at >= self._length
        return self._data.endswith(b"\r\n0\r\n\r\n")

    def _read_head(self) -> bool:
        head, found, _ = self._data.partition(b"\r\n\r\n")
        if not found:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ", 2)[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        chunked = self.headers.get("transfer-encoding") == "chunked"
        self._length = None if chunked else int(self.headers.get("content-length", 0))
        self._body_at = len(head) + len(found)
        return True

    def message(self) -> dict[str, Any]:
        """The last message in it, which is the answer."""
        body = self._body()
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            body = body.rpartition(b"data: ")[2].partition(b"\n")[0]
        try:
            return json.loads(body)
        except ValueError:
            raise RequestFailed(f"status {self.status}, and not JSON: {body[:80]!r}") from None

    def _body(self) -> bytes:
        body = self._data[self._body_at :]
        if self._length is not None:
            return body
        chunks: list[bytes] = []
        while (size := int((head := body.partition(b"\r\n"))[0], 16)) > 0:
            chunks.append(head[2][:size])
            body = head[2][size + 2 :]
        return b"".join(chunks)


class HttpClient:
    """One client of one endpoint, in one era."""

    def __init__(
        self, port: int, path: str, *, era: Era, headers: Mapping[str, str] | None = None, timeout_seconds: float
    ) -> None:
        self._address = ("127.0.0.1", port)
        self._first_line = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        self._era = era
        self._timeout_seconds = timeout_seconds
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._headers |= headers or {}
        self._idle: list[socket.socket] = []
        self._last_id = 0
        if era == "modern":
            self._headers["MCP-Protocol-Version"] = MODERN_VERSION

    def begin(self) -> None:
        """What comes before calls: in the handshake era the handshake, which makes a session."""
        if self._era == "modern":
            self.request(Request("server/discover", {}))
            return
        response = self._exchange(self._encode(Request("initialize", HELLO | {"protocolVersion": VERSION})))
        result_of(response.message())
        self._headers["MCP-Protocol-Version"] = VERSION
        self._headers["Mcp-Session-Id"] = response.headers.get("mcp-session-id", "")
        accepted = self._exchange(self._envelope({"method": "notifications/initialized"}, {}))
        if accepted.status >= 300:
            raise RequestFailed(f"status {accepted.status} for notifications/initialized")

    def request(self, request: Request) -> dict[str, Any]:
        """The result of one request; `RequestFailed` if it is an error of either kind."""
        return result_of(self._exchange(self._encode(request)).message())

    def load(self, request: Request, *, in_flight: int, seconds: float) -> Load:
        """Keep `in_flight` calls outstanding for `seconds`, then wait for the last ones."""
        load, done = Load(), list[Response]()
        with selectors.DefaultSelector() as selector:
            started = time.perf_counter()
            for _ in range(in_flight):
                self._launch(selector, self._take(), request)
            while selector.get_map():
                for key, _ in self._ready(selector):
                    begun, response = key.data
                    if response.feed(self._receive(key.fileobj)):
                        selector.unregister(key.fileobj)
                        now = time.perf_counter()
                        load.latencies.append(now - begun)
                        done.append(response)
                        if now - started < seconds:
                            self._launch(selector, key.fileobj, request)
                        else:
                            self._idle.append(key.fileobj)
            load.seconds = time.perf_counter() - started
        load.failures = sum(not is_echo(response.message()) for response in done)
        return load

    def close(self) -> None:
        for connection in self._idle:
            connection.close()

    def _ready(self, selector: selectors.BaseSelector) -> list[tuple[Any, int]]:
        ready = selector.select(self._timeout_seconds)
        if not ready:
            raise RequestFailed(f"no answer for {self._timeout_seconds:g} s")
        return ready

    def _launch(self, selector: selectors.BaseSelector, connection: socket.socket, request: Request) -> None:
        connection.sendall(self._encode(request))
        selector.register(connection, selectors.EVENT_READ, (time.perf_counter(), Response()))

    def _exchange(self, data: bytes) -> Response:
        connection, response = self._take(), Response()
        connection.sendall(data)
        while not response.feed(self._receive(connection)):
            pass
        self._idle.append(connection)
        return response

    def _receive(self, connection: socket.socket) -> bytes:
        try:
            data = connection.recv(CHUNK_BYTES)
        except TimeoutError:
            raise RequestFailed(f"no answer for {self._timeout_seconds:g} s") from None
        if not data:
            raise RequestFailed("it closed the connection")
        return data

    def _take(self) -> socket.socket:
        if self._idle:
            return self._idle.pop()
        connection = socket.create_connection(self._address, self._timeout_seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _encode(self, request: Request) -> bytes:
        self._last_id += 1
        message = {"id": self._last_id, "method": request.method, "params": dict(request.params)}
        if self._era == "handshake":
            return self._envelope(message, {})
        message["params"]["_meta"] = ENVELOPE
        name = request.params.get("name")
        return self._envelope(message, {"Mcp-Method": request.method} | ({"Mcp-Name": name} if name else {}))

    def _envelope(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", **message})
        fields = {**self._headers, **headers, "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{self._first_line}{head}\r\n{body}".encode()
