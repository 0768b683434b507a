"""A handshake server refuses a call until a page was visited: a modern client is asked, and the call is made again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.errors import CallTimeout, InputUnavailable, ServerExited, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.servers.url_elicitation import pages_in
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.deadlines import Delivery
from mcp_workbench.wire.exchange import Answer, Exchange, Question
from tests.support.library import DeafLine
from tests.support.memory import MemoryChannel, MemoryServer, Unsent
from tests.wire.pair import settle

ELICIT = "elicitation/create"
DECLARED = Raw(b'{"elicitation":{"url":{}}}')
MODERN = Caller(version="2026-07-28", modern=True, capabilities=DECLARED, answers=frozenset({ELICIT}))
AGES = 60.0
ACCEPTED, DECLINED = Raw(b'{"action":"accept"}'), Raw(b'{"action":"decline"}')


def page(name: str = "one", url: str = "https://example.com/1") -> dict[str, Any]:
    return {"mode": "url", "elicitationId": name, "url": url, "message": "Log in", "x-unknown": 1}


def refusal(*pages: Any, data: Any = None) -> ServerRefused:
    written = json.dumps(data if data is not None else {"elicitations": pages}).encode()
    return ServerRefused("Log in first", rpc_code=jsonrpc.URL_ELICITATION_REQUIRED, data=written)


class Desk:
    """A connection to a handshake server that answers calls one after the other, and a call of a modern client."""

    def __init__(self, *answers: Any, caller: Caller = MODERN, takes_turns: bool = False, **limits: Any) -> None:
        self.server = MemoryServer()
        left = list(answers)
        self.server.methods["tools/call"] = lambda _: left.pop(0) if len(left) > 1 else left[0]
        settings = Limits(**{"visit_seconds": AGES, **limits})
        agreement = Agreement(version="2025-11-25", modern=False)
        channel = MemoryChannel(self.server)
        self.connection = Connection(channel, agreement, Slots(9, 9, 9), settings, takes_turns=takes_turns)
        self.exchange, self.outcome = self.call(caller)

    def call(self, caller: Caller = MODERN) -> tuple[Exchange, asyncio.Future[Answer | Question]]:
        exchange = Exchange(caller, DeafLine())
        self.delivery = Delivery()
        work = self.connection.forward("tools/call", {"name": "t"}, exchange, self.delivery)
        return exchange, asyncio.ensure_future(exchange.run(work))

    async def asked(self) -> list[Any]:
        """The params of what the client is asked."""
        outcome = await asyncio.wait_for(self.outcome, 5)
        assert isinstance(outcome, Question)
        assert {one["method"] for one in outcome.requests.values()} == {ELICIT}
        self._keys = tuple(outcome.requests)
        return json.loads(jsonrpc.encode([one["params"] for one in outcome.requests.values()]))

    async def answer(self, answer: Raw = ACCEPTED) -> None:
        """The client comes back with the same answer to each question."""
        self.exchange.attach(DeafLine(), dict.fromkeys(self._keys, answer))
        self.outcome = asyncio.ensure_future(self.exchange.outcome())
        await settle()

    async def result(self) -> Any:
        outcome = await asyncio.wait_for(self.outcome, 5)
        assert isinstance(outcome, Answer)
        return json.loads(bytes(outcome.result))

    def complete(self, name: str) -> None:
        """The server notifies that a visit is complete."""
        self.connection.pages.completed({"elicitationId": Raw(json.dumps(name).encode())})

    @property
    def calls(self) -> int:
        return len(self.server.asked("tools/call"))


async def test_the_client_is_asked_about_every_page_as_the_server_wrote_it_and_the_call_is_made_again():
    pages = [page(), page("two", "https://example.com/2")]
    desk = Desk(refusal(*pages), {"done": 1})
    assert await desk.asked() == pages
    await desk.answer()
    assert await desk.result() == {"done": 1}
    assert desk.server.asked("tools/call") == [{"name": "t"}] * 2


async def test_a_page_that_is_not_done_yet_is_waited_for_and_the_client_is_not_asked_again():
    desk = Desk(refusal(page()), refusal(page()), {"done": 1})
    await desk.asked()
    await desk.answer()
    assert (desk.calls, desk.outcome.done()) == (2, False)
    desk.complete("other")
    await settle()
    assert (desk.calls, desk.outcome.done()) == (2, False)
    desk.complete("one")
    assert await desk.result() == {"done": 1}


async def test_a_visit_that_was_complete_before_the_client_came_back_is_not_waited_for():
    desk = Desk(refusal(page()), refusal(page()), refusal(page()), {"done": 1})
    await desk.asked()
    desk.complete("one")
    await desk.answer()
    assert await desk.asked() == [page()]
    assert desk.calls == 3


async def test_every_page_of_several_is_waited_for_under_any_id_that_it_had():
    pages = [page(), page("two", "https://example.com/2")]
    renamed = page("three", "https://example.com/2")
    desk = Desk(refusal(*pages), refusal(renamed), {"done": 1})
    await desk.asked()
    await desk.answer()
    desk.complete("one")
    await settle()
    assert not desk.outcome.done()
    desk.complete("three")
    assert await desk.result() == {"done": 1}


async def test_a_server_that_never_says_complete_is_tried_again_after_a_while():
    desk = Desk(refusal(page()), refusal(page()), {"done": 1}, visit_seconds=0.01)
    await desk.asked()
    await desk.answer()
    assert await desk.result() == {"done": 1}


async def test_another_page_is_asked_about_at_once():
    other = page("two", "https://example.com/2")
    desk = Desk(refusal(page()), refusal(other), {"done": 1})
    await desk.asked()
    await desk.answer()
    assert await desk.asked() == [other]
    await desk.answer()
    assert await desk.result() == {"done": 1}


async def test_a_client_that_declines_is_not_asked_again():
    desk = Desk(refusal(page()), {"done": 1})
    await desk.asked()
    await desk.answer(DECLINED)
    with pytest.raises(InputUnavailable, match="did not open the page"):
        await desk.result()
    assert desk.calls == 1


async def test_a_server_that_is_never_content_is_given_up():
    desk = Desk(*(refusal(page(url=f"https://example.com/{number}")) for number in range(9)), question_rounds=3)
    for _ in range(3):
        await desk.asked()
        await desk.answer()
    with pytest.raises(InputUnavailable, match="asked 3 times"):
        await desk.result()
    assert desk.calls == 4


async def test_a_call_does_not_last_longer_than_any_may():
    desk = Desk(refusal(page()), call_hard_timeout_seconds=0.01)
    await desk.asked()
    await desk.answer()
    with pytest.raises(CallTimeout):
        await desk.result()


async def test_another_failure_of_the_second_call_is_its_outcome_and_it_is_not_sent_a_third_time():
    desk = Desk(refusal(page()), Unsent(ServerExited("it ended")))
    await desk.asked()
    await desk.answer()
    with pytest.raises(ServerExited):
        await desk.result()
    assert desk.delivery.was_sent


async def test_other_calls_have_their_turn_while_a_person_visits_a_page():
    desk = Desk(refusal(page()), {"done": "other"}, {"done": 1}, takes_turns=True, turn_seconds=0.01)
    await desk.asked()
    _, other = desk.call()
    answered = await asyncio.wait_for(other, 5)
    assert isinstance(answered, Answer)
    assert json.loads(bytes(answered.result)) == {"done": "other"}
    await desk.answer()
    assert await desk.result() == {"done": 1}


@pytest.mark.parametrize(
    "caller",
    [
        Caller(version="2025-11-25", modern=False, capabilities=DECLARED, answers=frozenset({ELICIT})),
        Caller(version="2026-07-28", modern=True),
        Caller(version="2026-07-28", modern=True, capabilities=Raw(b'{"elicitation":{}}'), answers=frozenset({ELICIT})),
    ],
    ids=["handshake", "undeclared", "forms only"],
)
async def test_others_get_the_refusal_itself(caller: Caller):
    said = refusal(page())
    with pytest.raises(ServerRefused) as caught:
        await Desk(said, caller=caller).result()
    assert caught.value is said


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"elicitations": 1},
        {"elicitations": []},
        {"elicitations": [1]},
        {"elicitations": [page(), {}]},
        {"elicitations": [page() | {"mode": "form"}]},
        {"elicitations": [page() | {"url": 1}]},
        {"elicitations": [page()] * 4},
    ],
)
async def test_a_refusal_that_breaks_the_protocol_is_passed_on(data: Any):
    said = refusal(data=data)
    with pytest.raises(ServerRefused) as caught:
        await Desk(said, questions=3).result()
    assert caught.value is said


@given(st.binary())
def test_any_data_can_be_looked_at(data: bytes):
    assert pages_in(ServerRefused("x", rpc_code=jsonrpc.URL_ELICITATION_REQUIRED, data=data), Limits()) == ()
