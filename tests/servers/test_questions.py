"""Which call of a modern client a handshake server's question is put to, and what that does to the others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import CallTimeout, InputUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.servers.supervisor import Supervisor
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.exchange import Answer, Exchange, Question, Withdrawn
from tests.servers.fakes import FakeChannel
from tests.servers.real import Recorded
from tests.support.library import DeafLine
from tests.support.memory import MemoryServer
from tests.support.procs import wait_until
from tests.wire.pair import settle

ASKED = "elicitation/create"
MODERN = Caller(version="2026-07-28", modern=True, answers=frozenset({ASKED}))
HANDSHAKE = Agreement(version="2025-11-25", modern=False)
AGES = 60.0
ANSWERED = Raw(b'{"action":"accept"}')


class Desk:
    """A connection to a handshake server, and the calls of one modern client on it."""

    def __init__(self, *, takes_turns: bool = True, **limits: Any) -> None:
        self.channel = FakeChannel()
        self.slots = Slots(4, 4, 5)
        settings = Limits(**{"turn_seconds": AGES, "settle_seconds": 0, **limits})
        self.connection = Connection(self.channel, HANDSHAKE, self.slots, settings, takes_turns=takes_turns)
        self.questions = self.connection.questions

    def call(self, method: str, *, may_ask: bool = True) -> tuple[Exchange, asyncio.Task[Answer | Question]]:
        """A call; each has a method of its own, so that the channel can tell them apart."""
        exchange = Exchange(MODERN, DeafLine(), may_ask=may_ask)
        return exchange, asyncio.ensure_future(exchange.run(self.connection.forward(method, {}, exchange)))

    def ask(self, name: str = "q") -> asyncio.Task[Raw]:
        """The server asks."""
        return asyncio.ensure_future(self.questions.put(ASKED, {"name": name}))

    @property
    def free(self) -> int:
        """How many more calls could start now."""
        taken = 0
        while self.slots.take():
            taken += 1
        for _ in range(taken):
            self.slots.release()
        return taken

    @property
    def sent(self) -> list[str]:
        """The calls that the server has got so far."""
        return self.channel.methods

    async def end(self, method: str) -> None:
        """The server answers a call."""
        self.channel.answer(method, {"answers": method})
        await settle()


async def question_of(call: asyncio.Task[Answer | Question], name: str = "q") -> Question:
    outcome = await asyncio.wait_for(call, 5)
    assert isinstance(outcome, Question)
    assert [asked["params"]["name"] for asked in outcome.requests.values()] == [name]
    return outcome


async def reply(exchange: Exchange, question: Question) -> None:
    """The client comes back with an answer to all that it was asked."""
    exchange.attach(DeafLine(), dict.fromkeys(question.requests, ANSWERED))
    await settle()


async def answer_of(exchange: Exchange) -> Any:
    outcome = await asyncio.wait_for(exchange.outcome(), 5)
    assert isinstance(outcome, Answer)
    return json.loads(bytes(outcome.result))["answers"]


async def waiting_for(answer: asyncio.Future[Raw]) -> Raw:
    """A client that has not answered yet."""
    return await answer


# -- turns


async def test_calls_take_turns():
    desk = Desk()
    tasks = [desk.call(method)[1] for method in "abc"]
    for method in "abc":
        await settle()
        assert desk.sent[-1] == method
        await desk.end(method)
    assert all(isinstance(outcome, Answer) for outcome in await asyncio.gather(*tasks))
    assert desk.sent == ["a", "b", "c"]


async def test_a_call_in_which_nobody_can_be_asked_waits_for_no_turn():
    desk = Desk()
    tasks = [desk.call("a")[1], desk.call("b")[1], desk.call("c", may_ask=False)[1]]
    await settle()
    assert sorted(desk.sent) == ["a", "c"]
    for method in "abc":
        await desk.end(method)
    await asyncio.gather(*tasks)


async def test_a_question_goes_to_the_call_whose_turn_it_is():
    desk = Desk()
    desk.call("no question", may_ask=False)
    exchange, call = desk.call("a")
    desk.call("later")
    await settle()
    question = desk.ask()
    await reply(exchange, await question_of(call))
    assert bytes(await asyncio.wait_for(question, 5)) == bytes(ANSWERED)
    await desk.end("a")
    assert await answer_of(exchange) == "a"


async def test_where_it_does_not_matter_which_call_is_asked_calls_run_at_once_and_the_oldest_is():
    desk = Desk(takes_turns=False)
    (oldest, first), (_, second) = desk.call("a"), desk.call("b")
    await settle()
    assert desk.sent == ["a", "b"]
    question = desk.ask()
    await reply(oldest, await question_of(first))
    await asyncio.wait_for(question, 5)
    assert not second.done()
    await desk.end("a")
    await desk.end("b")
    assert isinstance(await second, Answer)


# -- questions between calls


async def test_a_question_between_calls_is_put_to_the_next_one_which_is_sent_when_it_is_answered():
    desk = Desk()
    question = desk.ask()
    await settle()
    exchange, call = desk.call("a")
    asked = await question_of(call)
    assert desk.sent == []
    await reply(exchange, asked)
    await asyncio.wait_for(question, 5)
    await wait_until(lambda: desk.sent == ["a"])
    await desk.end("a")
    assert await answer_of(exchange) == "a"


async def test_a_server_that_was_answered_between_calls_gets_a_moment_before_the_call():
    desk = Desk(settle_seconds=AGES)
    question = desk.ask()
    await settle()
    exchange, call = desk.call("a")
    await reply(exchange, await question_of(call))
    await asyncio.wait_for(question, 5)
    await settle()
    assert desk.sent == []
    exchange.cancel("the test is over")
    await settle()
    assert desk.questions.calls == {}


@pytest.mark.parametrize("turns", range(6))
async def test_a_question_that_its_server_takes_back_as_a_call_starts_does_not_hold_the_call(turns: int):
    desk = Desk()
    question = desk.ask()
    await settle()
    exchange, call = desk.call("a")
    await settle(turns)
    question.cancel()
    await wait_until(lambda: desk.sent == ["a"])
    if call.done():  # the question was put to it for a moment
        call = asyncio.ensure_future(exchange.outcome())
    await settle()
    assert not call.done()  # nothing is asked any more
    await desk.end("a")
    assert isinstance(await call, Answer)


async def test_a_call_in_which_nobody_can_be_asked_does_not_wait_for_a_question_between_calls():
    desk = Desk()
    question = desk.ask()
    await settle()
    _, call = desk.call("a", may_ask=False)
    await settle()
    await desk.end("a")
    assert isinstance(await asyncio.wait_for(call, 5), Answer)
    assert not question.done()
    question.cancel()


async def test_a_call_is_not_sent_before_a_handshake_client_has_answered_what_was_asked_before_it():
    """The server may need it for the call: its roots, for example."""
    desk = Desk(takes_turns=False)
    answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
    question = asyncio.ensure_future(desk.questions.ask(None, waiting_for(answer)))
    await settle()
    call = asyncio.ensure_future(desk.connection.forward("a", {}, Exchange(LIBRARY, DeafLine())))
    await settle()
    assert desk.sent == []
    answer.set_result(ANSWERED)
    await asyncio.gather(question, wait_until(lambda: desk.sent == ["a"]))
    await desk.end("a")
    await asyncio.wait_for(call, 5)


async def test_a_handshake_client_that_does_not_answer_delays_a_call_only_for_a_moment():
    desk = Desk(takes_turns=False, turn_seconds=0.01)
    question = asyncio.ensure_future(desk.questions.ask(None, waiting_for(asyncio.Future())))
    await settle()
    call = asyncio.ensure_future(desk.connection.forward("a", {}, Exchange(LIBRARY, DeafLine())))
    await wait_until(lambda: desk.sent == ["a"])
    await desk.end("a")
    await asyncio.wait_for(call, 5)
    assert not question.done()
    question.cancel()


async def test_a_question_of_a_call_that_ended_is_put_to_the_next_one():
    """It only borrowed the call: a server may ask in the background."""
    desk = Desk()
    exchange, call = desk.call("a")
    await settle()
    question = desk.ask()
    await question_of(call)
    await desk.end("a")
    assert await answer_of(exchange) == "a"  # the client came back without an answer
    assert not question.done()
    exchange, call = desk.call("b")
    await reply(exchange, await question_of(call))
    assert bytes(await asyncio.wait_for(question, 5)) == bytes(ANSWERED)


async def test_a_question_of_a_call_that_was_cancelled_is_put_to_the_next_one():
    desk = Desk()
    exchange, call = desk.call("a")
    await settle()
    question = desk.ask()
    await question_of(call)
    exchange.cancel("the client did not come back")
    await settle()
    assert desk.questions.calls == {}
    exchange, call = desk.call("b")
    await reply(exchange, await question_of(call))
    await asyncio.wait_for(question, 5)


# -- a client that takes its time


async def test_a_call_that_waits_for_its_client_lets_others_pass_and_has_its_turn_again():
    desk = Desk(turn_seconds=0.01)
    first, call = desk.call("a")
    await settle()
    question = desk.ask()
    asked = await question_of(call)
    second, other = desk.call("b")
    await wait_until(lambda: "b" in desk.sent)
    await reply(first, asked)
    assert not question.done()  # the server would think that the answer is for the call that it works on
    await desk.end("b")
    await asyncio.wait_for(question, 5)
    assert isinstance(await other, Answer)
    assert second not in desk.questions.calls
    await desk.end("a")
    assert await answer_of(first) == "a"


async def test_an_answer_to_a_call_that_ended_takes_no_turn():
    desk = Desk(turn_seconds=0.01)
    exchange, call = desk.call("a")
    await settle()
    question = desk.ask()
    asked = await question_of(call)
    await wait_until(lambda: desk.free == 5)  # it has waited for long, and so has given its turn away
    await desk.end("a")
    await reply(exchange, asked)
    assert await answer_of(exchange) == "a"
    await asyncio.wait_for(question, 5)
    _, later = desk.call("b")
    await settle()
    assert "b" in desk.sent
    await desk.end("b")
    assert isinstance(await later, Answer)


async def test_a_call_that_ends_while_it_waits_for_its_turn_again_keeps_nobody_from_it():
    desk = Desk(turn_seconds=0.01)
    exchange, call = desk.call("a")
    await settle()
    question = desk.ask()
    asked = await question_of(call)
    _, second = desk.call("b")
    await wait_until(lambda: "b" in desk.sent)
    await reply(exchange, asked)  # now it waits behind `b`,
    await desk.end("a")  # and its server ends it all the same
    await asyncio.wait_for(question, 5)
    await desk.end("b")
    assert isinstance(await second, Answer)
    _, third = desk.call("c")
    await settle()
    assert "c" in desk.sent
    await desk.end("c")
    assert isinstance(await third, Answer)


@pytest.mark.parametrize("questions", [1, 20])
async def test_a_call_that_waits_for_its_client_lends_one_slot_however_much_it_asks(questions: int):
    desk = Desk(turn_seconds=0.01)
    exchange, call = desk.call("a")
    await settle()
    asking = [desk.ask(f"q{number}") for number in range(questions)]
    outcome = await asyncio.wait_for(call, 5)
    assert isinstance(outcome, Question)
    all_waited = asyncio.Event()  # its timer is set after theirs, so it goes off after them
    asyncio.get_running_loop().call_later(0.01, all_waited.set)
    await asyncio.wait_for(all_waited.wait(), 5)
    assert desk.free == 5
    await reply(exchange, outcome)
    await asyncio.wait_for(asyncio.gather(*asking), 5)
    assert desk.free == 4


async def test_a_call_whose_client_answers_at_once_lends_no_slot():
    desk = Desk()
    exchange, call = desk.call("a")
    await settle()
    question = desk.ask()
    await reply(exchange, await question_of(call))
    await asyncio.wait_for(question, 5)
    assert desk.free == 4


# -- a handshake client is asked at once


async def test_a_cancelled_call_takes_its_own_questions_back_and_no_other():
    desk = Desk()
    mine, other = Exchange(LIBRARY, DeafLine()), Exchange(LIBRARY, DeafLine())
    answers: list[asyncio.Future[Raw]] = [asyncio.Future() for _ in range(3)]
    first, second, third = (
        asyncio.ensure_future(desk.questions.ask(call, waiting_for(answer)))
        for call, answer in zip((mine, other, None), answers, strict=True)
    )
    await settle()
    desk.questions.withdraw(mine)
    with pytest.raises(Withdrawn):
        await asyncio.wait_for(first, 5)
    assert answers[0].cancelled()
    for answer in answers[1:]:
        answer.set_result(ANSWERED)
    assert [bytes(one) for one in await asyncio.gather(second, third)] == [bytes(ANSWERED)] * 2
    assert desk.questions.begin(other) == ()  # nothing is still being answered


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_a_call_that_is_given_up_takes_its_questions_back(how: str):
    desk = Desk(takes_turns=False)
    exchange = Exchange(LIBRARY, DeafLine())
    call = asyncio.ensure_future(desk.connection.forward("a", {}, exchange))
    await settle()
    question = asyncio.ensure_future(desk.questions.ask(exchange, waiting_for(asyncio.Future())))
    await settle()
    if how == "cancelled":
        call.cancel()
    else:
        desk.channel.answer("a", CallTimeout("no answer"))
    with pytest.raises(Withdrawn):
        await asyncio.wait_for(question, 5)
    await asyncio.gather(call, return_exceptions=True)


async def test_a_call_that_is_answered_leaves_a_question_to_a_handshake_client_open():
    desk = Desk(takes_turns=False)
    exchange = Exchange(LIBRARY, DeafLine())
    call = asyncio.ensure_future(desk.connection.forward("a", {}, exchange))
    await settle()
    answer: asyncio.Future[Raw] = asyncio.Future()
    question = asyncio.ensure_future(desk.questions.ask(exchange, waiting_for(answer)))
    await settle()
    await desk.end("a")
    await asyncio.wait_for(call, 5)
    answer.set_result(ANSWERED)
    assert bytes(await asyncio.wait_for(question, 5)) == bytes(ANSWERED)


async def test_a_question_that_its_server_takes_back_is_taken_back_from_the_client():
    desk = Desk()
    answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
    question = asyncio.ensure_future(desk.questions.ask(None, waiting_for(answer)))
    await settle()
    question.cancel()
    await settle()
    assert answer.cancelled()


# -- for whom it matters


@pytest.mark.parametrize(
    ("client_is_modern", "server_is_modern", "answers", "expected"),
    [
        (True, False, {ASKED}, True),
        (True, False, {ASKED, "roots/list"}, True),
        (True, False, {"roots/list"}, False),
        (True, False, set[str](), False),
        (False, False, {ASKED}, False),
        (True, True, {ASKED}, False),
    ],
)
async def test_only_a_modern_client_whose_answers_differ_takes_turns_and_only_on_a_handshake_server(
    answers: set[str], *, client_is_modern: bool, server_is_modern: bool, expected: bool
):
    caller = Caller(version="", modern=client_is_modern, answers=frozenset(answers))
    supervised = Supervisor("dev/fs", MemoryServer(modern=server_is_modern).open, caller, Limits(), Recorded())
    connection = await supervised.connection()
    assert connection.questions.takes_turns is expected
    await supervised.close()


async def test_a_handshake_client_that_does_not_answer_is_waited_for_once():
    desk = Desk(takes_turns=False, turn_seconds=0.02)
    never: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()

    async def silence() -> Raw:
        return await never

    asked = asyncio.ensure_future(desk.questions.ask(None, silence()))
    await settle()
    first = asyncio.ensure_future(desk.connection.forward("first", {}, Exchange(LIBRARY, DeafLine())))
    await settle()
    assert desk.sent == []
    await wait_until(lambda: desk.sent == ["first"])
    await desk.end("first")
    await first
    second = asyncio.ensure_future(desk.connection.forward("second", {}, Exchange(LIBRARY, DeafLine())))
    await settle()
    assert desk.sent == ["first", "second"]
    await desk.end("second")
    await second
    asked.cancel()


# -- where the wire tells which call a question belongs to


async def test_a_question_on_the_stream_of_a_call_is_put_to_that_call():
    desk = Desk(takes_turns=False)
    _, first = desk.call("a")
    call, second = desk.call("b")
    await settle()
    asked = asyncio.ensure_future(desk.questions.put(ASKED, {"name": "q"}, call))
    await reply(call, await question_of(second))
    assert await asyncio.wait_for(asked, 5) == ANSWERED
    assert not first.done()
    await desk.end("a")
    await desk.end("b")
    assert await answer_of(call) == "b"


async def test_a_question_of_a_call_that_is_over_is_put_to_no_other():
    desk = Desk(takes_turns=False)
    over, ended = desk.call("a")
    _, other = desk.call("b")
    await settle()
    asked = asyncio.ensure_future(desk.questions.put(ASKED, {"name": "q"}, over))
    await question_of(ended)
    over.cancel("the client went away")
    with pytest.raises(InputUnavailable):
        await asyncio.wait_for(asked, 5)
    with pytest.raises(InputUnavailable):
        await asyncio.wait_for(desk.questions.put(ASKED, {"name": "q"}, over), 5)
    await desk.end("b")
    assert isinstance(await other, Answer)
