"""A bounded number of calls at once: in order, never lost, never for ever."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from types import FrameType
from typing import Any

import pytest

from mcp_workbench.errors import Overloaded
from mcp_workbench.servers import call_slots as module
from mcp_workbench.servers.call_slots import Slots
from tests.wire.pair import settle


@contextlib.asynccontextmanager
async def one_of(slots: Slots) -> AsyncIterator[None]:
    """A slot, held as the supervisor holds it."""
    if not slots.take():
        await slots.wait()
    try:
        yield
    finally:
        slots.release()


class Office:
    """Visitors of slots who stay until they are let go."""

    def __init__(self, count: int, queued: int, wait_seconds: float = 60) -> None:
        self.slots = Slots(count, queued, wait_seconds)
        self.inside: list[str] = []
        self.most = 0
        self.doors: dict[str, asyncio.Event] = {}

    def visit(self, name: str) -> asyncio.Task[None]:
        self.doors[name] = asyncio.Event()
        return asyncio.ensure_future(self._visit(name))

    async def _visit(self, name: str) -> None:
        async with one_of(self.slots):
            self.inside.append(name)
            self.most = max(self.most, len(self.inside))
            try:
                await self.doors[name].wait()
            finally:
                self.inside.remove(name)

    async def let_go(self, *names: str) -> None:
        for name in names:
            self.doors[name].set()
        await settle()


def free(slots: Slots) -> int:
    """How many could be taken now, while nobody waits."""
    taken = 0
    while slots.take():
        taken += 1
    for _ in range(taken):
        slots.release()
    return taken


async def test_no_more_than_the_count_are_inside_at_once():
    office = Office(3, 100)
    visits = [office.visit(str(number)) for number in range(50)]
    await settle()
    assert office.inside == ["0", "1", "2"]
    for number in range(50):
        await office.let_go(str(number))
    await asyncio.gather(*visits)
    assert office.most == 3


async def test_those_who_wait_come_in_in_the_order_of_their_arrival():
    office = Office(1, 10)
    visits = [office.visit(name) for name in "abcde"]
    await settle()
    seen: list[str] = []
    for name in "abcde":
        seen += office.inside
        await office.let_go(name)
    assert seen == list("abcde")
    await asyncio.gather(*visits)


async def test_a_newcomer_does_not_pass_those_who_wait():
    office = Office(1, 10)
    first, second = office.visit("first"), office.visit("second")
    await settle()
    office.doors["first"].set()
    late = office.visit("late")  # arrives in the turn in which the slot is handed on
    await settle()
    assert office.inside == ["second"]
    await office.let_go("second", "late")
    await asyncio.gather(first, second, late)


async def test_beyond_the_queue_one_is_refused_at_once():
    office = Office(1, 1)
    inside, waiting = office.visit("inside"), office.visit("waiting")
    await settle()
    with pytest.raises(Overloaded):
        await asyncio.wait_for(office.visit("refused"), 5)
    await office.let_go("inside", "waiting")
    await asyncio.gather(inside, waiting)


async def test_a_wait_that_is_too_long_ends_and_takes_no_slot_with_it():
    office = Office(1, 5, wait_seconds=0.01)
    inside = office.visit("inside")
    await settle()
    with pytest.raises(Overloaded, match=r"0\.01 s"):
        await asyncio.wait_for(office.visit("impatient"), 5)
    await office.let_go("inside")
    await inside
    last = office.visit("last")
    await settle()
    assert office.inside == ["last"]
    await office.let_go("last")
    await last


async def test_a_cancelled_waiter_leaves_the_queue_and_the_next_one_comes_in():
    office = Office(1, 5)
    inside, cancelled, next_ = office.visit("inside"), office.visit("cancelled"), office.visit("next")
    await settle()
    cancelled.cancel()
    await office.let_go("inside")
    assert office.inside == ["next"]
    await office.let_go("next")
    await asyncio.gather(inside, next_)


async def test_a_waiter_that_is_cancelled_as_its_turn_comes_passes_the_slot_on():
    office = Office(1, 5)
    inside, cancelled, next_ = office.visit("inside"), office.visit("cancelled"), office.visit("next")
    await settle()
    office.slots.release()  # as `inside` will do: its turn comes,
    cancelled.cancel()  # and it is cancelled before it sees that
    await settle()
    assert "next" in office.inside
    office.slots.reclaim()  # the slot that was released twice
    await office.let_go("inside", "next")
    await asyncio.gather(inside, next_)


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_who_gave_up_does_not_count_as_waiting(how: str):
    office = Office(1, 1, wait_seconds=0.3 if how == "timed out" else 60)
    inside = office.visit("inside")
    await settle()
    gone = office.visit("gone")
    await settle()
    if how == "cancelled":
        gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    late = office.visit("late")
    await settle()
    assert not late.done(), f"refused although nobody waits: {late.exception()}"
    await office.let_go("inside")
    assert office.inside == ["late"]
    await office.let_go("late")
    await asyncio.gather(inside, late)


async def test_waiting_and_getting_a_slot_raises_nothing_not_even_inside():
    raised: list[object] = []

    def trace(frame: FrameType, event: str, detail: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "exception" and detail[0] is not StopIteration:
            raised.append(detail[:2])
        return trace

    office = Office(2, 10)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        visits = [office.visit(name) for name in "abcdef"]
        await settle()
        for name in "abcdef":
            await office.let_go(name)
        await asyncio.gather(*visits)
    finally:
        sys.settrace(before)
    assert raised == []
    assert free(office.slots) == 2


async def test_whatever_happens_to_the_visitors_all_slots_are_free_in_the_end():
    office = Office(2, 4, wait_seconds=0.02)
    visits = [office.visit(str(number)) for number in range(8)]  # two inside, four wait, two are refused
    await settle()
    visits[2].cancel()
    await asyncio.wait(visits[3:6])  # these three waited too long
    await office.let_go("0")
    visits[1].cancel()
    outcomes = await asyncio.gather(*visits, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        *(asyncio.CancelledError,) * 2,
        *(Overloaded,) * 5,
    ]
    assert free(office.slots) == 2


# -- slots that are lent


async def test_a_slot_that_is_lent_is_for_the_next_and_is_taken_back_when_that_leaves():
    office = Office(1, 10)
    visits = [office.visit(name) for name in "abc"]
    await settle()
    office.slots.release()  # `a` lends its own,
    await settle()
    assert office.inside == ["a", "b"]
    office.slots.reclaim()  # and wants it back: for a while there is one more inside than there should be
    await office.let_go("b")
    assert office.inside == ["a"]
    await office.let_go("a")
    assert office.inside == ["c"]
    await office.let_go("c")
    await asyncio.gather(*visits)
    assert free(office.slots) == 1


async def test_while_more_are_inside_than_there_should_be_nobody_comes_in():
    slots = Slots(2, 10, 5)
    assert [slots.take() for _ in range(2)] == [True, True]
    slots.release()
    assert slots.take()
    slots.reclaim()
    assert not slots.take()
    slots.release()
    assert not slots.take()
    slots.release()
    assert slots.take()
    assert not slots.take()


async def test_a_slot_that_nobody_borrowed_is_taken_back_at_once():
    slots = Slots(1, 10, 5)
    assert slots.take()
    slots.release()
    slots.reclaim()
    assert not slots.take()
    slots.release()
    assert slots.take()
