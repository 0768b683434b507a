"""A server that wants a page opened, and official clients of the other era, which check what they are sent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types

from tests.e2e.test_http_front import connected
from tests.serve.http.serving import ALICE, Served, program
from tests.support.configs import write_config
from tests.support.pairs import whole
from tests.support.procs import wait_until
from tests.support.reference import client_driver
from tests.support.typescript import Play, Player, Scene, play_all, play_of, workbench_environment
from tests.support.wire import lasting, use_params

Json = dict[str, Any]

COMPLETE = "notifications/elicitation/complete"
PAGE = "https://example.com/W"
ABLE: Json = {
    "capabilities": {"elicitation": {"form": {}, "url": {}}},
    "answers": {"elicitation/create": {"action": "accept"}},
}
OLD, SECOND = Player("ts1"), Player("ts2")
NEW, PINNED = Player("ts2", "auto"), Player("ts2", "modern")
SURFACES = ["default", "toolbox", "server"]
WHERE = [*(f"http {surface}" for surface in SURFACES), *(f"stdio {surface}" for surface in SURFACES)]
OTHER = {"legacy": "modern", "auto": "handshake", "modern": "handshake", "2026-07-28": "handshake"}
"""The toolbox whose server is of the other era than a client in this mode: it knows no other."""


def step(where: str, toolbox: str, tool: str, **arguments: Any) -> Json:
    """A call, as the surface wants it."""
    if where.endswith("default"):
        return {
            "do": "callTool",
            "params": {"name": "use_tool", "arguments": use_params(toolbox, "s", tool, arguments)},
        }
    return {"do": "callTool", "params": {"name": tool, "arguments": arguments}}


def steps_of(player: Player, where: str) -> dict[str, Json]:
    toolbox = OTHER[player.mode]
    if player.mode == "legacy":
        return {"asked": step(where, toolbox, "ask", kind="url"), "complete": {"do": "wait", "method": COMPLETE}}
    return {"gate": step(where, toolbox, "gate", times=1), "asked": step(where, toolbox, "needs_url")}


def options(where: str, toolbox: str) -> list[str]:
    return {"default": [], "toolbox": ["--toolbox", toolbox], "server": ["--toolbox", toolbox, "--server", "s"]}[
        where.split()[1]
    ]


def path(where: str, toolbox: str) -> str:
    return {"default": "/mcp", "toolbox": f"/mcp/{toolbox}", "server": f"/mcp/{toolbox}/s"}[where.split()[1]]


def command(config: Path, where: str, toolbox: str) -> list[str]:
    return [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), *options(where, toolbox)]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    servers = {"modern": {"s": whole("modern", "W")}, "handshake": {"s": whole("handshake", "W")}}
    return write_config(tmp_path_factory.mktemp("pages"), servers)


@pytest.fixture(scope="module")
def workbench(shared_loop: asyncio.Runner, config: Path) -> Iterator[Served]:
    with lasting(shared_loop, program(config)) as running:
        yield running


# -- the official TypeScript clients


class Stage:
    """Plays what one driver does everywhere, once."""

    def __init__(self, workbench: Served, config: Path) -> None:
        self._workbench = workbench
        self._config = config
        self._played: dict[tuple[Player, str], Play | str] = {}

    def play(self, player: Player, where: str) -> Play:
        if (player, where) not in self._played:
            players = [one for one in (OLD, SECOND, NEW, PINNED) if one.driver == player.driver]
            keys = [(one, place) for one in players for place in WHERE]
            scenes = [self._scene(*key) for key in keys]
            self._played |= dict(zip(keys, play_all(scenes, self._config.parent), strict=True))
        return play_of(self._played[player, where])

    def _scene(self, player: Player, where: str) -> Scene:
        steps, toolbox = steps_of(player, where), OTHER[player.mode]
        if where.startswith("stdio"):
            env = workbench_environment(self._config.parent)
            return Scene(player, command(self._config, where, toolbox), steps, env, ABLE)
        address = {"url": self._workbench.url + path(where, toolbox), "headers": {"Authorization": f"Bearer {ALICE}"}}
        return Scene(player, [], steps, {}, ABLE | address)


@pytest.fixture(scope="module")
def stage(workbench: Served, config: Path) -> Stage:
    for driver in ("ts1", "ts2"):
        client_driver(driver)
    return Stage(workbench, config)


def problems_of(play: Play) -> list[Json]:
    """What the client complained about; over HTTP also that it hung up itself."""
    return [one for one in play.report["problems"] if "aborted" not in one["message"]]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("player", [OLD, SECOND], ids=str)
def test_a_handshake_client_is_asked_with_an_id_and_hears_of_the_end(stage: Stage, player: Player, where: str):
    play = stage.play(player, where)
    assert play.result("asked")["structuredContent"]["answer"] == {"action": "accept"}
    (asked,) = play.asked("elicitation/create")
    (complete,) = play.notified(COMPLETE)
    assert (asked["mode"], asked["url"]) == ("url", PAGE)
    assert complete == {"elicitationId": asked["elicitationId"]}
    assert problems_of(play) == []


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("player", [NEW, PINNED], ids=str)
def test_a_modern_client_is_asked_where_a_handshake_server_refuses(stage: Stage, player: Player, where: str):
    play = stage.play(player, where)
    assert play.result("asked")["content"] == [{"type": "text", "text": "let in by W"}]
    (asked,) = play.asked("elicitation/create")
    assert (asked["mode"], asked["url"], asked["message"]) == ("url", PAGE, "W asks")
    assert play.notified(COMPLETE) == []
    assert problems_of(play) == []


# -- the official Python client


class Person:
    """Opens every page, and writes down what it was asked and told."""

    def __init__(self) -> None:
        self.asked: list[types.ElicitRequestParams] = []
        self.complete: list[str] = []

    async def elicit(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params)
        return types.ElicitResult(action="accept")

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            self.complete.append(message.params.elicitation_id)


@pytest.mark.parametrize("where", ["http default", "http server", "stdio toolbox"])
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_official_python_client_opens_a_page(workbench: Served, config: Path, mode: str, where: str):
    person, toolbox = Person(), OTHER[mode]
    hears: Json = {"elicitation_callback": person.elicit, "message_handler": person.hear}
    if where.startswith("http"):
        connecting = connected(workbench, path(where, toolbox), mode, **hears)
    else:
        program, *args = command(config, where, toolbox)
        server = StdioServerParameters(command=program, args=args, env=workbench_environment(config.parent))
        connecting = Client(server, mode=mode, **hears)
    async with connecting as client, asyncio.timeout(30):
        for one in steps_of(Player("ts2", "legacy" if mode == "legacy" else "modern"), where).values():
            if one["do"] == "callTool":
                result = await client.call_tool(one["params"]["name"], one["params"]["arguments"])
                assert isinstance(result, types.CallToolResult)
                assert not result.is_error, result
        (asked,) = person.asked
        assert isinstance(asked, types.ElicitRequestURLParams)
        assert asked.url == PAGE
        if mode == "legacy":
            await wait_until(lambda: person.complete == [asked.elicitation_id], what="the end of the visit")
        else:
            assert result.content == [types.TextContent(type="text", text="let in by W")]
