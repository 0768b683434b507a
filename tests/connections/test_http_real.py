"""Real servers over HTTP: the same answers as over stdio, questions both ways, cancellation, changes."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.errors import DownstreamUnavailable
from tests.connections.remote import Heard, agreed, call, remote
from tests.support.configs import write_config
from tests.support.procs import poll_until
from tests.support.reference import everything
from tests.support.remote import SDK, everything_over_http, sdk_over_http
from tests.support.wire import Era, Wire, serving, text_of, use_params

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


async def compared(wire: Wire, calls: list[tuple[str, dict[str, Any]]]) -> None:
    """The server `near` on stdio and `far` over HTTP say the same, field by field."""
    answers = {}
    for server in ("near", "far"):
        opened = await wire.open(server, detail="full")
        tools = [{**tool, "toolbox_name": "", "source_server": ""} for tool in opened["tools"]]
        results = [
            json.dumps(await wire.use(server, server, tool, arguments)).replace(f"'{server}'", "'it'")
            for tool, arguments in calls
        ]
        answers[server] = (tools, [json.loads(result.replace(f'"{server}"', '"it"')) for result in results])
    assert answers["far"] == answers["near"]


def boxes(folder: Path, near: dict[str, Any], far: dict[str, Any]) -> Path:
    return write_config(folder, {"near": {"near": near}, "far": {"far": far}})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["streamableHttp", "sse"])
async def test_the_reference_server_answers_over_http_as_over_stdio(tmp_path: Path, era: Era, how: str):
    async with everything_over_http(how) as url:
        far = {"url": url, **({"transport": "sse"} if how == "sse" else {})}
        async with serving(boxes(tmp_path, everything(), far), era=era) as wire:
            await compared(wire, CALLS)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["http", "json"])
async def test_a_server_on_the_sdk_answers_over_http_as_over_stdio(tmp_path: Path, era: Era, how: str):
    async with sdk_over_http(how) as url:
        near = {"command": sys.executable, "args": [str(SDK), "stdio"]}
        async with serving(boxes(tmp_path, near, {"url": url}), era=era) as wire:
            await compared(wire, SDK_CALLS)


async def answering(wire: Wire, answers: dict[str, Any]) -> None:
    """Answer what a handshake client is asked."""
    for seen in itertools.count():
        await wire.wait_for(lambda count=seen: len(wire.asked) > count, "a question")
        asked = wire.asked[seen]
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]})


ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"answer": "yes"}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
    "roots/list": {"roots": []},
}


async def test_a_modern_servers_question_over_http_reaches_a_handshake_client(tmp_path: Path):
    async with sdk_over_http() as url:
        config = write_config(tmp_path, {"far": {"far": {"url": url}}})
        async with serving(config, greet=False) as wire:
            await wire.handshake(capabilities=ABLE)
            task = asyncio.ensure_future(answering(wire, ANSWERS))
            assert json.loads(text_of(await wire.use("far", "far", "ask"))) == {"answer": "yes"}
            task.cancel()


@pytest.mark.parametrize("how", ["streamableHttp", "sse"])
async def test_a_handshake_servers_questions_over_http_reach_its_client(tmp_path: Path, how: str):
    async with everything_over_http(how) as url:
        far = {"url": url, **({"transport": "sse"} if how == "sse" else {})}
        async with serving(write_config(tmp_path, {"far": {"far": far}}), greet=False) as wire:
            await wire.handshake(capabilities=ABLE)
            task = asyncio.ensure_future(answering(wire, ANSWERS))
            arguments = {"prompt": "hello", "maxTokens": 5}
            result = await wire.use("far", "far", "trigger-sampling-request", arguments)
            assert "hi" in text_of(result)
            assert [one["method"] for one in wire.asked if one["method"] != "roots/list"] == ["sampling/createMessage"]
            task.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_progress_over_http_reaches_its_client(tmp_path: Path, era: Era):
    async with sdk_over_http() as url, serving(write_config(tmp_path, {"far": {"far": {"url": url}}}), era=era) as wire:
        await wire.use("far", "far", "count", _meta={"progressToken": "t"})
        steps = [
            one["params"]["progress"] for one in wire.seen("notifications/progress") if one["params"]["progress"] >= 1
        ]
        assert steps == [1, 2, 3]


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancellation_reaches_a_modern_server_within_a_second(tmp_path: Path, era: Era):
    async with sdk_over_http() as url, serving(write_config(tmp_path, {"far": {"far": {"url": url}}}), era=era) as wire:
        await cancelled(wire, "wait", "waited")


async def cancelled(wire: Wire, waiting: str, witness: str) -> None:
    """Start a call that waits, cancel it, and have the server tell that it heard so."""

    async def said(word: str) -> bool:
        return word in text_of(await wire.use("far", "far", witness))

    number = await wire.begin("tools/call", {"name": "use_tool", "arguments": use_params("far", "far", waiting)})
    await poll_until(lambda: said("began"), what="the call")
    await wire.notify("notifications/cancelled", {"requestId": number})
    await poll_until(lambda: said("cancelled"), 1, what="the cancellation")


async def test_changes_of_a_modern_server_over_http_are_heard(tmp_path: Path):
    async with sdk_over_http() as url, serving(write_config(tmp_path, {"far": {"far": {"url": url}}})) as wire:
        before = {tool["name"] for tool in (await wire.open("far"))["tools"]}
        await wire.use("far", "far", "change")

        async def added() -> bool:
            return {tool["name"] for tool in (await wire.open("far"))["tools"]} > before

        await poll_until(added, what="the new tool")


# -- the same server in the handshake era


@pytest.mark.parametrize(("tool", "answer"), [("ask", "yes"), ("sample", "hi")])
async def test_a_handshake_servers_question_is_answered_over_http(tool: str, answer: str):
    method = {"ask": "elicitation/create", "sample": "sampling/createMessage"}[tool]
    heard = Heard(ANSWERS[method])
    async with sdk_over_http() as url, agreed(url, heard, modern=False) as (channel, agreement):
        assert answer in json.dumps(await call(channel, agreement, tool))
        assert heard.methods == [method]


async def test_a_cancellation_reaches_a_handshake_server_within_a_second():
    async with sdk_over_http() as url, agreed(url, modern=False) as (channel, agreement):

        async def said(word: str) -> bool:
            return word in json.dumps(await call(channel, agreement, "waited"))

        waiting = asyncio.ensure_future(call(channel, agreement, "wait"))
        await poll_until(lambda: said("began"), what="the call")
        waiting.cancel()
        await poll_until(lambda: said("cancelled"), 1, what="the cancellation")


async def test_changes_of_a_handshake_server_are_heard_on_its_stream():
    heard = Heard()
    async with sdk_over_http() as url, agreed(url, heard, modern=False) as (channel, agreement):

        async def told() -> bool:
            await call(channel, agreement, "change")
            return "notifications/tools/list_changed" in heard.methods

        await poll_until(told, what="the change")


async def test_a_session_is_ended_when_its_channel_closes():
    async with sdk_over_http() as url:
        async with agreed(url, modern=False) as (channel, agreement):
            await call(channel, agreement, text="x")
            session = channel._session.id  # type: ignore[attr-defined]
        async with remote(url) as other:
            other._session.id, other._session.version = session, "2025-11-25"  # type: ignore[attr-defined]
            with pytest.raises(DownstreamUnavailable) as caught:
                await other.request("tools/list", {}, hard_seconds=5)
            assert caught.value.kind == "session_expired"
