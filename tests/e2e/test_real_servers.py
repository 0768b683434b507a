"""Real servers behind the workbench, real clients in front of it, in every mode that the official client has."""

from __future__ import annotations

import asyncio
import itertools
import json
import operator
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from tests.support.configs import Toolboxes, write_config
from tests.support.procs import poll_until
from tests.support.reference import clock, everything, filesystem, git, memory
from tests.support.wire import Era, Wire, direct, environment, lasting, serving, text_of, use_params

MODES = ["legacy", "auto", "2026-07-28"]
MODERN_SERVER = Path(__file__).parents[1] / "peers" / "modern_server.py"

each_mode = pytest.mark.parametrize("mode", MODES, scope="module")


class Place(NamedTuple):
    """What the servers work with."""

    folder: Path
    repository: Path
    boxes: Toolboxes
    config: Path


def furnished(place: Path) -> Place:
    """Five real servers of both eras, and one on the modern SDK."""
    folder = place.resolve() / "files"
    folder.mkdir()
    (folder / "hello.txt").write_text("héllo\n", encoding="utf-8")
    repository = place / "repository"
    repository.mkdir()
    (repository / "a.txt").write_text("a\n", encoding="utf-8")
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "Add a"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    boxes: Toolboxes = {
        "files": {"filesystem": filesystem(folder), "git": git(repository)},
        "mind": {"memory": memory(place), "time": clock()},
        "all": {"everything": everything()},
        "new": {"modern": {"command": sys.executable, "args": [str(MODERN_SERVER)]}},
    }
    return Place(folder, repository, boxes, write_config(place, boxes))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, mode: str) -> Place:
    """What the official client in this mode works with."""
    return furnished(tmp_path_factory.mktemp(mode))


@pytest.fixture(scope="module")
def client(shared_loop: asyncio.Runner, place: Place, mode: str) -> Iterator[Client]:
    """The official client in this mode, in front of all servers."""
    with lasting(shared_loop, official_client(place.config, mode)) as running:
        yield running


@pytest.fixture(scope="module")
def raw_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return furnished(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def wires(shared_loop: asyncio.Runner, raw_place: Place) -> Iterator[dict[Era, Wire]]:
    """A raw client of each era, in front of all servers."""
    started = (serving(raw_place.config), serving(raw_place.config, era="modern"))
    with lasting(shared_loop, started[0]) as old, lasting(shared_loop, started[1]) as new:
        yield {"handshake": old, "modern": new}


@asynccontextmanager
async def official_client(config: Path, mode: str) -> AsyncIterator[Client]:
    """The workbench as the official client starts it."""
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_workbench", "serve", "--config", str(config)],
        env=environment(config.parent / "home"),
    )
    async with Client(program, mode=mode) as client:
        yield client


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
async def test_five_servers_are_opened_and_used_through_the_official_client(client: Client, place: Place):
    folder, repository = place.folder, place.repository
    assert [tool.name for tool in (await client.list_tools()).tools] == ["open_toolbox", "use_tool"]
    for toolbox, servers in place.boxes.items():
        answer = await opened(client, toolbox)
        assert answer["servers_connected"] == len(servers), answer.get("servers_failed")
    target = str(folder / "new.txt")
    await use(client, "files", "filesystem", "write_file", {"path": target, "content": "written"})
    assert (folder / "new.txt").read_text(encoding="utf-8") == "written"
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
    assert [tool["name"] for tool in (await opened(client, "new"))["tools"]] == ["echo", "grow", "fail", "count"]
    assert (await use(client, "new", "modern", "echo", {"text": "hi"})).content[0].text == "hi"
    failed = await use(client, "new", "modern", "fail")
    assert (failed.is_error, failed.content[0].text) == (True, "it failed by itself")


async def test_a_tool_that_a_modern_server_adds_is_listed_and_callable(wires: dict[Era, Wire]):
    wire = wires["handshake"]
    before = await wire.open("new")
    await wire.use("new", "modern", "grow")

    async def grown() -> bool:
        return await wire.open("new") != before

    await poll_until(grown, what="the new tool")
    assert text_of(await wire.use("new", "modern", "grown_4")) == "grown_4"


# -- compared with the server itself, on the raw wire


def era_of(server: str) -> Era:
    """The servers on npm are of the handshake era, those on PyPI speak both."""
    return "modern" if server in {"git", "time"} else "handshake"


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
    for (toolbox, server), samples in itertools.groupby(SAMPLES, key=operator.itemgetter(0, 1)):
        async with direct(raw_place.boxes[toolbox][server], era=era_of(server)) as itself:
            origin = {"toolbox_name": toolbox, "source_server": server}
            listed = (await wires["handshake"].open(toolbox, detail="full"))["tools"]
            ours = [tool for tool in listed if tool["source_server"] == server]
            assert ours == [tool | origin for tool in await itself.list_tools()]
            for _, _, tool, sample in samples:
                arguments = {name: places.get(str(value), value) for name, value in sample.items()}
                message = await itself.request("tools/call", {"name": tool, "arguments": arguments})
                for wire in wires.values():
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
    params = {"name": "use_tool", "arguments": call, "_meta": {"progressToken": 1}}
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
