"""Real servers behind the workbench, real clients in front of it, in every mode that the official client has."""

from __future__ import annotations

import itertools
import json
import operator
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from tests.support.configs import Toolboxes, write_config
from tests.support.procs import poll_until
from tests.support.reference import clock, everything, filesystem, git, memory
from tests.support.wire import Era, direct, environment, serving, text_of, use_params

MODES = ["legacy", "auto", "2026-07-28"]
MODERN_SERVER = Path(__file__).parents[1] / "peers" / "modern_server.py"

each_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the filesystem server may see."""
    place = tmp_path / "files"
    place.mkdir()
    (place / "hello.txt").write_text("héllo\n", encoding="utf-8")
    return place.resolve()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    (place / "a.txt").write_text("a\n", encoding="utf-8")
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "Add a"]):
        subprocess.run(["git", *command], cwd=place, check=True)
    return place


@pytest.fixture
def boxes(tmp_path: Path, folder: Path, repository: Path) -> Toolboxes:
    files = {"filesystem": filesystem(folder), "git": git(repository)}
    return {"files": files, "mind": {"memory": memory(tmp_path), "time": clock()}, "all": {"everything": everything()}}


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
async def test_five_servers_are_opened_and_used_through_the_official_client(
    tmp_path: Path, boxes: Toolboxes, folder: Path, repository: Path, mode: str
):
    async with official_client(write_config(tmp_path, boxes), mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["open_toolbox", "use_tool"]
        for toolbox, servers in boxes.items():
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
async def test_a_server_keeps_its_state_between_calls(tmp_path: Path, mode: str):
    async with official_client(write_config(tmp_path, {"mind": {"memory": memory(tmp_path)}}), mode) as client:
        entity = {"name": "workbench", "entityType": "program", "observations": ["it is tested"]}
        await use(client, "mind", "memory", "create_entities", {"entities": [entity]})
        graph = await use(client, "mind", "memory", "read_graph")
        assert graph.structured_content == {"entities": [entity], "relations": []}


@each_mode
async def test_an_error_of_a_tool_passes_through(tmp_path: Path, folder: Path, mode: str):
    async with official_client(write_config(tmp_path, {"files": {"filesystem": filesystem(folder)}}), mode) as client:
        result = await use(client, "files", "filesystem", "read_text_file", {"path": str(folder / "missing.txt")})
        assert result.is_error
        assert "ENOENT" in result.content[0].text
        assert "mcp-workbench/error" not in (result.meta or {})


@each_mode
async def test_progress_arrives_before_the_answer(tmp_path: Path, mode: str):
    seen: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, _: str | None) -> None:
        seen.append((progress, total))

    async with official_client(write_config(tmp_path, {"all": {"everything": everything()}}), mode) as client:
        steps = {"duration": 0.4, "steps": 4}
        result = await use(client, "all", "everything", "trigger-long-running-operation", steps, progress_callback=note)
        assert not result.is_error
        assert seen == [(step, 4) for step in range(1, 5)]


@each_mode
async def test_a_modern_server_serves_clients_of_every_mode(tmp_path: Path, mode: str):
    entry = {"command": sys.executable, "args": [str(MODERN_SERVER)]}
    async with official_client(write_config(tmp_path, {"new": {"modern": entry}}), mode) as client:
        assert [tool["name"] for tool in (await opened(client, "new"))["tools"]] == ["echo", "grow", "fail", "count"]
        assert (await use(client, "new", "modern", "echo", {"text": "hi"})).content[0].text == "hi"
        failed = await use(client, "new", "modern", "fail")
        assert (failed.is_error, failed.content[0].text) == (True, "it failed by itself")


async def test_a_tool_that_a_modern_server_adds_is_listed_and_callable(tmp_path: Path):
    entry = {"command": sys.executable, "args": [str(MODERN_SERVER)]}
    async with serving(write_config(tmp_path, {"new": {"modern": entry}})) as wire:
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


async def test_every_list_and_every_result_is_what_the_server_itself_answers(
    tmp_path: Path, boxes: Toolboxes, folder: Path, repository: Path
):
    places = {"{folder}": str(folder), "{repository}": str(repository)}
    config = write_config(tmp_path, boxes)
    async with serving(config) as old, serving(config, era="modern") as new:
        listed = {toolbox: (await old.open(toolbox, detail="full"))["tools"] for toolbox in boxes}
        for (toolbox, server), samples in itertools.groupby(SAMPLES, key=operator.itemgetter(0, 1)):
            async with direct(boxes[toolbox][server], era=era_of(server)) as itself:
                origin = {"toolbox_name": toolbox, "source_server": server}
                ours = [tool for tool in listed[toolbox] if tool["source_server"] == server]
                assert ours == [tool | origin for tool in await itself.list_tools()]
                for _, _, tool, sample in samples:
                    arguments = {name: places.get(str(value), value) for name, value in sample.items()}
                    message = await itself.request("tools/call", {"name": tool, "arguments": arguments})
                    for wire in (old, new):
                        answer = await wire.use(toolbox, server, tool, arguments)
                        assert answer == as_seen_by(wire.era, message["result"]), tool


def as_seen_by(era: Era, result: dict[str, Any]) -> dict[str, Any]:
    """A result as a client of this era must get it: only `resultType` differs."""
    without = {key: value for key, value in result.items() if key != "resultType"}
    return without | ({"resultType": "complete"} if era == "modern" else {})


async def test_the_everything_server_lists_thirteen_tools_to_a_client_that_cannot_be_asked(tmp_path: Path):
    async with serving(write_config(tmp_path, {"all": {"everything": everything()}})) as wire:
        assert len((await wire.open("all"))["tools"]) == 13


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_cancelling_a_long_operation_leaves_its_server_usable_and_sends_no_answer(tmp_path: Path, era: Era):
    async with serving(write_config(tmp_path, {"all": {"everything": everything()}}), era=era) as wire:
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


async def test_servers_of_both_eras_work_side_by_side(tmp_path: Path):
    both = {"old": everything(), "new": clock()}
    async with serving(write_config(tmp_path, {"both": both})) as wire:
        assert (await wire.open("both"))["servers_connected"] == 2
