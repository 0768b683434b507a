"""The seam: how a server's words reach the client that caused them, in either era."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import InputUnavailable
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Answer, Exchange, OnProgress, Question, Withdrawn
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT
from tests.wire.pair import settle

ELICITED = frozenset({"elicitation/create"})
HANDSHAKE = Caller(version="2025-11-25", modern=False, answers=ELICITED)
MODERN = Caller(version="2026-07-28", modern=True, answers=ELICITED)
QUIET = Caller(version="2026-07-28", modern=True)
PROGRESS = "notifications/progress"


class Recording:
    """A line that writes down what goes over it."""

    def __init__(self, request_id: int = 1) -> None:
        self.request_id = request_id
        self.told: list[tuple[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []

    def notify(self, method: str, params: Any) -> None:
        self.told.append((method, dict(params)))

    async def ask(self, method: str, params: Any, on_progress: OnProgress | None = None) -> Raw:
        del on_progress
        self.asked.append((method, params))
        return Raw(b'{"from":"line"}')

    def adjourn(self) -> None:
        self.told.append(("adjourned", {}))


def text(raw: Raw) -> Any:
    return json.loads(bytes(raw))


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


async def asks_in_turn(exchange: Exchange, *names: str) -> Raw:
    """Work that asks one question after the other and returns the answers."""
    return raw([text(await exchange.ask("elicitation/create", {"name": name})) for name in names])


async def asks_at_once(exchange: Exchange, *names: str) -> Raw:
    answers = await asyncio.gather(*(exchange.ask("elicitation/create", {"name": name}) for name in names))
    return raw([text(answer) for answer in answers])


async def question_of(step: Coroutine[Any, Any, Answer | Question]) -> dict[str, str]:
    """What is asked: the name in each question, by key."""
    outcome = await step
    assert isinstance(outcome, Question)
    assert all(asked["method"] == "elicitation/create" for asked in outcome.requests.values())
    return {key: asked["params"]["name"] for key, asked in outcome.requests.items()}


async def answer_of(step: Coroutine[Any, Any, Answer | Question]) -> Any:
    outcome = await step
    assert isinstance(outcome, Answer)
    return text(outcome.result)


# -- asking


async def test_a_handshake_client_is_asked_over_its_line():
    line = Recording()
    exchange = Exchange(HANDSHAKE, line)
    assert await answer_of(exchange.run(asks_in_turn(exchange, "a", "b"))) == [{"from": "line"}] * 2
    assert line.asked == [("elicitation/create", {"name": "a"}), ("elicitation/create", {"name": "b"})]


async def test_a_modern_client_is_asked_by_the_outcome_and_the_work_goes_on_where_it_was():
    first, second = Recording(1), Recording(2)
    exchange = Exchange(MODERN, first)
    asked = await question_of(exchange.run(asks_in_turn(exchange, "name?")))
    assert list(asked.values()) == ["name?"]
    exchange.attach(second, {key: raw("Ada") for key in asked})
    assert await answer_of(exchange.outcome()) == ["Ada"]
    assert first.asked == second.asked == []


async def test_several_questions_at_once_are_one_outcome():
    exchange = Exchange(MODERN, Recording())
    asked = await question_of(exchange.run(asks_at_once(exchange, "a", "b", "c")))
    assert list(asked.values()) == ["a", "b", "c"]
    exchange.attach(Recording(), {key: raw(name.upper()) for key, name in asked.items()})
    assert await answer_of(exchange.outcome()) == ["A", "B", "C"]


async def test_there_may_be_several_rounds_with_keys_of_their_own():
    exchange = Exchange(MODERN, Recording())
    step = exchange.run(asks_in_turn(exchange, "a", "b", "c"))
    keys: list[str] = []
    for name in "abc":
        asked = await question_of(step)
        assert list(asked.values()) == [name]
        keys += asked
        exchange.attach(Recording(), {key: raw(name) for key in asked})
        step = exchange.outcome()
    assert await answer_of(step) == ["a", "b", "c"]
    assert len(set(keys)) == 3


async def test_what_was_left_unanswered_is_asked_again():
    exchange = Exchange(MODERN, Recording())
    asked = await question_of(exchange.run(asks_at_once(exchange, "a", "b")))
    key_a, key_b = asked
    exchange.attach(Recording(), {key_a: raw(1)})
    assert await question_of(exchange.outcome()) == {key_b: "b"}
    exchange.attach(Recording(), {})
    assert await question_of(exchange.outcome()) == {key_b: "b"}
    exchange.attach(Recording(), {key_b: raw(2)})
    assert await answer_of(exchange.outcome()) == [1, 2]


async def test_answers_to_other_questions_or_to_the_same_one_twice_are_ignored():
    exchange = Exchange(MODERN, Recording())
    asked = await question_of(exchange.run(asks_at_once(exchange, "a", "b")))
    key_a, key_b = asked
    exchange.attach(Recording(), {"q99": raw("evil"), key_a: raw("first")})
    exchange.attach(Recording(), {key_a: raw("second")})
    exchange.attach(Recording(), {key_b: raw("b")})
    assert await answer_of(exchange.outcome()) == ["first", "b"]


async def test_work_that_asks_nothing_is_answered_in_either_era():
    async def work() -> Raw:
        return EMPTY_OBJECT

    for caller in (HANDSHAKE, MODERN, QUIET):
        assert await answer_of(Exchange(caller, Recording()).run(work())) == {}


async def test_a_failure_of_the_work_is_raised_in_either_era():
    async def work() -> Raw:
        raise ValueError("broken")

    for caller in (HANDSHAKE, MODERN, QUIET):
        with pytest.raises(ValueError, match="broken"):
            await Exchange(caller, Recording()).run(work())


async def test_an_exchange_in_which_nothing_runs_has_no_outcome():
    with pytest.raises(RuntimeError):
        await Exchange(MODERN, Recording()).outcome()


async def test_a_client_is_asked_only_what_it_declared_and_a_modern_one_only_where_the_protocol_allows_it():
    for caller in (HANDSHAKE, MODERN, QUIET):
        with pytest.raises(InputUnavailable):
            await Exchange(caller, Recording()).ask("sampling/createMessage", {})
    with pytest.raises(InputUnavailable):
        await Exchange(QUIET, Recording()).ask("elicitation/create", {})
    with pytest.raises(InputUnavailable):
        await Exchange(MODERN, Recording(), may_ask=False).ask("elicitation/create", {})
    with pytest.raises(InputUnavailable):
        await Exchange(MODERN, Recording()).ask("vendor/question", {})


async def test_who_asks_beside_the_work_is_told_when_the_call_is_over():
    """A server's question comes on its own; the call that it was put to may end before the client answers."""
    exchange = Exchange(MODERN, Recording())
    go = asyncio.Event()

    async def work() -> Raw:
        await go.wait()
        return EMPTY_OBJECT

    running = asyncio.ensure_future(exchange.run(work()))
    await settle()
    asking = asyncio.ensure_future(exchange.ask("elicitation/create", {"name": "a"}))
    assert list((await question_of(wait(running))).values()) == ["a"]
    go.set()
    exchange.attach(Recording(), {})
    await settle()
    assert await answer_of(exchange.outcome()) == {}
    with pytest.raises(Withdrawn):
        await asking
    with pytest.raises(Withdrawn):
        await exchange.ask("elicitation/create", {"name": "b"})


async def wait(task: asyncio.Task[Answer | Question]) -> Answer | Question:
    return await task


# -- cancelling


@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN, QUIET])
async def test_cancelling_the_request_cancels_the_work(caller: Caller):
    ended = asyncio.Event()

    async def work() -> Raw:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    running = asyncio.ensure_future(Exchange(caller, Recording()).run(work()))
    await settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(ended.wait(), 5)


async def test_a_parked_call_can_be_cancelled_and_its_questions_are_gone():
    exchange = Exchange(MODERN, Recording())
    ended = asyncio.Event()

    async def work() -> Raw:
        try:
            return await asks_in_turn(exchange, "a")
        finally:
            ended.set()

    await question_of(exchange.run(work()))
    exchange.cancel("the client did not answer")
    await asyncio.wait_for(ended.wait(), 5)
    with pytest.raises(asyncio.CancelledError):
        await exchange.outcome()  # and no question
    exchange.cancel("again")  # harmless


async def test_cancelling_the_retry_cancels_the_work():
    exchange = Exchange(MODERN, Recording())
    ended = asyncio.Event()

    async def work() -> Raw:
        await exchange.ask("elicitation/create", {"name": "a"})
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    asked = await question_of(exchange.run(work()))
    exchange.attach(Recording(), {key: raw(1) for key in asked})
    retry = asyncio.ensure_future(exchange.outcome())
    await settle()
    retry.cancel()
    await asyncio.gather(retry, return_exceptions=True)
    await asyncio.wait_for(ended.wait(), 5)


# -- telling


async def test_notifications_go_to_the_line_that_is_attached_and_wait_while_none_is():
    first, second = Recording(1), Recording(2)
    exchange = Exchange(MODERN, first)
    exchange.notify("notifications/message", {"n": 1})
    asked = await question_of(exchange.run(asks_in_turn(exchange, "a")))
    exchange.notify("notifications/message", {"n": 2})
    exchange.attach(second, {})
    exchange.notify("notifications/message", {"n": 3})
    assert first.told == [("notifications/message", {"n": 1})]
    assert second.told == [("notifications/message", {"n": number}) for number in (2, 3)]
    exchange.attach(second, {key: raw(1) for key in asked})
    await exchange.outcome()


@pytest.mark.parametrize("token", [b'"theirs"', b"7"])
async def test_progress_is_stamped_with_the_clients_own_token(token: bytes):
    line = Recording()
    exchange = Exchange(HANDSHAKE, line, progress_token=Raw(token))
    exchange.notify(PROGRESS, {"progressToken": 123, "progress": 1})
    ((method, params),) = line.told
    assert method == PROGRESS
    assert bytes(params["progressToken"]) == token
    assert params["progress"] == 1


async def test_progress_is_left_out_for_a_client_that_did_not_ask_for_it():
    line = Recording()
    Exchange(HANDSHAKE, line).notify(PROGRESS, {"progressToken": 123, "progress": 1})
    assert line.told == []


async def test_progress_after_a_question_goes_out_under_the_token_of_the_new_request():
    first, second = Recording(1), Recording(2)
    exchange = Exchange(MODERN, first, progress_token=Raw(b'"old"'))
    asked = await question_of(exchange.run(asks_in_turn(exchange, "a")))
    exchange.attach(second, {}, Raw(b'"new"'))
    exchange.notify(PROGRESS, {"progress": 1})
    exchange.attach(third := Recording(3), {})
    exchange.notify(PROGRESS, {"progress": 2})
    assert [bytes(params["progressToken"]) for _, params in second.told] == [b'"new"']
    assert third.told == []  # this one asked for none
    exchange.attach(second, {key: raw(1) for key in asked})
    await exchange.outcome()


# -- a server that ends its response before the answer


@pytest.mark.parametrize("transparent", [True, False])
def test_only_a_client_that_sees_one_server_as_it_is_is_adjourned_with_it(transparent: bool):  # noqa: FBT001
    line = Recording()
    Exchange(Caller(version="2025-11-25", modern=False, transparent=transparent), line).adjourn()
    assert line.told == ([("adjourned", {})] if transparent else [])


async def test_a_client_that_is_being_asked_has_nothing_to_be_adjourned():
    line = Recording()
    exchange = Exchange(Caller(version="2026-07-28", modern=True, transparent=True, answers=ELICITED), line)
    assert isinstance(await exchange.run(asks_in_turn(exchange, "who")), Question)
    exchange.adjourn()
    assert line.told == []
    exchange.cancel("the test is over")
