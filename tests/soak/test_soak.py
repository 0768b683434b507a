"""The soak's checker on small measurements, and a few seconds of the soak itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.checker import Outcome, Sample, check
from tests.soak.run import soak
from tests.support.procs import needs_proc

GOOD = [Outcome("a", "echo", "ok")] * 20 + [Outcome("a", "crash", "server_exited")]


def samples(bytes_a_second: float = 0, descriptors_a_second: float = 0, count: int = 100) -> list[Sample]:
    return [
        Sample(at, "a", int(50e6 + at * bytes_a_second), int(20 + at * descriptors_a_second)) for at in range(count)
    ]


def test_a_flat_run_in_which_calls_succeed_is_good():
    assert check(samples(), GOOD, 100) == []
    assert check(samples(bytes_a_second=100_000), GOOD, 100) == []


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        (samples(bytes_a_second=300_000), "memory grew"),
        (samples(descriptors_a_second=0.1), "descriptors grew"),
        (samples(count=80), "too few"),
        ([], "nothing was measured"),
    ],
)
def test_what_grows_and_what_was_not_measured_is_a_violation(measured: list[Sample], problem: str):
    [found] = check(measured, GOOD, 100)
    assert problem in found


ROUND = (53, 67, 62, 59, 60)
"""Descriptors of a workbench in the course of a round, as they were measured."""


def rounds(count: int, leaked: int, seconds: float) -> list[Sample]:
    """A run of so many measurements, in which so many descriptors leak."""
    return [Sample(at * seconds / count, "a", 0, ROUND[at % len(ROUND)] + at * leaked // count) for at in range(count)]


@pytest.mark.parametrize(("count", "leaked", "seconds"), [(60, 24, 6), (600, 5, 600)], ids=["short", "long"])
def test_a_small_leak_is_seen_though_descriptors_go_up_and_down_in_a_round(count: int, leaked: int, seconds: int):
    assert check(rounds(count, 0, seconds), GOOD, seconds) == []
    [found] = check(rounds(count, leaked, seconds), GOOD, seconds)
    assert "descriptors grew" in found


def test_a_short_run_is_not_blamed_for_the_part_of_a_round_in_which_it_was_measured():
    warm, last = (60, 59, 61, 59, 53, 62, 57, 59), (62, 63, 62, 57, 66, 53, 63, 62)
    measured = [Sample(2 + number / 20, "a", 0, held) for number, held in enumerate(warm)]
    measured += [Sample(5 + number / 20, "a", 0, held) for number, held in enumerate(last)]
    assert check(measured, GOOD, 6) == []


@pytest.mark.parametrize(
    "outcomes",
    [
        [*GOOD, Outcome("a", "echo", "internal")],
        [*GOOD, Outcome("a", "crash", "ok")],
        [*GOOD, *[Outcome("a", "echo", "server_exited")] * 5],
        [Outcome("a", "crash", "server_exited")],
    ],
    ids=["a defect", "a crash that was none", "too many failures", "nothing but crashes"],
)
def test_calls_that_end_otherwise_than_they_should_are_a_violation(outcomes: list[Outcome]):
    assert len(check(samples(), outcomes, 100)) == 1


@needs_proc
async def test_eight_clients_are_served_and_measured(tmp_path: Path):
    run = await soak(6, tmp_path)
    assert check(run.samples, run.outcomes, 6, grown_bytes=100_000_000) == []
    assert {one.client for one in run.outcomes} == {
        f"{way}{number}" for way in ("stdio", "http") for number in range(4)
    }
    assert {one.kind for one in run.outcomes} >= {"echo", "large"}
