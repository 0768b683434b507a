"""What the figures are called, how they are printed, and what they are held against."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Sample = dict[str, float]
"""Figures by the key of their `Metric`."""

OURS = "workbench"


@dataclass(frozen=True)
class Metric:
    key: str
    title: str
    decimals: int


METRICS = (
    Metric("first_response_s", "first response, s", 3),
    Metric("open_s", "open, s", 3),
    Metric("p50_ms_1", "p50 at 1, ms", 2),
    Metric("p99_ms_1", "p99 at 1, ms", 2),
    Metric("p50_ms_16", "p50 at 16, ms", 2),
    Metric("p50_ms_64", "p50 at 64, ms", 2),
    Metric("per_s_1", "calls/s at 1", 0),
    Metric("per_s_16", "calls/s at 16", 0),
    Metric("per_s_64", "calls/s at 64", 0),
    Metric("own_mb", "own memory, MB", 1),
    Metric("own_after_mb", "own memory after load, MB", 1),
    Metric("tree_mb", "with helpers, MB", 1),
    Metric("stop_s", "stop, s", 3),
)


@dataclass(frozen=True)
class Row:
    """One program: medians over the rounds, and what went wrong in any of them."""

    version: str
    medians: Sample
    failures: int
    problems: list[str]
    samples: list[Sample]


@dataclass(frozen=True)
class Results:
    """`toolboxes` holds the times to open `ten` servers and the `slowest` of them alone."""

    labels: list[str]
    rows: dict[str, Row]
    unavailable: dict[str, str] = field(default_factory=dict[str, str])
    toolboxes: dict[str, Row] = field(default_factory=dict[str, Row])

    def figure(self, key: str, label: str = OURS) -> float | None:
        return self.rows[label].medians.get(key) if label in self.rows else None

    def ratio(self, key: str, label: str) -> float | None:
        """Our figure divided by that of `label`."""
        return _quotient(self.figure(key), self.figure(key, label))

    def ten_to_slowest(self) -> float | None:
        return _quotient(*(self._opened(name) for name in ("ten", "slowest")))

    def rounds(self) -> list[Results]:
        """Each round by itself, if none of them is incomplete; else there is no telling which belong together."""
        everything = [*self.rows.values(), *self.toolboxes.values()]
        counts = {len(row.samples) for row in everything}
        return [self._round(number) for number in range(counts.pop())] if len(counts) == 1 else []

    def _round(self, number: int) -> Results:
        return replace(
            self,
            rows={label: replace(row, medians=row.samples[number]) for label, row in self.rows.items()},
            toolboxes={label: replace(row, medians=row.samples[number]) for label, row in self.toolboxes.items()},
        )

    def _opened(self, name: str) -> float | None:
        return self.toolboxes[name].medians.get("open_s") if name in self.toolboxes else None


@dataclass(frozen=True)
class Target:
    title: str
    bound: Literal["<=", ">="]
    limit: float
    unit: str
    figure: Callable[[Results], float | None]

    def per_round(self, results: Results) -> list[float]:
        values = (self.figure(one) for one in results.rounds())
        return [value for value in values if value is not None]

    def verdict(self, value: float | None) -> str:
        if value is None:
            return "----"
        return "PASS" if (value <= self.limit if self.bound == "<=" else value >= self.limit) else "MISS"


def against(label: str, key: str, title: str, bound: Literal["<=", ">="], limit: float) -> Target:
    return Target(title, bound, limit, f" x {label}", lambda results: results.ratio(key, label))


TARGETS = (
    against("fastmcp", "per_s_64", "calls/s at 64", ">=", 20),
    against("lazy-mcp", "per_s_64", "calls/s at 64", ">=", 1.5),
    against("lazy-mcp", "p50_ms_1", "p50 at 1", "<=", 0.8),
    against("fastmcp", "first_response_s", "first response", "<=", 0.15),
    against("lazy-mcp", "first_response_s", "first response", "<=", 1.2),
    Target("own memory", "<=", 35, " MB", lambda results: results.figure("own_mb")),
    against("base", "per_s_1", "calls/s at 1", ">=", 0.95),
    against("base", "per_s_64", "calls/s at 64", ">=", 0.95),
    against("base", "p50_ms_1", "p50 at 1", "<=", 1 / 0.95),
    against("base", "first_response_s", "first response", "<=", 1.05),
    Target("ten servers open", "<=", 1.5, " x the slowest one", Results.ten_to_slowest),
)


@dataclass(frozen=True)
class Sheet:
    """Which figures a benchmark has, and what they are held against."""

    metrics: Sequence[Metric]
    targets: Sequence[Target]


GATEWAY = Sheet(METRICS, TARGETS)


def text(results: Results, sheet: Sheet = GATEWAY) -> str:
    """Everything that a person at the terminal sees."""
    parts = [
        _section("Figures (medians)", _figures(results, sheet)),
        _section(f"Ratios: {OURS} divided by ...", _ratios(results, sheet)),
        _section("Targets", _targets(results, sheet)),
        _section("Problems", _problems(results)),
    ]
    return "\n\n".join(part for part in parts if part)


def document(results: Results, settings: Mapping[str, Any], sheet: Sheet = GATEWAY) -> dict[str, Any]:
    """The same for programs, with every round and the machine."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "settings": dict(settings),
        **asdict(results),
        "ratios": {label: _ratio_column(results, label, sheet) for label in _others(results)},
        "targets": [_target_entry(target, results) for target in sheet.targets],
    }


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "system": platform.platform(),
        "processor": platform.machine(),
        "python": platform.python_version(),
    }


def _figures(results: Results, sheet: Sheet) -> str:
    columns = [_column(results, label, sheet) for label in results.labels]
    titles = ["", "version", *(metric.title for metric in sheet.metrics), "failures"]
    return _table(list(zip(titles, *columns, strict=True))) + _toolbox_lines(results)


def _column(results: Results, label: str, sheet: Sheet) -> list[str]:
    row = results.rows.get(label)
    if row is None:
        return [label, "absent", *("-" for _ in sheet.metrics), "-"]
    cells = (_cell(row.medians.get(metric.key), metric) for metric in sheet.metrics)
    return [label, row.version, *cells, str(row.failures)]


def _toolbox_lines(results: Results) -> str:
    seconds = [row.medians.get("open_s") for row in results.toolboxes.values()]
    if len(seconds) != 2 or None in seconds:
        return ""
    slowest, ten = seconds
    return f"\n\nopening a toolbox: its slowest server alone {slowest:.3f} s, all ten {ten:.3f} s"


def _ratios(results: Results, sheet: Sheet) -> str:
    labels = _others(results)
    if not labels:
        return ""
    columns = {label: _ratio_column(results, label, sheet) for label in labels}
    body = [[metric.title, *(_ratio(columns[label][metric.key]) for label in labels)] for metric in sheet.metrics]
    return _table([["", *labels], *([row[0].partition(",")[0], *row[1:]] for row in body)])


def _ratio_column(results: Results, label: str, sheet: Sheet) -> dict[str, float | None]:
    return {metric.key: results.ratio(metric.key, label) for metric in sheet.metrics}


def _others(results: Results) -> list[str]:
    return [label for label in results.rows if label != OURS] if OURS in results.rows else []


def _targets(results: Results, sheet: Sheet) -> str:
    lines: list[list[str]] = []
    for target in sheet.targets:
        value = target.figure(results)
        goal = f"{target.title} {target.bound} {target.limit:g}{target.unit}"
        shown = "not measured" if value is None else f"{value:.2f}"
        lines.append([f"{target.verdict(value)}  {goal}", shown, _spread(target.per_round(results))])
    return _table(lines)


def _spread(values: list[float]) -> str:
    return f"rounds {min(values):.2f} to {max(values):.2f}" if len(values) > 1 else ""


def _target_entry(target: Target, results: Results) -> dict[str, Any]:
    value = target.figure(results)
    stated = {"title": target.title, "bound": target.bound, "limit": target.limit, "unit": target.unit.strip()}
    return {**stated, "value": value, "rounds": target.per_round(results), "verdict": target.verdict(value)}


def _problems(results: Results) -> str:
    absent = [f"{label}: {reason}" for label, reason in results.unavailable.items()]
    rows = [*results.rows.items(), *((f"{OURS}, {name}", row) for name, row in results.toolboxes.items())]
    return "\n".join([*absent, *(f"{label}: {problem}" for label, row in rows for problem in row.problems)])


def _section(title: str, body: str) -> str:
    return f"{title}\n{body}" if body else ""


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Iterable[str], widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return "  ".join(cells).rstrip()


def _cell(value: float | None, metric: Metric) -> str:
    return "-" if value is None else f"{value:,.{metric.decimals}f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _quotient(figure: float | None, other: float | None) -> float | None:
    return None if figure is None or not other else figure / other
