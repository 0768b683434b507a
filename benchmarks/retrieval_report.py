"""How well tools were found, as figures, tables and pictures."""

from __future__ import annotations

import math
import random
from html import escape
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import pictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieval_data import Question, Tool
    from searchers import Run

TITLES = {
    "recall_1": "R@1",
    "recall_5": "R@5",
    "recall_10": "R@10",
    "mrr": "MRR",
    "ndcg_5": "nDCG@5",
    "copies": "R@5, 8 copies",
    "refused": "refused",
    "refused_foreign": "refused, foreign",
    "shown": "shown",
    "tokens": "tokens",
}
LONG_WORDS = 35
"""Words of a long question: about 20 of them are neither articles nor the like, and the workbench then splits it."""
RESAMPLES = 2000
CONFIDENCE = 0.95


def quality(questions: Sequence[Question], run: Run) -> dict[str, float | None]:
    """Means over the questions, and the median of tokens."""
    found = [(question.groups, tools) for question, tools in zip(questions, run.ranked, strict=True)]
    return {
        **{f"recall_{most}": recalls(questions, run, most) for most in (1, 5, 10)},
        "mrr": mean(reciprocal_rank(groups, tools) for groups, tools in found),
        "ndcg_5": mean(gain(groups, tools[:5]) for groups, tools in found),
        "refused": mean(run.weak),
        "shown": mean(map(len, run.ranked)),
        "tokens": median(run.tokens) if run.tokens else None,
    }


def recalls(questions: Sequence[Question], run: Run, most: int) -> float:
    """Recall among the first `most`, mean over the questions."""
    return mean(_recall_each(questions, run, most))


def _recall_each(questions: Sequence[Question], run: Run, most: int) -> list[float]:
    return [recall(question.groups, tools[:most]) for question, tools in zip(questions, run.ranked, strict=True)]


def difference(questions: Sequence[Question], ours: Run, theirs: Run) -> dict[str, float]:
    """By how much our recall@5 is higher, with its paired bootstrap interval: the same questions for both."""
    pairs = zip(_recall_each(questions, ours, 5), _recall_each(questions, theirs, 5), strict=True)
    each = [one - other for one, other in pairs]
    chance = random.Random(0)  # noqa: S311 -- no secret
    means = sorted(mean(chance.choices(each, k=len(each))) for _ in range(RESAMPLES))
    cut = round((1 - CONFIDENCE) / 2 * RESAMPLES)
    return {"mean": mean(each), "low": means[cut], "high": means[-cut - 1]}


def recall(groups: list[set[Tool]], entries: list[set[Tool]]) -> float:
    return sum(not group.isdisjoint(set().union(*entries)) for group in groups) / len(groups)


def reciprocal_rank(groups: list[set[Tool]], entries: list[set[Tool]]) -> float:
    wanted = set().union(*groups)
    return next((1 / rank for rank, tools in enumerate(entries, 1) if tools & wanted), 0.0)


def gain(groups: list[set[Tool]], entries: list[set[Tool]]) -> float:
    """Normalised discounted cumulative gain; each group counts once, where its first tool stands."""
    waiting = list(groups)
    total = 0.0
    for rank, tools in enumerate(entries, 1):
        if (satisfied := next((group for group in waiting if tools & group), None)) is not None:
            waiting.remove(satisfied)
            total += 1 / math.log2(rank + 1)
    return total / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(groups), 5) + 1))


def times(questions: Sequence[Question], runs: Sequence[Run]) -> dict[str, float | None]:
    """Medians over the rounds of one program, and its recall."""
    ordered = [sorted(run.seconds) for run in runs]
    is_long = [len(question.text.split()) >= LONG_WORDS for question in questions]
    return {
        **{f"{kind}_ms": _median_ms(runs, is_long, long=kind == "long") for kind in ("short", "long")},
        "build_s": median(run.build_s for run in runs),
        "memory_mb": median(run.memory_mb for run in runs),
        "query_ms": median(median(seconds) for seconds in ordered) * 1000,
        "p95_ms": median(seconds[int(0.95 * (len(seconds) - 1))] for seconds in ordered) * 1000,
        "recall_5": recalls(questions, runs[0], 5),
    }


def _median_ms(runs: Sequence[Run], is_long: Sequence[bool], *, long: bool) -> float | None:
    """The median time of the long questions, or of the others; None where there are none."""
    each = [[s for s, one in zip(run.seconds, is_long, strict=True) if one is long] for run in runs]
    return median(map(median, each)) * 1000 if all(each) else None


def quality_table(rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """A line for each set and program."""
    lines = [["set", "program", *TITLES.values(), "R@5 of workbench minus this"]]
    for name, programs in rows.items():
        for label, figures in programs.items():
            cells = [_cell(figures.get(key), 0 if key == "tokens" else 3) for key in TITLES]
            lines.append([name, label, *cells, _interval(figures.get("difference"))])
    return _table(lines)


def _interval(figures: Mapping[str, float] | None) -> str:
    return f"{figures['mean']:+.3f} ({figures['low']:+.3f} to {figures['high']:+.3f})" if figures else "-"


def size_table(rows: Mapping[int, Mapping[str, Mapping[str, float | None]]]) -> str:
    """A line for each number of tools and program."""
    lines = [["tools", "program", "query, ms", "p95, ms", "short, ms", "long, ms", "build, s", "memory, MB", "R@5"]]
    for size, programs in rows.items():
        for label, figures in programs.items():
            timed = [_cell(figures[key], 2) for key in ("query_ms", "p95_ms", "short_ms", "long_ms", "build_s")]
            lines.append([f"{size:,}", label, *timed, _cell(figures["memory_mb"], 1), _cell(figures["recall_5"], 3)])
    return _table(lines)


def _table(lines: Sequence[Sequence[str]]) -> str:
    first, *rest = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in [first, ["---"] * len(first), *rest])


def _cell(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"


def time_picture(rows: Mapping[int, Mapping[str, Mapping[str, Any]]]) -> str:
    labels = list(dict.fromkeys(label for programs in rows.values() for label in programs))
    series = {
        label: [(size, programs[label]["query_ms"]) for size, programs in rows.items() if label in programs]
        for label in labels
    }
    return pictures.lines("Time per query", "tools", "ms", series)


WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 340, 40, 50, 60


def recall_picture(rows: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> str:
    """Recall@5 of each program, as bars, set by set."""
    labels = list(dict.fromkeys(label for programs in rows.values() for label in programs))
    step = (WIDTH - LEFT) / len(rows)
    thick = step * 0.8 / len(labels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, "The tool is among the first five (recall@5)", "start"),
    ]
    for number, label in enumerate(labels):
        x = LEFT + number * (WIDTH - LEFT) / len(labels)
        parts += [_bar(x, TOP - 28, 10, 10, number), _text(x + 14, TOP - 19, label, "start")]
    for place, (name, programs) in enumerate(rows.items()):
        start = LEFT + place * step
        parts.append(_text(start + step * 0.4, HEIGHT - BOTTOM + 18, name, "middle"))
        for number, label in enumerate(labels):
            value = programs.get(label, {}).get("recall_5") or 0.0
            high = value * (HEIGHT - BOTTOM - TOP)
            x = start + number * thick
            parts.append(_bar(x, HEIGHT - BOTTOM - high, thick * 0.9, high, number))
            parts.append(_text(x + thick * 0.45, HEIGHT - BOTTOM - high - 3, f"{value:.2f}".lstrip("0"), "middle"))
    return "\n".join([*parts, "</svg>", ""])


def _bar(x: float, y: float, width: float, height: float, number: int) -> str:
    colour = pictures.COLOURS[number % len(pictures.COLOURS)]
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" fill="#222222">{escape(text)}</text>'
