"""A client of `mcp-workbench serve` that speaks raw JSON-RPC on stdio: what a test sees is what is on the wire.

Every wait is bounded, and a failure shows what the program wrote to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import pytest

from tests.support import programs

Era = Literal["handshake", "modern"]
Json = dict[str, Any]
T = TypeVar("T")

HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
CLIENT_INFO = {"name": "raw-wire", "version": "1"}
WAIT_SECONDS = 30.0
END_SECONDS = 20.0
LINE_BYTES = 64 * 1024 * 1024
SRC = Path(__file__).parents[2] / "src"


class Wire:
    """One running workbench and the pipe to it."""

    def __init__(self, process: asyncio.subprocess.Process, era: Era) -> None:
        self.process = process
        self.era: Era = era
        self.capabilities: Json = {}
        self.hello: Json = {}
        self.notifications: list[Json] = []
        self.asked: list[Json] = []
        self.lines: list[bytes] = []
        self.stray: list[bytes] = []
        self.order: list[Json] = []
        self._stderr = bytearray()
        self._answers: dict[object, asyncio.Future[tuple[Json, bytes]]] = {}
        self.last_id = 0
        self._arrival = asyncio.Event()
        self.readers = [asyncio.create_task(self._read_stdout()), asyncio.create_task(self._read_stderr())]

    @classmethod
    async def start(
        cls,
        config: Path | None,
        *arguments: str,
        era: Era = "handshake",
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        program: Sequence[str] = programs.PROGRAM,
    ) -> Self:
        """Start the program. Its user folders are next to the configuration, so no test sees those of another."""
        chosen = ["--config", str(config)] if config else []
        home = (config.parent if config else cwd or Path.cwd()) / "home"
        command = [*program, "serve", *chosen, *arguments]
        return await cls.spawn(command, era=era, env=environment(home) | (env or {}), cwd=cwd)

    @classmethod
    async def spawn(
        cls, command: list[str], *, era: Era = "handshake", env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> Self:
        """Start any program that speaks MCP on stdio."""
        return cls(await programs.start(command, env=env, cwd=cwd, limit=LINE_BYTES), era)

    # -- sending

    async def handshake(self, version: str = HANDSHAKE_VERSION, capabilities: Json | None = None) -> Json:
        """`initialize` and `initialized`; the result of the first."""
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": CLIENT_INFO}
        self.hello = result_of(await self.request("initialize", params))
        await self.notify("notifications/initialized")
        return self.hello

    async def request(self, method: str, params: Json | None = None, *, seconds: float = WAIT_SECONDS) -> Json:
        """Send a request and wait for the whole answer, error or result."""
        message, _ = await self.finish(await self.begin(method, params), seconds=seconds)
        return message

    async def begin(self, method: str, params: Json | None = None) -> int:
        """Send a request; `finish` waits for its answer."""
        self.last_id += 1
        number = self.last_id
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": self._enveloped(params or {})})
        return number

    async def finish(self, number: int, *, seconds: float = WAIT_SECONDS) -> tuple[Json, bytes]:
        """The answer to a request, parsed and as the bytes of its line."""
        future = self._answers[number]
        ended = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait({future, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                await asyncio.wait({future}, timeout=0.2)
            if not future.done():
                self.fail(f"no answer to request {number} within {seconds} s")
            return future.result()
        finally:
            ended.cancel()

    async def notify(self, method: str, params: Json | None = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    async def send(self, message: object) -> None:
        await self.raw(json.dumps(message).encode() + b"\n")

    async def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    def _enveloped(self, params: Json) -> Json:
        if self.era == "handshake":
            return params
        envelope = {
            "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
        }
        return {**params, "_meta": envelope | params.get("_meta", {})}

    # -- the tools of the workbench

    async def list_tools(self) -> list[Json]:
        return result_of(await self.request("tools/list"))["tools"]

    async def call(self, name: str, arguments: object = None, *, seconds: float = WAIT_SECONDS, **params: Any) -> Json:
        """The result of a `tools/call`."""
        sent = {"name": name, **({"arguments": arguments} if arguments is not None else {}), **params}
        return result_of(await self.request("tools/call", sent, seconds=seconds))

    async def open(self, toolbox: str, *, seconds: float = WAIT_SECONDS, **refinements: Any) -> Json:
        """The answer of `open_toolbox`, parsed."""
        result = await self.call("open_toolbox", {"toolbox": toolbox, **refinements}, seconds=seconds)
        if result.get("isError"):
            self.fail(f"open_toolbox failed: {text_of(result)}")
        return json.loads(text_of(result))

    async def use(
        self,
        toolbox: str,
        server: str,
        tool: str,
        arguments: object = None,
        *,
        seconds: float = WAIT_SECONDS,
        **params: Any,
    ) -> Json:
        """The result of `use_tool`."""
        return await self.call("use_tool", use_params(toolbox, server, tool, arguments), seconds=seconds, **params)

    # -- receiving

    async def wait_for(self, condition: Callable[[], object], what: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Wait until a message makes the condition true."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self._arrival.clear()
                    await self._arrival.wait()
        except TimeoutError:
            self.fail(f"{what} did not arrive within {seconds} s")

    async def notification(self, method: str, count: int = 1, *, seconds: float = WAIT_SECONDS) -> list[Json]:
        """Wait until there are `count` notifications of a kind."""
        await self.wait_for(lambda: len(self.seen(method)) >= count, f"{count} of {method}", seconds=seconds)
        return self.seen(method)

    def seen(self, method: str) -> list[Json]:
        return [message for message in self.notifications if message["method"] == method]

    async def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.lines.append(line)
            try:
                self._take(json.loads(line), line)
            except (ValueError, TypeError):
                self.stray.append(line)
            self._arrival.set()

    def _take(self, message: Json, line: bytes) -> None:
        self.order.append(message)
        if not isinstance(message, dict):
            raise TypeError(message)
        if "method" in message:
            (self.asked if "id" in message else self.notifications).append(message)
        elif (future := self._answers.get(message.get("id"))) and not future.done():
            future.set_result((message, line))

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(65_536):
            self._stderr += data

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace")

    def fail(self, problem: str) -> None:
        """Fail the test, with all that helps."""
        state = f"exit status {self.process.returncode}" if self.process.returncode is not None else "running"
        last = b"".join(self.lines[-3:]).decode(errors="replace")[-1000:]
        pytest.fail(f"{problem} ({state})\nlast lines: {last}\nstderr: {self.stderr[-3000:]}")

    # -- ending

    async def hang_up(self) -> int:
        """Close its stdin and wait for its end; the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self.ended()

    async def ended(self, *, seconds: float = END_SECONDS) -> int:
        try:
            async with asyncio.timeout(seconds):
                status = await self.process.wait()
                await asyncio.gather(*self.readers)
                return status
        except TimeoutError:
            self.fail(f"the program did not end within {seconds} s")
            raise

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)

    async def close(self) -> None:
        """End it, kindly if it will; whatever the test left."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self.process.wait()
        self.kill()
        await self.process.wait()
        for reader in self.readers:
            with contextlib.suppress(TimeoutError, ValueError):
                await asyncio.wait_for(reader, 2)
        self.process._transport.close()  # type: ignore[attr-defined]  # a pipe that a grandchild holds would stay open
        await asyncio.gather(*self.readers, return_exceptions=True)


@contextlib.asynccontextmanager
async def serving(
    config: Path | None,
    *arguments: str,
    era: Era = "handshake",
    greet: bool = True,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    program: Sequence[str] = programs.PROGRAM,
    capabilities: Json | None = None,
) -> AsyncIterator[Wire]:
    """A workbench with a client of either era, past its handshake."""
    wire = await Wire.start(config, *arguments, era=era, env=env, cwd=cwd, program=program)
    try:
        if greet and era == "handshake":
            await wire.handshake(capabilities=capabilities)
        yield wire
    finally:
        await wire.close()


@contextlib.contextmanager
def lasting(runner: asyncio.Runner, manager: contextlib.AbstractAsyncContextManager[T]) -> Iterator[T]:
    """For a fixture of a module: what an asynchronous context gives, in the loop that the tests share."""

    async def keep() -> None:
        async with manager as value:
            given.set_result(value)
            await over.wait()

    async def begin() -> T:
        await asyncio.wait({task, given}, return_when=asyncio.FIRST_COMPLETED)
        return given.result() if given.done() else await task

    async def end() -> None:
        over.set()
        await task

    loop = runner.get_loop()
    given, over, task = loop.create_future(), asyncio.Event(), loop.create_task(keep())
    yield runner.run(begin())
    runner.run(end())


@contextlib.asynccontextmanager
async def direct(entry: Json, *, era: Era = "handshake") -> AsyncIterator[Wire]:
    """A server of the configuration, reached without a workbench."""
    command = [entry["command"], *entry.get("args", [])]
    wire = await Wire.spawn(command, era=era, env=os.environ | entry.get("env", {}))
    try:
        if era == "handshake":
            await wire.handshake()
        yield wire
    finally:
        wire.kill()
        await wire.close()


def environment(home: Path) -> dict[str, str]:
    """Ours, without what would change the program under test."""
    ours = {"WORKBENCH_CONFIG", "WORKBENCH_CATALOG", "WORKBENCH_RECORD", "CI"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    folders = {
        name: str(home / name) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
    }
    paths = [str(SRC), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | folders | {"PYTHONPATH": os.pathsep.join(paths)}


def use_params(toolbox: str, server: str, tool: str, arguments: object = None) -> Json:
    identifier = {"toolbox": toolbox, "server": server, "tool": tool}
    return {"tool": identifier, **({"arguments": arguments} if arguments is not None else {})}


def result_of(message: Json) -> Json:
    """The result of an answer that must not be an error."""
    if "result" not in message:
        pytest.fail(f"expected a result, got {json.dumps(message)[:1000]}")
    return message["result"]


def text_of(result: Json) -> str:
    """The text of a result's first block."""
    return result["content"][0]["text"]


def error_of(result: Json) -> str:
    """The text of a result that must say that the call failed."""
    assert result.get("isError") is True, f"expected an error, got {json.dumps(result)[:1000]}"
    return text_of(result)


def heard(result: Json) -> Json:
    """What the rogue server's echo heard: name, arguments, meta, pid, argv."""
    if result.get("isError"):
        pytest.fail(f"expected an echo, got {text_of(result)}")
    return json.loads(text_of(result))
