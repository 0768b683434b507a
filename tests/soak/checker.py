"""What must hold for a soak: what was measured goes in, violations come out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median, pvariance
from typing import NamedTuple

GROWN_BYTES = 8 * 1024 * 1024
"""How much more memory a process may hold at the end than once it was warm."""
GROWN_DESCRIPTORS = 2
"""How many more descriptors. They go up and down in every round, so medians of few measurements differ by more."""
DEVIATIONS = 3
MEDIAN_ERROR = 1.25
"""The standard error of a median, in standard errors of a mean."""
WARM, CALM, LAST = 0.25, 0.45, 0.8
"""Parts of the run: it is warm from the first to the second, and ends with what follows the third."""
LEAST_SAMPLES = 3
SUCCESSES = 0.9
"""How many of the calls that should succeed do: crashes cost those that were under way."""


class Sample(NamedTuple):
    """What a workbench process held at one time."""

    at: float
    """Seconds since the beginning."""
    name: str
    size_bytes: int
    descriptors: int


class Outcome(NamedTuple):
    """How a call ended."""

    client: str
    kind: str
    code: str


EXPECTED = {"crash": {"server_exited"}, "cancel": {""}}
"""Codes of the calls that do not succeed; of all others `ok`."""
TOLERATED = frozenset({"server_exited", "server_resting", "overloaded", "queue_full"})
"""What a call may meet because of a crash, or of too much at once."""


def check(
    samples: Sequence[Sample], outcomes: Iterable[Outcome], seconds: float, grown_bytes: int = GROWN_BYTES
) -> list[str]:
    """Everything that is wrong with a run of so many seconds."""
    found = [
        problem
        for name in sorted({one.name for one in samples})
        for problem in _growth(samples, name, seconds, grown_bytes)
    ]
    return [*found, *_failures(list(outcomes))] if samples else ["nothing was measured"]


def _growth(samples: Sequence[Sample], name: str, seconds: float, grown_bytes: int) -> Iterable[str]:
    own = [one for one in samples if one.name == name]
    warm = [one for one in own if WARM <= one.at / seconds <= CALM]
    last = [one for one in own if one.at / seconds >= LAST]
    if min(len(warm), len(last)) < LEAST_SAMPLES:
        yield f"{name}: too few measurements"
        return
    before, after = (median(one.size_bytes for one in some) for some in (warm, last))
    if after > before + grown_bytes:
        yield f"{name}: memory grew from {before / 1e6:.1f} to {after / 1e6:.1f} MB"
    opened, left = ([one.descriptors for one in some] for some in (warm, last))
    if median(left) > median(opened) + max(GROWN_DESCRIPTORS, _noise(opened, left)):
        yield f"{name}: descriptors grew from {median(opened):g} to {median(left):g}"


def _noise(before: Sequence[int], after: Sequence[int]) -> float:
    """How much the medians of two series may differ by chance. Below two where there are a hundred measurements."""
    error = math.sqrt(pvariance(before) / len(before) + pvariance(after) / len(after))
    return DEVIATIONS * MEDIAN_ERROR * error


def _failures(outcomes: Sequence[Outcome]) -> Iterable[str]:
    for client in sorted({one.client for one in outcomes}):
        own = [one for one in outcomes if one.client == client]
        wrong = Counter(f"{one.kind}: {one.code}" for one in own if one.code not in _allowed(one.kind))
        if wrong:
            yield f"{client}: {', '.join(f'{what} ({count})' for what, count in wrong.items())}"
        meant = [one.code == "ok" for one in own if one.kind not in EXPECTED]
        if sum(meant) < SUCCESSES * len(meant) or not meant:
            yield f"{client}: {sum(meant)} of {len(meant)} calls succeeded"


def _allowed(kind: str) -> set[str]:
    return EXPECTED.get(kind, {"ok"}) | TOLERATED
