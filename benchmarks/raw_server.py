"""A downstream MCP server on stdio, written against the wire alone and the standard library.

What a benchmark measures is then the program in front of it, and not this.

    raw_server.py [TOOLS [CALL_DELAY_MS [START_DELAY_MS]]]

It offers `echo` and TOOLS - 1 others. Each call is answered CALL_DELAY_MS after it arrived, any
number of them at the same time; nothing is read in the first START_DELAY_MS. No argument parser,
because ten of these are started at once and every import would be measured with them.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections import deque
from typing import Any

CHUNK_BYTES = 1 << 16
METHOD_NOT_FOUND = {"code": -32601, "message": "Method not found"}
SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "Text to send back"},
        "count": {"type": "integer", "minimum": 1, "default": 1},
    },
    "required": ["text"],
}


def tool(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": SCHEMA}


def tools(count: int) -> list[dict[str, Any]]:
    others = [tool(f"tool_{number}", f"Synthetic tool number {number}.") for number in range(1, count)]
    return [tool("echo", "Send the text back unchanged."), *others]


class RawServer:
    """Answers requests in the order in which they arrive, each call after the same delay."""

    def __init__(self, tool_count: int, call_delay_seconds: float) -> None:
        self._tools = tools(tool_count)
        self._call_delay_seconds = call_delay_seconds
        self._due: deque[tuple[float, bytes]] = deque()

    def run(self) -> None:
        rest = b""
        while chunk := self._read():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            self._write()

    def _read(self) -> bytes:
        """The next bytes from the client; what falls due in the meantime is written."""
        while self._due:
            timeout = max(0.0, self._due[0][0] - time.monotonic())
            if select.select([0], [], [], timeout)[0]:
                break
            self._write()
        return os.read(0, CHUNK_BYTES)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message or "method" not in message:
            return
        reply = {"jsonrpc": "2.0", "id": message["id"], **self._answer(message["method"], message.get("params") or {})}
        delay = self._call_delay_seconds if message["method"] == "tools/call" else 0.0
        self._due.append((time.monotonic() + delay, json.dumps(reply).encode() + b"\n"))

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/call":
            text = params.get("arguments", {}).get("text", "")
            return {"result": {"content": [{"type": "text", "text": text}], "isError": False}}
        if method == "tools/list":
            return {"result": {"tools": self._tools}}
        if method == "initialize":
            return {"result": greeting(params.get("protocolVersion", "2025-06-18"))}
        return {"result": {}} if method == "ping" else {"error": METHOD_NOT_FOUND}

    def _write(self) -> None:
        now, ready = time.monotonic(), bytearray()
        while self._due and self._due[0][0] <= now:
            ready += self._due.popleft()[1]
        while ready:
            del ready[: os.write(1, ready)]


def greeting(version: str) -> dict[str, Any]:
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "raw", "version": "1"},
    }


def main() -> None:
    given = [float(argument) for argument in sys.argv[1:]]
    tool_count, call_delay_ms, start_delay_ms = [*given, *(20.0, 0.0, 0.0)[len(given) :]]
    time.sleep(start_delay_ms / 1000)
    RawServer(int(tool_count), call_delay_ms / 1000).run()


if __name__ == "__main__":
    main()
