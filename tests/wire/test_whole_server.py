"""The servers that do everything, driven directly: what a test expects of them through a gateway is true of them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.support.wire import Era, Json, Wire, error_of, result_of, text_of

PEERS = Path(__file__).parents[1] / "peers"
WHOLE_SERVER = (sys.executable, "-SE", str(PEERS / "launch.py"), "whole_server")
META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
ABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ACCEPTED: Json = {"action": "accept", "content": {"answer": "yes"}}
ROOTS: Json = {"roots": [{"uri": "file:///r", "name": "r"}]}
SAMPLED: Json = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
ANSWERS: dict[str, Json] = {"form": ACCEPTED, "url": {"action": "accept"}, "sampling": SAMPLED, "roots": ROOTS}
METHODS = {
    "form": "elicitation/create",
    "url": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
ONLY_ELICITATION: Json = {"elicitation": {}}

both_eras = pytest.mark.parametrize("era", ["handshake", "modern"])


@contextlib.asynccontextmanager
async def whole(era: Era, capabilities: Json | None = None, name: str = "w") -> AsyncGenerator[Wire]:
    """A whole server, past its handshake, with the roots that it asked for."""
    wire = await Wire.spawn([*WHOLE_SERVER, era, name], era=era)
    try:
        wire.capabilities = capabilities or {}
        if era == "handshake":
            await wire.handshake(capabilities=capabilities)
            if "roots" in wire.capabilities:
                assert (await question(wire))["method"] == "roots/list"
                await reply(wire, ROOTS)
        yield wire
        assert wire.stray == []
    finally:
        await wire.close()


async def question(wire: Wire) -> Json:
    """Wait for the next request of the server; `reply` takes it away."""
    await wire.wait_for(lambda: wire.asked, "a question")
    return wire.asked[0]


async def reply(wire: Wire, result: Json) -> None:
    asked = await question(wire)
    wire.asked.remove(asked)
    await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})


async def answered(wire: Wire, method: str, params: Json, *answers: Json) -> Json:
    """The result of a request that asks one question after the other."""
    if wire.era == "handshake":
        number = await wire.begin(method, params)
        for answer in answers:
            await reply(wire, answer)
        return result_of((await wire.finish(number))[0])
    retry: Json = {}
    for answer in answers:
        result = result_of(await wire.request(method, {**params, **retry}))
        assert result["resultType"] == "input_required"
        (key,) = result["inputRequests"]
        retry = {"inputResponses": {key: answer}, "requestState": result["requestState"]}
    return result_of(await wire.request(method, {**params, **retry}))


async def error(wire: Wire, method: str, params: Json | None = None) -> Json:
    return (await wire.request(method, params))["error"]


async def pages(wire: Wire, method: str, kind: str) -> list[Json]:
    first = result_of(await wire.request(method))
    second = result_of(await wire.request(method, {"cursor": first["nextCursor"]}))
    assert "nextCursor" not in second
    assert first[kind]
    assert (await error(wire, method, {"cursor": "no"}))["code"] == -32602
    if wire.era == "modern":
        assert (first["ttlMs"], first["cacheScope"], first["resultType"]) == (0, "private", "complete")
    return first[kind] + second[kind]


async def settle(wire: Wire) -> None:
    """Wait until the server has taken everything that was sent to it."""
    await wire.request("vendor/echo")


async def listen(wire: Wire, **wishes: Any) -> int:
    before = len(wire.seen("notifications/subscriptions/acknowledged"))
    number = await wire.begin("subscriptions/listen", {"notifications": wishes})
    acknowledged = await wire.notification("notifications/subscriptions/acknowledged", before + 1)
    assert acknowledged[-1]["params"] == {"notifications": wishes, "_meta": {META + "subscriptionId": number}}
    return number


# -- beginning


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_the_handshake_takes_every_version_of_its_era(version: str):
    wire = await Wire.spawn([*WHOLE_SERVER, "handshake", "w"])
    try:
        assert (await error(wire, "server/discover"))["code"] == -32601
        assert (await error(wire, "tools/list"))["code"] == -32600
        hello = await wire.handshake(version)
        assert hello["protocolVersion"] == version
        assert hello["serverInfo"]["name"] == "w"
        assert hello["instructions"] == "Use w."
        assert hello["capabilities"]["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        assert hello["capabilities"]["experimental"] == {"vendor": {}}
        assert result_of(await wire.request("ping")) == {}
    finally:
        await wire.close()


async def test_the_modern_era_is_discovered():
    async with whole("modern") as wire:
        found = result_of(await wire.request("server/discover"))
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["capabilities"]["extensions"] == {TASKS: {}}
        assert (found["resultType"], found["ttlMs"], found["cacheScope"]) == ("complete", 0, "private")
        assert found["_meta"][META + "serverInfo"]["name"] == "w"
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"):
            assert (await error(wire, method))["code"] == -32601
        wire.era = "handshake"
        assert (await error(wire, "tools/list"))["code"] == -32602
        other: Json = {META + "protocolVersion": "2099-01-01", META + "clientCapabilities": {}}
        assert (await error(wire, "tools/list", {"_meta": other}))["code"] == -32022
        wire.era = "modern"


@both_eras
async def test_what_it_does_not_know_from_the_protocol(era: Era):
    async with whole(era) as wire:
        assert result_of(await wire.request("vendor/echo", {"a": [1]}))["a"] == [1]
        await wire.notify("notifications/vendor/ping", {"n": 7})
        (pong,) = await wire.notification("notifications/vendor/pong")
        assert pong["params"] == {"n": 7}
        assert (await error(wire, "vendor/other"))["code"] == -32601


# -- tools


@both_eras
async def test_the_tools_follow_the_capabilities(era: Era):
    async with whole(era) as wire, whole(era, ONLY_ELICITATION) as able:
        names = [tool["name"] for tool in await pages(wire, "tools/list", "tools")]
        more = [tool["name"] for tool in await pages(able, "tools/list", "tools")]
        assert more == [*names, "only_when_askable"]
        assert ("roots_seen" in names, "background_ask" in names) == (era == "handshake", era == "handshake")


@both_eras
async def test_an_echo_has_all_that_it_heard(era: Era):
    async with whole(era) as wire:
        echoed = await wire.call("echo", {"a": 1}, _meta={"vendor/x": 1})
        assert text_of(echoed) == '{"a": 1}'
        assert echoed["content"][1] == {"type": "hologram", "data": "x"}
        assert echoed["x-unknown"] == {"kept": True}
        assert echoed["structuredContent"]["meta"]["vendor/x"] == 1
        assert echoed.get("resultType") == ("complete" if era == "modern" else None)
        assert (await error(wire, "tools/call", {"name": "no"}))["code"] == -32602


@both_eras
async def test_digits_are_kept(era: Era):
    async with whole(era) as wire:
        _, line = await wire.finish(await wire.begin("tools/call", {"name": "structured"}))
        assert b'{"n": 12345678901234567890.10}' in line
        await wire.raw(
            b'{"jsonrpc":"2.0","method":"notifications/vendor/ping","params":{"n":12345678901234567890.10}}\n'
        )
        await wire.notification("notifications/vendor/pong")
        assert b"12345678901234567890.10" in wire.lines[-1]


@both_eras
async def test_progress_logs_and_failures(era: Era):
    async with whole(era) as wire:
        await wire.call("count", _meta={"progressToken": "p"})
        steps = [message["params"] for message in wire.seen("notifications/progress")]
        assert [step["progress"] for step in steps] == [1, 2, 3]
        assert steps[2] == {"progressToken": "p", "progress": 3, "total": 3, "message": "step 3 of w"}
        assert error_of(await wire.call("fail")) == "failed by w"
        refused = await error(wire, "tools/call", {"name": "refuse"})
        assert refused == {"code": -32050, "message": "refused by w", "data": {"why": 1}}


async def test_the_handshake_has_one_log_level():
    async with whole("handshake") as wire:
        await wire.call("log")
        assert len(wire.seen("notifications/message")) == 3
        result_of(await wire.request("logging/setLevel", {"level": "error"}))
        await wire.call("log")
        assert len(wire.seen("notifications/message")) == 4
        assert (await error(wire, "logging/setLevel", {"level": "loud"}))["code"] == -32602
        result_of(await wire.request("logging/setLevel", {"level": "info"}))
        await wire.call("late_log")
        late = await wire.notification("notifications/message", 5)
        assert late[-1]["params"] == {"level": "info", "logger": "w", "data": "late from w", "x-unknown": 1}
        assert wire.order[-1]["method"] == "notifications/message"


async def test_the_modern_era_has_a_log_level_for_each_request():
    async with whole("modern") as wire:
        await wire.call("log")
        assert wire.seen("notifications/message") == []
        await wire.call("log", _meta={META + "logLevel": "info"})
        assert [message["params"]["level"] for message in wire.seen("notifications/message")] == ["info", "error"]
        await wire.call("late_log", _meta={META + "logLevel": "info"})
        await wire.notification("notifications/message", 3)
        wrong = {"name": "log", "_meta": {META + "logLevel": "loud"}}
        assert (await error(wire, "tools/call", wrong))["code"] == -32602


@both_eras
async def test_a_held_call_is_cancelled(era: Era, tmp_path: Path):
    async with whole(era) as wire:
        file = tmp_path / "held"
        held = {"name": "hold", "arguments": {"file": str(file)}, "_meta": {"progressToken": 1}}
        number = await wire.begin("tools/call", held)
        await wire.notification("notifications/progress")
        assert file.read_text() == "started\n"
        await wire.notify("notifications/cancelled", {"requestId": number})
        await settle(wire)
        assert file.read_text() == "started\ncancelled\n"
        assert not any(message.get("id") == number for message in wire.order)


# -- questions


@both_eras
async def test_it_asks(era: Era):
    async with whole(era, ABLE) as wire:
        for kind in ("form", "url", "sampling", "roots"):
            asking = {"name": "ask", "arguments": {"kind": kind}}
            seen = (await answered(wire, "tools/call", asking, ANSWERS[kind]))["structuredContent"]
            progress = {"progress": 0} if (era, kind) == ("handshake", "sampling") else {}
            assert seen == {"kind": kind, "answer": ANSWERS[kind], "server": "w", **progress}
        if era == "handshake":
            (complete,) = await wire.notification("notifications/elicitation/complete")
            assert complete["params"] == {"elicitationId": "e1"}


@both_eras
async def test_it_asks_only_what_the_client_can_answer(era: Era):
    async with whole(era, ONLY_ELICITATION) as wire:
        for kind in ("url", "sampling", "roots"):
            refused = await error(wire, "tools/call", {"name": "ask", "arguments": {"kind": kind}})
            assert refused["code"] == (-32021 if era == "modern" else -32600)
        asking = {"name": "ask", "arguments": {"kind": "roots", "anyway": True}}
        assert (await answered(wire, "tools/call", asking, ROOTS))["structuredContent"]["answer"] == ROOTS


async def test_an_error_and_progress_come_back_in_the_handshake():
    async with whole("handshake", ABLE) as wire:
        number = await wire.begin("tools/call", {"name": "ask", "arguments": {"kind": "sampling"}})
        asked = await question(wire)
        token = asked["params"]["_meta"]["progressToken"]
        await wire.notify("notifications/progress", {"progressToken": token, "progress": 1})
        await wire.notify("notifications/progress", {"progressToken": token, "progress": 2})
        refusal = {"code": -1, "message": "no"}
        await wire.send({"jsonrpc": "2.0", "id": asked["id"], "error": refusal})
        seen = result_of((await wire.finish(number))[0])["structuredContent"]
        assert (seen["answer"], seen["progress"]) == (refusal, 2)


async def test_a_cancelled_call_takes_its_question_back():
    async with whole("handshake", ABLE) as wire:
        number = await wire.begin("tools/call", {"name": "ask"})
        asked = await question(wire)
        await wire.notify("notifications/cancelled", {"requestId": number})
        (taken_back,) = await wire.notification("notifications/cancelled")
        assert taken_back["params"]["requestId"] == asked["id"]


async def test_a_retry_must_bring_the_state_back_as_it_was():
    async with whole("modern", ABLE) as wire:
        first = await wire.call("ask", {"kind": "form"})
        assert first["inputRequests"]["k1"]["method"] == "elicitation/create"
        answers, state = {"k1": ACCEPTED}, first["requestState"]
        for wrong in ({"requestState": state + " "}, {"requestState": state.replace("\n", "")}, {}):
            retry = {"name": "ask", "arguments": {"kind": "form"}, "inputResponses": answers, **wrong}
            assert (await error(wire, "tools/call", retry))["code"] == -32602
        other = {"name": "ask", "arguments": {"kind": "url"}, "inputResponses": answers, "requestState": state}
        assert (await error(wire, "tools/call", other))["code"] == -32602
        again = await wire.call("ask", {"kind": "form"}, inputResponses={}, requestState=state)
        assert again["resultType"] == "input_required"
        done = await wire.call("ask", {"kind": "form"}, inputResponses=answers, requestState=state)
        assert done["resultType"] == "complete"


@both_eras
async def test_two_questions_one_after_the_other(era: Era):
    async with whole(era, ABLE) as wire:
        declined = {"action": "decline"}
        result = await answered(wire, "tools/call", {"name": "ask_twice"}, ACCEPTED, declined)
        assert result["structuredContent"] == {"answers": [ACCEPTED, declined], "server": "w"}


async def test_two_questions_at_once():
    async with whole("handshake", ABLE) as wire:
        number = await wire.begin("tools/call", {"name": "ask_both"})
        await wire.wait_for(lambda: len(wire.asked) == 2, "both questions")
        form, roots = wire.asked
        await wire.send({"jsonrpc": "2.0", "id": roots["id"], "result": ROOTS})
        await wire.send({"jsonrpc": "2.0", "id": form["id"], "result": ACCEPTED})
        seen = result_of((await wire.finish(number))[0])["structuredContent"]
        assert seen["answers"] == {"k1": ACCEPTED, "k2": ROOTS}
    async with whole("modern", ABLE) as wire:
        first = await wire.call("ask_both")
        assert {key: asked["method"] for key, asked in first["inputRequests"].items()} == {
            "k1": "elicitation/create",
            "k2": "roots/list",
        }
        answers = {"k1": ACCEPTED, "k2": ROOTS}
        done = await wire.call("ask_both", inputResponses=answers, requestState=first["requestState"])
        assert done["structuredContent"]["answers"] == answers


async def test_it_asks_for_ever():
    async with whole("handshake", ABLE) as wire:
        result = await answered(wire, "tools/call", {"name": "ask_forever"}, *[ACCEPTED] * 15)
        assert result["structuredContent"]["times"] == 15
    async with whole("modern", ABLE) as wire:
        last = await answered(wire, "tools/call", {"name": "ask_forever"}, *[ACCEPTED] * 30)
        assert list(last["inputRequests"]) == ["k31"]


async def test_roots_in_the_handshake():
    async with whole("handshake", ABLE) as wire:
        await wire.notify("notifications/roots/list_changed")
        await wire.call("background_ask")
        await reply(wire, {"roots": []})
        seen = (await wire.call("roots_seen"))["structuredContent"]
        assert seen == {"roots": ROOTS, "changes": 1, "background": [{"roots": []}], "server": "w"}
        needed = await error(wire, "tools/call", {"name": "needs_url"})
        assert (needed["code"], needed["data"]["elicitations"][0]["elicitationId"]) == (-32042, "e1")


# -- resources and prompts


@both_eras
async def test_resources(era: Era):
    async with whole(era, ABLE) as wire:
        listed = await pages(wire, "resources/list", "resources")
        assert [each["uri"] for each in listed] == ["test://w/a", "test://w/b", "test://shared/same"]
        assert listed[0]["x-unknown"] == "w"
        templates = await pages(wire, "resources/templates/list", "resourceTemplates")
        assert [each["uriTemplate"] for each in templates] == ["test://w/item/{id}", "test://shared/{id}"]
        for uri in ("test://w/a", "test://shared/same", "test://shared/1", "test://w/item/5", "test://w/hidden"):
            read = result_of(await wire.request("resources/read", {"uri": uri}))
            assert read["contents"][0]["text"] == f"{uri} read from w"
            assert read.get("cacheScope") == ("private" if era == "modern" else None)
        blob = result_of(await wire.request("resources/read", {"uri": "test://w/blob"}))
        assert blob["contents"][0]["blob"] == "AAEC"
        missing = await error(wire, "resources/read", {"uri": "test://w/no"})
        assert missing["code"] == (-32602 if era == "modern" else -32002)
        asked = await answered(wire, "resources/read", {"uri": "test://w/asking"}, ACCEPTED)
        assert '"answer": "yes"' in asked["contents"][0]["text"]
        linked = (await wire.call("link"))["content"]
        assert linked[0]["uri"] == "test://w/hidden"
        assert linked[1]["resource"]["text"] == "embedded of w"


@both_eras
async def test_prompts_and_completion(era: Era):
    async with whole(era, ABLE) as wire:
        assert [each["name"] for each in await pages(wire, "prompts/list", "prompts")] == ["greet", "plain", "asking"]
        greeted = result_of(await wire.request("prompts/get", {"name": "greet", "arguments": {"who": "Ann"}}))
        assert greeted["messages"][0]["content"]["text"] == "Hello Ann from w"
        assert (await error(wire, "prompts/get", {"name": "no"}))["code"] == -32602
        asked = await answered(wire, "prompts/get", {"name": "asking"}, ACCEPTED)
        assert '"answer": "yes"' in asked["messages"][0]["content"]["text"]
        references = [
            ({"type": "ref/prompt", "name": "greet"}, "who"),
            ({"type": "ref/resource", "uri": "test://w/item/{id}"}, "id"),
            ({"type": "ref/resource", "uri": "test://shared/{id}"}, "id"),
        ]
        for reference, name in references:
            params: Json = {"ref": reference, "argument": {"name": name, "value": "t"}}
            done = result_of(await wire.request("completion/complete", params))["completion"]
            assert done["values"] == ["t-one", "t-two", "t-w"]
            params["context"] = {"arguments": {"x": "y"}}
            done = result_of(await wire.request("completion/complete", params))["completion"]
            assert done["values"][3] == '{"arguments": {"x": "y"}}'
        wrong = {"ref": {"type": "ref/prompt", "name": "no"}, "argument": {"name": "who", "value": ""}}
        assert (await error(wire, "completion/complete", wrong))["code"] == -32602


# -- changes


async def test_changes_in_the_handshake():
    async with whole("handshake") as wire:
        for kind in ("tools", "prompts", "resources"):
            await wire.call("change", {"kind": kind})
            assert len(wire.seen(f"notifications/{kind}/list_changed")) == 1
        assert (await pages(wire, "tools/list", "tools"))[-1]["name"] == "added_1"
        uri = {"uri": "test://w/a"}
        await wire.call("touch", uri)
        result_of(await wire.request("resources/subscribe", uri))
        await wire.call("touch", uri)
        result_of(await wire.request("resources/unsubscribe", uri))
        await wire.call("touch", uri)
        assert [message["params"] for message in wire.seen("notifications/resources/updated")] == [uri]


async def test_changes_in_the_modern_era():
    async with whole("modern") as wire:
        await wire.call("change", {"kind": "tools"})
        number = await listen(wire, toolsListChanged=True, resourceSubscriptions=["test://w/a"])
        other = await listen(wire, promptsListChanged=True)
        for kind in ("tools", "prompts", "resources"):
            await wire.call("change", {"kind": kind})
        await wire.call("touch", {"uri": "test://w/a"})
        await wire.call("touch", {"uri": "test://w/b"})
        heard = [(message["method"], message["params"]) for message in wire.notifications[2:]]
        tag, other_tag = ({"_meta": {META + "subscriptionId": each}} for each in (number, other))
        assert heard == [
            ("notifications/tools/list_changed", tag),
            ("notifications/prompts/list_changed", other_tag),
            ("notifications/resources/updated", {"uri": "test://w/a", **tag}),
        ]
        await wire.notify("notifications/cancelled", {"requestId": number})
        await wire.call("change", {"kind": "tools"})
        assert len(wire.seen("notifications/tools/list_changed")) == 1
        await wire.call("end_listens")
        assert result_of((await wire.finish(other))[0]) == {"resultType": "complete", **other_tag}


# -- tasks


async def test_tasks_in_the_handshake():
    async with whole("handshake", ONLY_ELICITATION) as wire:
        assert (await wire.call("slow"))["structuredContent"]["task"] is None
        task = (await wire.call("slow", task={"ttl": 5}))["task"]
        assert (task["taskId"], task["status"], task["ttl"]) == ("t1", "working", 5)
        looks = [result_of(await wire.request("tasks/get", {"taskId": "t1"}))["status"] for _ in range(2)]
        assert looks == ["working", "completed"]
        assert wire.seen("notifications/tasks/status")[0]["params"]["status"] == "completed"
        done = result_of(await wire.request("tasks/result", {"taskId": "t1"}))
        assert text_of(done) == "slow w"
        assert done["_meta"] == {META + "related-task": {"taskId": "t1"}}
        await wire.call("slow", task={})
        assert result_of(await wire.request("tasks/cancel", {"taskId": "t2"}))["status"] == "cancelled"
        assert (await error(wire, "tasks/cancel", {"taskId": "t2"}))["code"] == -32602
        assert (await error(wire, "tasks/get", {"taskId": "no"}))["code"] == -32602
        assert (await error(wire, "tools/call", {"name": "echo", "task": {}}))["code"] == -32601
        listed = result_of(await wire.request("tasks/list"))["tasks"]
        assert [(each["taskId"], each["status"]) for each in listed] == [("t1", "completed"), ("t2", "cancelled")]


async def test_a_task_that_asks_in_the_handshake():
    async with whole("handshake", ONLY_ELICITATION) as wire:
        await wire.call("slow_ask", task={})
        assert result_of(await wire.request("tasks/get", {"taskId": "t1"}))["status"] == "input_required"
        number = await wire.begin("tasks/result", {"taskId": "t1"})
        assert (await question(wire))["params"]["_meta"] == {META + "related-task": {"taskId": "t1"}}
        await reply(wire, ACCEPTED)
        done = result_of((await wire.finish(number))[0])
        assert done["structuredContent"]["answers"] == {"k1": ACCEPTED}
        direct = await answered(wire, "tools/call", {"name": "slow_ask"}, ACCEPTED)
        assert direct["structuredContent"]["answers"] == {"k1": ACCEPTED}


async def test_tasks_in_the_modern_era():
    async with whole("modern", ONLY_ELICITATION) as wire:
        assert (await wire.call("slow"))["structuredContent"]["task"] is None
        assert (await error(wire, "tasks/get", {"taskId": "t1"}))["code"] == -32021
        assert (await error(wire, "subscriptions/listen", {"notifications": {"taskIds": []}}))["code"] == -32021
        wire.capabilities = ONLY_ELICITATION | {"extensions": {TASKS: {}}}
        task = await wire.call("slow")
        assert (task["resultType"], task["taskId"], task["status"]) == ("task", "t1", "working")
        number = await listen(wire, taskIds=["t1"])
        assert result_of(await wire.request("tasks/get", {"taskId": "t1"}))["status"] == "working"
        done = result_of(await wire.request("tasks/get", {"taskId": "t1"}))
        assert (done["resultType"], done["status"], text_of(done["result"])) == ("complete", "completed", "slow w")
        (told,) = wire.seen("notifications/tasks")
        assert told["params"]["result"] == done["result"]
        assert told["params"]["_meta"] == {META + "subscriptionId": number}
        await wire.call("slow")
        assert result_of(await wire.request("tasks/cancel", {"taskId": "t2"}))["resultType"] == "complete"
        assert result_of(await wire.request("tasks/get", {"taskId": "t2"}))["status"] == "cancelled"


async def test_a_task_that_asks_in_the_modern_era():
    async with whole("modern", ONLY_ELICITATION | {"extensions": {TASKS: {}}}) as wire:
        assert (await wire.call("slow_ask"))["status"] == "working"
        for _ in range(2):
            asking = result_of(await wire.request("tasks/get", {"taskId": "t1"}))
            assert asking["status"] == "input_required"
            assert asking["inputRequests"]["k1"]["method"] == "elicitation/create"
        result_of(await wire.request("tasks/update", {"taskId": "t1", "inputResponses": {"k1": ACCEPTED}}))
        done = result_of(await wire.request("tasks/get", {"taskId": "t1"}))
        assert done["result"]["structuredContent"]["answers"] == {"k1": ACCEPTED}
