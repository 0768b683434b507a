"""A load client for any MCP server on stdio: raw JSON-RPC, blocking pipes, the standard library.

It shares the machine with what it measures, so it does as little as it can: no event loop, no
models, and all requests that one batch of answers sets free leave in one write. At most `in_flight`
small requests are outstanding, which a pipe holds, so a write never waits for the other side.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

CHUNK_BYTES = 1 << 18
TEXT = "hello"
"""What every measured call sends, and has to find in its answer."""

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}

PONG: Mapping[str, Any] = {"result": {}}
DECLINED: Mapping[str, Any] = {"error": {"code": -32601, "message": "Declined"}}


class RequestFailed(Exception):
    """The program ended, was silent for too long, or answered with an error."""


@dataclass(frozen=True)
class Request:
    method: str
    params: Mapping[str, Any]

    @classmethod
    def tool(cls, name: str, arguments: Mapping[str, Any]) -> Request:
        return cls("tools/call", {"name": name, "arguments": arguments})

    def template(self) -> tuple[bytes, bytes]:
        """The request as bytes, before and after its id."""
        tail = json.dumps({"method": self.method, "params": self.params})
        return b'{"jsonrpc": "2.0", "id": ', b", " + tail[1:].encode() + b"\n"


@dataclass
class Load:
    """What came of one stretch of calls with the same number in flight."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list[float])
    failures: int = 0

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds


class RawClient:
    """One running program and the pipes to it."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, stderr: IO[bytes], timeout_seconds: float
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._rest = b""
        self._last_id = 0
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0, env=dict(env), cwd=cwd
        )
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018 -- both are pipes
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def initialize(self) -> float:
        """Seconds from the start of the program to its first answer."""
        self.request(Request("initialize", HELLO))
        seconds = time.perf_counter() - self._started
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return seconds

    def request(self, request: Request) -> dict[str, Any]:
        """The result of one request; `RequestFailed` if it is an error of either kind."""
        wanted = self._next_id()
        self._write(_encode(request.template(), wanted))
        while True:
            for message in self._answers():
                if message["id"] == wanted:
                    return result_of(message)

    def timed(self, request: Request) -> tuple[float, dict[str, Any]]:
        """Seconds that one request took, and its result."""
        started = time.perf_counter()
        result = self.request(request)
        return time.perf_counter() - started, result

    def load(self, request: Request, *, in_flight: int, seconds: float) -> Load:
        """Keep `in_flight` calls outstanding for `seconds`, then wait for the last ones."""
        load, template, sent = Load(), request.template(), dict[int, float]()
        started = time.perf_counter()
        self._launch(template, in_flight, sent)
        while sent:
            done = 0
            answers = list(self._answers())
            now = time.perf_counter()
            for message in answers:
                if (begun := sent.pop(message["id"], None)) is not None:
                    load.latencies.append(now - begun)
                    load.failures += not is_echo(message)
                    done += 1
            if done and now - started < seconds:
                self._launch(template, done, sent)
        load.seconds = time.perf_counter() - started
        return load

    def stop(self, patience_seconds: float) -> float | None:
        """Seconds from the end of its input to its exit; None if it had to be killed."""
        started = time.perf_counter()
        self._stdin.close()
        try:
            self._process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None
        finally:
            self._stdout.close()
        return time.perf_counter() - started

    def _launch(self, template: tuple[bytes, bytes], count: int, sent: dict[int, float]) -> None:
        ids = [self._next_id() for _ in range(count)]
        now = time.perf_counter()
        sent.update((number, now) for number in ids)
        self._write(b"".join(_encode(template, number) for number in ids))

    def _answers(self) -> Iterator[dict[str, Any]]:
        """The answers in the next bytes; what the program asks of us is declined on the way."""
        for message in map(_decode, self._lines()):
            if "method" not in message:
                yield message
            elif "id" in message:
                self._decline(message)

    def _lines(self) -> list[bytes]:
        readable, _, _ = select.select([self._stdout], [], [], self._timeout_seconds)
        if not readable:
            raise RequestFailed(f"no answer for {self._timeout_seconds:g} s")
        chunk = os.read(self._stdout.fileno(), CHUNK_BYTES)
        if not chunk:
            raise RequestFailed("it closed its output")
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line for line in lines if line.strip()]

    def _decline(self, message: dict[str, Any]) -> None:
        answer = PONG if message["method"] == "ping" else DECLINED
        self._send({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _send(self, message: Mapping[str, Any]) -> None:
        self._write(json.dumps(message).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._stdin.fileno(), data) :]
        except BrokenPipeError:
            raise RequestFailed("it closed its input") from None

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _encode(template: tuple[bytes, bytes], number: int) -> bytes:
    head, tail = template
    return b"%b%d%b" % (head, number, tail)


def _decode(line: bytes) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError:
        raise RequestFailed(f"it wrote what is not JSON: {line[:80]!r}") from None


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] | None = message.get("result")
    if result is None or result.get("isError"):
        raise RequestFailed(json.dumps(message.get("error") or result)[:300])
    return result


def is_echo(message: dict[str, Any]) -> bool:
    result: dict[str, Any] = message.get("result") or {"isError": True}
    return not result.get("isError") and any(TEXT in block.get("text", "") for block in result.get("content", ()))
