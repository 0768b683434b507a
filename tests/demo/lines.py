"""A demo server behind real pipes, spoken to in raw JSON lines."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import mcp_workbench

SOURCES = str(Path(mcp_workbench.__file__).parent.parent)
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCES}


class Pipes:
    """The server as a child process; leaving the block closes its input and waits for its end."""

    def __init__(self, server: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"mcp_workbench.demo.servers.{server}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close_input()
            self.process.wait(timeout=20)
        finally:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()

    def close_input(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
        self.send(id=request_id, method=method, params={} if params is None else params)
        return self.read()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
