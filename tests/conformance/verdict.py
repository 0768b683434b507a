"""The runs of the suite side by side, and whether the workbench lets through what there is directly."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from tests.conformance.suite import Run, Scenario

DIRECT = "direct"
COLUMNS = (DIRECT, "http", "stdio", "toolbox-http", "toolbox-stdio")
HELD = (*COLUMNS[1:], "handshake")
"""The legs that are held against `direct` of the same server."""

Place = tuple[str, str]
"""A server and a leg."""
Runs = dict[str, dict[Place, Run]]
"""By revision, then by server and leg."""


class Allowed(NamedTuple):
    """One check of a scenario that may be missing on some legs, and why."""

    scenario: str
    check: str
    legs: tuple[str, ...]
    reason: str


TOOLBOX = ("toolbox-http", "toolbox-stdio")
UNCHANGED = "a toolbox announces a change of its list after comparing it, and the server announces one without a change"
ALLOWED = (
    Allowed(
        "server-sse-polling",
        "the client has to come back for its answer",
        ("stdio", *TOOLBOX),
        "a server closes its stream in the middle of a call: stdio has none, and for a toolbox the workbench fetches"
        " the rest itself",
    ),
    Allowed("server-stateless", "sep-2575-server-sends-tools-list-changed-on-subscription", TOOLBOX, UNCHANGED),
    Allowed("server-stateless", "sep-2575-server-sends-prompts-list-changed-on-subscription", TOOLBOX, UNCHANGED),
)
"""All the checks by which a run through the workbench may be behind the direct one."""
FLOOR = {
    ("2025-11-25", "low-level", DIRECT): (30, 84),
    ("2026-07-28", "low-level", DIRECT): (37, 152),
    ("2025-11-25", "python", DIRECT): (30, 84),
    ("2026-07-28", "python", DIRECT): (37, 152),
    ("2025-11-25", "typescript", DIRECT): (30, 84),
    ("2026-07-28", "typescript", DIRECT): (37, 152),
    ("2025-11-25", "tasks", DIRECT): (5, 15),
    ("2026-07-28", "tasks", DIRECT): (4, 67),
    ("2025-11-25", "low-level", "meta"): (5, 15),
    ("2026-07-28", "low-level", "meta"): (4, 49),
    ("2025-11-25", "low-level", "client"): (18, 0),
    ("2026-07-28", "low-level", "client"): (32, 0),
}
"""Required scenarios and passed checks that a leg is known to have. With fewer on `direct` the comparison would prove
too little. How many checks a client passes depends on how often it asks, so they are not counted."""


def shortfalls(runs: Runs) -> list[str]:
    """Every scenario in which fewer checks pass through the workbench than directly, and legs below their floor."""
    found: list[str] = []
    for revision, places in runs.items():
        for (server, leg), run in places.items():
            found += _below_the_floor(revision, (server, leg), run)
            if leg in HELD and (server, DIRECT) in places:
                found += _behind(f"{revision} {server} {leg}", leg, run, places[server, DIRECT])
    return found


def _below_the_floor(revision: str, place: Place, run: Run) -> list[str]:
    scenarios, checks = FLOOR.get((revision, *place), (0, 0))
    required, passed = len(run.required_passed()), run.passed
    if required >= scenarios and passed >= checks:
        return []
    return [f"{revision} {' '.join(place)}: {required} required, {passed} checks; expected {scenarios} and {checks}"]


def _behind(words: str, leg: str, through: Run, direct: Run) -> list[str]:
    found: list[str] = []
    for name, expected in direct.scenarios.items():
        scenario = through.scenarios.get(name)
        passed = scenario.passed if scenario else 0
        if passed + allowed(leg, name) < expected.passed:
            complaints = "; ".join(scenario.complaints[:3]) if scenario else "it did not run"
            found.append(f"{words} {name}: {passed} of {expected.passed} checks ({complaints})")
    lost = sorted(set(direct.required_passed()) - set(through.required_passed()))
    return [*found, *(f"{words} {name}: a required scenario that passes directly" for name in lost)]


def allowed(leg: str, scenario: str) -> int:
    return sum(1 for one in ALLOWED if one.scenario == scenario and leg in one.legs)


# -- in words


def text(runs: Runs) -> str:
    lines: list[str] = []
    for revision, places in runs.items():
        lines += [f"\n{revision}: checks passed of those that ran, required scenarios passed", *_table(places)]
        lines += [f"  {server}, {leg}: {_cell(run)}" for (server, leg), run in places.items() if leg not in COLUMNS]
        lines += _differences(places)
    exceptions = (f"  {one.scenario} on {', '.join(one.legs)}: {one.check} ({one.reason})" for one in ALLOWED)
    lines += ["", "allowed to be missing:", *exceptions]
    return "\n".join(lines)


def _table(places: dict[Place, Run]) -> list[str]:
    servers = list(dict.fromkeys(server for server, leg in places if leg in COLUMNS))
    lines = [f"  {'':<12}" + "".join(f"{leg:>18}" for leg in COLUMNS)] if servers else []
    for server in servers:
        cells = (_cell(places[server, leg]) if (server, leg) in places else "-" for leg in COLUMNS)
        lines.append(f"  {server:<12}" + "".join(f"{cell:>18}" for cell in cells))
    return lines


def _cell(run: Run) -> str:
    required = f"{len(run.required_passed())}/{len(run.required)}"
    return f"{run.passed}/{run.passed + run.failed}  {required:>5}"


def _differences(places: dict[Place, Run]) -> list[str]:
    """For each server the scenarios that differ between its legs, and the failures of those that nobody else ran."""
    lines: list[str] = []
    for server in dict.fromkeys(server for server, _ in places):
        legs = {leg: run for (of, leg), run in places.items() if of == server}
        for name in dict.fromkeys(name for run in legs.values() for name in run.scenarios):
            ran = {leg: run.scenarios[name] for leg, run in legs.items() if name in run.scenarios}
            lines += _difference(f"{server} {name}", ran)
    return ["  where they differ (passed+failed):", *lines] if lines else []


def _difference(words: str, ran: dict[str, Scenario]) -> list[str]:
    counts = {leg: (one.passed, one.failed) for leg, one in ran.items()}
    if len(set(counts.values())) == 1 and (DIRECT in ran or not any(one.failed for one in ran.values())):
        return []
    shown = ", ".join(f"{leg} {passed}+{failed}" for leg, (passed, failed) in counts.items())
    complaints = [f"      {leg}: {told}" for leg, one in ran.items() if leg != DIRECT for told in one.complaints]
    return [f"    {words}: {shown}", *complaints]


def document(runs: Runs) -> dict[str, Any]:
    by_revision: dict[str, Any] = {}
    for revision, places in runs.items():
        by_server: dict[str, Any] = by_revision.setdefault(revision, {})
        for (server, leg), run in places.items():
            by_server.setdefault(server, {})[leg] = _numbers(run)
    return {"runs": by_revision, "shortfalls": shortfalls(runs)}


def _numbers(run: Run) -> dict[str, Any]:
    return {
        "required": len(run.required),
        "required_passed": len(run.required_passed()),
        "passed": run.passed,
        "failed": run.failed,
        "scenarios": {name: asdict(one) for name, one in run.scenarios.items()},
    }
