"""Hosts that reach the workbench over HTTP: the official TypeScript clients, the Inspector, and `mcp-remote`.

What they see is compared with what the same clients see of the server itself over stdio.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters

from tests.e2e.test_typescript_clients import (
    ASKING_TOOLS,
    CANCELLED,
    ERRORS,
    HANDSHAKE_ONLY,
    LISTS,
    MODERN_ONLY,
    NEW,
    OLD,
    PINNED,
    PLAIN_TOOLS,
    PROMPTS,
    RESOURCES,
    SECOND,
    SERVER,
    TELLABLE,
    TOOLBOX,
    as_meta,
    assert_same,
    call,
)
from tests.serve.http.serving import ALICE, BOB, Served, program
from tests.support.configs import write_config
from tests.support.reference import COMPILED, everything, inspector, mcp_remote
from tests.support.typescript import PASSED_ON, Play, Player, Scene, masked, play, play_all, play_of, without_execution
from tests.support.wire import lasting, use_params

Json = dict[str, Any]
Endpoint = Literal["", "/all", "/all/everything"]

TRIED = [
    "echo",
    "get-annotated-message",
    "get-structured-content",
    "get-sum of no number",
    "get-tiny-image",
    "trigger-long-running-operation",
]
COMPARED = (
    ASKING_TOOLS
    | LISTS
    | {label: PLAIN_TOOLS[label] for label in TRIED}
    | {label: RESOURCES[label] for label in ("dynamic text", "gzip-file-as-resource link", "session resource")}
    | {label: PROMPTS[label] for label in ("args-prompt", "complete a first argument")}
    | ERRORS
)
RUN_SECONDS = 60.0
LATE = re.compile("progress notification for an unknown token|Request cancelled")


def script_of(player: Player) -> dict[str, Json]:
    """Of everything that there is, enough to see each kind of message pass."""
    if player.mode == "legacy":
        return COMPARED | HANDSHAKE_ONLY | CANCELLED
    return MODERN_ONLY | COMPARED | CANCELLED


@pytest.fixture(scope="module")
def workbench(shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One workbench for all hosts, with two tokens."""
    folder = tmp_path_factory.mktemp("http")
    config = write_config(folder, {TOOLBOX: {SERVER: everything()}})
    tokens = folder / "tokens"
    tokens.write_text(f"alice: {ALICE}\nbob: {BOB}\n", encoding="utf-8")
    tokens.chmod(0o600)
    with lasting(shared_loop, program(config, "--token-file", str(tokens), env={"WORKBENCH_TOKEN": ""})) as running:
        yield running


AT_SERVER: Endpoint = "/all/everything"
Key = tuple[Player, Endpoint | None]
"""A client and where it plays; nowhere is with the server itself, over stdio."""

GROUPS: list[list[Key]] = [
    [(OLD, None), (OLD, AT_SERVER)],
    [(SECOND, None), *((player, AT_SERVER) for player in (SECOND, NEW, PINNED))],
    [(OLD, ""), (OLD, "/all")],
    [(NEW, ""), (NEW, "/all")],
]
"""What one process of a client plays."""


class Stage:
    """Plays each script once."""

    def __init__(self, workbench: Served, folder: Path) -> None:
        self._workbench = workbench
        self._folder = folder
        self._played: dict[Key, Play | str] = {}

    def itself(self, player: Player) -> Play:
        """The server over stdio, which is of the handshake era."""
        return self._play((Player(player.driver), None))

    def over_http(self, player: Player, endpoint: Endpoint = AT_SERVER) -> Play:
        return self._play((player, endpoint))

    def _play(self, key: Key) -> Play:
        if key not in self._played:
            (group,) = [group for group in GROUPS if key in group]
            played = play_all([self._scene(*one) for one in group], self._folder)
            self._played.update(zip(group, played, strict=True))
        return play_of(self._played[key])

    def _scene(self, player: Player, endpoint: Endpoint | None) -> Scene:
        steps = script_of(player)
        if endpoint is None:
            entry = everything()
            return Scene(player, [entry["command"], *entry["args"]], steps, entry["env"], TELLABLE)
        if not endpoint:
            steps = {"open": call("open_toolbox", {"toolbox": TOOLBOX})} | {
                label: as_meta(step) for label, step in steps.items()
            }
        address = {"url": f"{self._workbench.url}/mcp{endpoint}", "headers": {"Authorization": f"Bearer {ALICE}"}}
        return Scene(player, [], steps, {}, TELLABLE | address)


@pytest.fixture(scope="module")
def stage(workbench: Served, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(workbench, tmp_path_factory.mktemp("plays"))


def each(players: list[Player]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("player", players, ids=str)


# -- the official TypeScript clients


@each([OLD, SECOND, NEW])
def test_a_server_over_http_answers_as_the_server_itself(stage: Stage, player: Player):
    itself, through = stage.itself(player), stage.over_http(player)
    for label in COMPARED:
        assert_same(through[label], itself[label], player)


@each([OLD, SECOND])
def test_a_server_over_http_does_what_only_the_handshake_era_has(stage: Stage, player: Player):
    itself, through = stage.itself(player), stage.over_http(player)
    for label in HANDSHAKE_ONLY:
        assert_same(through[label], itself[label], player)


def test_a_server_over_http_logs_and_notifies_in_the_modern_era(stage: Stage):
    itself, through = stage.itself(NEW), stage.over_http(NEW)
    for label in list(MODERN_ONLY)[1:]:
        assert_same(through[label], itself[label], NEW)


@each([OLD, SECOND, NEW, PINNED])
def test_a_client_over_http_is_greeted_in_its_era(stage: Stage, player: Player):
    report = stage.over_http(player).report
    assert report["greeting"]["protocolVersion"] == ("2025-11-25" if player.mode == "legacy" else "2026-07-28")
    # The answer that ends the stream of a call that was given up comes to a client which has forgotten it.
    assert [one for one in report["problems"] if not LATE.search(one["message"])] == []


@each([OLD, SECOND, NEW])
def test_a_call_that_a_client_gives_up_ends_and_the_next_is_answered(stage: Stage, player: Player):
    through = stage.over_http(player)
    assert "error" in through["cancelled"]
    assert "result" in through["after the cancelled"]


@each([OLD, NEW])
def test_the_two_tools_over_http_reach_every_tool_and_the_client_that_calls_is_asked(stage: Stage, player: Player):
    itself, through = stage.itself(player), stage.over_http(player, "")
    assert [tool["name"] for tool in through.result("tools")["tools"]] == ["open_toolbox", "use_tool"]
    for label in (*ASKING_TOOLS, *TRIED):
        assert_same(through[label], itself[label], player)


@each([OLD, NEW])
def test_a_toolbox_over_http_shows_the_tools_of_its_server(stage: Stage, player: Player):
    itself, through = stage.itself(player), stage.over_http(player, "/all")
    for label in ("tools", *TRIED):
        assert_same(through[label], itself[label], player)


# -- the Inspector


async def inspected(workbench: Served, folder: Path, era: str, *run: str) -> Json:
    own = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    home = {"HOME": str(folder), "MCP_INSPECTOR_SECRET_STORE": "memory"}
    options = ["--quiet", "--format", "json", "--protocol-era", era, "--transport", "http"]
    process = await asyncio.create_subprocess_exec(
        *inspector(), f"{workbench.url}/mcp/all/everything", *options,
        "--header", f"Authorization: Bearer {ALICE}", "--method", *run,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=own | home | COMPILED,
    )  # fmt: skip
    async with asyncio.timeout(RUN_SECONDS):
        output, errors = await process.communicate()
    lines = output.decode().splitlines()
    assert lines, errors.decode()[-2000:]
    return masked(json.loads(lines[-1]))["result"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_lists_and_calls_over_http(workbench: Served, stage: Stage, tmp_path: Path, era: str):
    itself = stage.itself(OLD)
    structured = {"location": "New York"}
    arguments = [f"{name}={value}" for name, value in structured.items()]
    called = await inspected(
        workbench, tmp_path, era, "tools/call", "--tool-name", "get-structured-content", "--tool-arg", *arguments
    )
    assert called["structuredContent"] == masked(itself.result("get-structured-content"))["structuredContent"]
    listed = await inspected(workbench, tmp_path, era, "resources/list")
    assert [one["uri"] for one in listed["resources"]] == [
        one["uri"] for one in without_execution(itself.result("resources"))["resources"] if "session" not in one["uri"]
    ]


# -- mcp-remote, for hosts that know stdio alone


async def test_a_host_that_knows_only_stdio_comes_through_mcp_remote(workbench: Served, tmp_path: Path):
    command, *script = mcp_remote()
    options = ["--header", f"Authorization: Bearer {ALICE}", "--transport", "http-only", "--allow-http"]
    bridge = StdioServerParameters(
        command=command,
        args=[*script, f"{workbench.url}/mcp", *options],
        env={"HOME": str(tmp_path), "MCP_REMOTE_CONFIG_DIR": str(tmp_path)} | COMPILED,
    )
    async with Client(bridge, mode="legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["open_toolbox", "use_tool"]
        opened = await client.call_tool("open_toolbox", {"toolbox": TOOLBOX})
        assert json.loads(opened.content[0].text)["servers_connected"] == 1  # type: ignore[union-attr]
        summed = await client.call_tool("use_tool", use_params(TOOLBOX, SERVER, "get-sum", {"a": 2, "b": 3}))
        assert "5" in summed.content[0].text  # type: ignore[union-attr]


# -- hosts with different tokens at once


def test_hosts_with_different_tokens_are_asked_each_their_own(workbench: Served, tmp_path: Path):
    """Two clients ask and are asked at the same time; each hears what it answered itself."""
    played: dict[str, Play] = {}
    folders = {name: tmp_path / name for name in ("alice", "bob")}

    def run(name: str, token: str) -> None:
        folders[name].mkdir()
        answer = {"action": "accept", "content": {"name": name, "check": True, "integer": 1, "number": 1.5}}
        script: Json = {
            "capabilities": {"elicitation": {"form": {}}},
            "answers": {"elicitation/create": answer},
            "url": f"{workbench.url}/mcp/all/everything",
            "headers": {"Authorization": f"Bearer {token}"},
        }
        steps = {str(number): call("trigger-elicitation-request") for number in range(5)}
        played[name] = play(Scene(OLD if name == "alice" else NEW, [], steps, {}, script), folders[name])

    async def both() -> None:
        await asyncio.gather(asyncio.to_thread(run, "alice", ALICE), asyncio.to_thread(run, "bob", BOB))

    asyncio.run(both())
    for name, other in (("alice", "bob"), ("bob", "alice")):
        texts = [json.dumps(played[name].result(str(number))) for number in range(5)]
        assert all(name in text and other not in text for text in texts)
