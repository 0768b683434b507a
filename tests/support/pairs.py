"""A client of either era, on any surface, in front of servers of either era: the same words for all of them."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from tests.support.configs import Server, write_config
from tests.support.wire import Era, Json, Wire, result_of, serving, use_params

Surface = Literal["default", "toolbox", "server"]
Pair = tuple[Era, Era]
"""The eras of the client and of the server."""
Answer = Json | Exception
"""What a client answers to a question: a result, or `Refusal`."""

ERAS: tuple[Era, ...] = ("handshake", "modern")
PAIRS: tuple[Pair, ...] = tuple((client, server) for client in ERAS for server in ERAS)
SAME_ERA: tuple[Pair, ...] = tuple((era, era) for era in ERAS)
SURFACES: tuple[Surface, ...] = ("default", "toolbox", "server")

META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
SUBSCRIPTION = META + "subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
PEERS = Path(__file__).parents[1] / "peers"

ABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}
WITH_ROOTS: Json = ABLE | {"roots": {"listChanged": True}}
WITH_TASKS: Json = ABLE | {"extensions": {TASKS: {}}}

ACCEPTED: Json = {"action": "accept", "content": {"answer": "yes"}}
SAMPLED: Json = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
ROOTS: Json = {"roots": [{"uri": "file:///r", "name": "r"}]}
ANSWERS: dict[str, Json] = {"elicitation/create": ACCEPTED, "sampling/createMessage": SAMPLED, "roots/list": ROOTS}


class Case(NamedTuple):
    """One cell of the matrix on one surface."""

    client: Era
    server: Era
    surface: Surface

    @property
    def pair(self) -> Pair:
        return self.client, self.server

    @property
    def is_modern(self) -> bool:
        return self.client == "modern"

    def __str__(self) -> str:
        return f"{self.client}-{self.server}-{self.surface}"


class Refusal(Exception):
    """A client's answer that is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}


class Outcome(NamedTuple):
    """How a request ended, and what was asked on the way: one list for each round."""

    message: Json
    rounds: list[list[Json]]

    @property
    def result(self) -> Json:
        return result_of(self.message)

    @property
    def questions(self) -> list[Json]:
        return [question for asked in self.rounds for question in asked]


def usual(question: Json) -> Answer:
    """The answer to a question of any kind."""
    return ANSWERS[question["method"]]


def whole(era: Era, name: str) -> Server:
    """A server entry that starts the server that does everything."""
    return {"command": sys.executable, "args": ["-SE", str(PEERS / "launch.py"), "whole_server", era, name]}


class Host:
    """A client of a workbench: the surface's names for what the servers call by their own."""

    def __init__(self, wire: Wire, case: Case, servers: Iterable[str]) -> None:
        self.wire = wire
        self.case = case
        self._servers = tuple(servers)
        self._answered = 0

    # -- names

    def named(self, tool: str, arguments: object = None, server: str = "s", **params: Any) -> Json:
        """The params of a `tools/call`."""
        if self.case.surface == "default":
            called: Json = {"name": "use_tool", "arguments": use_params("dev", server, tool, arguments)}
        else:
            name = f"dev__{server}__{tool}" if len(self._servers) > 1 else tool
            called = {"name": name, **({"arguments": arguments} if arguments is not None else {})}
        return called | params

    def prompt(self, name: str, server: str = "s") -> str:
        joined = self.case.surface == "default" or len(self._servers) > 1
        return f"dev__{server}__{name}" if joined else name

    # -- requests

    async def call(self, tool: str, arguments: object = None, server: str = "s", **params: Any) -> Json:
        """The result of a tool that asks nothing."""
        return result_of(await self.wire.request("tools/call", self.named(tool, arguments, server, **params)))

    async def get(self, method: str, params: Json | None = None) -> Json:
        """The result of a request."""
        return result_of(await self.wire.request(method, params))

    async def error(self, method: str, params: Json | None = None) -> Json:
        """The error of a request that must have one."""
        message = await self.wire.request(method, params)
        if "error" not in message:
            pytest.fail(f"expected an error, got {message}")
        return message["error"]

    async def listed(self, method: str, kind: str) -> list[Json]:
        """All items of a list: one page, but for the surface of one server, which has its server's."""
        first = await self.get(method)
        if self.case.surface != "server":
            assert "nextCursor" not in first
            return first[kind]
        second = await self.get(method, {"cursor": first["nextCursor"]})
        assert "nextCursor" not in second
        return first[kind] + second[kind]

    async def asking(
        self, tool: str, arguments: object = None, answer: Callable[[Json], Answer] = usual, server: str = "s"
    ) -> Outcome:
        """Call a tool that asks."""
        return await self.answering("tools/call", self.named(tool, arguments, server), answer)

    async def answering(
        self, method: str, params: Json, answer: Callable[[Json], Answer] = usual, most: int = 20
    ) -> Outcome:
        """Make a request and answer whatever is asked meanwhile, as the client's era does it."""
        if self.case.is_modern:
            return await self._retrying(method, params, answer, most)
        wire, rounds = self.wire, list[list[Json]]()
        number = await wire.begin(method, params)
        while True:
            await wire.wait_for(partial(has_news, wire, number, self._answered), "an answer or a question")
            if len(wire.asked) == self._answered:
                return Outcome((await wire.finish(number))[0], rounds)
            rounds.append([await self.answer_next(answer)])

    async def answer_next(self, answer: Callable[[Json], Answer] = usual) -> Json:
        """Answer the next question to a handshake client, whenever it came; the question."""
        await self.wire.wait_for(lambda: len(self.wire.asked) > self._answered, "a question")
        question = self.wire.asked[self._answered]
        self._answered += 1
        await reply(self.wire, question, answer(question))
        return question

    async def _retrying(self, method: str, params: Json, answer: Callable[[Json], Answer], most: int) -> Outcome:
        retry: Json = {}
        rounds: list[list[Json]] = []
        while True:
            message = await self.wire.request(method, {**params, **retry})
            result: Json = message.get("result", {})
            if result.get("resultType") != "input_required" or len(rounds) >= most:
                return Outcome(message, rounds)
            asked: dict[str, Json] = result["inputRequests"]
            rounds.append(list(asked.values()))
            retry = {"inputResponses": {key: answer(question) for key, question in asked.items()}}
            if "requestState" in result:
                retry["requestState"] = result["requestState"]

    async def forget(self) -> None:
        """Forget all that was heard, once a call has shown that nothing more is on its way."""
        await self.answering("tools/call", self.named("count", {}))
        assert self.wire.stray == []
        for heard in (self.wire.notifications, self.wire.asked, self.wire.lines, self.wire.order):
            heard.clear()
        self._answered = 0

    # -- subscriptions

    async def listen(self, **wishes: Any) -> int:
        """`subscriptions/listen`, acknowledged in full; its number tags what is told."""
        before = len(self.wire.seen(ACKNOWLEDGED))
        number = await self.wire.begin("subscriptions/listen", {"notifications": wishes})
        acknowledged = (await self.wire.notification(ACKNOWLEDGED, before + 1))[-1]["params"]
        assert acknowledged == {"notifications": wishes, "_meta": {SUBSCRIPTION: number}}
        return number


async def reply(wire: Wire, question: Json, answer: Answer) -> None:
    if isinstance(answer, Refusal):
        await wire.send({"jsonrpc": "2.0", "id": question["id"], "error": answer.error})
    else:
        await wire.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})


def has_news(wire: Wire, number: int, asked: int) -> bool:
    return len(wire.asked) > asked or answer_to(wire, number)


def answer_to(wire: Wire, number: int) -> bool:
    return any(message.get("id") == number and "method" not in message for message in wire.order)


@contextlib.asynccontextmanager
async def hosting(
    case: Case,
    folder: Path,
    capabilities: Json | None = None,
    servers: Mapping[str, Server] | None = None,
    *,
    opened: bool = False,
) -> AsyncGenerator[Host]:
    """A client past its handshake, with one server `s` named `W`, or with `servers`; with the toolbox open if asked."""
    chosen = dict(servers or {"s": whole(case.server, "W")})
    view: dict[Surface, list[str]] = {
        "default": [],
        "toolbox": ["--toolbox", "dev"],
        "server": ["--toolbox", "dev", "--server", "s"],
    }
    config = write_config(folder, {"dev": chosen})
    async with serving(config, *view[case.surface], era=case.client, greet=False) as wire:
        wire.capabilities = capabilities or {}
        if not case.is_modern:
            await wire.handshake(capabilities=capabilities)
        elif case.surface != "server":
            wire.hello = result_of(await wire.request("server/discover"))
        if opened and case.surface == "default":
            await wire.open("dev")
        yield Host(wire, case, chosen if case.surface != "server" else ("s",))
        assert wire.stray == []


@contextlib.asynccontextmanager
async def alone(case: Case, capabilities: Json | None = None, name: str = "W") -> AsyncGenerator[Host]:
    """The same server without a workbench, asked by a client of its own era."""
    entry = whole(case.server, name)
    wire = await Wire.spawn([entry["command"], *entry["args"]], era=case.server)
    try:
        wire.capabilities = capabilities or {}
        if case.server == "handshake":
            await wire.handshake(capabilities=capabilities)
        yield Host(wire, Case(case.server, case.server, "server"), ("s",))
    finally:
        await wire.close()


class Hosts:
    """Hosts of one case that run on, for tests that leave nothing behind: each is used by one test after the other."""

    def __init__(self, case: Case, new_folder: Callable[[], Path]) -> None:
        self._case = case
        self._new_folder = new_folder
        self._idle: dict[str, Host] = {}
        self._running = contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def at(
        self, capabilities: Json | None = None, servers: Mapping[str, Server] | None = None, *, use: str = "any"
    ) -> AsyncGenerator[Host]:
        """As `hosting`, with the toolbox open; tests of another `use` have another workbench."""
        declared = None if self._case.is_modern else capabilities  # a modern client declares with every request
        key = json.dumps([declared, servers, use])
        if key not in self._idle:
            starting = hosting(self._case, self._new_folder(), capabilities, servers, opened=True)
            self._idle[key] = await self._running.enter_async_context(starting)
        self._idle[key].wire.capabilities = capabilities or {}
        async with self._lent(key) as host:
            yield host

    @contextlib.asynccontextmanager
    async def alone(self, capabilities: Json | None = None) -> AsyncGenerator[Host]:
        """As `alone`."""
        key = json.dumps(["alone", capabilities])
        if key not in self._idle:
            self._idle[key] = await self._running.enter_async_context(alone(self._case, capabilities))
        async with self._lent(key) as host:
            yield host

    @contextlib.asynccontextmanager
    async def _lent(self, key: str) -> AsyncGenerator[Host]:
        """One whose test fails is not used again."""
        host = self._idle.pop(key)
        yield host
        await host.forget()
        self._idle[key] = host

    async def close(self) -> None:
        await self._running.aclose()


def members(line: bytes) -> dict[str, bytes]:
    """The members of an answer's result, as the bytes that they are."""
    result = msgspec.json.decode(line, type=dict[str, msgspec.Raw])["result"]
    return {key: bytes(value) for key, value in msgspec.json.decode(result, type=dict[str, msgspec.Raw]).items()}


def without(value: Json, *keys: str) -> Json:
    return {key: member for key, member in value.items() if key not in keys}


def plain(result: Json) -> Json:
    """A result without what only one era has."""
    return without(result, "resultType", "ttlMs", "cacheScope", "_meta")
