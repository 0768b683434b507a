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
