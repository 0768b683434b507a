"""The official Python client over HTTP, in every mode that it has, at every endpoint, in front of real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from tests.serve.http.serving import ALICE, BOB, SECONDS, Served, served
from tests.support.configs import Toolboxes, received, rogue, starts, write_config
from tests.support.procs import wait_until
from tests.support.reference import everything
from tests.support.wire import lasting

MODES = ["legacy", "auto", "2026-07-28"]
ENDPOINTS = ["/mcp", "/mcp/TOOLBOX", "/mcp/TOOLBOX/fs"]

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""To read the certificates of the world for each client would take longer than all that it does."""

each_mode = pytest.mark.parametrize("mode", MODES)
each_endpoint = pytest.mark.parametrize("endpoint", ENDPOINTS)


class Asked(NamedTuple):
    """What a client was asked, and answers."""

    questions: list[Any]

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        del context
        self.questions.append(params)
        content = types.TextContent(type="text", text="sampled")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        del context
        self.questions.append(params)
        return types.ElicitResult(action="accept", content={"answer": "yes"})


class Front(NamedTuple):
    """One workbench, with a toolbox for each kind of server `fs`."""

    running: Served
    log: Path

    def connected(
        self, toolbox: str, endpoint: str, mode: str, asked: Asked | None = None
    ) -> contextlib.AbstractAsyncContextManager[Client]:
        return connected(self.running, endpoint.replace("TOOLBOX", toolbox), mode, asked=asked)


@pytest.fixture(scope="module")
def front(shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("front")
    log = folder / "log"
    servers = {
        "plain": rogue("ok"),
        "asking": rogue("asks_sampling"),
        "progressing": rogue("progress", 3),
        "hanging": rogue("never", log=log),
        "real": everything(),
    }
    config = write_config(folder, {toolbox: {"fs": entry} for toolbox, entry in servers.items()})
    with lasting(shared_loop, served(config)) as running:
        yield Front(running, log)


@contextlib.asynccontextmanager
async def connected(
    running: Served, endpoint: str, mode: str, token: str = ALICE, asked: Asked | None = None, **options: Any
) -> AsyncIterator[Client]:
    if asked is not None:
        options |= {"sampling_callback": asked.sample, "elicitation_callback": asked.elicit}
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, verify=NO_TLS, timeout=SECONDS) as http:
        transport = streamable_http_client(running.url + endpoint, http_client=http)
        async with Client(transport, mode=mode, **options) as client:
            yield client


async def call(
    client: Client,
    endpoint: str,
    tool: str,
    arguments: dict[str, Any] | None = None,
    toolbox: str = "dev",
    **options: Any,
) -> Any:
    """A call as it is made at an endpoint."""
    if endpoint != "/mcp":
        return await client.call_tool(tool, arguments or {}, **options)
    identifier = {"toolbox": toolbox, "server": "fs", "tool": tool}
    return await client.call_tool("use_tool", {"tool": identifier, "arguments": arguments or {}}, **options)


def boxes(mode: str, *arguments: object, **fields: Any) -> Toolboxes:
    return {"dev": {"fs": rogue(mode, *arguments, **fields)}}


@each_mode
@each_endpoint
async def test_the_official_client_lists_and_calls(front: Front, mode: str, endpoint: str):
    async with front.connected("plain", endpoint, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == (["open_toolbox", "use_tool"] if endpoint == "/mcp" else ["echo", "nonce"])
        answers = await asyncio.gather(
            *(call(client, endpoint, "nonce", {"nonce": str(number)}, "plain") for number in range(20))
        )
        assert [answer.content[0].text for answer in answers] == [str(number) for number in range(20)]


@each_mode
@each_endpoint
async def test_the_official_client_is_asked_and_its_answer_arrives(front: Front, mode: str, endpoint: str):
    asked = Asked([])
    async with front.connected("asking", endpoint, mode, asked) as client:
        for method in ("sampling/createMessage", "elicitation/create"):
            answer = await call(client, endpoint, "echo", {"method": method}, "asking")
            heard = json.loads(answer.content[0].text)["result"]
            assert heard.get("model", heard.get("action")) in ("m", "accept")
        assert len(asked.questions) == 2


@each_mode
@each_endpoint
async def test_the_official_client_sees_progress_before_the_answer(front: Front, mode: str, endpoint: str):
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        steps.append(progress)

    async with front.connected("progressing", endpoint, mode) as client:
        await call(client, endpoint, "echo", toolbox="progressing", progress_callback=progressed)
        assert [step for step in steps if step >= 1] == [1, 2, 3]


@each_mode
@each_endpoint
async def test_a_call_that_the_official_client_gives_up_ends_at_the_server(front: Front, mode: str, endpoint: str):
    def count(method: str) -> int:
        return len(received(front.log, method)) if front.log.exists() else 0

    calls, cancellations = count("tools/call"), count("notifications/cancelled")
    async with front.connected("hanging", endpoint, mode) as client:
        hanging = asyncio.ensure_future(call(client, endpoint, "hang", toolbox="hanging"))
        await wait_until(lambda: count("tools/call") > calls, what="the call")
        assert count("notifications/cancelled") == cancellations
        hanging.cancel()
        await wait_until(lambda: count("notifications/cancelled") > cancellations, 1.0, what="the cancellation")
        assert (await call(client, endpoint, "echo", toolbox="hanging")).is_error is not True


async def test_a_list_that_grows_is_told_a_client_that_listens(tmp_path: Path):
    told: list[str] = []

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            told.append(message.method)

    config = write_config(tmp_path, boxes("ok"), toolMode="dynamic")
    async with served(config) as running, connected(running, "/mcp", "legacy", message_handler=heard) as client:
        await client.call_tool("open_toolbox", {"toolbox": "dev"})
        await wait_until(lambda: told, what="the notification")
        assert "dev__fs__nonce" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.row("E13")
@pytest.mark.parametrize(("first", "second"), [("legacy", "legacy"), ("2026-07-28", "2026-07-28"), ("legacy", "auto")])
async def test_two_clients_with_two_tokens_answer_their_own_questions(tmp_path: Path, first: str, second: str):
    log = tmp_path / "log"
    config = write_config(tmp_path, boxes("asks_sampling", log=log))
    hers, his = Asked([]), Asked([])
    async with (
        served(config) as running,
        connected(running, "/mcp", first, ALICE, hers) as alice,
        connected(running, "/mcp", second, BOB, his) as bob,
    ):
        for _ in range(3):
            await asyncio.gather(call(alice, "/mcp", "echo"), call(bob, "/mcp", "echo"))
        assert len(hers.questions) == len(his.questions) == 3
    assert len(starts(log)) == 2


@each_mode
@each_endpoint
async def test_a_real_server_does_all_it_can_over_http(front: Front, mode: str, endpoint: str):
    asked = Asked([])
    async with front.connected("real", endpoint, mode, asked) as client:
        said = await call(client, endpoint, "echo", {"message": "hi"}, "real")
        assert said.content[0].text == "Echo: hi"
        structured = await call(client, endpoint, "get-structured-content", {"location": "Chicago"}, "real")
        assert structured.structured_content["temperature"]
        image = await call(client, endpoint, "get-tiny-image", {}, "real")
        assert "image" in [block.type for block in image.content]
        sampled = await call(client, endpoint, "trigger-sampling-request", {"prompt": "p", "maxTokens": 5}, "real")
        assert "sampled" in sampled.content[0].text
        assert len(asked.questions) == 1
        if endpoint == "/mcp/TOOLBOX/fs":
            assert (await client.list_prompts()).prompts
            resources = (await client.list_resources()).resources
            assert (await client.read_resource(resources[0].uri)).contents
