"""Two clients of one workbench, at the same time: neither sees or answers anything of the other's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import Workbench
from mcp_workbench.surfaces.server_info import View
from tests.support import library
from tests.support.near import near
from tests.support.pairs import META, TASKS, WITH_ROOTS, Case, Host, Surface, has_news, reply, whole
from tests.support.procs import census, needs_proc, new_marker, wait_until
from tests.support.wire import Era, Json, result_of, text_of

ROUNDS = 6
SERVERS: dict[str, str] = {"h": "H", "m": "M"}
ERAS_OF: dict[str, Era] = {"h": "handshake", "m": "modern"}
VIEWS: dict[Surface, View] = {"default": View(), "toolbox": View("dev")}
UPDATED = "notifications/resources/updated"

both_surfaces = pytest.mark.parametrize("surface", list(VIEWS))
every_two = pytest.mark.parametrize(
    "eras",
    [("handshake", "handshake"), ("handshake", "modern"), ("modern", "handshake"), ("modern", "modern")],
    ids="-".join,
)


class Person:
    """A client that answers every question with words that nobody else uses."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.wire = host.wire
        self.modern = host.case.is_modern
        self.given: list[str] = []
        self._numbers = count(1)

    # -- questions

    def answer(self, question: Json) -> Json:
        if question["method"] == "roots/list":
            return self.roots
        assert question["method"] == "elicitation/create"
        word = f"{self.name}-{next(self._numbers)}"
        self.given.append(word)
        return {"action": "accept", "content": {"answer": word}}

    @property
    def roots(self) -> Json:
        return {"roots": [{"uri": f"file:///{self.name}"}]}

    async def respond(self) -> None:
        """A handshake client's answers, for as long as it is there."""
        for number in count():
            await self.wire.wait_for(lambda: len(self.wire.asked) > number, "a question", seconds=60)  # noqa: B023
            question = self.wire.asked[number]
            await reply(self.wire, question, self.answer(question))

    def named(self, tool: str, arguments: Json, server: str, **params: Any) -> Json:
        level = {META + "logLevel": "info"} if self.modern else {}
        meta = {"_meta": level | params.pop("_meta", {})}
        if tool == "roots_seen" and self.host.case.surface == "toolbox":  # one server has it, so its name is its own
            return {"name": tool, "arguments": arguments, **meta, **params}
        return self.host.named(tool, arguments, server, **meta, **params)

    async def call(self, tool: str, arguments: Json, server: str, **params: Any) -> Json:
        """The result of a call; in any call a modern client may be asked for its roots as well."""
        sent = self.named(tool, arguments, server, **params)
        if self.modern:
            return (await self.host.answering("tools/call", sent, self.answer)).result
        return result_of(await self.wire.request("tools/call", sent))

    # -- what it does, all at once

    @property
    def watched(self) -> str:
        """Of the resources that every server has, this one's."""
        return "a" if self.name == "ann" else "b"

    async def begin(self) -> None:
        """Watch a resource of each server, and set the level of logs."""
        if not self.modern:
            await self.host.get("logging/setLevel", {"level": "info"})
        if self.host.case.surface == "default":
            await self.wire.open("dev")
        uris = [f"test://{name}/{self.watched}" for name in SERVERS.values()]
        if self.modern:
            await self.host.listen(resourceSubscriptions=uris)
        else:
            for uri in uris:
                await self.host.get("resources/subscribe", {"uri": uri})

    async def work(self, server: str) -> None:
        """Rounds of everything that could reach the wrong client."""
        name = SERVERS[server]
        for number in range(ROUNDS):
            token = f"{self.name}/{server}/{number}"
            asked, counted, logged, *_ = await asyncio.gather(
                self.call("ask", {"kind": "form"}, server),
                self.call("count", {}, server, _meta={"progressToken": token}),
                self.call("log", {}, server),
                self.call("touch", {"uri": f"test://{name}/a"}, server),
                self.call("touch", {"uri": f"test://{name}/b"}, server),
            )
            assert asked["structuredContent"]["server"] == name
            assert asked["structuredContent"]["answer"]["content"]["answer"] in self.given
            assert (text_of(counted), text_of(logged)) == (f"counted by {name}", f"logged by {name}")
            twice = (await self.call("ask_twice", {}, server))["structuredContent"]["answers"]
            assert {answer["content"]["answer"] for answer in twice} <= set(self.given)

    def check(self) -> None:
        """It heard all that was for it, and nothing else."""
        tokens = [message["params"]["progressToken"] for message in self.wire.seen("notifications/progress")]
        expected = [f"{self.name}/{server}/{number}" for server in SERVERS for number in range(ROUNDS)]
        assert sorted(tokens) == sorted(expected * 3)
        levels = [message["params"]["level"] for message in self.wire.seen("notifications/message")]
        assert sorted(levels) == sorted(["info", "error"] * ROUNDS * len(SERVERS))
        updated = [message["params"]["uri"] for message in self.wire.seen(UPDATED)]
        assert sorted(updated) == sorted([f"test://{name}/{self.watched}" for name in SERVERS.values()] * ROUNDS)
        assert len(self.given) == ROUNDS * len(SERVERS) * 3
        assert self.wire.stray == []


@contextlib.asynccontextmanager
async def person(
    workbench: Workbench, name: str, era: Era, surface: Surface, capabilities: Json = WITH_ROOTS
) -> AsyncGenerator[Person]:
    async with near(workbench, VIEWS[surface], era, capabilities) as wire:
        one = Person(name, Host(wire, Case(era, "handshake", surface), SERVERS))
        responding = None if one.modern else asyncio.create_task(one.respond())
        try:
            yield one
        finally:
            if responding is not None:
                responding.cancel()
                await asyncio.gather(responding, return_exceptions=True)


def configured(marker: dict[str, str] | None = None) -> dict[str, Any]:
    return {"dev": {server: whole(ERAS_OF[server], name) | {"env": marker or {}} for server, name in SERVERS.items()}}


@both_surfaces
@every_two
async def test_nothing_of_one_client_reaches_the_other(eras: tuple[Era, Era], surface: Surface, tmp_path: Path):
    async with (
        library.workbench(tmp_path, configured()) as workbench,
        person(workbench, "ann", eras[0], surface) as ann,
        person(workbench, "bob", eras[1], surface) as bob,
        asyncio.timeout(50),
    ):
        await asyncio.gather(ann.begin(), bob.begin())
        await asyncio.gather(*(one.work(server) for one in (ann, bob) for server in SERVERS))
        for one in (ann, bob):
            one.check()
            seen = await one.call("roots_seen", {}, "h")
            assert seen["structuredContent"]["roots"] == one.roots


@every_two
async def test_tasks_are_those_of_their_client(eras: tuple[Era, Era], tmp_path: Path):
    capabilities: Json = {"extensions": {TASKS: {}}}
    async with (
        library.workbench(tmp_path, configured()) as workbench,
        person(workbench, "ann", eras[0], "toolbox", capabilities) as ann,
        person(workbench, "bob", eras[1], "toolbox", capabilities) as bob,
        asyncio.timeout(50),
    ):
        for number in (1, 2, 3):
            for one in (ann, bob):
                # Each server counts its tasks: with one for both clients, the second would get other numbers.
                if one.modern:
                    task = await one.call("slow", {}, "m")
                    assert task["taskId"] == f"m:t{number}"
                else:
                    task = (await one.call("slow", {}, "h", task={}))["task"]
                    assert task["taskId"] == f"h:t{number}"
        for one in (ann, bob):
            task = {"taskId": "m:t1" if one.modern else "h:t1"}
            if one.modern:
                await one.host.listen(taskIds=[task["taskId"]])
            for _ in range(2):
                await one.host.get("tasks/get", task)
            if not one.modern:
                listed = (await one.host.get("tasks/list"))["tasks"]
                assert [each["taskId"] for each in listed] == ["h:t1", "h:t2", "h:t3"]
        for one in (ann, bob):
            method = "notifications/tasks" if one.modern else "notifications/tasks/status"
            assert len(await one.wire.notification(method)) == 1


@needs_proc
@both_surfaces
@every_two
async def test_one_clients_hang_up_ends_its_servers_alone(eras: tuple[Era, Era], surface: Surface, tmp_path: Path):
    marker = new_marker()
    capabilities: Json = {"elicitation": {}}
    async with (
        library.workbench(tmp_path, configured(marker)) as workbench,
        person(workbench, "bob", eras[1], surface, capabilities) as bob,
        asyncio.timeout(50),
    ):
        for server in SERVERS:
            await bob.call("change", {"kind": "tools"}, server)
        alone = {process.pid for process in census(marker)}
        assert len(alone) >= len(SERVERS)
        held = bob.named("hold", {"file": str(tmp_path / "bob")}, "m", _meta={"progressToken": "bob"})
        holding = await bob.wire.begin("tools/call", held)
        await bob.wire.notification("notifications/progress")
        async with person(workbench, "ann", eras[0], surface, capabilities) as ann:
            for server in SERVERS:
                await ann.call("ask", {"kind": "form"}, server)
                params = ann.named("hold", {"file": str(tmp_path / server)}, server, _meta={"progressToken": server})
                await ann.wire.begin("tools/call", params)
            await ann.wire.notification("notifications/progress", len(SERVERS))
            assert {process.pid for process in census(marker)} > alone
            assert await ann.wire.hang_up() == 0
        await wait_until(lambda: {process.pid for process in census(marker)} == alone, what="the end of ann's servers")
        assert (tmp_path / "bob").read_text() == "started\n"
        await bob.wire.notify("notifications/cancelled", {"requestId": holding})
        for server, name in SERVERS.items():
            # What a server added is there as long as it runs.
            assert text_of(await bob.call("added_1", {}, server)) == f"added_1 of {name}"
            asked = await bob.call("ask", {"kind": "form"}, server)
            assert asked["structuredContent"]["answer"]["content"]["answer"] in bob.given
        assert (tmp_path / "bob").read_text() == "started\ncancelled\n"


@both_surfaces
@every_two
async def test_a_hang_up_in_the_middle_of_a_question_asks_nobody_else(
    eras: tuple[Era, Era], surface: Surface, tmp_path: Path
):
    capabilities: Json = {"elicitation": {}}
    async with (
        library.workbench(tmp_path, configured()) as workbench,
        person(workbench, "bob", eras[1], surface, capabilities) as bob,
        asyncio.timeout(50),
    ):
        for server in SERVERS:
            await bob.call("change", {"kind": "tools"}, server)
        async with near(workbench, VIEWS[surface], eras[0], capabilities) as wire:
            ann = Host(wire, Case(eras[0], "handshake", surface), SERVERS)
            for server in SERVERS:
                before = len(wire.asked)
                number = await wire.begin("tools/call", ann.named("ask", {"kind": "form"}, server))
                await wire.wait_for(partial(has_news, wire, number, before), "the question")
            assert await wire.hang_up() == 0
        for server, name in SERVERS.items():
            assert text_of(await bob.call("added_1", {}, server)) == f"added_1 of {name}"
        assert bob.wire.asked == []
        assert bob.given == []
