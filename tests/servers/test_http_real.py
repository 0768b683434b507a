"""Real servers over HTTP: the same answers as over stdio, questions both ways, cancellation, changes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.errors import ServerUnavailable
from mcp_workbench.servers.negotiate import HANDSHAKE_ONLY
from tests.servers.remote import Heard, agreed, call, remote
from tests.support.configs import write_config
from tests.support.procs import poll_until
from tests.support.reference import everything
from tests.support.remote import everything_over_http, sdk_over_http
from tests.support.warm import warm_server
from tests.support.wire import Era, Wire, lasting, serving, text_of, use_params

pytestmark = pytest.mark.downloads

ABLE: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}}
ERAS: list[Era] = ["handshake", "modern"]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "hé 🦊"}),
    ("get-sum", {"a": 1, "b": 2}),
    ("get-tiny-image", {}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-resource-links", {"count": 3}),
    ("get-sum", {"a": "no"}),
    ("nothing", {}),
]
SDK_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"text": "hé \n 🦊"}),
    ("where", {"region": "Zürich"}),
    ("where", {}),
    ("count", {}),
    ("fail", {}),
]


@pytest.fixture(scope="module")
def sdk(shared_loop: asyncio.Runner) -> Iterator[str]:
    """The address of a server on the SDK, of either era."""
    with lasting(shared_loop, sdk_over_http()) as url:
        yield url


@pytest.fixture(scope="module")
def changing(shared_loop: asyncio.Runner) -> Iterator[str]:
    """The address of another, whose tools change."""
    with lasting(shared_loop, sdk_over_http()) as url:
        yield url


@pytest.fixture(scope="module")
def config(
    shared_loop: asyncio.Runner, sdk: str, changing: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Path]]:
    """Makes a configuration with every server in a toolbox of its name; each has a store of its own."""
    with (
        lasting(shared_loop, sdk_over_http("json")) as json_url,
        lasting(shared_loop, everything_over_http("streamableHttp")) as streamable,
        lasting(shared_loop, everything_over_http("sse")) as sse,
    ):
        servers: dict[str, Any] = {
            "near-sdk": warm_server("sdk_remote_server", "stdio"),
            "far-http": {"url": sdk},
            "far-json": {"url": json_url},
            "changing": {"url": changing},
            "near-everything": everything(),
            "streamableHttp": {"url": streamable},
            "sse": {"url": sse, "transport": "sse"},
        }
        boxes = {name: {name: entry} for name, entry in servers.items()}
        yield lambda: write_config(tmp_path_factory.mktemp("real"), boxes)


@pytest.fixture(scope="module")
def wires(shared_loop: asyncio.Runner, config: Callable[[], Path]) -> Iterator[dict[Era, Wire]]:
    """A client of each era, in front of all servers."""
    started = (serving(config()), serving(config(), era="modern"))
    with lasting(shared_loop, started[0]) as old, lasting(shared_loop, started[1]) as new:
        yield {"handshake": old, "modern": new}


@pytest.fixture(scope="module")
def able(shared_loop: asyncio.Runner, config: Callable[[], Path]) -> Iterator[Wire]:
    """A handshake client that can be asked."""
    with lasting(shared_loop, serving(config(), greet=False)) as wire:
        shared_loop.run(wire.handshake(capabilities=ABLE))
        yield wire


async def compared(wire: Wire, near: str, far: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    """The server `near` on stdio and `far` over HTTP say the same, field by field."""
    answers = {}
    for server in (near, far):
        opened = await wire.open(server, detail="full")
        tools = [{**tool, "toolbox_name": "", "source_server": ""} for tool in opened["tools"]]
        results = [
            json.dumps(await wire.use(server, server, tool, arguments)).replace(f"'{server}'", "'it'")
            for tool, arguments in calls
        ]
        answers[server] = (tools, [json.loads(result.replace(f'"{server}"', '"it"')) for result in results])
    assert answers[far] == answers[near]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["streamableHttp", "sse"])
async def test_the_reference_server_answers_over_http_as_over_stdio(wires: dict[Era, Wire], era: Era, how: str):
    await compared(wires[era], "near-everything", how, CALLS)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["http", "json"])
async def test_a_server_on_the_sdk_answers_over_http_as_over_stdio(wires: dict[Era, Wire], era: Era, how: str):
    await compared(wires[era], "near-sdk", f"far-{how}", SDK_CALLS)


@contextlib.asynccontextmanager
async def answering(wire: Wire, answers: dict[str, Any]) -> AsyncIterator[list[str]]:
    """Answer what a handshake client is asked from now on; the methods."""
    methods: list[str] = []

    async def answer() -> None:
        for seen in itertools.count(len(wire.asked)):
            await wire.wait_for(lambda count=seen: len(wire.asked) > count, "a question")
            asked = wire.asked[seen]
            methods.append(asked["method"])
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]})

    task = asyncio.ensure_future(answer())
    await asyncio.sleep(0)
    try:
        yield methods
    finally:
        task.cancel()


ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"answer": "yes"}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
    "roots/list": {"roots": []},
}


async def test_a_modern_servers_question_over_http_reaches_a_handshake_client(able: Wire):
    async with answering(able, ANSWERS):
        assert json.loads(text_of(await able.use("far-http", "far-http", "ask"))) == {"answer": "yes"}


@pytest.mark.parametrize("how", ["streamableHttp", "sse"])
async def test_a_handshake_servers_questions_over_http_reach_its_client(able: Wire, how: str):
    async with answering(able, ANSWERS) as asked:
        result = await able.use(how, how, "trigger-sampling-request", {"prompt": "hello", "maxTokens": 5})
    assert "hi" in text_of(result)
    assert [method for method in asked if method != "roots/list"] == ["sampling/createMessage"]


@pytest.mark.parametrize("era", ERAS)
async def test_progress_over_http_reaches_its_client(wires: dict[Era, Wire], era: Era):
    wire = wires[era]
    before = len(wire.seen("notifications/progress"))
    await wire.use("far-http", "far-http", "count", _meta={"progressToken": "t"})
    told = [one["params"] for one in wire.seen("notifications/progress")[before:]]
    assert [params["progress"] for params in told if params["progress"] >= 1] == [1, 2, 3]


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancellation_reaches_a_modern_server_within_a_second(wires: dict[Era, Wire], era: Era):
    wire = wires[era]

    async def words() -> str:
        return text_of(await wire.use("far-http", "far-http", "waited"))

    said = await counted(words)
    number = await wire.begin(
        "tools/call", {"name": "use_tool", "arguments": use_params("far-http", "far-http", "wait")}
    )
    await poll_until(lambda: said("began"), what="the call")
    await wire.notify("notifications/cancelled", {"requestId": number})
    await poll_until(lambda: said("cancelled"), 1, what="the cancellation")


async def counted(words: Callable[[], Awaitable[str]]) -> Callable[[str], Awaitable[bool]]:
    """Whether the server says a word once more than it did, of those that tell of its calls."""
    before = await words()

    async def said(word: str) -> bool:
        return (await words()).count(word) == before.count(word) + 1

    return said


async def test_changes_of_a_modern_server_over_http_are_heard(wires: dict[Era, Wire]):
    wire = wires["handshake"]
    before = {tool["name"] for tool in (await wire.open("changing"))["tools"]}
    await wire.use("changing", "changing", "change")

    async def added() -> bool:
        return {tool["name"] for tool in (await wire.open("changing"))["tools"]} > before

    await poll_until(added, what="the new tool")


# -- the same server in the handshake era


@pytest.mark.parametrize(("tool", "answer"), [("ask", "yes"), ("sample", "hi")])
async def test_a_handshake_servers_question_is_answered_over_http(sdk: str, tool: str, answer: str):
    method = {"ask": "elicitation/create", "sample": "sampling/createMessage"}[tool]
    heard = Heard(ANSWERS[method])
    async with agreed(sdk, heard, order=HANDSHAKE_ONLY) as (channel, agreement):
        assert answer in json.dumps(await call(channel, agreement, tool))
        assert heard.methods == [method]


async def test_a_cancellation_reaches_a_handshake_server_within_a_second(sdk: str):
    async with agreed(sdk, order=HANDSHAKE_ONLY) as (channel, agreement):

        async def words() -> str:
            return json.dumps(await call(channel, agreement, "waited"))

        said = await counted(words)
        waiting = asyncio.ensure_future(call(channel, agreement, "wait"))
        await poll_until(lambda: said("began"), what="the call")
        waiting.cancel()
        await poll_until(lambda: said("cancelled"), 1, what="the cancellation")


async def test_changes_of_a_handshake_server_are_heard_on_its_stream(changing: str):
    heard = Heard()
    async with agreed(changing, heard, order=HANDSHAKE_ONLY) as (channel, agreement):

        async def told() -> bool:
            await call(channel, agreement, "change")
            return "notifications/tools/list_changed" in heard.methods

        await poll_until(told, what="the change")


async def test_a_session_is_ended_when_its_channel_closes(sdk: str):
    async with agreed(sdk, order=HANDSHAKE_ONLY) as (channel, agreement):
        await call(channel, agreement, text="x")
        session = channel._session.id  # type: ignore[attr-defined]
    async with remote(sdk) as other:
        other._session.id, other._session.version = session, "2025-11-25"  # type: ignore[attr-defined]
        with pytest.raises(ServerUnavailable) as caught:
            await other.peer.request("tools/list", {}, hard_seconds=5)
        assert caught.value.kind == "session_expired"
