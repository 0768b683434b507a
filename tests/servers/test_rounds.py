"""A modern server's questions: passed on to a modern client, put to a handshake client, and bounded in every way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import (
    CallTimeout,
    Fault,
    InputUnavailable,
    ProtocolViolation,
    ServerExited,
    ServerRefused,
)
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.input_required import answer_questions, is_question
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.deadlines import Delivery
from mcp_workbench.wire.exchange import Exchange, OnProgress
from tests.servers.fakes import FakeChannel

FORM, SAMPLE = "elicitation/create", "sampling/createMessage"
HANDSHAKE = Caller(version="2025-11-25", modern=False, answers=frozenset({FORM}))
MODERN = Caller(version="2026-07-28", modern=True, answers=frozenset({FORM}))
ESCAPED = rb'{"result\u0054ype":"input\u005frequired","inputRequests":{"k":{"method":"sampling\/createMessage"}}}'


class Client:
    """The line of a client that says how many questions it was asked so far."""

    request_id = 1

    def __init__(self, before: Callable[[], Awaitable[None]] | None = None) -> None:
        self.asked: list[tuple[str, Any]] = []
        self._before = before

    def notify(self, method: str, params: Any) -> None:
        raise AssertionError((method, params))

    async def ask(self, method: str, params: Any, on_progress: OnProgress | None = None) -> Raw:
        del on_progress
        self.asked.append((method, json.loads(jsonrpc.encode(params))))
        number = len(self.asked)
        if self._before is not None:
            await self._before()
        return Raw(b'{"number":%d}' % number)


class Server:
    """What it answers, one after the other; the last one for ever."""

    def __init__(self, *results: Raw) -> None:
        self._results = results
        self.sent: list[Any] = []

    async def send(self, params: Any) -> Raw:
        self.sent.append(json.loads(jsonrpc.encode(params)))
        return self._results[min(len(self.sent), len(self._results)) - 1]


def asking(*methods: str, **members: Any) -> Raw:
    """A result that asks by these methods."""
    requests = {f"k{number}": {"method": method, "params": {"n": number}} for number, method in enumerate(methods)}
    return Raw(json.dumps({"resultType": "input_required", "inputRequests": requests, **members}).encode())


DONE = Raw(b'{"resultType":"complete"}')


async def outcome(
    result: Raw, server: Server, client: Client, *, caller: Caller = HANDSHAKE, may_ask: bool = True, **limits: Any
) -> Raw:
    """What becomes of a server's result, within a time that no test should need."""
    exchange = Exchange(caller, client, may_ask=may_ask)
    began = asyncio.get_running_loop().time()
    given = {"name": "t", "requestState": "old"}
    work = answer_questions(result, given, exchange, server.send, Limits(**limits), began=began)
    return await asyncio.wait_for(work, 5)


async def never() -> None:
    await asyncio.get_running_loop().create_future()


# -- what is a question


@pytest.mark.parametrize(
    "text", [ESCAPED, b'{"resultType":"input_required"}', b'{ "a" : 1, "resultType" : "input_required" }']
)
def test_a_question_is_known_however_it_is_written(text: bytes):
    assert is_question(Raw(text))


@pytest.mark.parametrize(
    "text",
    [b"{}", b'{"resultType":"complete"}', b'{"content":"input_required"}', b'{"resultType":["input_required"]}', b"[]"],
)
def test_any_other_result_is_none(text: bytes):
    assert not is_question(Raw(text))


# -- a modern client


async def test_a_modern_client_gets_the_question_as_it_is():
    asked, server = asking(FORM, requestState="s"), Server()
    assert await outcome(asked, server, Client(), caller=MODERN) is asked
    assert server.sent == []


@pytest.mark.parametrize("asked", [asking(FORM, SAMPLE), Raw(ESCAPED)])
@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN])
async def test_what_a_client_did_not_declare_it_is_not_asked(asked: Raw, caller: Caller):
    client, server = Client(), Server()
    with pytest.raises(InputUnavailable, match=SAMPLE):
        await outcome(asked, server, client, caller=caller)
    assert (client.asked, server.sent) == ([], [])


@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN])
async def test_nobody_is_asked_where_the_protocol_has_no_questions(caller: Caller):
    client = Client()
    with pytest.raises(ProtocolViolation):
        await outcome(asking(FORM), Server(), client, caller=caller, may_ask=False)
    assert client.asked == []


# -- a handshake client


async def test_a_handshake_client_is_asked_and_the_request_is_sent_again_with_its_answers():
    client, server = Client(), Server(asking(FORM), DONE)
    assert await outcome(asking(FORM, FORM, requestState={"round": [1]}), server, client) is DONE
    assert client.asked == [(FORM, {"n": 0}), (FORM, {"n": 1}), (FORM, {"n": 0})]
    first, second = server.sent
    answers = {"k0": {"number": 1}, "k1": {"number": 2}}
    assert first == {"name": "t", "inputResponses": answers, "requestState": {"round": [1]}}
    assert second == {"name": "t", "inputResponses": {"k0": {"number": 3}}}  # no state was given, so none is sent


async def test_a_server_that_never_has_enough_is_given_up():
    client = Client()
    with pytest.raises(InputUnavailable, match="3 times"):
        await outcome(asking(FORM), Server(asking(FORM)), client, question_rounds=3)
    assert len(client.asked) == 3


async def test_a_client_that_never_answers_is_not_waited_for_any_longer_than_for_an_answer():
    server = Server()
    with pytest.raises(InputUnavailable, match="did not answer"):
        await outcome(asking(FORM), server, Client(never), question_seconds=0.01)
    assert server.sent == []


async def test_all_rounds_together_last_no_longer_than_a_call():
    async def think() -> None:
        await asyncio.sleep(0.005)

    with pytest.raises(CallTimeout):
        await outcome(
            asking(FORM), Server(asking(FORM)), Client(think), call_hard_timeout_seconds=0.05, question_rounds=10_000
        )


@pytest.mark.parametrize(("count", "fault"), [(3, None), (4, ProtocolViolation)])
async def test_a_server_asks_no_more_at_once_than_anybody_reads(count: int, fault: type[Fault] | None):
    client = Client()
    work = outcome(asking(*[FORM] * count), Server(DONE), client, questions=3)
    if fault is None:
        assert await work is DONE
        assert len(client.asked) == count
    else:
        with pytest.raises(fault):
            await work
        assert client.asked == []


@pytest.mark.parametrize("requests", [[], {"k": 5}, {"k": {}}, {"k": {"method": 5}}, "x"])
@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN])
async def test_a_question_in_another_form_is_a_violation(requests: object, caller: Caller):
    broken = Raw(json.dumps({"resultType": "input_required", "inputRequests": requests}).encode())
    with pytest.raises(ProtocolViolation):
        await outcome(broken, Server(), Client(), caller=caller)


async def test_a_refusal_of_the_client_ends_the_call_and_is_told():
    async def refuse() -> None:
        raise ServerRefused("not\x1b today", rpc_code=-1)

    with pytest.raises(InputUnavailable, match=r"refused elicitation/create: not\\x1b today \(code -1\)"):
        await outcome(asking(FORM), Server(), Client(refuse))


async def test_a_cancelled_call_asks_no_further():
    client = Client(never)
    work = asyncio.ensure_future(outcome(asking(FORM, FORM), Server(), client))
    while not client.asked:  # noqa: ASYNC110 -- turn by turn
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert len(client.asked) == 1


# -- on a connection


async def test_a_call_of_a_handshake_client_on_a_modern_server_ends_though_the_client_never_answers():
    channel = FakeChannel({"tools/call": json.loads(bytes(asking(FORM)))})
    agreement = Agreement(version="2026-07-28", modern=True)
    connection = Connection(channel, agreement, Slots(1, 1, 1), Limits(question_seconds=0.01))
    with pytest.raises(InputUnavailable):
        await asyncio.wait_for(connection.forward("tools/call", {}, Exchange(HANDSHAKE, Client(never))), 5)
    assert connection.questions.calls == {}


@pytest.mark.parametrize("text", [ESCAPED, bytes(asking(SAMPLE)), b'{"resultType":"complete","content":[1.50]}'])
async def test_a_handshake_servers_result_is_no_question_whatever_it_says(text: bytes):
    connection = Connection(
        FakeChannel({"tools/call": text}), Agreement(version="2025-11-25", modern=False), Slots(1, 1, 1), Limits()
    )
    result = await connection.forward("tools/call", {}, Exchange(MODERN, Client()))
    members = json.loads(text)
    del members["resultType"]
    assert json.loads(bytes(result)) == members


@pytest.mark.parametrize("when", ["asking", "again"])
async def test_what_goes_wrong_after_a_question_goes_wrong_with_a_call_that_was_sent(when: str):
    """Whether the client can't be asked any more, or the server is gone when it is to hear the answer."""
    fault = ServerExited("it is gone")
    gone = asyncio.get_running_loop().create_future()
    gone.set_exception(fault)
    answers = iter([json.loads(bytes(asking(FORM)))])

    class Ending(FakeChannel):
        async def request(self, method: str, params: Any, on_progress: OnProgress | None = None, **options: Any) -> Raw:
            del on_progress
            self.requests.append((method, params))
            for answer in answers:
                return Raw(json.dumps(answer).encode())
            if options["delivery"] is not None:
                options["delivery"].was_sent = False
            return await gone

    channel = Ending()
    connection = Connection(channel, Agreement(version="2026-07-28", modern=True), Slots(1, 1, 1), Limits())
    client = Client((lambda: gone) if when == "asking" else None)
    delivery = Delivery()
    with pytest.raises(ServerExited):
        await asyncio.wait_for(connection.forward("tools/call", {}, Exchange(HANDSHAKE, client), delivery), 5)
    assert delivery.was_sent
    assert len(channel.requests) == (1 if when == "asking" else 2)


# -- pages that a person is asked to open


PAGES = Caller(
    version="2025-11-25",
    modern=False,
    capabilities=Raw(b'{"elicitation":{"url":{}}}'),
    answers=frozenset({FORM}),
)
COMPLETE = "notifications/elicitation/complete"


class Visitor(Client):
    """A client that opens pages, and writes down what it hears."""

    def __init__(self, *actions: str) -> None:
        super().__init__()
        self._actions = list(actions)
        self.complete: list[str] = []

    def notify(self, method: str, params: Any) -> None:
        assert method == COMPLETE
        self.complete.append(params["elicitationId"])

    async def ask(self, method: str, params: Any, on_progress: OnProgress | None = None) -> Raw:
        await super().ask(method, params, on_progress)
        return Raw(json.dumps({"action": self._actions.pop(0)}).encode())

    @property
    def ids(self) -> list[str]:
        return [params["elicitationId"] for _, params in self.asked]


def page(*urls: str, **members: Any) -> Raw:
    """A result that asks to open these."""
    requests = {url: {"method": FORM, "params": {"mode": "url", "url": url, "message": "m", **members}} for url in urls}
    return Raw(json.dumps({"resultType": "input_required", "inputRequests": requests}).encode())


async def test_each_page_has_an_id_and_its_visit_is_complete_when_the_server_goes_on():
    client = Visitor("accept", "decline", "accept")
    asked = page("x:1", "x:2", "x:3")
    assert await outcome(asked, Server(DONE), client, caller=PAGES) is DONE
    first, second, third = client.ids
    assert len({first, second, third}) == 3
    assert sorted(client.complete) == sorted([first, third])


async def test_a_page_that_is_asked_about_again_is_the_same_and_not_complete_until_the_server_goes_on():
    client = Visitor("accept", "accept", "accept")
    assert await outcome(page("x:1"), Server(page("x:1"), page("x:2"), DONE), client, caller=PAGES) is DONE
    first, again, other = client.ids
    assert first == again != other
    assert client.complete == [first, other]


async def test_an_id_of_the_servers_own_is_kept():
    client = Visitor("accept")
    assert await outcome(page("x:1", elicitationId="own"), Server(DONE), client, caller=PAGES) is DONE
    assert client.complete == client.ids == ["own"]


async def test_no_visit_is_complete_where_the_call_fails():
    async def failing(_params: Any) -> Raw:
        raise ServerExited("it ended")

    client, server = Visitor("accept"), Server()
    server.send = failing
    with pytest.raises(ServerExited):
        await outcome(page("x:1"), server, client, caller=PAGES)
    assert client.complete == []


@pytest.mark.parametrize(
    ("version", "declared"),
    [("2025-06-18", b'{"elicitation":{"url":{}}}'), ("2025-11-25", b'{"elicitation":{}}')],
    ids=["too old", "undeclared"],
)
async def test_a_client_that_knows_no_pages_is_not_asked_to_open_one(version: str, declared: bytes):
    caller = Caller(version=version, modern=False, capabilities=Raw(declared), answers=frozenset({FORM}))
    client = Client()
    with pytest.raises(InputUnavailable, match="URL mode"):
        await outcome(page("x:1"), Server(DONE), client, caller=caller)
    assert client.asked == []


async def test_a_client_that_opens_pages_only_is_asked_no_form():
    client = Client()
    with pytest.raises(InputUnavailable):
        await outcome(asking(FORM), Server(DONE), client, caller=PAGES)
    assert client.asked == []
