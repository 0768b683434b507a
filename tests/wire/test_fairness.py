"""A share of the event loop for each peer, and a rate limit, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest

from mcp_workbench.wire import fairness
from mcp_workbench.wire.fairness import TURN_SECONDS, FairShare, RateLimit


@pytest.fixture
def clock():
    clock = mock.Mock(return_value=1000.0)
    with mock.patch.multiple(fairness, monotonic=clock, _now=clock):
        yield clock


def test_a_peer_within_its_turn_need_not_rest(clock: mock.Mock):
    share = FairShare()
    for _ in range(100):
        share.charge(TURN_SECONDS / 10)
        clock.return_value += TURN_SECONDS
        assert share.rest_seconds() == 0


def test_a_peer_that_floods_gets_a_quarter_of_the_time(clock: mock.Mock):
    share = FairShare()
    worked = 0.0
    while clock.return_value < 1001:
        clock.return_value += 0.002
        share.charge(0.002)
        worked += 0.002
        clock.return_value += share.rest_seconds()
    assert 0.2 < worked < 0.3


async def test_of_those_that_wait_for_one_peer_a_single_one_works_when_the_rest_ends():
    share = FairShare()
    worked = 0

    async def work() -> None:
        nonlocal worked
        await share.turn()
        worked += 1
        share.charge(60)

    share.charge(2 * TURN_SECONDS)
    tasks = [asyncio.ensure_future(work()) for _ in range(3)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert worked == 1
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_a_rate_limit_lets_a_burst_pass_and_then_so_many_a_second(clock: mock.Mock):
    limit = RateLimit(10, 50)
    assert sum(limit.admits() for _ in range(100)) == 50
    clock.return_value += 1
    assert sum(limit.admits() for _ in range(100)) == 10
    clock.return_value += 1000
    assert sum(limit.admits() for _ in range(100)) == 50


def test_what_costs_more_than_a_burst_passes_alone(clock: mock.Mock):
    limit = RateLimit(10, 50)
    assert limit.admits(500)
    assert not limit.admits()
    clock.return_value += 46
    assert limit.admits()
