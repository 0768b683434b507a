"""One client: lists, calls, questions to a modern client, subscriptions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench import __version__
from mcp_workbench.errors import InputUnavailable, Overloaded
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.serve.session import for_handshake, for_modern
from mcp_workbench.surfaces.server_info import ServerInfo
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError, fields, members
from tests.serve.fakes import MODERN, PREFIX, Client, FakeLine, FakeSurface, envelope
from tests.support.procs import wait_until
from tests.wire.pair import settle

ASKABLE = {"elicitation": {}}
OFTEN = Limits(announce_interval_seconds=0.01)


async def rested(limits: Limits = OFTEN) -> None:
    """No change was told just now: the next one is told at once. Two intervals, as the second one may begin late."""
    for _ in range(2):
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(limits.announce_interval_seconds, over.set)
        await asyncio.wait_for(over.wait(), 5)


async def refused(client: Client, params: dict[str, Any], method: str = "tools/call") -> RpcError:
    with pytest.raises(RpcError) as caught:
        await client.modern(method, params, **ASKABLE)
    return caught.value


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


# -- greeting and listing


async def test_initialize_says_who_we_are_and_what_we_have():
    result = await Client().initialize()
    assert result["serverInfo"]["name"] == "mcp-workbench"
    assert result["serverInfo"]["version"] == __version__
    assert result["instructions"] == "how to"
    assert result["capabilities"] == {"tools": {"listChanged": True}}


async def test_a_list_that_never_changes_is_not_announced_to_change():
    assert (await Client(FakeSurface(changes=False)).initialize())["capabilities"] == {"tools": {}}


async def test_discover_has_every_field_that_the_modern_era_wants():
    result = await Client().modern("server/discover")
    assert result.pop("_meta")[f"{PREFIX}serverInfo"]["name"] == "mcp-workbench"
    assert result == {
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {"listChanged": True}},
        "instructions": "how to",
        "ttlMs": 3_600_000,
        "cacheScope": "private",
        "resultType": "complete",
    }


async def test_a_handshake_list_is_the_tools_alone():
    client = Client()
    await client.initialize()
    assert await client.send("tools/list", {"_meta": {"progressToken": 1}}) == {"tools": [{"name": "handshake"}]}


@pytest.mark.parametrize(("changes", "ttl"), [(True, 0), (False, 3_600_000)])
async def test_a_modern_list_says_how_long_it_holds(*, changes: bool, ttl: int):
    result = await Client(FakeSurface(changes=changes)).modern("tools/list")
    assert result["tools"] == [{"name": "modern"}]
    assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (ttl, "private", "complete")


@pytest.mark.parametrize("cursor", ["", "2", "x"])
async def test_a_cursor_that_we_never_gave_is_refused(cursor: str):
    assert (await refused(Client(), {"cursor": cursor}, "tools/list")).code == -32602


# -- calls


async def test_a_call_gives_the_surface_its_arguments_as_they_came():
    client = Client()
    await client.initialize()
    assert text_of(await client.send("tools/call", {"name": "echo", "arguments": {"a": [1]}})) == '{"a": [1]}'
    assert text_of(await client.send("tools/call", {"name": "echo"})) == "nothing"
    assert text_of(await client.send("tools/call", {"name": "echo", "arguments": None})) == "null"


@pytest.mark.parametrize("params", [{}, {"name": None}, {"name": 5}, {"name": {"a": 1}}])
async def test_a_call_without_a_name_is_invalid(params: dict[str, Any]):
    assert (await refused(Client(), params)).code == -32602


@pytest.mark.parametrize("meta", [[], "x", 5])
async def test_a_meta_that_is_no_object_is_invalid(meta: object):
    client = Client()
    await client.initialize()
    with pytest.raises(RpcError) as caught:
        await client.send("tools/call", {"name": "echo", "_meta": meta})
    assert caught.value.code == -32602


async def test_of_the_meta_everything_travels_but_the_token_and_the_keys_of_the_envelope():
    client = Client()
    meta = {
        **envelope(),
        f"{PREFIX}logLevel": "debug",
        f"{PREFIX}future": 1,
        "progressToken": "theirs",
        "traceparent": "00-1",
        "com.example/x": {"n": 1},
        "io.modelcontextprotocolx": 2,
    }
    await client.send("tools/call", {"name": "echo", "_meta": meta})
    (exchange,) = client.surface.exchanges
    assert {key: json.loads(bytes(value)) for key, value in exchange.meta.items()} == {
        f"{PREFIX}future": 1,
        "traceparent": "00-1",
        "com.example/x": {"n": 1},
        "io.modelcontextprotocolx": 2,
    }
    assert exchange.progress_token is not None
    assert bytes(exchange.progress_token) == b'"theirs"'


async def test_progress_goes_to_the_line_of_the_call_under_its_own_token():
    client = Client()
    await client.initialize()
    await client.send("tools/call", {"name": "progress", "_meta": {"progressToken": 7}})
    assert client.last_line.told == [("notifications/progress", {"progressToken": 7, "progress": 1})]
    await client.send("tools/call", {"name": "progress"})
    assert client.last_line.told == []
    assert client.line.told == []


# -- what is added to and taken from a result

DIGITS = b'{"content":[],"n":[1.00,12345678901234567890.10,1e400,-0.0,1E+2],"_meta":{"x":1}}'


def _handshake(result: Raw) -> Raw:
    return for_handshake(result, fields(result))


def _modern(result: Raw, hints: dict[str, Any] | None = None) -> Raw:
    return for_modern(result, fields(result), hints)


def test_a_result_for_its_own_era_is_the_same_bytes():
    assert bytes(_handshake(Raw(DIGITS))) == DIGITS
    typed = DIGITS.replace(b"{", b'{"resultType":"input_required",', 1)
    assert bytes(_modern(Raw(typed))) == typed


def test_a_modern_client_gets_a_result_type_and_nothing_else_is_touched():
    assert bytes(_modern(Raw(DIGITS))) == DIGITS.replace(b"{", b'{"resultType":"complete",', 1)


def test_a_handshake_client_gets_no_result_type_and_nothing_else_is_touched():
    typed = DIGITS.replace(b',"_meta"', b',"resultType":"complete","_meta"')
    assert bytes(_handshake(Raw(typed))) == DIGITS


@pytest.mark.parametrize("kind", [b'"complete"', rb'"\u0063omplete"', rb'"compl\u0065te"'])
def test_a_complete_result_gets_its_hints_however_it_says_that_it_is(kind: bytes):
    assert json.loads(bytes(_modern(Raw(b'{"resultType":' + kind + b"}"), {"ttlMs": 0})))["ttlMs"] == 0
    assert bytes(_modern(Raw(b'{"resultType":"other"}'), {"ttlMs": 0})) == b'{"resultType":"other"}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text() | st.just("resultType"), JSON, max_size=4))
def test_adding_and_taking_the_result_type_leaves_every_other_member(result: dict[str, Any]):
    raw = Raw(msgspec.json.encode(result))
    rest = {key: value for key, value in result.items() if key != "resultType"}
    assert json.loads(bytes(_handshake(raw))) == rest
    assert json.loads(bytes(_modern(raw))) == {"resultType": result.get("resultType", "complete"), **rest}


async def test_the_digits_of_a_result_reach_the_client():
    client = Client()
    await client.modern("tools/list")
    given = {
        "name": Raw(b'"raw"'),
        "arguments": Raw(b'{"result":' + DIGITS + b"}"),
        "_meta": Raw(json.dumps(envelope()).encode()),
    }
    caller = client.callers.of("tools/call", given, members(given["_meta"]))
    result = await client.session.handle(caller, client.line, "tools/call", given, {})
    assert DIGITS[1:] in bytes(result)


class Failing(FakeSurface):
    """Its list is nested too deep, and it can't say who it is."""

    async def list(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        del exchange, params
        return Raw(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)

    async def server_info(self, caller: Caller) -> ServerInfo:
        raise Overloaded(f"too many for {caller.audience}")


@pytest.mark.parametrize("modern", [False, True])
async def test_a_result_that_is_nested_too_deep_is_a_failure_of_the_server(*, modern: bool):
    client = Client(Failing())
    caller = Caller(version="", modern=modern)
    with pytest.raises(RpcError) as caught:
        await client.session.handle(caller, client.line, "tools/list", {}, {})
    assert caught.value.code == -31001
    assert "nested too deep" in caught.value.message


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
async def test_what_goes_wrong_in_a_method_of_the_session_has_a_name(method: str):
    error = await refused(Client(Failing()), {"notifications": {}}, method)
    assert (error.code, error.data) == (-31001, {"code": "overloaded", "retry_after": 5})
    assert "too many for client" in error.message


# -- questions


async def ask(client: Client, *names: str, tool: str = "ask") -> dict[str, Any]:
    return await client.modern("tools/call", {"name": tool, "arguments": {"names": names}}, **ASKABLE)


def retry(
    asked: dict[str, Any], answers: Any = None, tool: str = "ask", names: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    """The request of `ask` again, with answers; `names` where it asked for more than is still open."""
    given = answers if answers is not None else {key: {"answer": key} for key in asked["inputRequests"]}
    if names is None:
        names = [one["params"]["name"] for one in asked["inputRequests"].values()] if tool == "ask" else []
    state = {"requestState": asked["requestState"], "inputResponses": given}
    return {"name": tool, "arguments": {"names": names}, **state, **more}


async def test_a_modern_client_is_asked_by_its_answer_and_resumes_with_the_state():
    client = Client()
    asked = await ask(client, "a", "b")
    assert asked["resultType"] == "input_required"
    assert list(asked["inputRequests"].values()) == [
        {"method": "elicitation/create", "params": {"name": name}} for name in ("a", "b")
    ]
    result = await client.modern("tools/call", retry(asked), **ASKABLE)
    assert result["resultType"] == "complete"
    assert json.loads(text_of(result)) == [{"answer": key} for key in asked["inputRequests"]]
    assert len(client.surface.exchanges) == 1
    assert (await refused(client, retry(asked))).code == -32602  # nothing is parked any more


async def test_what_fails_after_a_question_has_a_name_too():
    client = Client()
    asked = await ask(client, tool="ask_and_fail")
    result = await client.modern("tools/call", retry(asked, tool="ask_and_fail"), **ASKABLE)
    assert result == {"refused": "ask_and_fail", "because": "too many", "resultType": "complete"}


async def test_each_round_has_a_state_of_its_own():
    client = Client()
    first = await ask(client, tool="twice")
    second = await client.modern("tools/call", retry(first, tool="twice"), **ASKABLE)
    assert second["resultType"] == "input_required"
    assert second["requestState"] != first["requestState"]
    result = await client.modern("tools/call", retry(second, tool="twice"), **ASKABLE)
    assert len(json.loads(text_of(result))) == 2


async def test_the_token_of_the_request_that_comes_back_is_the_one_for_progress():
    client = Client()
    meta = {"progressToken": "old"}
    first = await client.modern("tools/call", {"name": "twice", "arguments": {"names": []}, "_meta": meta}, **ASKABLE)
    await client.modern("tools/call", retry(first, tool="twice", _meta={"progressToken": "new"}), **ASKABLE)
    (exchange,) = client.surface.exchanges
    assert exchange.progress_token is not None
    assert bytes(exchange.progress_token) == b'"new"'
    client.session.close()
    await settle()


async def test_an_unanswered_question_is_asked_again():
    client = Client()
    asked = await ask(client, "a", "b")
    key_a, key_b = asked["inputRequests"]
    again = await client.modern("tools/call", retry(asked, {key_a: 1}), **ASKABLE)
    assert list(again["inputRequests"]) == [key_b]
    result = await client.modern("tools/call", retry(again, {key_b: 2}, names=["a", "b"]), **ASKABLE)
    assert json.loads(text_of(result)) == [1, 2]


@pytest.mark.parametrize("state", ["mcp-workbench.", "mcp-workbench.unknown", None, 5, {}])
async def test_an_unknown_state_of_ours_is_refused_and_the_call_is_not_made(state: object):
    client = Client()
    assert (await refused(client, {"name": "ask", "requestState": state})).code == -32602
    assert client.surface.exchanges == []


@pytest.mark.parametrize("state", ["", "unknown", "mcp-workbench", "x-mcp-workbench.1"])
async def test_a_state_that_is_not_ours_is_for_the_server_that_gave_it(state: str):
    client = Client()
    params = {"name": "echo", "requestState": state, "inputResponses": {"a": 1}}
    await client.modern("tools/call", params, **ASKABLE)
    (exchange,) = client.surface.exchanges
    assert {key: json.loads(bytes(value)) for key, value in exchange.members.items()} == {
        "requestState": state,
        "inputResponses": {"a": 1},
    }


async def test_a_handle_of_ours_shows_that_it_is():
    client = Client()
    assert (await ask(client, "a"))["requestState"].startswith("mcp-workbench.")
    client.session.close()
    await settle()


async def test_a_state_is_good_once():
    client = Client()
    asked = await ask(client, "a")
    await client.modern("tools/call", retry(asked), **ASKABLE)
    assert (await refused(client, retry(asked))).code == -32602
    assert len(client.surface.exchanges) == 1


async def test_two_retries_with_one_state_at_once_give_one_answer():
    client = Client()
    asked = await ask(client, "a")
    outcomes = await asyncio.gather(
        *(client.modern("tools/call", retry(asked), **ASKABLE) for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["RpcError", "dict"]


async def test_a_state_is_for_the_tool_that_asked():
    client = Client()
    asked = await ask(client, "a")
    assert (await refused(client, retry(asked, tool="echo"))).code == -32602
    assert text_of(await client.modern("tools/call", retry(asked), **ASKABLE))  # and it is not lost by the attempt


async def test_a_state_is_for_whom_it_was_given_to():
    client = Client()
    asked = await ask(client, "a")
    (exchange,) = client.surface.exchanges
    params = {key: Raw(json.dumps(value).encode()) for key, value in retry(asked).items()}
    stranger = msgspec.structs.replace(exchange.caller, principal="somebody else")
    with pytest.raises(RpcError):
        await client.session.handle(stranger, client.line, "tools/call", params, {})
    assert text_of(await client.modern("tools/call", retry(asked), **ASKABLE))


async def test_answers_that_are_no_object_are_refused_and_the_call_waits_on():
    client = Client()
    asked = await ask(client, "a")
    assert (await refused(client, retry(asked, ["x"]))).code == -32602
    assert text_of(await client.modern("tools/call", retry(asked), **ASKABLE))


async def test_an_expired_state_is_refused_and_its_work_is_cancelled():
    client = Client(limits=Limits(question_seconds=0.01))
    asked = await ask(client, "a")
    await wait_until(lambda: client.surface.cancelled == ["ask"])
    assert (await refused(client, retry(asked))).code == -32602


async def test_closing_the_session_ends_parked_calls():
    client = Client()
    asked = await ask(client, "a")
    client.session.close()
    await settle()
    assert client.surface.cancelled == ["ask"]
    assert (await refused(client, retry(asked))).code == -32602


async def test_a_state_cannot_be_guessed():
    client = Client()
    states = {(await ask(client, "a"))["requestState"] for _ in range(20)}
    assert len(states) == 20
    assert min(map(len, states)) >= 32
    client.session.close()
    await settle()


async def test_a_handshake_client_is_asked_while_its_call_is_open():
    client = Client()
    await client.initialize(**ASKABLE)
    result = await client.send("tools/call", {"name": "ask", "arguments": {"names": ["a"]}})
    assert json.loads(text_of(result)) == [{"asked": ["elicitation/create", {"name": "a"}]}]


async def test_a_handshake_client_cannot_resume_anything():
    client = Client()
    await client.initialize()
    result = await client.send("tools/call", {"name": "echo", "requestState": "x"})
    assert text_of(result) == "nothing"


async def test_a_cancelled_request_cancels_its_call():
    client = Client()
    running = asyncio.ensure_future(client.modern("tools/call", {"name": "wait"}, **ASKABLE))
    await settle()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await settle()
    assert client.surface.cancelled == ["wait"]


# -- changes of the list


async def listening(client: Client, notifications: Any) -> tuple[asyncio.Task[Any], list[Any]]:
    """A subscription, and what its line is told."""
    task = asyncio.ensure_future(client.modern("subscriptions/listen", {"notifications": notifications}))
    await settle()
    return task, client.last_line.told


async def end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_subscription_is_acknowledged_with_its_id_and_told_of_changes():
    client = Client(limits=OFTEN)
    task, told = await listening(client, {"toolsListChanged": True, "promptsListChanged": True})
    meta = {f"{PREFIX}subscriptionId": 1}
    assert told == [
        ("notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True}, "_meta": meta})
    ]
    client.surface.notify("tools")
    client.surface.notify("tools")
    await wait_until(lambda: len(told) == 3)
    assert told[1:] == [("notifications/tools/list_changed", {"_meta": meta})] * 2
    assert client.line.told == []
    await end(task)
    await rested()
    client.surface.notify("tools")
    assert len(told) == 3


async def test_a_storm_of_changes_is_told_at_once_and_once_more_when_it_is_over():
    client = Client(limits=OFTEN)
    await client.initialize()
    for _ in range(100):
        client.surface.notify("tools")
    client.surface.notify("prompts")
    changed = [("notifications/tools/list_changed", {}), ("notifications/prompts/list_changed", {})]
    assert client.line.told == changed
    await rested()
    assert client.line.told == [*changed, changed[0]]
    client.surface.notify("tools")
    assert client.line.told == [*changed, changed[0], changed[0]]
    client.session.close()


async def test_nothing_is_told_after_the_session_was_closed():
    client = Client(limits=OFTEN)
    await client.initialize()
    client.surface.notify("tools")
    client.surface.notify("tools")
    client.session.close()
    await rested()
    assert len(client.line.told) == 1


async def test_each_subscription_is_told_under_its_own_id():
    client = Client(limits=OFTEN)
    first, told_first = await listening(client, {"toolsListChanged": True})
    second, told_second = await listening(client, {"toolsListChanged": True})
    client.surface.notify("tools")
    assert told_first[-1][1]["_meta"] == {f"{PREFIX}subscriptionId": 1}
    assert told_second[-1][1]["_meta"] == {f"{PREFIX}subscriptionId": 2}
    await end(first)
    await rested()
    client.surface.notify("tools")
    assert (len(told_first), len(told_second)) == (2, 3)
    await end(second)


async def test_two_subscriptions_with_one_id_on_lines_of_their_own_are_both_told():
    """On HTTP every request is a line of its own, and ids need not differ between them."""
    client = Client(limits=OFTEN)
    given = {"notifications": Raw(b'{"toolsListChanged":true}'), "_meta": Raw(json.dumps(envelope()).encode())}
    caller = client.callers.of("subscriptions/listen", given, members(given["_meta"]))
    lines = [FakeLine(7), FakeLine(7)]
    handle = client.session.handle
    tasks = [asyncio.ensure_future(handle(caller, one, "subscriptions/listen", given, {})) for one in lines]
    await settle()
    client.surface.notify("tools")
    assert [len(one.told) for one in lines] == [2, 2]
    await end(tasks[0])
    await rested()
    client.surface.notify("tools")
    assert [len(one.told) for one in lines] == [2, 3]
    await end(tasks[1])


@pytest.mark.parametrize("wanted", [{}, {"toolsListChanged": False}, {"x": True}])
async def test_what_was_not_asked_for_is_not_told(wanted: dict[str, Any]):
    client = Client()
    task, told = await listening(client, wanted)
    client.surface.notify("tools")
    assert [params["notifications"] for _, params in told] == [{}]
    await end(task)


async def test_a_list_that_never_changes_honours_nothing():
    client = Client(FakeSurface(changes=False))
    task, told = await listening(client, {"toolsListChanged": True})
    assert [params["notifications"] for _, params in told] == [{}]
    await end(task)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": ["toolsListChanged"]},
        {"notifications": {"toolsListChanged": "true"}},
        {"notifications": {"resourceSubscriptions": "file:///a"}},
    ],
)
async def test_a_subscription_to_no_object_or_to_members_of_another_type_is_invalid(params: dict[str, Any]):
    client = Client()
    assert (await refused(client, params, "subscriptions/listen")).code == -32602
    assert client.last_line.told == []


async def test_subscriptions_are_answered_when_there_will_be_no_more_to_tell():
    client = Client()
    task, _ = await listening(client, {"toolsListChanged": True})
    client.session.end_subscriptions()
    result = await asyncio.wait_for(task, 5)
    assert result["resultType"] == "complete"


async def test_a_handshake_client_is_told_of_changes_once_it_said_that_it_is_ready():
    client = Client(limits=OFTEN)
    client.surface.notify("tools")
    await client.send("initialize", {"protocolVersion": "2025-11-25"})
    client.surface.notify("tools")
    await rested()
    assert client.line.told == []
    client.session.notice("notifications/initialized", {})
    client.session.notice("notifications/unknown", {})
    client.surface.notify("tools")
    assert client.line.told == [("notifications/tools/list_changed", {})]


# -- what servers say outside of a call

SEEN, UNSEEN = ServerIdentifier("seen", "fs"), ServerIdentifier("other", "fs")


async def test_a_handshake_client_hears_what_its_surface_shows_once_it_said_that_it_is_ready():
    client = Client(limits=OFTEN)
    await client.send("initialize", {"protocolVersion": "2025-11-25"})
    client.session.tell(SEEN, "notifications/message", {"level": Raw(b'"info"')})
    client.session.changed("seen", "prompts")
    await rested()
    assert client.line.told == []
    client.session.notice("notifications/initialized", {})
    client.session.tell(SEEN, "notifications/message", {"level": Raw(b'"info"')})
    client.session.tell(UNSEEN, "notifications/message", {"level": Raw(b'"info"')})
    client.session.changed("seen", "prompts")
    client.session.changed("other", "prompts")
    assert client.line.told == [
        ("notifications/message", {"level": "info"}),
        ("notifications/prompts/list_changed", {}),
    ]


async def test_a_modern_client_hears_only_what_a_subscription_asked_for():
    client = Client()
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["file:///a", "http://no", "file:///a"]}
    task, told = await listening(client, wanted)
    assert told[0][1]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}
    for uri in ("file:///a", "file:///b", "file:///a/part", "file:///ab"):
        client.session.tell(SEEN, "notifications/resources/updated", {"uri": Raw(json.dumps(uri).encode())})
    client.session.tell(UNSEEN, "notifications/resources/updated", {"uri": Raw(b'"file:///a"')})
    client.session.tell(SEEN, "notifications/elicitation/complete", {"elicitationId": Raw(b'"e"')})
    client.session.changed("seen", "prompts")
    assert [params["uri"] for _, params in told[1:]] == ["file:///a", "file:///a/part"]
    assert {params["_meta"][f"{PREFIX}subscriptionId"] for _, params in told} == {1}
    assert client.line.told == []
    await end(task)


async def test_a_question_goes_to_the_call_that_it_belongs_to_else_to_the_connection():
    client = Client()
    await client.initialize(**ASKABLE)
    await client.send("tools/call", {"name": "echo"})
    (exchange,) = client.surface.exchanges
    for call in (exchange, None):
        answer = await client.session.ask(SEEN, "elicitation/create", {"name": "a"}, None, call)
        assert json.loads(bytes(answer)) == {"asked": ["elicitation/create", {"name": "a", "server": "fs"}]}
        with pytest.raises(InputUnavailable):
            await client.session.ask(SEEN, "vendor/hidden", {}, None, call)


async def test_a_notification_of_the_client_is_handed_to_the_surface_once_it_is_known_who_it_is():
    client = Client()
    client.session.notice("notifications/roots/list_changed", {})
    await client.initialize()
    client.session.notice("notifications/roots/list_changed", {})
    assert client.surface.noticed == ["notifications/roots/list_changed"]
