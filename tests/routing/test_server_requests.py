"""What a server says and asks by itself, and that it reaches its client as the client's era has it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import Fault, InputUnavailable, ServerExited, ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.server_requests import ServerRequests
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.wire import eras
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import ClientRef, Exchange, OnProgress
from mcp_workbench.wire.jsonrpc import Params, RpcError
from tests.support.library import DeafLine
from tests.support.memory import MemoryChannel, MemoryServer
from tests.wire.pair import settle

A = ServerIdentifier("dev", "a")
FORM = "elicitation/create"
LOG = "notifications/message"


def caller(*, modern: bool = False, audience: str = "client", log_level: str | None = None) -> Caller:
    return Caller(
        version="", modern=modern, audience=audience, log_level=log_level, answers=frozenset({FORM, "roots/list"})
    )


class Host:
    """A client that writes down what it hears, and answers as it is told."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.told: list[tuple[str, Any]] = []
        self.asked: list[tuple[str, Any, Exchange | None]] = []
        self.on_progress: OnProgress | None = None

    def tell(
        self, source: ServerIdentifier, method: str, params: dict[str, Raw], exchange: Exchange | None = None
    ) -> None:
        assert source == A
        if exchange is not None:
            exchange.notify(method, params)
            return
        self.told.append((method, {key: json.loads(bytes(value)) for key, value in params.items()}))

    def changed(self, toolbox: str, kind: str) -> None:
        raise AssertionError((toolbox, kind))

    async def ask(
        self,
        source: ServerIdentifier,
        method: str,
        params: Params,
        on_progress: OnProgress | None,
        exchange: Exchange | None,
    ) -> Raw:
        assert source == A
        self.on_progress = on_progress
        self.asked.append((method, {key: json.loads(bytes(value)) for key, value in params.items()}, exchange))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.get_running_loop().create_future()
        return Raw(json.dumps(self.answer).encode())


class Talk:
    """A server's words to a client, and the calls of the client meanwhile."""

    def __init__(self, who: Caller, client: Host | None, *, modern: bool = False, **limits: Any) -> None:
        self.channel = MemoryChannel(MemoryServer())
        settings = Limits(**limits)
        self.connection = Connection(self.channel, Agreement(version="", modern=modern), Slots(9, 9, 9), settings)
        self.dialogue = ServerRequests(A, ClientRef(who, lambda: client), settings)

    def call(self, who: Caller) -> tuple[Exchange, DeafLine]:
        line = DeafLine()
        exchange = Exchange(who, line)
        self.connection.questions.calls[exchange] = None
        return exchange, line

    def say(self, method: str, *, owner: object = None, **params: Any) -> None:
        fields = {key: Raw(json.dumps(value).encode()) for key, value in params.items()}
        self.dialogue.notified(self.connection, method, fields, owner)

    def ask(self, method: str = FORM, *, owner: object = None, **params: Any) -> asyncio.Task[Raw]:
        fields = {key: Raw(json.dumps(value).encode()) for key, value in params.items()}
        return asyncio.ensure_future(self.dialogue.asked(self.connection, method, fields, owner))

    async def refused(self, method: str = FORM, **params: Any) -> RpcError:
        with pytest.raises(RpcError) as caught:
            await asyncio.wait_for(self.ask(method, **params), 5)
        return caught.value


# -- notifications


async def test_a_handshake_client_is_told_at_any_time():
    client = Host()
    Talk(caller(), client).say(LOG, level="info", data=1)
    assert client.told == [(LOG, {"level": "info", "data": 1})]


async def test_the_mark_of_our_own_subscription_is_not_passed_on_and_other_meta_is():
    client = Host()
    talk = Talk(caller(), client)
    talk.say("notifications/resources/updated", uri="x:1", _meta={eras.SUBSCRIPTION_ID: 7})
    talk.say("notifications/resources/updated", uri="x:1", _meta={eras.SUBSCRIPTION_ID: 7, "x": 1})
    assert [params for _, params in client.told] == [{"uri": "x:1"}, {"uri": "x:1", "_meta": {"x": 1}}]


@pytest.mark.parametrize(
    ("wanted", "level", "heard"),
    [("info", "error", True), ("info", "info", True), ("error", "info", False), (None, "error", False)],
)
async def test_a_modern_client_hears_a_log_message_in_a_call_that_wants_it(
    wanted: str | None, level: str, *, heard: bool
):
    client = Host()
    talk = Talk(caller(modern=True), client, modern=True)
    _, quiet = talk.call(caller(modern=True))
    _, line = talk.call(caller(modern=True, log_level=wanted))
    talk.say(LOG, level=level)
    assert ([method for method, _ in line.heard], quiet.heard, client.told) == ([LOG] if heard else [], [], [])


@pytest.mark.parametrize("modern", [False, True], ids=["handshake server", "modern server"])
async def test_a_message_on_the_stream_of_a_call_goes_to_that_call(*, modern: bool):
    talk = Talk(caller(modern=True), client := Host(), modern=modern)
    _, first = talk.call(caller(modern=True, log_level="debug"))
    call, second = talk.call(caller(modern=True, log_level="debug"))
    talk.say(LOG, owner=call, level="error")
    talk.say("vendor/x", owner=call)
    assert ([method for method, _ in second.heard], first.heard, client.told) == ([LOG, "vendor/x"], [], [])


async def test_a_message_on_the_stream_of_a_request_of_ours_belongs_to_no_call():
    talk = Talk(caller(modern=True), client := Host())
    _, line = talk.call(caller(modern=True, log_level="debug"))
    talk.say(LOG, owner=object(), level="error")
    assert (line.heard, client.told) == ([], [])


async def test_a_message_that_could_belong_to_several_calls_goes_to_the_session_alone():
    talk = Talk(caller(modern=True), client := Host())
    _, quiet = talk.call(caller(modern=True))
    _, line = talk.call(caller(modern=True, log_level="debug"))
    talk.say(LOG, level="error")
    assert (line.heard, quiet.heard, client.told) == ([], [], [(LOG, {"level": "error"})])


async def test_a_handshake_client_hears_on_the_stream_of_its_call_what_belongs_to_it():
    talk = Talk(caller(), client := Host())
    first, line = talk.call(caller())
    talk.say(LOG, level="info")
    _, other = talk.call(caller())
    talk.say(LOG, level="info")
    talk.say(LOG, owner=first, level="info")
    talk.say("notifications/resources/updated", owner=first, uri="x:1")
    assert ([method for method, _ in line.heard], other.heard) == ([LOG, LOG], [])
    assert [method for method, _ in client.told] == [LOG, "notifications/resources/updated"]


async def test_a_log_message_that_could_be_anybodys_reaches_nobody():
    talk = Talk(caller(modern=True, audience=""), None)
    _, line = talk.call(caller(modern=True, audience="", log_level="debug"))
    talk.say(LOG, level="error")
    assert line.heard == []


# -- questions


async def test_a_question_on_the_stream_of_a_call_is_asked_for_that_call():
    client = Host({"action": "accept"})
    talk = Talk(caller(), client)
    talk.call(caller())
    exchange, _ = talk.call(caller())
    await talk.ask(owner=exchange)
    assert [asked[2] for asked in client.asked] == [exchange]


async def test_an_answer_comes_back_and_the_only_call_is_the_one_that_asks():
    client = Host({"action": "accept"})
    talk = Talk(caller(), client)
    exchange, _ = talk.call(caller())
    assert json.loads(bytes(await talk.ask(x=1))) == {"action": "accept"}
    talk.call(caller())
    await talk.ask("vendor/x")
    assert client.asked == [(FORM, {"x": 1}, exchange), ("vendor/x", {}, None)]


@pytest.mark.parametrize(
    ("modern", "method"),
    [(False, "sampling/createMessage"), (True, "sampling/createMessage"), (True, "vendor/x"), (True, "tasks/list")],
)
async def test_what_a_client_did_not_declare_it_is_not_asked(method: str, *, modern: bool):
    client = Host({})
    assert (await Talk(caller(modern=modern), client).refused(method)).code == -32601
    assert client.asked == []


async def test_where_nobody_listens_nobody_is_asked():
    assert (await Talk(caller(), None).refused()).code == -32601


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (ServerRefused("no, thanks", rpc_code=-7, data=b'{"x":1}'), -7, "no, thanks"),
        (InputUnavailable("not here"), -32601, "not here"),
        (ServerExited("the client is gone"), -32603, "the client is gone"),
    ],
)
async def test_what_comes_instead_of_an_answer_is_told_the_server(fault: Fault, code: int, message: str):
    error = await Talk(caller(), Host(fault)).refused()
    assert (error.code, error.message) == (code, message)
    if isinstance(fault, ServerRefused):
        assert bytes(error.data) == fault.data


async def test_a_question_of_a_call_that_was_cancelled_is_ended_and_not_called_unknown():
    client = Host()
    talk = Talk(caller(), client)
    exchange, _ = talk.call(caller())
    question = talk.ask()
    await settle()
    assert len(client.asked) == 1
    talk.connection.questions.withdraw(exchange)
    with pytest.raises(RpcError) as caught:
        await asyncio.wait_for(question, 5)
    assert (caught.value.code, caught.value.message) == (-32603, "The call that it belongs to was cancelled")


@pytest.mark.parametrize("modern", [False, True])
async def test_a_client_that_never_answers_is_not_waited_for_for_ever(*, modern: bool):
    talk = Talk(caller(modern=modern), Host(), question_seconds=0.01)
    error = await talk.refused()
    assert (error.code, error.message) == (-32603, "The client did not answer in time")


async def test_a_server_has_no_more_questions_open_than_anybody_reads():
    talk = Talk(caller(), Host(), questions=2)
    questions = [talk.ask() for _ in range(2)]
    await settle()
    assert (await talk.refused()).code == -32603
    questions[0].cancel()
    await settle()
    third = talk.ask()
    await settle()
    assert not third.done()
    for question in (questions[1], third):
        question.cancel()


async def test_the_silence_of_a_server_that_asks_is_held_against_no_call_where_it_could_be_any():
    for calls, owners in ((1, 1), (2, 0)):
        talk = Talk(caller(), Host())
        exchanges = [talk.call(caller())[0] for _ in range(calls)]
        question = talk.ask()
        await settle()
        assert talk.channel.holds == (exchanges if owners else [None])
        question.cancel()
        await settle()
        assert talk.channel.holds == []


async def test_progress_of_an_answer_goes_back_under_the_token_of_the_server():
    client = Host({})
    talk = Talk(caller(), client)
    await talk.ask(_meta={"progressToken": "theirs"})
    assert client.on_progress is not None
    client.on_progress({"progress": Raw(b"1"), "progressToken": Raw(b'"ours"')})
    assert talk.channel.told == [("notifications/progress", {"progress": 1, "progressToken": "theirs"})]
    await talk.ask()
    assert client.on_progress is None
