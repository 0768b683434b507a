"""Real servers behind the workbench, real clients in front of it, in every mode that the official client has."""

from __future__ import annotations

import asyncio
import itertools
import json
import operator
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import anyio
import pytest
from anyio.streams.memory import MemoryObjectSendStream
from mcp import Client, StdioServerParameters
from mcp.client._transport import TransportStreams, WriteStream
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage
from mcp.types import (
    CallToolResult,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)

from tests.support.configs import Server, Toolboxes, write_config
from tests.support.procs import poll_until
from tests.support.reference import clock, everything, filesystem, git, memory
from tests.support.warm import warm_servers
from tests.support.wire import LINE_BYTES, Era, Wire, direct, environment, lasting, text_of, use_params

MODES = ["legacy", "auto", "2026-07-28"]

each_mode = pytest.mark.parametrize("mode", MODES)


class Place(NamedTuple):
    """What the servers work with."""

    folder: Path
    repository: Path
    boxes: Toolboxes
    config: Path


def furnished(place: Path, mode: str, modern: Server) -> Place:
    """Five real servers of both eras, and one on the modern SDK; but for its memory, the same for every client."""
    folder = place.resolve() / "files"
    repository = place / "repository"
    own = place / mode
    own.mkdir()
    boxes: Toolboxes = {
        "files": {"filesystem": filesystem(folder), "git": git(repository)},
        "mind": {"memory": memory(own), "time": clock()},
        "all": {"everything": everything()},
        "new": {"modern": modern},
    }
    return Place(folder, repository, boxes, write_config(own, boxes))


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a folder of files and a repository."""
    place = tmp_path_factory.mktemp("common")
    (place / "files").mkdir()
    (place / "files" / "hello.txt").write_text("héllo\n", encoding="utf-8")
    repository = place / "repository"
    repository.mkdir()
    (repository / "a.txt").write_text("a\n", encoding="utf-8")
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "Add a"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    return place


class Running(NamedTuple):
    """The official client in a mode, in front of all servers; and a raw client on the same wire."""

    place: Place
    client: Client
    wire: Wire


@pytest.fixture(scope="module")
def running(shared_loop: asyncio.Runner, common: Path) -> Iterator[Callable[[str], Running]]:
    """For each mode, started when it is first asked for."""
    started: dict[str, Running] = {}
    with warm_servers() as warm, ExitStack() as stack:

        def at(mode: str) -> Running:
            if mode not in started:
                place = furnished(common, mode, warm("modern_server"))
                client, wire = stack.enter_context(lasting(shared_loop, official_client(place.config, mode)))
                started[mode] = Running(place, client, wire)
            return started[mode]

        yield at


@pytest.fixture
def place(running: Callable[[str], Running], mode: str) -> Place:
    """What the official client in this mode works with."""
    return running(mode).place


@pytest.fixture
def client(running: Callable[[str], Running], mode: str) -> Client:
    """The official client in this mode, in front of all servers."""
    return running(mode).client


@pytest.fixture
def raw_place(running: Callable[[str], Running]) -> Place:
    return running("legacy").place


@pytest.fixture
def wires(running: Callable[[str], Running]) -> dict[Era, Wire]:
    """A raw client of each era, in front of all servers."""
    return {"handshake": running("legacy").wire, "modern": running("auto").wire}


class Beside:
    """What a `Wire` needs of a process, on the wire of an official client: what is answered to it is taken out."""

    FIRST_ID = 1_000_000

    def __init__(self) -> None:
        self.stdin = self
        self.stdout = asyncio.StreamReader(limit=LINE_BYTES)
        self.stderr = asyncio.StreamReader()
        self.returncode = None
        self._written: list[bytes] = []
        self._send: WriteStream[SessionMessage] | None = None

    def wire(self, era: Era) -> Wire:
        wire = Wire(cast("Any", self), era)
        wire.last_id = self.FIRST_ID
        return wire

    def write(self, data: bytes) -> None:
        self._written.append(data)

    async def drain(self) -> None:
        assert self._send is not None
        while self._written:
            message = jsonrpc_message_adapter.validate_json(self._written.pop(0))
            await self._send.send(SessionMessage(message))

    async def wait(self) -> None:
        await asyncio.Event().wait()

    @asynccontextmanager
    async def transport(self, program: StdioServerParameters) -> AsyncIterator[TransportStreams]:
        """That of the official client, less what is for the raw one."""
        async with stdio_client(program) as (received, sent), anyio.create_task_group() as tasks:
            self._send = sent
            left, kept = anyio.create_memory_object_stream[SessionMessage | Exception]()
            tasks.start_soon(self._divert, received, left)
            yield kept, sent
            tasks.cancel_scope.cancel()
            kept.close()
        self.stdout.feed_eof()
        self.stderr.feed_eof()

    async def _divert(self, received: Any, left: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with left:
            async for message in received:
                if isinstance(message, SessionMessage) and self._is_ours(message.message):
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self.stdout.feed_data(line.encode() + b"\n")
                else:
                    await left.send(message)

    def _is_ours(self, message: JSONRPCMessage) -> bool:
        """Our ids are large, and our tokens of progress are words."""
        if isinstance(message, JSONRPCNotification):
            return isinstance((message.params or {}).get("progressToken"), str)
        return not isinstance(message, JSONRPCRequest) and int(message.id or 0) > self.FIRST_ID


@asynccontextmanager
async def official_client(config: Path, mode: str) -> AsyncIterator[tuple[Client, Wire]]:
    """The workbench as the official client starts it."""
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_workbench", "serve", "--config", str(config)],
        env=environment(config.parent / "home"),
    )
    beside = Beside()
    async with Client(beside.transport(program), mode=mode) as client:
        wire = beside.wire("handshake" if mode == "legacy" else "modern")
        yield client, wire
    await asyncio.gather(*wire.readers)


async def opened(client: Client, toolbox: str) -> dict[str, Any]:
    result = await client.call_tool("open_toolbox", {"toolbox": toolbox})
    assert not result.is_error, result
    return json.loads(result.content[0].text)


async def use(
    client: Client, toolbox: str, server: str, tool: str, arguments: Any = None, **options: Any
) -> CallToolResult:
    return await client.call_tool("use_tool", use_params(toolbox, server, tool, arguments or {}), **options)


# -- through the official client


@each_mode
async def test_five_servers_are_opened_and_used_through_the_official_client(client: Client, place: Place, mode: str):
    folder, repository = place.folder, place.repository
    assert [tool.name for tool in (await client.list_tools()).tools] == ["open_toolbox", "use_tool"]
    for toolbox, servers in place.boxes.items():
        answer = await opened(client, toolbox)
        assert answer["servers_connected"] == len(servers), answer.get("servers_failed")
    written = folder / f"{mode}.txt"
    await use(client, "files", "filesystem", "write_file", {"path": str(written), "content": "written"})
    assert written.read_text(encoding="utf-8") == "written"
    read = await use(client, "files", "filesystem", "read_text_file", {"path": str(folder / "hello.txt")})
    assert read.content[0].text == "héllo\n"
    log = await use(client, "files", "git", "git_log", {"repo_path": str(repository)})
    assert "Add a" in log.content[0].text
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    assert "21:00" in (await use(client, "mind", "time", "convert_time", noon)).content[0].text
    summed = await use(client, "all", "everything", "get-sum", {"a": 2, "b": 3})
    assert "5" in summed.content[0].text


@each_mode
async def test_a_server_keeps_its_state_between_calls(client: Client):
    entity = {"name": "workbench", "entityType": "program", "observations": ["it is tested"]}
    await use(client, "mind", "memory", "create_entities", {"entities": [entity]})
    graph = await use(client, "mind", "memory", "read_graph")
    assert graph.structured_content == {"entities": [entity], "relations": []}


@each_mode
async def test_an_error_of_a_tool_passes_through(client: Client, place: Place):
    result = await use(client, "files", "filesystem", "read_text_file", {"path": str(place.folder / "missing.txt")})
    assert result.is_error
    assert "ENOENT" in result.content[0].text
    assert "mcp-workbench/error" not in (result.meta or {})


@each_mode
async def test_progress_arrives_before_the_answer(client: Client):
    seen: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, _: str | None) -> None:
        seen.append((progress, total))

    steps = {"duration": 0.4, "steps": 4}
    result = await use(client, "all", "everything", "trigger-long-running-operation", steps, progress_callback=note)
    assert not result.is_error
    assert seen == [(step, 4) for step in range(1, 5)]


@each_mode
async def test_a_modern_server_serves_clients_of_every_mode(client: Client):
    names = [tool["name"] for tool in (await opened(client, "new"))["tools"]]
    assert [name for name in names if not name.startswith("grown_")] == ["echo", "grow", "fail", "count"]
    assert (await use(client, "new", "modern", "echo", {"text": "hi"})).content[0].text == "hi"
    failed = await use(client, "new", "modern", "fail")
    assert (failed.is_error, failed.content[0].text) == (True, "it failed by itself")


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_tool_that_a_server_of_both_eras_adds_is_listed_and_callable(wires: dict[Era, Wire], era: Era):
    wire = wires[era]
    before = await wire.open("new")
    await wire.use("new", "modern", "grow")

    async def grown() -> bool:
        return await wire.open("new") != before

    await poll_until(grown, what="the new tool")
    assert text_of(await wire.use("new", "modern", "grown_4")) == "grown_4"


# -- compared with the server itself, on the raw wire


def era_of(server: str, client: Era) -> Era:
    """The servers on npm are of the handshake era, those on PyPI speak that of their client."""
    return client if server in {"git", "time"} else "handshake"


SAMPLES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("all", "everything", "get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("all", "everything", "get-structured-content", {"location": "Chicago"}),
    ("all", "everything", "get-resource-links", {"count": 2}),
    ("all", "everything", "get-tiny-image", {}),
    ("all", "everything", "get-sum", {"a": "no number"}),
    ("mind", "memory", "search_nodes", {"query": "nothing"}),
    ("mind", "time", "convert_time", {"source_timezone": "Mars/Base", "time": "1:00", "target_timezone": "UTC"}),
    ("files", "filesystem", "list_directory", {"path": "{folder}"}),
    ("files", "filesystem", "read_text_file", {"path": "/etc/passwd"}),
    ("files", "git", "git_status", {"repo_path": "{repository}"}),
    ("files", "git", "git_show", {"repo_path": "{repository}", "revision": "no-such-revision"}),
]


async def test_every_list_and_every_result_is_what_the_server_itself_answers(wires: dict[Era, Wire], raw_place: Place):
    places = {"{folder}": str(raw_place.folder), "{repository}": str(raw_place.repository)}
    grouped = itertools.groupby(SAMPLES, key=operator.itemgetter(0, 1))
    for ((toolbox, server), samples), wire in itertools.product(
        [(key, [*group]) for key, group in grouped], wires.values()
    ):
        async with direct(raw_place.boxes[toolbox][server], era=era_of(server, wire.era)) as itself:
            origin = {"toolbox_name": toolbox, "source_server": server}
            listed = (await wire.open(toolbox, detail="full"))["tools"]
            ours = [tool for tool in listed if tool["source_server"] == server]
            assert ours == [tool | origin for tool in await itself.list_tools()]
            for _, _, tool, sample in samples:
                arguments = {name: places.get(str(value), value) for name, value in sample.items()}
                message = await itself.request("tools/call", {"name": tool, "arguments": arguments})
                answer = await wire.use(toolbox, server, tool, arguments)
                assert answer == as_seen_by(wire.era, message["result"]), tool


def as_seen_by(era: Era, result: dict[str, Any]) -> dict[str, Any]:
    """A result as a client of this era must get it: only `resultType` differs."""
    without = {key: value for key, value in result.items() if key != "resultType"}
    return without | ({"resultType": "complete"} if era == "modern" else {})


async def test_the_everything_server_lists_thirteen_tools_to_a_client_that_cannot_be_asked(wires: dict[Era, Wire]):
    assert len((await wires["handshake"].open("all"))["tools"]) == 13


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_cancelling_a_long_operation_leaves_its_server_usable_and_sends_no_answer(
    wires: dict[Era, Wire], era: Era
):
    wire = wires[era]
    call = use_params("all", "everything", "trigger-long-running-operation", {"duration": 30, "steps": 300})
    params = {"name": "use_tool", "arguments": call, "_meta": {"progressToken": "ours"}}
    number = await wire.begin("tools/call", params)
    await wire.notification("notifications/progress", 2)
    await wire.notify("notifications/cancelled", {"requestId": number})
    result = await wire.use("all", "everything", "echo", {"message": "still here"})
    assert "still here" in text_of(result)
    late = len(wire.seen("notifications/progress"))
    await wire.use("all", "everything", "echo", {"message": "again"})
    assert len(wire.seen("notifications/progress")) <= late + 1
    assert all(message.get("id") != number for message in wire.order)


async def test_servers_of_both_eras_work_side_by_side(wires: dict[Era, Wire]):
    for toolbox in ("files", "mind"):
        assert (await wires["handshake"].open(toolbox))["servers_connected"] == 2
