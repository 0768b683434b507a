"""One call at a time: in order, never lost, never held by a call that is over."""

from __future__ import annotations

import asyncio

import pytest

from mcp_workbench.errors import Overloaded
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import CallTurns
from mcp_workbench.wire.caller import LIBRARY
from mcp_workbench.wire.exchange import Exchange
from tests.support.library import DeafLine
from tests.wire.pair import settle


def call() -> Exchange:
    return Exchange(LIBRARY, DeafLine())


def taking(turns: CallTurns, one: Exchange, *, again: bool = False) -> asyncio.Task[None]:
    return asyncio.ensure_future(turns.take(one, again=again))


async def test_calls_have_their_turn_in_the_order_of_their_arrival():
    turns, calls = CallTurns(Limits()), [call() for _ in range(4)]
    waiting = [taking(turns, one) for one in calls]
    for position, one in enumerate(calls):
        await settle()
        assert turns.holder is one
        assert [task.done() for task in waiting] == [index <= position for index in range(4)]
        turns.release(one)
    assert turns.holder is None


async def test_whoever_has_the_turn_need_not_wait_for_it():
    turns, one = CallTurns(Limits()), call()
    await turns.take(one)
    await asyncio.wait_for(turns.take(one), 5)
    turns.release(one)
    assert turns.holder is None


async def test_one_that_had_its_turn_before_comes_first():
    turns, first, new, back = CallTurns(Limits()), call(), call(), call()
    await turns.take(first)
    tasks = [taking(turns, new)]
    await settle()
    tasks.append(taking(turns, back, again=True))
    await settle()
    turns.release(first)
    assert turns.holder is back
    turns.release(back)
    assert turns.holder is new
    await asyncio.gather(*tasks)


async def test_only_the_holder_passes_the_turn_on():
    turns, holder, other = CallTurns(Limits()), call(), call()
    await turns.take(holder)
    turns.release(other)
    turns.leave(other)
    turns.claim(other)
    assert turns.holder is holder


async def test_a_call_that_is_asked_has_the_turn_if_nobody_else_has():
    turns, asked, late = CallTurns(Limits()), call(), call()
    turns.claim(asked)
    task = taking(turns, late)
    await settle()
    assert (turns.holder, task.done()) == (asked, False)
    turns.leave(asked)
    assert turns.holder is late
    await task


async def test_beyond_the_queue_a_new_call_is_refused_and_one_that_had_its_turn_is_not():
    turns, back = CallTurns(Limits(queued=1)), call()
    first = call()
    await turns.take(first)
    waiting = taking(turns, call())
    await settle()
    with pytest.raises(Overloaded, match="1 calls are already waiting"):
        await asyncio.wait_for(turns.take(call()), 5)
    again = taking(turns, back, again=True)
    await settle()
    turns.release(first)
    await asyncio.wait_for(again, 5)
    turns.release(back)
    await asyncio.wait_for(waiting, 5)


async def test_a_wait_that_is_too_long_ends_and_takes_no_turn_with_it():
    turns, first, patient = CallTurns(Limits(call_hard_timeout_seconds=0.01)), call(), call()
    await turns.take(first)
    back = taking(turns, patient, again=True)
    with pytest.raises(Overloaded, match=r"0\.01 s"):
        await asyncio.wait_for(turns.take(call()), 5)
    assert not back.done()  # who had its turn before waits as long as it must
    turns.release(first)
    assert turns.holder is patient
    await back


async def test_a_cancelled_call_leaves_the_queue_and_the_next_one_has_the_turn():
    turns, first, next_ = CallTurns(Limits()), call(), call()
    await turns.take(first)
    gone, waiting = taking(turns, call()), taking(turns, next_)
    await settle()
    gone.cancel()
    await settle()
    turns.release(first)
    assert turns.holder is next_
    await waiting


async def test_a_call_that_is_cancelled_as_its_turn_comes_passes_it_on():
    turns, first, next_ = CallTurns(Limits()), call(), call()
    await turns.take(first)
    gone, waiting = taking(turns, call()), taking(turns, next_)
    await settle()
    turns.release(first)  # its turn comes,
    gone.cancel()  # and it is cancelled before it sees that
    await asyncio.wait_for(waiting, 5)
    assert turns.holder is next_


@pytest.mark.parametrize("again", [False, True])
async def test_a_call_that_is_over_while_it_waits_is_let_go_and_never_has_the_turn(*, again: bool):
    turns, first, over, next_ = CallTurns(Limits()), call(), call(), call()
    await turns.take(first)
    gone, waiting = taking(turns, over, again=again), taking(turns, next_)
    await settle()
    turns.leave(over)
    await asyncio.wait_for(gone, 5)
    assert turns.holder is first
    turns.release(first)
    assert turns.holder is next_
    await waiting
    turns.release(next_)
    assert turns.holder is None
