"""Another implementation than our own servers: one of the modern era on the official SDK, directly and behind us."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pairs import (
    ABLE,
    ACCEPTED,
    ERAS,
    META,
    ROOTS,
    SAMPLED,
    SUBSCRIPTION,
    SURFACES,
    WITH_ROOTS,
    Case,
    Host,
    Surface,
    hosting,
    usual,
)
from tests.support.warm import Warm, warm_servers
from tests.support.wire import Era, Json, direct, error_of, text_of

PROGRESS = "notifications/progress"
UPDATED = "notifications/resources/updated"
BAD_PARAMS = -32602


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with warm_servers() as entry:
        yield entry


async def test_the_server_itself_does_what_is_expected_of_it(warm: Warm):
    async with direct(warm("modern_sdk_server", "s"), era="modern") as wire:
        wire.capabilities = ABLE | {"roots": {}}
        host = Host(wire, Case("modern", "modern", "server"), ("s",))
        found = await host.get("server/discover")
        assert {"tools", "prompts", "resources", "completions", "logging"} <= found["capabilities"].keys()
        assert text_of(await host.call("echo", {"a": 1})) == '{"a": 1}'
        for kind, (method, answer) in KINDS.items():
            asked = await host.get("tools/call", host.named("ask", {"kind": kind}))
            assert asked["inputRequests"]["k1"]["method"] == method
            seen = (await host.asking("ask", {"kind": kind}, lambda _, answer=answer: answer)).result
            assert seen["structuredContent"] == {"kind": kind, "answer": answer, "server": "s"}
        await host.call("count", {}, _meta={"progressToken": "p"})
        assert len(wire.seen(PROGRESS)) == 3
        await host.call("log", {}, _meta={META + "logLevel": "info"})
        assert [message["params"]["level"] for message in wire.seen("notifications/message")] == ["info", "error"]
        assert error_of(await host.call("fail", {})) == "failed by s"
        await check_lists(host)
        await host.listen(toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["test://s/a"])
        await host.call("change", {"kind": "tools"})
        await host.call("change", {"kind": "prompts"})
        await host.call("touch", {"uri": "test://s/a"})
        for method in ("tools/list_changed", "prompts/list_changed", "resources/updated"):
            await wire.notification(f"notifications/{method}")


KINDS: dict[str, tuple[str, Json]] = {
    "form": ("elicitation/create", ACCEPTED),
    "url": ("elicitation/create", {"action": "accept"}),
    "sampling": ("sampling/createMessage", SAMPLED),
    "roots": ("roots/list", ROOTS),
}


async def check_lists(host: Host) -> None:
    for uri in ("test://s/a", "test://s/item/1"):
        read = await host.get("resources/read", {"uri": uri})
        assert read["contents"][0]["text"] == f"{uri} read from s"
    assert (await host.error("resources/read", {"uri": "test://s/no"}))["code"] == BAD_PARAMS
    templates = (await host.get("resources/templates/list"))["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "test://s/item/{id}"
    greeted = await host.get("prompts/get", {"name": "greet", "arguments": {"who": "Ann"}})
    assert greeted["messages"][0]["content"]["text"] == "Hello Ann from s"
    params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "t"}}
    assert (await host.get("completion/complete", params))["completion"]["values"] == ["t-one", "t-two", "t-s"]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("client", ERAS)
async def test_a_server_on_the_sdk(client: Era, surface: Surface, warm: Warm, tmp_path: Path):
    case = Case(client, "modern", surface)
    entry = warm("modern_sdk_server", "W")
    async with hosting(case, tmp_path, WITH_ROOTS, {"s": entry}, opened=True) as host:
        assert text_of(await host.call("echo", {"a": 1})) == '{"a": 1}'
        for kind in ("form", "sampling", "roots"):
            outcome = await host.asking("ask", {"kind": kind})
            (question,) = outcome.questions
            assert outcome.result["structuredContent"] == {"kind": kind, "answer": usual(question), "server": "W"}
        await host.call("count", {}, _meta={"progressToken": "p"})
        assert len(host.wire.seen(PROGRESS)) == 3
        assert (await host.get("resources/read", {"uri": "test://W/a"}))["contents"][0]["text"].endswith("from W")
        greeted = await host.get("prompts/get", {"name": host.prompt("greet"), "arguments": {"who": "Ann"}})
        assert greeted["messages"][0]["content"]["text"] == "Hello Ann from W"
        tagged: Json = {}
        if case.is_modern:
            tagged = {"_meta": {SUBSCRIPTION: await host.listen(resourceSubscriptions=["test://W/a"])}}
        else:
            assert await host.get("resources/subscribe", {"uri": "test://W/a"}) == {}
        await host.call("touch", {"uri": "test://W/a"})
        (updated,) = await host.wire.notification(UPDATED)
        assert updated["params"] == {"uri": "test://W/a", **tagged}
