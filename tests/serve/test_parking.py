"""Calls that wait for a modern client: good for the same request, once, for a while, and not without number."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.errors import ServerExited
from mcp_workbench.limits import Limits
from mcp_workbench.serve.parked_calls import HANDLE_BYTES, MARK, ParkedCalls, same_request
from mcp_workbench.wire.background import consume_exception
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange, Question
from mcp_workbench.wire.jsonrpc import RpcError
from tests.support.library import DeafLine
from tests.wire.pair import settle

MODERN = Caller(version="2026-07-28", modern=True, answers=frozenset({"elicitation/create"}))
CALL = "tools/call"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def use(tool: str, **added: Any) -> dict[str, Raw]:
    """The params of a call of a tool by its identifier."""
    identifier = {"toolbox": "dev", "server": "a", "tool": tool}
    params = {"name": "use_tool", "arguments": {"tool": identifier, "arguments": {"x": 1}}, **added}
    return {key: raw(value) for key, value in params.items()}


async def never() -> Raw:
    return await asyncio.get_running_loop().create_future()


async def asking(work: Any = None) -> Exchange:
    """A call that has asked its client."""
    exchange = Exchange(MODERN, DeafLine())
    running = asyncio.ensure_future(exchange.run(work or never()))
    await settle()
    exchange.pose("elicitation/create", {}).add_done_callback(consume_exception)
    assert isinstance(await asyncio.wait_for(running, 5), Question)
    return exchange


async def is_given_up(call: Exchange) -> bool:
    """Whether its work was cancelled; else it still asks its client."""
    [outcome] = await asyncio.gather(call.outcome(), return_exceptions=True)
    return isinstance(outcome, asyncio.CancelledError)


def resumed(
    parking: ParkedCalls, handle: str, params: dict[str, Raw], method: str = CALL, caller: Caller = MODERN
) -> Exchange:
    return parking.resume(caller, DeafLine(), method, {**params, "requestState": raw(handle)})


def is_refused(parking: ParkedCalls, handle: str, params: dict[str, Raw], **options: Any) -> bool:
    with pytest.raises(RpcError, match="requestState is unknown or has expired") as caught:
        resumed(parking, handle, params, **options)
    return caught.value.code == -32602


# -- the same request


async def test_a_handle_is_good_for_the_request_that_it_was_given_for_and_for_no_other():
    parking, exchange = ParkedCalls(Limits()), await asking()
    handle = parking.park(exchange, CALL, use("t"))
    assert is_refused(parking, handle, use("other"))
    assert is_refused(parking, handle, {**use("t"), "arguments": raw({})})
    assert is_refused(parking, handle, {**use("t"), "task": raw({})})
    assert is_refused(parking, handle, use("t"), method="prompts/get")
    assert resumed(parking, handle, use("t", _meta={"a": 1}, inputResponses={})) is exchange
    assert is_refused(parking, handle, use("t"))


async def test_a_handle_is_good_for_whom_it_was_given_to():
    parking = ParkedCalls(Limits())
    handle = parking.park(await asking(), CALL, use("t"))
    stranger = Caller(version="2026-07-28", modern=True, principal="somebody else")
    assert is_refused(parking, handle, use("t"), caller=stranger)


@given(st.dictionaries(st.sampled_from("abc"), JSON), JSON)
def test_a_request_is_the_same_however_it_is_written_and_whatever_a_retry_adds(params: dict[str, Any], added: Any):
    plain = {key: raw(value) for key, value in params.items()}
    turned = {key: Raw(json.dumps(value, indent=2, sort_keys=True).encode()) for key, value in reversed(params.items())}
    more = dict.fromkeys(("_meta", "inputResponses", "requestState"), raw(added))
    assert same_request(CALL, plain) == same_request(CALL, turned | more)
    assert same_request(CALL, plain) != same_request("prompts/get", plain)


@given(st.dictionaries(st.sampled_from("ab"), JSON), st.dictionaries(st.sampled_from("ab"), JSON))
def test_another_request_is_another(one: dict[str, Any], other: dict[str, Any]):
    requests = [same_request(CALL, {key: raw(value) for key, value in params.items()}) for params in (one, other)]
    canonical = [json.dumps(params, sort_keys=True) for params in (one, other)]
    assert (requests[0] == requests[1]) is (canonical[0] == canonical[1])


def test_a_request_that_python_cannot_hold_is_the_same_as_itself():
    deep = Raw(b"[" * 100_000 + b"]" * 100_000)
    digits = Raw(b"1" * 5000)
    for value in (deep, digits):
        assert same_request(CALL, {"a": value}) == same_request(CALL, {"a": value})
        assert same_request(CALL, {"a": value}) != same_request(CALL, {"b": value})


# -- bounds


async def test_beyond_the_bound_the_call_that_waited_longest_is_given_up():
    parking, calls = ParkedCalls(Limits(parked=2)), [await asking() for _ in range(3)]
    handles = [parking.park(call, CALL, use("t")) for call in calls]
    assert [await is_given_up(call) for call in calls] == [True, False, False]
    assert is_refused(parking, handles[0], use("t"))
    assert [resumed(parking, handle, use("t")) for handle in handles[1:]] == calls[1:]


async def test_a_call_that_nobody_comes_back_to_is_given_up():
    ended = asyncio.Event()

    async def work() -> Raw:
        try:
            return await never()
        finally:
            ended.set()

    parking = ParkedCalls(Limits(question_seconds=0.01))
    handle = parking.park(await asking(work()), CALL, use("t"))
    await asyncio.wait_for(ended.wait(), 5)
    assert is_refused(parking, handle, use("t"))


async def test_a_call_that_came_back_is_not_given_up_any_more():
    parking, call = ParkedCalls(Limits(question_seconds=0.01)), await asking()
    resumed(parking, parking.park(call, CALL, use("t")), use("t"))
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, over.set)  # after the timer of the first one
    await over.wait()
    assert not await is_given_up(call)
    call.cancel("the test is over")


async def test_when_the_client_is_gone_all_are_given_up():
    parking, calls = ParkedCalls(Limits()), [await asking() for _ in range(3)]
    handles = [parking.park(call, CALL, use("t")) for call in calls]
    parking.clear()
    assert all([await is_given_up(call) for call in calls])
    assert all(is_refused(parking, handle, use("t")) for handle in handles)


async def test_a_parked_call_that_fails_and_is_never_resumed_is_no_surprise():
    unexpected: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: unexpected.append(context))
    over = asyncio.Event()

    async def dies() -> Raw:
        await over.wait()
        raise ServerExited("it died")

    parking = ParkedCalls(Limits())
    parking.park(await asking(dies()), CALL, use("t"))
    over.set()
    await settle()
    parking.clear()
    gc.collect()
    await settle()
    assert unexpected == []


# -- handles


async def test_a_handle_shows_that_it_is_ours_and_nothing_else():
    parking = ParkedCalls(Limits())
    handles = {parking.park(await asking(), CALL, use("t")) for _ in range(20)}
    assert len(handles) == 20
    assert all(handle.startswith(MARK) and len(handle) == len(MARK) + 2 * HANDLE_BYTES for handle in handles)
    assert [parking.is_ours(raw(state)) for state in (*handles, f"{MARK}x", 5, None)] == [True] * 23
    assert [parking.is_ours(raw(state)) for state in ("", "theirs", MARK[1:])] == [False] * 3
    parking.clear()
