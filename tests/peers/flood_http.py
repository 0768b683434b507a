"""An MCP server over HTTP whose response to a call never ends: `flood_http.py KIND` prints its address.

A program of its own, so that the time it takes to flood is not the time of the test's event loop.
"""

from __future__ import annotations

import json
import socketserver
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_PLAIN = _STREAM.replace(b"transfer-encoding: chunked", b"connection: close")
FLOODS: dict[str, tuple[bytes, bytes]] = {
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "hints": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
    "chunks": (_STREAM, b"1\r\n:\r\n"),
    "lines": (_STREAM, b"2\r\n:\n\r\n"),
    "remarks": (_PLAIN, b":\n"),
    "fields": (_PLAIN, b"x\n"),
    "empty": (_PLAIN, b"data\n\n"),
    "log": (_PLAIN, b"data: " + _LOG + b"\n\n"),
    "trailers": (_STREAM + b"0\r\n", b"a: b\r\n"),
}
"""What a response begins with, and what it repeats for ever."""
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "flood", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
}


class Flooding(BaseHTTPRequestHandler):
    """Answers what comes before a call, and floods whoever calls."""

    protocol_version = "HTTP/1.1"
    kind = ""

    def do_GET(self) -> None:
        self._reply(405)

    def do_DELETE(self) -> None:
        self._reply(200)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message.get("method")
        if method == "tools/call":
            self._flood(*FLOODS[self.kind])
        elif method in RESULTS:
            self._reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[method]})
        elif "id" in message:
            self._reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
        else:
            self._reply(202)

    def _flood(self, head: bytes, unit: bytes) -> None:
        self.close_connection = True
        try:
            self.wfile.write(head)
            while True:
                self.wfile.write(unit * (65_536 // len(unit)))
        except OSError:  # the client hung up
            return

    def _reply(self, status: int, body: object = None) -> None:
        data = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main() -> None:
    import sys  # noqa: PLC0415 -- `launch.py` takes its own argument off first

    Flooding.kind = sys.argv[1]
    socketserver.TCPServer.allow_reuse_address = True
    with ThreadingHTTPServer(("127.0.0.1", 0), Flooding) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/mcp", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
