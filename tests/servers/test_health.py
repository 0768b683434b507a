"""When a server that failed may be started next: pauses that double, rests that grow, one try, and never the end."""

from __future__ import annotations

import pytest

from mcp_workbench.errors import ServerExited, ServerResting, SpawnFailed
from mcp_workbench.limits import Limits
from mcp_workbench.servers.health import Health, chance

DIED = ServerExited("it exited with status 3")
PATIENT = Limits(backoff_patience_seconds=1000.0)
"""So that `pause` tells the time instead of raising."""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def health(clock: Clock, limits: Limits = PATIENT, *, luck: float = 0.5) -> Health:
    """With `luck` from 0 to 1 a pause is as short or as long as it can be; in the middle it is as the limits say."""
    return Health(limits, clock=clock, chance=lambda: luck)


def fail(one: Health, times: int = 1, *, was_ready: bool = False) -> None:
    for _ in range(times):
        one.failed(DIED, was_ready=was_ready)


def resting(one: Health) -> ServerResting:
    with pytest.raises(ServerResting) as caught:
        one.pause()
    return caught.value


# -- pauses


def test_a_server_that_did_not_fail_may_start_at_once(clock: Clock):
    one = health(clock)
    assert (one.state, one.pause(), one.failures) == ("idle", 0.0, 0)


def test_after_failed_starts_the_pause_doubles_from_one_second(clock: Clock):
    one, pauses = health(clock), []
    for _ in range(4):
        fail(one)
        pauses.append(one.pause())
    assert pauses == [1, 2, 4, 8]
    assert one.state == "failing"


def test_the_pause_grows_to_a_minute_and_no_further(clock: Clock):
    one = health(clock, Limits(backoff_patience_seconds=1000.0, breaker_failures=100))
    fail(one, 50)
    assert one.pause() == 60


def test_the_pause_passes_with_the_time(clock: Clock):
    one = health(clock)
    fail(one, 2)
    clock.now += 1.5
    assert one.pause() == pytest.approx(0.5)
    clock.now += 100
    assert one.pause() == 0


@pytest.mark.parametrize(("luck", "pause"), [(0.0, 0.8), (0.999999, 1.2)])
def test_the_pause_is_a_fifth_shorter_or_longer_at_most(clock: Clock, luck: float, pause: float):
    one = health(clock, luck=luck)
    fail(one)
    assert one.pause() == pytest.approx(pause, abs=1e-4)


def test_servers_that_failed_together_do_not_start_together(clock: Clock):
    many = [Health(PATIENT, clock=clock) for _ in range(20)]
    for one in many:
        fail(one)
    pauses = {one.pause() for one in many}
    assert len(pauses) > 10
    assert all(0.8 <= pause <= 1.2 for pause in pauses)


def test_chance_is_spread_from_nought_to_one():
    drawn = [chance() for _ in range(1000)]
    assert all(0 <= one < 1 for one in drawn)
    assert min(drawn) < 0.1
    assert max(drawn) > 0.9


def test_the_first_connection_that_is_lost_is_replaced_at_once_and_the_second_is_not(clock: Clock):
    one = health(clock)
    fail(one, was_ready=True)
    assert (one.state, one.pause()) == ("failing", 0.0)
    fail(one, was_ready=True)
    assert one.pause() == 2


def test_a_lost_connection_after_a_failed_start_is_not_replaced_at_once(clock: Clock):
    one = health(clock)
    fail(one)
    fail(one, was_ready=True)
    assert one.pause() == 2


def test_one_answer_makes_it_well(clock: Clock):
    one = health(clock)
    fail(one, 7)
    one.succeeded()
    assert (one.state, one.pause(), one.failures) == ("idle", 0.0, 0)
    fail(one)
    assert one.pause() == 1


# -- who waits, and who is told


def test_a_caller_waits_two_seconds_at_most(clock: Clock):
    one = health(clock, Limits())
    fail(one, 2)
    assert one.pause() == 2
    fail(one)
    told = resting(one)
    assert told.retry_after == pytest.approx(4)
    clock.now += 2.5
    assert one.pause() == pytest.approx(1.5)


def test_one_who_is_told_hears_of_the_last_failure(clock: Clock):
    one = health(clock, Limits())
    fail(one, 3)
    one.failed(SpawnFailed("command 'x' was not found (ENOENT)", hint="Install it."), was_ready=False)
    told = resting(one)
    assert (told.code, told.failures, type(told.last)) == ("server_resting", 4, SpawnFailed)
    assert "ENOENT" in str(told)
    assert told.hint == "Install it."


# -- rests


def test_after_five_failures_it_rests_and_nobody_waits_for_that(clock: Clock):
    one = health(clock, Limits(backoff_patience_seconds=1000.0))
    fail(one, 4)
    assert one.state == "failing"
    fail(one)
    assert one.state == "resting"
    assert resting(one).retry_after == pytest.approx(30)
    clock.now += 29.9
    assert resting(one).retry_after == pytest.approx(0.1)


def test_each_further_failure_makes_the_rest_longer_up_to_five_minutes(clock: Clock):
    one, rests = health(clock), []
    fail(one, 4)
    for _ in range(14):
        fail(one)
        rests.append(resting(one).retry_after)
    assert rests == [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300, 300, 300]


def test_it_is_never_given_up(clock: Clock):
    one = health(clock)
    fail(one, 10_000)
    clock.now += 300
    assert one.pause() == 0


def test_after_a_rest_one_try_decides_for_all(clock: Clock):
    one = health(clock, Limits())
    fail(one, 5)
    clock.now += 30
    assert one.pause() == 0
    one.trying()
    assert resting(one).retry_after == pytest.approx(1)
    one.tried()
    one.succeeded()
    assert one.pause() == 0


def test_a_try_that_fails_is_followed_by_a_longer_rest(clock: Clock):
    one = health(clock, Limits())
    fail(one, 5)
    clock.now += 30
    one.trying()
    fail(one)
    one.tried()
    assert resting(one).retry_after == pytest.approx(60)


def test_starts_of_a_server_that_only_failed_now_and_then_do_not_exclude_each_other(clock: Clock):
    one = health(clock)
    fail(one, was_ready=True)
    one.trying()
    assert one.pause() == 0
