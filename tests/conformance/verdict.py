"""The runs of the suite side by side, and whether the workbench lets through what there is directly."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tests.conformance.suite import Run

DIRECT = "direct"
HELD = ("http", "stdio", "handshake")
"""The legs that are held against `direct`."""
POLLING = "server-sse-polling"
EXCEPTIONS = {("stdio", POLLING): 1}
"""How many checks may be missing. This one is about a server that closes its stream in the middle of a call: on stdio
it has none."""
FLOOR = {
    ("2025-11-25", DIRECT): (30, 84),
    ("2026-07-28", DIRECT): (37, 169),
    ("2025-11-25", "meta"): (5, 15),
    ("2026-07-28", "meta"): (4, 49),
    ("2025-11-25", "client"): (18, 0),
    ("2026-07-28", "client"): (32, 0),
}
"""Required scenarios and passed checks that a leg is known to have. With fewer on `direct` the comparison would prove
too little. How many checks a client passes depends on how often it asks, so they are not counted."""

Runs = dict[str, dict[str, Run]]
"""By revision, then by leg."""


def shortfalls(runs: Runs) -> list[str]:
    """Every scenario in which fewer checks pass through the workbench than directly, and legs below their floor."""
    found: list[str] = []
    for revision, legs in runs.items():
        for leg, run in legs.items():
            found += _below_the_floor(revision, leg, run)
            if leg in HELD and DIRECT in legs:
                found += _of_a_leg(revision, leg, legs)
    return found


def _below_the_floor(revision: str, leg: str, run: Run) -> list[str]:
    scenarios, checks = FLOOR.get((revision, leg), (0, 0))
    required, passed = len(run.required_passed()), run.passed
    if required >= scenarios and passed >= checks:
        return []
    return [f"{revision} {leg}: {required} required, {passed} checks; expected {scenarios} and {checks}"]


def _of_a_leg(revision: str, leg: str, legs: dict[str, Run]) -> list[str]:
    ours, found = legs[leg], list[str]()
    for name, direct in legs[DIRECT].scenarios.items():
        scenario = ours.scenarios.get(name)
        passed = scenario.passed if scenario else 0
        if passed + EXCEPTIONS.get((leg, name), 0) < direct.passed:
            complaints = "; ".join(scenario.complaints[:3]) if scenario else "it did not run"
            found.append(f"{revision} {leg} {name}: {passed} of {direct.passed} checks ({complaints})")
    for name in set(legs[DIRECT].required_passed()) - set(ours.required_passed()):
        found.append(f"{revision} {leg} {name}: a required scenario that passes directly")
    return found


def text(runs: Runs) -> str:
    lines: list[str] = []
    for revision, legs in runs.items():
        lines += [f"\n{revision}", *_table(legs), *_differences(legs)]
    return "\n".join(lines)


def _table(legs: dict[str, Run]) -> list[str]:
    lines = [f"  {'':<8} {'required':>10} {'passed':>8} {'failed':>8}"]
    for leg, run in legs.items():
        required = f"{len(run.required_passed())}/{len(run.required)}"
        lines.append(f"  {leg:<8} {required:>10} {run.passed:>8} {run.failed:>8}")
    return lines


def _differences(legs: dict[str, Run]) -> list[str]:
    """The scenarios that differ between the legs that ran them, and the failures of those that nobody else ran."""
    names = list(dict.fromkeys(name for run in legs.values() for name in run.scenarios))
    lines: list[str] = []
    for name in names:
        ran = {leg: run.scenarios[name] for leg, run in legs.items() if name in run.scenarios}
        counts = {leg: (one.passed, one.failed) for leg, one in ran.items()}
        if len(set(counts.values())) > 1 or (DIRECT not in ran and any(one.failed for one in ran.values())):
            shown = ", ".join(f"{leg} {passed}+{failed}" for leg, (passed, failed) in counts.items())
            lines.append(f"    {name}: {shown}")
            lines += [f"      {leg}: {words}" for leg, one in ran.items() if leg != DIRECT for words in one.complaints]
    return ["  where they differ (passed+failed):", *lines] if lines else []


def document(runs: Runs) -> dict[str, Any]:
    return {
        "runs": {
            revision: {
                leg: {
                    "required": len(run.required),
                    "required_passed": len(run.required_passed()),
                    "passed": run.passed,
                    "failed": run.failed,
                    "scenarios": {name: asdict(one) for name, one in run.scenarios.items()},
                }
                for leg, run in legs.items()
            }
            for revision, legs in runs.items()
        },
        "shortfalls": shortfalls(runs),
    }
