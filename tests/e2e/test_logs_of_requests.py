"""What a server says during a call reaches that call's client on that call's stream, and nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import types

from tests.e2e.test_http_front import connected
from tests.serve.http.serving import META, Handshake, Served, answer_in, events, modern, post_modern, served
from tests.support.configs import write_config
from tests.support.pairs import PEERS
from tests.support.remote import sdk_over_http
from tests.support.wire import lasting

MODERN = "2026-07-28"
LOGGED = "notifications/message"
OVER_HTTP = ["handshake", "modern"]
SURFACES = ["default", "toolbox", "server"]
WORDS = ("ann", "bob")

each_server = pytest.mark.parametrize("server", OVER_HTTP)
each_surface = pytest.mark.parametrize("surface", SURFACES)


class Place(NamedTuple):
    """Where a server is found on a surface."""

    surface: str
    server: str

    @property
    def path(self) -> str:
        return {"default": "/mcp", "toolbox": f"/mcp/{self.server}", "server": f"/mcp/{self.server}/s"}[self.surface]

    def call(self, word: str, room: str, together: int = 2) -> dict[str, Any]:
        """The params of a call that logs a word."""
        arguments = {"word": word, "room": f"{room}-{self.surface}-{self.server}", "together": together}
        if self.surface != "default":
            return {"name": "shout", "arguments": arguments}
        tool = {"toolbox": self.server, "server": "s", "tool": "shout"}
        return {"name": "use_tool", "arguments": {"tool": tool, "arguments": arguments}}


@contextlib.asynccontextmanager
async def fronted(folder: Path) -> AsyncIterator[Served]:
    """A workbench in front of a server of either era over HTTP, and of one over stdio."""
    async with sdk_over_http("http") as dual, sdk_over_http("handshake") as handshake:
        stdio = {"command": sys.executable, "args": [str(PEERS / "sdk_remote_server.py"), "stdio"]}
        entries = {"modern": {"url": dual}, "handshake": {"url": handshake}, "stdio": stdio}
        config = write_config(folder, {toolbox: {"s": entry} for toolbox, entry in entries.items()})
        async with served(config) as running:
            yield running


@pytest.fixture(scope="module")
def workbench(shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lasting(shared_loop, fronted(tmp_path_factory.mktemp("logs"))) as running:
        yield running


class Person:
    """The official client, with a token that others have too."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.heard: list[Any] = []

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.heard.append(params.data)

    async def shout(self, running: Served, place: Place, room: str, together: int = 2) -> None:
        options: dict[str, Any] = {"log_level": "debug", "logging_callback": self.log}
        async with connected(running, place.path, MODERN, **options) as client:
            params = place.call(self.word, room, together)
            result = await client.call_tool(params["name"], params["arguments"])
            assert isinstance(result, types.CallToolResult)
            assert result.content == [types.TextContent(type="text", text=self.word)]


@each_surface
@each_server
async def test_two_modern_clients_of_one_token_each_hear_their_own(workbench: Served, server: str, surface: str):
    people = [Person(word) for word in WORDS]
    await asyncio.gather(*(one.shout(workbench, Place(surface, server), "people") for one in people))
    assert [one.heard for one in people] == [["ann"], ["bob"]]


async def test_what_a_server_on_stdio_says_reaches_nobody_while_it_could_be_of_either_client(workbench: Served):
    people, place = [Person(word) for word in WORDS], Place("toolbox", "stdio")
    await asyncio.gather(*(one.shout(workbench, place, "people") for one in people))
    assert [one.heard for one in people] == [[], []]
    for one in people:
        await one.shout(workbench, place, f"alone-{one.word}", together=1)
    assert [one.heard for one in people] == [["ann"], ["bob"]]


@each_surface
@each_server
async def test_each_of_a_modern_clients_calls_has_its_own_on_its_stream(workbench: Served, server: str, surface: str):
    place = Place(surface, server)

    async def logged(number: int, word: str) -> list[Any]:
        message = modern("tools/call", place.call(word, "calls"), number)
        message["params"]["_meta"][META + "logLevel"] = "debug"
        async with workbench.client() as http:
            return logs((await post_modern(http, message, place.path)).text)

    heard = await asyncio.gather(*(logged(number, word) for number, word in enumerate(WORDS)))
    assert heard == [["ann"], ["bob"]]


@each_surface
@each_server
async def test_each_of_a_handshake_clients_calls_has_its_own_on_its_stream(
    workbench: Served, server: str, surface: str
):
    place = Place(surface, server)
    async with workbench.client() as http:
        client = await Handshake.begin(http, place.path)
        await client.request("logging/setLevel", {"level": "debug"})
        responses = await asyncio.gather(
            *(client.post(rpc(place.call(word, "session"), number)) for number, word in enumerate(WORDS, 10))
        )
        assert ["result" in answer_in(response) for response in responses] == [True, True]
        assert [logs(response.text) for response in responses] == [["ann"], ["bob"]]


async def test_what_can_be_of_either_call_of_a_handshake_client_comes_on_the_stream_of_its_session(workbench: Served):
    place = Place("toolbox", "stdio")
    async with workbench.client() as http:
        client = await Handshake.begin(http, place.path)
        await client.request("logging/setLevel", {"level": "debug"})
        async with client.listen() as stream:
            responses = await asyncio.gather(
                *(client.post(rpc(place.call(word, "unsure"), number)) for number, word in enumerate(WORDS, 10))
            )
            assert [logs(response.text) for response in responses] == [[], []]
            heard = [await stream.until(lambda message: message.get("method") == LOGGED) for _ in WORDS]
            assert sorted(message["params"]["data"] for message in heard) == ["ann", "bob"]
        alone = await client.post(rpc(place.call("ann", "sure", together=1), 20))
        assert logs(alone.text) == ["ann"]


def rpc(params: dict[str, Any], number: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def logs(text: str) -> list[Any]:
    return [message["params"]["data"] for message in events(text) if message.get("method") == LOGGED]
