"""Whether a silent server lives: who is asked, what for, for how long, and who is never suspected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_workbench.errors import CallTimeout, ServerExited, ServerRefused, Unresponsive
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.health import Liveness
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.wire.caller import LIBRARY
from tests.servers.fakes import FakeChannel
from tests.wire.pair import settle

LIMITS = Limits(alive_seconds=10, call_idle_timeout_seconds=60)


def connected(channel: FakeChannel, *, modern: bool = False) -> Connection:
    version = "2026-07-28" if modern else "2025-11-25"
    return Connection(channel, Agreement(version=version, modern=modern), Slots(1, 1, 1), LIMITS)


async def suspected(channel: FakeChannel, silent_seconds: float = 60, **options: Any) -> Liveness:
    liveness = Liveness(LIBRARY, LIMITS)
    liveness.suspect(connected(channel, **options), silent_seconds)
    await settle()
    return liveness


async def stays_silent(channel: FakeChannel, method: str = "ping") -> None:
    """For as long as it may."""
    channel.waiting[method].set_exception(CallTimeout("no answer"))
    await settle()


@pytest.mark.parametrize(("modern", "question"), [(False, "ping"), (True, "server/discover")])
async def test_a_server_that_does_not_even_answer_that_is_given_up(question: str, *, modern: bool):
    channel = FakeChannel()
    await suspected(channel, modern=modern)
    assert channel.methods == [question]
    assert not channel.ended.done()
    await stays_silent(channel, question)
    assert isinstance(channel.ended.result(), Unresponsive)


@pytest.mark.parametrize("answer", [{}, ServerRefused("no", rpc_code=-32601)])
async def test_any_word_of_it_will_do(answer: object):
    channel = FakeChannel()
    await suspected(channel)
    channel.answer("ping", answer)
    await settle()
    assert not channel.ended.done()


async def test_a_word_about_something_else_will_do_too():
    channel = FakeChannel()
    await suspected(channel)
    channel.peer.received_at += 1  # the answer to another call, on which it was at work
    await stays_silent(channel)
    assert not channel.ended.done()


@pytest.mark.parametrize(("silent_seconds", "patience"), [(0.5, 59.5), (15, 45), (55, 10), (60, 10), (1000, 10)])
async def test_it_may_be_silent_for_as_long_as_a_call_may(silent_seconds: float, patience: float):
    """It may be at work on another call that came before the one that ended."""
    channel = FakeChannel()
    await suspected(channel, silent_seconds)
    assert channel.options[-1]["hard_seconds"] == pytest.approx(patience)


async def test_a_server_that_waits_for_its_client_is_not_asked():
    channel = FakeChannel()
    channel.peer.has_paused_deadlines = True
    await suspected(channel)
    assert channel.methods == []


async def test_a_server_that_asks_its_client_meanwhile_is_not_given_up():
    channel = FakeChannel()
    await suspected(channel)
    channel.peer.has_paused_deadlines = True
    await stays_silent(channel)
    assert not channel.ended.done()


async def test_a_server_is_asked_once_at_a_time_and_again_after_it_answered():
    channel = FakeChannel()
    connection, liveness = connected(channel), Liveness(LIBRARY, LIMITS)
    for _ in range(5):
        liveness.suspect(connection, 60)
        await settle()
    assert channel.methods == ["ping"]
    channel.answer("ping", {})
    await settle()
    liveness.suspect(connection, 60)
    await settle()
    assert channel.methods == ["ping", "ping"]


async def test_a_server_that_has_ended_is_not_asked():
    channel = FakeChannel()
    channel.give_up(ServerExited("it died"))
    await suspected(channel)
    assert channel.methods == []


async def test_after_the_end_nobody_is_given_up():
    channel = FakeChannel()
    liveness = await suspected(channel)
    liveness.close()
    await settle()
    assert channel.waiting["ping"].cancelled()
    assert not channel.ended.done()
    assert not [task for task in asyncio.all_tasks() if "_check" in repr(task.get_coro())]
