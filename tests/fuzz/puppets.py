"""Servers and clients on real pipes in this process, that say whatever they are told to.

Between the two stands everything that `serve` runs, from the bytes of the client to the bytes of the
server; only processes are not started.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, cast
from unittest import mock

from mcp_workbench.config.model import Config, Launch, ServerConfig, ToolboxConfig
from mcp_workbench.limits import Limits
from mcp_workbench.serve.callers import Callers
from mcp_workbench.serve.early_initialize import Greeting
from mcp_workbench.serve.stdio import StdioEndpoint
from mcp_workbench.servers.processes import Processes
from mcp_workbench.surfaces.server_info import EVERYTHING, View
from mcp_workbench.workbench import Workbench
from tests.fuzz.corpus import pack

ID = 7_000_000_000_000_000
"""Stands for the id of a request in what a puppet says; `ID + 1` for the id of the one after it, and so on."""

SMALL = Limits(
    open_timeout_seconds=3,
    startup_timeout_seconds=4,
    probe_patience_seconds=0.5,
    list_page_timeout_seconds=2,
    list_total_timeout_seconds=6,
    call_idle_timeout_seconds=5,
    call_hard_timeout_seconds=20,
    question_seconds=8,
    message_bytes=1024 * 1024,
)
"""Every promise, within a minute of the loop's clock."""
PATIENCE_SECONDS = 60.0
PIPE_TURNS = 100
"""A pipe that nobody reads for so many turns of the loop is not read at all."""

EVERYTHING_OFFERED = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
    "tasks": {"list": {}, "cancel": {}},
}


def good_results(name: str, tool: str = "t", *, modern: bool) -> dict[str, Any]:
    """What an honest server answers to each method."""
    about = {"capabilities": EVERYTHING_OFFERED, "serverInfo": {"name": name, "version": "1"}}
    task = {"taskId": "1", "status": "working", "createdAt": "2026-01-01T00:00:00Z"}
    results: dict[str, Any] = {
        "tools/list": {"tools": [{"name": tool, "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": name}]},
        "prompts/list": {"prompts": [{"name": "p"}]},
        "prompts/get": {"messages": []},
        "resources/list": {"resources": [{"uri": f"mem://{name}", "name": name}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": f"{name}://{{x}}", "name": name}]},
        "resources/read": {"contents": [{"uri": f"mem://{name}", "text": name}]},
        "resources/subscribe": {},
        "resources/unsubscribe": {},
        "completion/complete": {"completion": {"values": []}},
        "logging/setLevel": {},
        "tasks/list": {"tasks": [task]},
        "tasks/get": task,
        "tasks/result": {"content": []},
        "tasks/cancel": task,
        "ping": {},
    }
    if modern:
        return {"server/discover": {"supportedVersions": ["2026-07-28"], **about}, **results}
    return {"initialize": {"protocolVersion": "2025-11-25", **about}, **results}


def stop(transport: asyncio.BaseTransport) -> None:
    """Close a pipe, whatever is still to be written, unless it is closed already."""
    if not transport.is_closing():
        transport.abort() if isinstance(transport, asyncio.WriteTransport) else transport.close()


class Ear(asyncio.Protocol):
    """Hands on each line of a pipe."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_line(line)


class Puppet:
    """A server: answers as `replies` say, else as an honest one, and counts how often it is started."""

    def __init__(
        self, name: str, *, modern: bool = False, tool: str = "t", replies: Mapping[str, list[bytes]] | None = None
    ) -> None:
        self.starts = 0
        self.heard: list[dict[str, Any]] = []
        self._replies = {method: list(queue) for method, queue in (replies or {}).items()}
        self._good = good_results(name, tool, modern=modern)
        self._strings: list[Strings] = []

    def attach(self, strings: Strings) -> None:
        self.starts += 1
        self._strings.append(strings)

    def hear(self, line: bytes, strings: Strings) -> None:
        """A line on one of its connections; the reply goes there."""
        message = parsed(line)
        self.heard.append(message)
        if "method" in message and "id" in message:
            strings.write(self._reply(message["method"]).replace(str(ID).encode(), str(message["id"]).encode()))

    def say(self, data: bytes) -> None:
        """On the connection that was opened last."""
        self._strings[-1].write(data)

    async def said(self) -> None:
        """All of it was read, or nobody reads any more."""
        await drained(lambda: self._strings[-1].unread)

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.heard if message.get("method") == method]

    def _reply(self, method: str) -> bytes:
        if queue := self._replies.get(method):
            return queue.pop(0)
        if method in self._good:
            answer: dict[str, Any] = {"result": self._good[method]}
        elif method == "subscriptions/listen":
            return b""
        else:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        return json.dumps({"jsonrpc": "2.0", "id": ID, **answer}).encode() + b"\n"


class Strings:
    """The other ends of a puppet's pipes, as `Child` has them."""

    pid = 0
    marker = ""

    def __init__(self, puppet: Puppet) -> None:
        self._puppet = puppet
        self._loop = asyncio.get_running_loop()
        self._pipes = {"stdin": os.pipe(), "stdout": os.pipe(), "stderr": os.pipe()}
        self._claimed: set[str] = set()
        self._transports: list[asyncio.BaseTransport] = []
        self._said: list[bytes] = []
        self._mouth: asyncio.WriteTransport | None = None
        self.exited: asyncio.Future[int] = self._loop.create_future()
        puppet.attach(self)
        self._attached = self._loop.create_task(self._attach())

    def descriptor(self, name: str) -> int:
        """The workbench's end, which it owns from now on."""
        self._claimed.add(name)
        return self._pipes[name][name == "stdin"]

    def write(self, data: bytes) -> None:
        if self._mouth is None:
            self._said.append(data)
        elif data and not self._mouth.is_closing():
            self._mouth.write(data)

    @property
    def unread(self) -> int:
        return self._mouth.get_write_buffer_size() if self._mouth is not None else 1

    async def _attach(self) -> None:
        stdin = os.fdopen(self._pipes["stdin"][0], "rb", buffering=0)
        stdout = os.fdopen(self._pipes["stdout"][1], "wb", buffering=0)
        ear, _ = await self._loop.connect_read_pipe(lambda: Ear(lambda line: self._puppet.hear(line, self)), stdin)
        mouth, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, stdout)
        self._transports += [ear, mouth]
        self._mouth = mouth
        self.write(b"".join(self._said))

    async def end(self) -> None:
        await self._attached
        for transport in self._transports:
            stop(transport)
        for name, ends in self._pipes.items():
            ours = name == "stdin"
            if name not in self._claimed:
                os.close(ends[ours])
            if name == "stderr":
                os.close(ends[1])
        self._claimed = set(self._pipes)
        self._pipes = {}
        if not self.exited.done():
            self.exited.set_result(0)


class Strung:
    """`Processes` whose programs are puppets, by their command."""

    def __init__(self, puppets: Mapping[str, Puppet]) -> None:
        self._puppets = puppets

    def spawn(self, launch: Launch) -> Strings:
        return Strings(self._puppets[launch.command])

    async def end(self, child: Strings) -> None:
        await child.end()

    async def close(self) -> None:
        """Each was ended by who opened it."""

    def kill_all(self) -> None:
        """There is nothing to kill."""


def strung(puppets: Mapping[str, Puppet]) -> Processes:
    return cast("Processes", Strung(puppets))


class Host:
    """A client on two pipes: sends bytes, keeps every line that it gets, and answers what it is asked."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.source, self._to = os.pipe()
        self._from, self.sink = os.pipe()
        self._answers = answers
        self._waiting: list[tuple[Callable[[], object], asyncio.Future[None]]] = []
        self.lines: list[bytes] = []
        self.messages: list[dict[str, Any]] = []

    async def attach(self) -> None:
        loop = asyncio.get_running_loop()
        ear, mouth = os.fdopen(self._from, "rb", buffering=0), os.fdopen(self._to, "wb", buffering=0)
        self._ear, _ = await loop.connect_read_pipe(lambda: Ear(self._hear), ear)
        self._mouth, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, mouth)

    def say(self, data: bytes) -> None:
        if data:
            self._mouth.write(data)

    async def said(self) -> None:
        """All of it was read, or nobody reads any more."""
        await drained(self._mouth.get_write_buffer_size)

    def send(self, **message: Any) -> None:
        self.say(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answers_to(self, id_: Any) -> list[dict[str, Any]]:
        return [one for one in self.messages if "method" not in one and same(one.get("id"), id_)]

    async def ask(self, id_: Any, method: str, params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer, as long as the promises allow."""
        self.send(id=id_, method=method, params=params)
        await self.until(lambda: self.answers_to(id_))
        return self.answers_to(id_)[0]

    async def until(self, condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        if condition():
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, reached))
        async with asyncio.timeout(seconds):
            await reached

    def hang_up(self) -> None:
        self._mouth.close()

    def close(self) -> None:
        stop(self._mouth)
        stop(self._ear)

    def _hear(self, line: bytes) -> None:
        self.lines.append(line)
        message = parsed(line)
        self.messages.append(message)
        if self._answers is not None and "method" in message and "id" in message:
            self.send(id=message["id"], result=self._answers.get(message["method"], {}))
        for condition, reached in self._waiting:
            if not reached.done() and condition():
                reached.set_result(None)


def same(one: object, other: object) -> bool:
    """Whether two ids are the same: 1 is neither 1.0 nor true."""
    return type(one) is type(other) and one == other


def parsed(line: bytes) -> dict[str, Any]:
    """A line that must be one JSON-RPC message, in UTF-8, with numbers of any length."""
    message = json.loads(line.decode(), parse_int=_number, parse_constant=_refuse)
    assert isinstance(message, dict), line
    assert message["jsonrpc"] == "2.0"
    is_answer = "method" not in message
    assert is_answer == (("result" in message) != ("error" in message)), line
    return message


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 100 else float(digits)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


def config_of(
    toolboxes: Mapping[str, Mapping[str, Puppet]], filters: Mapping[str, tuple[str, ...]] | None = None, **settings: Any
) -> Config:
    """A configuration whose servers are these puppets; `filters` by server."""
    return Config(
        file="/etc/workbench-config.json",
        toolboxes={
            toolbox: ToolboxConfig(
                name=toolbox,
                description=f"The toolbox {toolbox}",
                servers={
                    name: ServerConfig(
                        name=name,
                        toolbox=toolbox,
                        target=Launch(command=f"{toolbox}/{name}"),
                        tool_filters=(filters or {}).get(name, ()),
                    )
                    for name in servers
                },
            )
            for toolbox, servers in toolboxes.items()
        },
        **settings,
    )


@contextlib.asynccontextmanager
async def bench(
    toolboxes: Mapping[str, Mapping[str, Puppet]],
    *,
    limits: Limits = SMALL,
    filters: Mapping[str, tuple[str, ...]] | None = None,
    **settings: Any,
) -> AsyncGenerator[Workbench]:
    """A workbench in front of puppets."""
    puppets = {f"{toolbox}/{name}": one for toolbox, servers in toolboxes.items() for name, one in servers.items()}
    with mock.patch("mcp_workbench.servers.processes.Processes", return_value=strung(puppets)):
        async with Workbench(config_of(toolboxes, filters, **settings), limits=limits) as workbench:
            yield workbench


@contextlib.asynccontextmanager
async def hosted(
    workbench: Workbench, view: View = EVERYTHING, answers: Mapping[str, Any] | None = None
) -> AsyncGenerator[Host]:
    """A client of a workbench; at the end it hangs up, and has the answers to all that it asked."""
    host = Host(answers)
    await host.attach()
    front = StdioEndpoint(workbench, Greeting(Callers("client", view)), view, drain=True)
    run = asyncio.ensure_future(front.run(host.source, host.sink))
    try:
        yield host
        host.hang_up()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await run == 0
    finally:
        run.cancel()
        await front.close()
        await asyncio.sleep(0)
        host.close()


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data in pieces."""
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:stop] for start, stop in itertools.pairwise(bounds)]


def packed(replies: Mapping[str, Any]) -> dict[str, list[bytes]]:
    """Replies as a corpus file has them."""
    return {method: [pack(spec) for spec in specs] for method, specs in replies.items()}


async def drained(unread: Callable[[], int]) -> None:
    """What was written has been read, or will not be: then nothing moves for a while."""
    left, turns = unread(), 0
    while left and turns < PIPE_TURNS:
        await asyncio.sleep(0)
        turns = 0 if unread() != left else turns + 1
        left = unread()


async def settle(turns: int = 30) -> None:
    """Let everything that is ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)
