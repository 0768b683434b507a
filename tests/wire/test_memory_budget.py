"""The memory budget: what is counted, who is paused, and what happens at each threshold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mcp_workbench.limits import Limits
from mcp_workbench.wire import memory_budget
from mcp_workbench.wire.memory_budget import Account, MemoryBudget

LIMITS = Limits(memory_bytes=1000, memory_base_bytes=0)
"""Refuse above 600, shed above 750, close above 900; one client may hold 250."""


@pytest.fixture(autouse=True)
def nothing_is_reviewed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "MEMORY_REVIEW_SECONDS", 3600)


def opened(budget: MemoryBudget, *holdings: int) -> list[Account]:
    accounts = [budget.open(str(number)) for number in range(len(holdings))]
    for account, held in zip(accounts, holdings, strict=True):
        account.reserve(held)
    return accounts


async def acts() -> None:
    """Let the budget act, which it does in the next turn of the event loop."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_an_account_that_ends_gives_back_what_it_held():
    budget = MemoryBudget(LIMITS)
    one, other = opened(budget, 200, 100)
    one.release(50)
    one.end()
    one.release(150)  # of a message that is still on its way
    assert (budget.held, other.held) == (100, 100)


async def test_a_client_whose_unread_answers_exceed_its_share_is_paused_until_it_reads():
    seen: list[bool] = []
    client = MemoryBudget(LIMITS).open("client")
    server = client.open("server")
    server.watch(seen.append)
    client.reserve(500)  # a large request: its answer must still be read from the server
    assert seen == []
    client.wrote(251)
    assert seen == [True]
    waiting = asyncio.ensure_future(server.unpaused())
    await asyncio.sleep(0)
    assert not waiting.done()
    client.was_read(1)
    assert seen == [True, False]
    await waiting


async def test_the_end_of_a_client_lets_its_servers_be_read():
    seen: list[bool] = []
    client = MemoryBudget(LIMITS).open("client")
    client.open("server").watch(seen.append)
    client.wrote(300)
    client.end()
    assert seen == [True, False]


async def test_beyond_its_share_a_client_gets_no_calls_and_kept_events_do_not_count():
    budget = MemoryBudget(LIMITS)
    [client] = opened(budget, 250)
    client.keep(100)
    assert not client.is_full
    client.reserve(1)
    assert client.is_full


async def test_under_pressure_those_with_less_than_a_fair_share_are_served():
    budget = MemoryBudget(LIMITS)
    large, middle, small = opened(budget, 240, 240, 1)
    assert not large.is_full
    more = budget.open("more")
    more.reserve(160)
    await acts()
    assert budget.state == "refuse"
    assert [one.is_full for one in (large, middle, small, more)] == [True, True, False, True]
    more.release(100)
    assert budget.state == "refuse"  # it ends below 540
    more.end()
    assert budget.state == "calm"
    assert not middle.is_full


async def test_kept_events_are_dropped_before_calls_are_cancelled():
    done: list[str] = []
    budget = MemoryBudget(LIMITS)
    keeper, caller = opened(budget, 0, 500)
    keeper.keep(260)

    def shed() -> None:
        done.append("shed")
        keeper.keep(-keeper.kept)

    keeper.shed, caller.cancel = shed, lambda: done.append("cancel")
    await acts()
    assert done == ["shed"]
    assert budget.state == "calm"


async def test_the_calls_of_the_largest_client_are_cancelled():
    done: list[int] = []
    budget = MemoryBudget(LIMITS)
    for number, account in enumerate(opened(budget, 200, 390, 170)):
        account.cancel = lambda number=number: done.append(number)
    await acts()
    assert (budget.state, done) == ("shed", [1])


def closing(closed: list[str], account: Account) -> Callable[[], None]:
    def close() -> None:
        closed.append(account.label)
        account.release(account.held)

    return close


async def test_of_those_that_hold_the_most_the_one_that_held_it_longest_is_closed():
    closed: list[str] = []
    budget = MemoryBudget(LIMITS)
    accounts = opened(budget, 100, 300, 400, 110)
    for account in accounts:
        account.close = closing(closed, account)
    await acts()
    assert closed == ["1"]
    assert budget.held == 610


async def test_each_rise_is_told_once():
    changes: list[str] = []
    budget = MemoryBudget(LIMITS, lambda: changes.append(budget.state))
    [one] = opened(budget, 700)
    one.reserve(10)
    one.reserve(60)
    one.release(770)
    assert changes == ["refuse", "shed", "calm"]
