"""The wire of a client to its workbench, in another process or in this one; and what is left of a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from mcp_workbench import Workbench
from mcp_workbench.serve.early_initialize import Greeting, new_callers
from mcp_workbench.serve.stdio import StdioEndpoint
from mcp_workbench.surfaces.server_info import EVERYTHING
from tests.support.procs import PROC, Process, census
from tests.support.wire import LINE_BYTES, Json, Wire


class Indoors:
    """A client's end of a front in this process, with the face of a subprocess."""

    pid = 0

    def __init__(self, front: StdioEndpoint, source: int, sink: int) -> None:
        self.returncode: int | None = None
        self.stdout = asyncio.StreamReader(limit=LINE_BYTES)
        self.stderr = asyncio.StreamReader()
        self.stderr.feed_eof()
        self.stdin: asyncio.StreamWriter
        self._transport: asyncio.BaseTransport
        self._life = asyncio.create_task(self._live(front, source, sink))

    @classmethod
    async def enter(cls, workbench: Workbench) -> Indoors:
        loop = asyncio.get_running_loop()
        source, to = os.pipe()
        come, sink = os.pipe()
        self = cls(StdioEndpoint(workbench, Greeting(new_callers(EVERYTHING))), source, sink)
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        writing, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(to, "wb", 0))
        self.stdin = asyncio.StreamWriter(writing, protocol, None, loop)
        reading = asyncio.StreamReaderProtocol(self.stdout)
        self._transport, _ = await loop.connect_read_pipe(lambda: reading, os.fdopen(come, "rb", 0))
        return self

    async def _live(self, front: StdioEndpoint, source: int, sink: int) -> int:
        status = await front.run(source, sink)
        await front.close()
        self.returncode = status
        return status

    async def wait(self) -> int:
        return await asyncio.shield(self._life)

    def send_signal(self, number: int) -> None:
        """Nobody sends signals to himself."""


class Recorder(Wire):
    """A wire that hands on what it hears, and keeps nothing."""

    take: Callable[[Json, bytes], None]

    def listen(self, take: Callable[[Json, bytes], None]) -> None:
        self.take = take
        self.lines = deque(maxlen=1)  # type: ignore[assignment]

    def _take(self, message: Json, line: bytes) -> None:
        if not isinstance(message, dict):
            raise TypeError(message)
        self._answers.pop(message.get("id"), None)
        self.take(message, line)

    def pause(self) -> None:
        """Read nothing more, until it is told to."""
        self._reading.pause_reading()

    def resume(self) -> None:
        self._reading.resume_reading()

    @property
    def _reading(self) -> asyncio.ReadTransport:
        transport: Any = self.process._transport  # type: ignore[attr-defined]  # of a process, or of one end of it
        return transport if self.process.pid == Indoors.pid else transport.get_pipe_transport(1)

    @property
    def next_id(self) -> int:
        return self.last_id + 1


def read_answer(message: Json) -> tuple[str, str, float]:
    """Code, text and retry hint of an answer."""
    if "error" in message:
        error = message["error"]
        data = error.get("data")
        told: Json = data if isinstance(data, dict) else {}
        return told.get("code", f"rpc:{error['code']}"), error["message"][:200], told.get("retry_after", 0.0)
    result = message["result"]
    if result.get("isError"):
        told = result.get("_meta", {}).get("mcp-workbench/error", {})
        text = json.dumps(result["content"])[:300]
        return told.get("code", "tool_error"), text, told.get("retry_after", 0.0)
    return ("ok" if result.get("resultType", "complete") == "complete" else result["resultType"]), "", 0.0


def defects(log: str) -> list[str]:
    """What of a workbench's log tells of a defect of its own."""
    return [line for line in log.splitlines() if "Traceback" in line or line[8:].startswith(" error ")]


def memory_of(pid: int) -> int:
    """The bytes that a process holds; 0 for one that is not there."""
    try:
        return int((PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def descendants(pid: int) -> list[Process]:
    """A process and everything below it."""
    found = [Process(pid, command_of(pid))]
    for listing in PROC.glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            for child in listing.read_text(encoding="utf-8").split():
                found += descendants(int(child))
    return found


def remaining(marker: dict[str, str], kin: list[Process]) -> list[Process]:
    """What is left of a workbench: what carries the mark of its servers, and what it started itself."""
    return [*census(marker), *(process for process in kin if command_of(process.pid) == process.command != "")]


def command_of(pid: int) -> str:
    """The command line of a process; empty for one that is not there, or is over."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
