"""The symmetric peer: each request has one outcome, cancellation and progress go both ways."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import CallTimeout, ProtocolViolation, ServerExited, ServerRefused
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.deadlines import Delivery
from mcp_workbench.wire.exchange import Exchange, OnProgress, OpenRequest
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT, RpcError
from mcp_workbench.wire.peer import Peer, PeerRequest
from tests.wire.pair import End, echo, pair, settle

WAIT_SECONDS = 5.0
GONE = ServerExited("it is gone")


def asking(end: End, method: str = "m", params: dict[str, Any] | None = None, **options: Any) -> asyncio.Task[Raw]:
    return asyncio.ensure_future(end.peer.request(method, params or {}, **options))


async def sent_id(end: End, index: int = 0) -> int:
    """The id of a request that was just sent."""
    await settle(2)
    return [message["id"] for message in end.writer.sent if "method" in message and "id" in message][index]


class Listener:
    """The line of a client that hears of progress."""

    request_id = 1

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def notify(self, method: str, params: Any) -> None:
        self.heard.append((method, {key: json.loads(bytes(value)) for key, value in params.items()}))

    async def ask(self, method: str, params: Any, on_progress: OnProgress | None = None) -> Raw:
        del on_progress
        raise AssertionError((method, params))


def exchange_with(line: OpenRequest, token: bytes | None = b'"theirs"') -> Exchange:
    caller = Caller(version="2025-11-25", modern=False)
    return Exchange(caller, line, progress_token=Raw(token) if token else None)


# -- requests and answers


async def test_requests_are_answered_in_both_directions_at_once():
    left, right = pair()
    left.handler.methods["echo"] = right.handler.methods["echo"] = echo
    answers = await asyncio.gather(
        *(
            end.peer.request("echo", {"from": name, "n": n})
            for end, name in ((left, "l"), (right, "r"))
            for n in range(50)
        )
    )
    assert [json.loads(bytes(answer)) for answer in answers] == [
        {"from": name, "n": n} for name in "lr" for n in range(50)
    ]


async def test_the_result_is_the_bytes_that_were_sent():
    end = End()
    call = asking(end)
    id_ = await sent_id(end)
    end.peer.receive(b'{"jsonrpc":"2.0","id":%d,"result":{"n": 1.00,"big":1e400}}' % id_)
    assert bytes(await call) == b'{"n": 1.00,"big":1e400}'


async def test_a_json_rpc_error_is_raised_with_its_code_message_and_data():
    end = End()
    call = asking(end)
    end.receive(id=await sent_id(end), error={"code": -32050, "message": "no", "data": {"a": 1}})
    with pytest.raises(ServerRefused, match=r"^no$") as caught:
        await call
    assert caught.value.rpc_code == -32050
    assert json.loads(caught.value.data) == {"a": 1}


async def test_an_unknown_method_is_answered_with_its_error():
    left, right = pair()
    del right
    with pytest.raises(ServerRefused) as caught:
        await left.peer.request("nonsense", {})
    assert caught.value.rpc_code == -32601


async def test_an_exception_of_a_handler_is_an_internal_error_without_its_text(monkeypatch: pytest.MonkeyPatch):
    logged: list[dict[str, object]] = []
    monkeypatch.setattr(logger, "error", lambda _message, **values: logged.append(values))
    end = End()

    async def fail(_params: dict[str, Raw], _line: OpenRequest) -> Raw:
        raise ValueError("the secret inside")

    end.handler.methods["fail"] = fail
    end.receive(id=1, method="fail")
    await settle()
    assert end.writer.sent == [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}]
    assert "the secret inside" in str(logged)
    end.handler.methods["echo"] = echo
    end.receive(id=1, method="echo", params={"still": "there"})
    await settle()
    assert end.writer.sent[-1]["result"] == {"still": "there"}


async def test_notifications_arrive_in_the_order_in_which_they_were_sent():
    left, right = pair()
    for number in range(20):
        left.peer.notify("n", {"number": number})
    await settle()
    assert right.handler.notifications == [("n", {"number": number}) for number in range(20)]


async def test_what_a_handler_notifies_is_sent_before_its_answer():
    end = End()

    async def chatty(params: dict[str, Raw], line: OpenRequest) -> Raw:
        line.notify("one", {})
        await asyncio.sleep(0)
        line.notify("two", {})
        return params

    end.handler.methods["chatty"] = chatty
    end.receive(id="a", method="chatty", params={})
    await settle()
    assert [message.get("method", "answer") for message in end.writer.sent] == ["one", "two", "answer"]


async def test_a_request_with_a_null_id_is_refused_and_one_with_an_id_in_use_too():
    end = End()
    blocked = asyncio.Event()

    async def wait(_params: dict[str, Raw], _line: OpenRequest) -> Raw:
        await blocked.wait()
        return EMPTY_OBJECT

    end.handler.methods["wait"] = wait
    end.receive(id=None, method="wait")
    end.receive(id=5, method="wait")
    end.receive(id=5, method="wait")
    await settle()
    assert [(message["id"], message["error"]["code"]) for message in end.writer.sent] == [(None, -32600), (5, -32600)]
    assert end.handler.started == ["wait"]
    blocked.set()
    await settle()
    assert end.writer.sent[-1] == {"jsonrpc": "2.0", "id": 5, "result": {}}


@pytest.mark.parametrize("ids", [range(50), [None] * 50, ["same"] * 50], ids=["new", "null", "same"])
async def test_a_server_that_asks_and_does_not_read_is_not_answered_so_that_nothing_piles_up(ids: Any):
    end = End(answers_always=False)
    end.handler.methods["ping"] = echo
    end.writer.congested = True
    for id_ in ids:
        end.receive(id=id_, method="ping")
    await settle()
    assert end.writer.sent == []
    end.writer.drain()
    end.receive(id="after", method="ping")
    await settle()
    assert [message["id"] for message in end.writer.sent] == ["after"]


async def test_a_client_is_always_answered():
    end = End()
    end.handler.methods["ping"] = echo
    end.writer.congested = True
    end.receive(id=1, method="ping")
    await settle()
    assert [message["id"] for message in end.writer.sent] == [1]


# -- answers that nobody waits for


async def test_a_second_answer_is_counted_and_changes_nothing():
    end = End()
    call = asking(end)
    id_ = await sent_id(end)
    end.receive(id=id_, result={"n": 1})
    end.receive(id=id_, result={"n": 2})
    assert json.loads(bytes(await call)) == {"n": 1}
    end.receive(id=id_, result={"n": 3})
    assert end.peer.strays == 2


@pytest.mark.parametrize("id_", [0, 1, -1, "1", "", 2**60])
async def test_answers_to_nothing_are_counted_and_ignored(id_: object):
    end = End()
    call = asking(end)
    await settle()
    end.receive(id=id_, result={"evil": True})
    end.receive(id=id_, error={"code": 1, "message": "evil"})
    await settle()
    assert end.peer.strays == 2
    assert not call.done()
    end.peer.close(GONE)
    with pytest.raises(ServerExited):
        await call


@pytest.mark.parametrize(
    ("code", "heard"), [(-32700, True), (-32600, True), (-32601, False), (-32603, False), (0, False)]
)
async def test_an_error_without_an_id_is_a_complaint_where_it_says_that_something_could_not_be_read(
    code: int, *, heard: bool
):
    end = End()
    call = asking(end)
    await settle()
    end.receive(id=None, error={"code": code, "message": "what?"})
    assert [(error.code, error.message) for error in end.handler.complaints] == ([(code, "what?")] if heard else [])
    assert not call.done()  # what it means is for the handler to decide
    end.receive(id=await sent_id(end), result={})
    await call


async def test_the_id_as_a_string_does_not_answer_the_request():
    end = End()
    call = asking(end)
    id_ = await sent_id(end)
    end.receive(id=str(id_), result={"evil": True})
    assert end.peer.strays == 1
    end.receive(id=id_, result={"good": True})
    assert json.loads(bytes(await call)) == {"good": True}


async def test_an_answer_after_the_deadline_is_counted():
    end = End()
    with pytest.raises(CallTimeout):
        await end.peer.request("m", {}, hard_seconds=0.01)
    end.receive(id=await sent_id(end), result={})
    assert end.peer.strays == 1


async def test_an_unreadable_answer_fails_the_request_that_it_names_and_no_other():
    end = End()
    first, second = asking(end), asking(end)
    id_ = await sent_id(end)
    assert end.peer.fail_request(b'{"jsonrpc":"2.0","id":%d,"result":{' % id_, lambda: ProtocolViolation("broken"))
    assert not end.peer.fail_request(b'{"jsonrpc":"2.0","id":%d,"result":{' % id_, lambda: ProtocolViolation("again"))
    with pytest.raises(ProtocolViolation, match="broken"):
        await first
    assert not second.done()
    end.receive(id=await sent_id(end, 1), result={})
    await second


# -- cancelling what we asked


async def test_a_cancelled_caller_tells_the_other_side_and_nothing_is_left():
    left, right = pair()
    reached, ended = asyncio.Event(), asyncio.Event()

    async def wait(_params: dict[str, Raw], _line: OpenRequest) -> Raw:
        reached.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    right.handler.methods["wait"] = wait
    call = asking(left, "wait")
    await asyncio.wait_for(reached.wait(), WAIT_SECONDS)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(ended.wait(), WAIT_SECONDS)
    await settle()
    assert [message["params"]["requestId"] for message in left.writer.of("notifications/cancelled")] == [
        left.writer.sent[0]["id"]
    ]
    assert right.writer.lines == []  # by the protocol a cancelled request gets no answer
    assert right.peer.serving == frozenset()
    assert not left.peer.is_waiting(left.writer.sent[0]["id"])


async def test_a_request_that_must_not_be_cancelled_is_dropped_in_silence():
    end = End()
    call = asking(end, "initialize", cancellable=False)
    await settle()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert end.writer.of("notifications/cancelled") == []


async def test_a_caller_that_is_cancelled_after_its_answer_came_cancels_nothing():
    end = End()
    call = asking(end)
    id_ = await sent_id(end)
    end.receive(id=id_, result={})
    call.cancel()  # the answer is there, the caller has not seen it yet
    await asyncio.gather(call, return_exceptions=True)
    assert end.writer.of("notifications/cancelled") == []
    assert not end.peer.is_waiting(id_)


async def test_a_request_that_waited_to_be_sent_and_was_cancelled_never_reaches_the_wire():
    end = End()
    end.writer.congested = True
    call = asking(end)
    await settle()
    assert end.writer.lines == []
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert end.writer.lines == []  # not even its cancellation: the other side never heard of it
    assert not any(end.peer.is_waiting(id_) for id_ in range(10))


async def test_a_request_waits_until_the_other_side_reads_and_its_deadline_counts_meanwhile():
    end = End()
    end.writer.congested = True
    late = asking(end, "late", hard_seconds=0.01)
    with pytest.raises(CallTimeout):
        await late
    call = asking(end, "m")
    await settle()
    end.writer.drain()
    await settle()
    end.receive(id=await sent_id(end), result={})
    await call
    assert [message["method"] for message in end.writer.sent if "id" in message] == ["m"]


async def test_a_request_that_waits_to_be_sent_fails_with_its_connection():
    end = End()
    end.writer.congested = True
    call = asking(end)
    await settle()
    end.peer.close(GONE)
    with pytest.raises(ServerExited):
        await asyncio.wait_for(call, WAIT_SECONDS)
    assert end.writer.lines == []


async def test_a_request_that_could_not_be_written_any_more_waits_for_the_reason_and_was_not_sent():
    end = End()
    end.writer.is_closed = True
    end.writer.drain()
    delivery = Delivery()
    call = asking(end, delivery=delivery)
    await settle()
    assert not call.done()
    end.peer.close(GONE)
    with pytest.raises(ServerExited):
        await asyncio.wait_for(call, WAIT_SECONDS)
    assert not delivery.was_sent
    assert end.writer.lines == []


# -- being cancelled


async def waiting_end() -> tuple[End, asyncio.Event]:
    """An end with a request 5 under way, and an event that lets its handler answer."""
    end = End()
    go = asyncio.Event()

    async def wait(_params: dict[str, Raw], _line: OpenRequest) -> Raw:
        await go.wait()
        return EMPTY_OBJECT

    end.handler.methods["wait"] = wait
    end.handler.methods["echo"] = echo
    end.receive(id=5, method="wait")
    return end, go


async def test_a_request_that_is_cancelled_before_its_first_step_leaves_no_trace():
    end, _ = await waiting_end()
    end.receive(method="notifications/cancelled", params={"requestId": 5})
    await settle()
    assert end.handler.started == []
    assert end.writer.lines == []
    assert end.peer.serving == frozenset()


@pytest.mark.parametrize("steps", [0, 1, 3])
async def test_the_id_of_a_cancelled_request_can_be_used_again(steps: int):
    end, _ = await waiting_end()
    await settle(steps)
    end.receive(method="notifications/cancelled", params={"requestId": 5})
    await settle()
    end.receive(id=5, method="echo", params={"again": 1})
    await settle()
    assert end.writer.sent == [{"jsonrpc": "2.0", "id": 5, "result": {"again": 1}}]


async def test_a_reused_id_stays_cancellable_however_soon_it_is_reused():
    """The clean-up of the cancelled request must not take its successor's place in the table."""
    end, _ = await waiting_end()
    await settle()
    end.receive(method="notifications/cancelled", params={"requestId": 5})
    for _ in range(5):
        if not end.peer.serving:
            break
        await asyncio.sleep(0)
    end.receive(id=5, method="wait")  # in the turn in which the first one ended
    await settle()
    assert end.handler.started == ["wait", "wait"]
    assert len(end.peer.serving) == 1
    end.receive(method="notifications/cancelled", params={"requestId": 5})
    await settle()
    assert end.peer.serving == frozenset()
    assert end.writer.lines == []


@pytest.mark.parametrize(
    "params",
    [None, {}, [], {"requestId": None}, {"requestId": 6}, {"requestId": "5"}, {"requestId": 5.0}, {"requestId": [5]}],
)
async def test_a_cancellation_of_something_else_is_ignored(params: object):
    end, go = await waiting_end()
    await settle()
    end.receive(method="notifications/cancelled", **({} if params is None else {"params": params}))
    await settle()
    go.set()
    await settle()
    assert end.writer.sent == [{"jsonrpc": "2.0", "id": 5, "result": {}}]


@pytest.mark.parametrize("params", [{}, {"requestId": None}, {"requestId": 1.5}, {"requestId": {}}])
async def test_a_cancellation_without_an_id_does_not_cancel_the_request_whose_id_is_empty(params: object):
    end, go = await waiting_end()
    end.receive(id="", method="wait")
    await settle()
    end.receive(method="notifications/cancelled", params=params)
    await settle()
    go.set()
    await settle()
    assert {"jsonrpc": "2.0", "id": "", "result": {}} in end.writer.sent


async def test_a_cancellation_after_the_answer_is_ignored():
    end, go = await waiting_end()
    go.set()
    await settle()
    end.receive(method="notifications/cancelled", params={"requestId": 5})
    await settle()
    assert len(end.writer.lines) == 1


# -- progress


async def test_progress_reaches_the_client_under_its_own_token_and_before_the_answer():
    left, right = pair()
    listener = Listener()

    async def work(params: dict[str, Raw], line: OpenRequest) -> Raw:
        token = json.loads(bytes(params["_meta"]))["progressToken"]
        for step in (1, 2):
            line.notify("notifications/progress", {"progressToken": token, "progress": step, "x-more": "kept"})
        return EMPTY_OBJECT

    right.handler.methods["work"] = work
    await left.peer.request("work", {"_meta": {"trace": "t"}}, exchange_with(listener).progressed)
    sent = left.writer.sent[0]
    assert sent["params"]["_meta"] == {"trace": "t", "progressToken": sent["id"]}
    assert listener.heard == [
        ("notifications/progress", {"progressToken": "theirs", "progress": step, "x-more": "kept"}) for step in (1, 2)
    ]


async def test_progress_is_asked_for_where_it_restarts_a_deadline_and_stays_with_us_if_the_client_wants_none():
    end = End()
    listener = Listener()
    call = asking(end, params={"a": 1}, on_progress=exchange_with(listener, None).progressed, idle_seconds=60)
    id_ = await sent_id(end)
    assert end.writer.sent[0]["params"] == {"a": 1, "_meta": {"progressToken": id_}}
    end.receive(method="notifications/progress", params={"progressToken": id_, "progress": 1})
    assert listener.heard == []
    end.receive(id=id_, result={})
    await call


async def test_no_progress_is_asked_for_where_nobody_wants_it():
    end = End()
    call = asking(end, params={"a": 1})
    await settle()
    assert end.writer.sent[0]["params"] == {"a": 1}
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize("token", ["theirs", 1, None, 1.5, True, [1]])
async def test_progress_under_an_unknown_token_reaches_nobody(token: object):
    end = End()
    listener = Listener()
    call = asking(end, on_progress=exchange_with(listener).progressed)
    await settle()
    end.receive(method="notifications/progress", params={"progressToken": token, "progress": 1})
    end.receive(method="notifications/progress", params=[token])
    end.receive(method="notifications/progress")
    assert listener.heard == []
    end.receive(id=await sent_id(end), result={})
    await call


async def test_progress_after_the_answer_reaches_nobody():
    end = End()
    listener = Listener()
    call = asking(end, on_progress=exchange_with(listener).progressed)
    id_ = await sent_id(end)
    end.receive(id=id_, result={})
    end.receive(method="notifications/progress", params={"progressToken": id_, "progress": 1})
    await call
    end.receive(method="notifications/progress", params={"progressToken": id_, "progress": 2})
    assert listener.heard == []


# -- deadlines


class Clock:
    """The time of the loop, moved by hand: deadlines pass when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real = loop.time
        self.ahead = 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self.ahead)

    async def pass_(self, seconds: float) -> None:
        self.ahead += seconds
        await settle()


async def test_silence_for_the_idle_time_ends_a_request_and_tells_the_server(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    end = End()
    call = asking(end, idle_seconds=100, hard_seconds=1000)
    id_ = await sent_id(end)
    await clock.pass_(99)
    assert not call.done()
    await clock.pass_(2)
    with pytest.raises(CallTimeout, match="no progress for 100 s"):
        await call
    cancelled = end.writer.of("notifications/cancelled")
    assert [message["params"]["requestId"] for message in cancelled] == [id_]


async def test_progress_starts_the_idle_time_again_and_the_hard_deadline_does_not_care(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    end = End()
    call = asking(end, idle_seconds=100, hard_seconds=1000)
    id_ = await sent_id(end)
    for _ in range(11):
        await clock.pass_(90)
        end.receive(method="notifications/progress", params={"progressToken": id_, "progress": 1})
        await settle()
        assert not call.done()
    await clock.pass_(15)
    with pytest.raises(CallTimeout, match="the time limit for a call"):
        await call


async def test_while_the_other_side_waits_for_somebody_else_its_idle_time_does_not_run(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    end = End()
    call = asking(end, idle_seconds=100, hard_seconds=1000)
    await sent_id(end)
    await clock.pass_(90)
    with end.peer.pause_deadlines():
        await clock.pass_(500)
        with end.peer.pause_deadlines():
            await clock.pass_(100)
        await clock.pass_(150)
        assert not call.done()
    await clock.pass_(99)
    assert not call.done()
    await clock.pass_(2)
    with pytest.raises(CallTimeout, match="no progress for 100 s"):
        await call


async def test_who_waits_for_its_own_client_holds_no_other_request(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    end = End()
    mine, other = (asking(end, idle_seconds=100, owner=owner) for owner in ("mine", "other"))
    await settle()
    with end.peer.pause_deadlines("mine"):
        await clock.pass_(101)
        assert (mine.done(), other.done()) == (False, True)
    with pytest.raises(CallTimeout):
        await other
    await clock.pass_(101)
    with pytest.raises(CallTimeout):
        await mine


async def test_the_hard_deadline_counts_on_while_the_other_side_waits(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    end = End()
    call = asking(end, idle_seconds=100, hard_seconds=1000)
    await sent_id(end)
    with end.peer.pause_deadlines():
        await clock.pass_(101)
        assert not call.done()
        await clock.pass_(900)
        with pytest.raises(CallTimeout, match="the time limit for a call"):
            await call


async def test_a_request_without_deadlines_waits(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    end = End()
    call = asking(end)
    id_ = await sent_id(end)
    await clock.pass_(10**9)
    assert not call.done()
    end.receive(id=id_, result={})
    await call


async def test_an_answer_in_time_leaves_no_timer_behind(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    end = End()
    call = asking(end, idle_seconds=100)
    end.receive(id=await sent_id(end), result={})
    await call
    await clock.pass_(200)
    assert end.writer.of("notifications/cancelled") == []


# -- the end


async def test_closing_fails_all_that_we_asked_and_cancels_all_that_we_were_asked():
    end, _ = await waiting_end()
    calls = [asking(end) for _ in range(20)]
    await settle()
    end.peer.close(GONE)
    end.peer.close(ProtocolViolation("too late"))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert outcomes == [GONE] * 20
    await settle()
    assert end.peer.serving == frozenset()
    assert end.writer.of("notifications/cancelled") == []


async def test_nothing_starts_on_a_closed_peer():
    end = End()
    end.handler.methods["echo"] = echo
    end.peer.close(GONE)
    with pytest.raises(ServerExited):
        await end.peer.request("m", {})
    end.receive(id=1, method="echo")
    await settle()
    assert end.writer.lines == []
    assert end.handler.started == []


async def test_an_error_raised_as_such_is_answered_as_it_is():
    end = End()

    async def refuse(_params: dict[str, Raw], _line: OpenRequest) -> Raw:
        raise RpcError(-32022, "not this one", {"supported": ["x"]})

    end.handler.methods["refuse"] = refuse
    end.receive(id="q", method="refuse")
    await settle()
    assert end.writer.sent == [
        {
            "jsonrpc": "2.0",
            "id": "q",
            "error": {"code": -32022, "message": "not this one", "data": {"supported": ["x"]}},
        }
    ]


async def test_a_line_can_ask_the_other_side_while_its_request_is_open():
    left, right = pair()
    left.handler.methods["question"] = echo

    async def curious(_params: dict[str, Raw], line: OpenRequest) -> Raw:
        return await line.ask("question", {"what": "now"})

    right.handler.methods["curious"] = curious
    assert json.loads(bytes(await left.peer.request("curious", {}))) == {"what": "now"}


# -- what must not be lost


async def test_a_notification_that_fails_takes_nothing_with_it_that_follows(monkeypatch: pytest.MonkeyPatch):
    logged: list[str] = []
    monkeypatch.setattr(logger, "error", lambda what, **_: logged.append(what))
    end = End()

    def fail(method: str, params: dict[str, Raw]) -> None:
        raise ValueError((method, params))

    monkeypatch.setattr(end.handler, "notification", fail)
    request = asking(end)
    id_ = await sent_id(end)
    end.receive(method="notifications/x")
    end.receive(id=id_, result={"y": 1})
    assert json.loads(bytes(await asyncio.wait_for(request, WAIT_SECONDS))) == {"y": 1}
    assert logged == ["a notification failed inside the workbench"]


async def test_when_the_other_side_will_answer_no_more_what_we_asked_fails_and_what_it_asked_is_still_answered():
    end, allowed = End(), asyncio.Event()

    async def slow(params: dict[str, Raw], line: OpenRequest) -> Raw:
        del params, line
        await allowed.wait()
        return EMPTY_OBJECT

    end.handler.methods["slow"] = slow
    end.receive(id=1, method="slow")
    request = asking(end)
    await settle()
    end.peer.give_up(GONE)
    with pytest.raises(ServerExited):
        await asyncio.wait_for(request, WAIT_SECONDS)
    with pytest.raises(ServerExited):
        await asyncio.wait_for(asking(end), WAIT_SECONDS)
    assert len(end.writer.of("m")) == 1
    allowed.set()
    await settle()
    assert end.writer.sent[-1] == {"jsonrpc": "2.0", "id": 1, "result": {}}


# -- where messages belong, for a writer with more than one stream


async def test_what_is_sent_during_a_request_is_about_that_request():
    left, right = pair()

    async def working(params: dict[str, Raw], line: OpenRequest) -> Raw:
        line.notify("notifications/message", {})
        await line.ask("ping", {})
        return params

    right.handler.methods["work"] = working
    left.handler.methods["ping"] = echo
    await left.peer.request("work", {})
    right.peer.notify("notifications/tools/list_changed", {})
    id_ = left.writer.sent[0]["id"]
    assert right.writer.concerns == [id_, id_, id_, None]


async def test_an_error_is_about_the_request_that_it_answers():
    end = End()
    end.peer.receive(b'{"jsonrpc":"2.0","id":"q","method":"unknown"}')
    await settle(2)
    assert end.writer.sent[0]["error"]
    assert end.writer.concerns == ["q"]


async def test_one_request_can_be_failed_and_the_others_go_on():
    end = End()
    first, second = asking(end), asking(end)
    ids = [await sent_id(end, index) for index in (0, 1)]
    end.peer.fail(ids[0], GONE)
    end.peer.fail(ids[0], GONE)
    end.peer.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % ids[1])
    assert bytes(await second) == b"{}"
    with pytest.raises(ServerExited):
        await first


# -- a request that goes on elsewhere


async def test_the_owner_of_a_request_is_known_until_its_answer():
    end = End()
    waiting = asking(end, owner="mine")
    id_ = await sent_id(end)
    assert end.peer.owner_of(id_) == "mine"
    end.receive(id=id_, result={})
    assert end.peer.owner_of(id_) is None
    await waiting


async def test_a_line_says_which_request_is_adjourned_and_one_without_a_request_says_nothing():
    end = End()
    adjourned: list[Any] = []
    peer = Peer(end.writer, end.handler, adjourn=adjourned.append)
    PeerRequest(peer, "a").adjourn()
    PeerRequest(peer, None).adjourn()
    assert adjourned == ["a"]
