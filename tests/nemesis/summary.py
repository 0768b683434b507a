"""A history in one screen: what was done, how it ended, what took longest."""

from __future__ import annotations

from collections import Counter

from tests.nemesis.checker import Record, heal_seconds
from tests.nemesis.history import (
    Begun,
    Delivered,
    Heard,
    History,
    Lagged,
    Left,
    Paused,
    Started,
    Stopped,
    Struck,
    Swept,
    Weighed,
    of,
)

SLOWEST = 8


def summary(history: History) -> str:
    record = Record(history)
    return "\n".join([*_outcomes(record), "", *_counts(history), "", *_slowest(record), "", *_ends(record)])


def _outcomes(record: Record) -> list[str]:
    """A row for each kind of request, a number for each outcome."""
    kinds: dict[str, Counter[str]] = {}
    for begun in record.begun.values():
        kinds.setdefault(_kind(begun), Counter())[_outcome(record, begun)] += 1
    lines = [f"{'requests':<22}{'':>6}  outcomes"]
    for kind, outcomes in sorted(kinds.items()):
        ends = ", ".join(f"{code} {count}" for code, count in outcomes.most_common())
        lines.append(f"{kind:<22}{outcomes.total():>6}  {ends}")
    return lines


def _counts(history: History) -> list[str]:
    faults = Counter(event.fault for event in of(history, Struck))
    left = Counter(event.how for event in of(history, Left) if not event.final)
    starts = Counter(event.server for event in of(history, Started))
    servers = (
        f"servers: {starts.total()} starts ({_listed(starts)}), {len(of(history, Stopped))} ends by EOF, "
        f"{len(of(history, Delivered))} calls delivered, {len(of(history, Heard))} progress notifications heard"
    )
    return [f"faults: {_listed(faults) or 'none'}; clients hung up: {_listed(left) or 'never'}", servers]


def _slowest(record: Record) -> list[str]:
    took = sorted(
        ((ends[0].at - record.begun[op].at, op) for op, ends in record.ended.items() if op in record.begun),
        reverse=True,
    )
    lines = ["slowest outcomes"]
    for seconds, op in took[:SLOWEST]:
        begun, end = record.begun[op], record.ended[op][0]
        lines.append(f"  {seconds:6.2f} s of {begun.seconds:g}  {_kind(begun)} {begun.server} ({op}): {end.code}")
    return lines


def _ends(record: Record) -> list[str]:
    heals = heal_seconds(record)
    worst = max(heals, key=lambda pair: heals[pair], default=None)
    healing = f"{heals[worst]:.1f} s ({worst[1]} for {worst[0]})" if worst else "never"
    ends = max((event.seconds for event in of(record.history, Swept)), default=0.0)
    memory = max((event.size_bytes for event in of(record.history, Weighed)), default=0) / 1024 / 1024
    pauses = len(of(record.history, Paused))
    lag = sum(event.seconds for event in of(record.history, Lagged))
    return [
        f"healed {len(heals)} of {len(record.setting.clients) * len(record.setting.servers)}, the last after {healing}",
        f"longest end of a client that hung up: {ends:.1f} s; the machine was late by {lag:.1f} s in all",
        f"most memory of a workbench: {memory:.0f} MiB; clients stopped reading {pauses} times",
    ]


def _kind(begun: Begun) -> str:
    return f"{begun.what} {begun.tool}".strip()


def _outcome(record: Record, begun: Begun) -> str:
    if ends := record.ended.get(begun.op):
        return ends[0].code
    return "cancelled" if begun.op in record.cancelled else "none"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
