"""How well tools were found, as figures, tables and pictures."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from html import escape
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import pictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieval_data import Question, Tool

Hits = list[list[Any]]
"""The answer to one question: [server, tool, score] each, best first."""

TITLES = {
    "recall_1": "R@1",
    "recall_5": "R@5",
    "recall_10": "R@10",
    "mrr": "MRR",
    "ndcg_5": "nDCG@5",
    "auc": "no-answer AUC",
    "refused": "refused",
    "refused_foreign": "refused, foreign",
    "shown": "shown",
}


def quality(questions: Sequence[Question], answers: Sequence[Hits]) -> dict[str, float]:
    """Means over the questions."""
    found = [
        (question.groups, [(server, tool) for server, tool, _ in hits])
        for question, hits in zip(questions, answers, strict=True)
    ]
    return {
        **{f"recall_{most}": mean(recall(groups, tools[:most]) for groups, tools in found) for most in (1, 5, 10)},
        "mrr": mean(reciprocal_rank(groups, tools) for groups, tools in found),
        "ndcg_5": mean(gain(groups, tools[:5]) for groups, tools in found),
    }


def recall(groups: list[set[Tool]], tools: list[Tool]) -> float:
    return sum(not group.isdisjoint(tools) for group in groups) / len(groups)


def reciprocal_rank(groups: list[set[Tool]], tools: list[Tool]) -> float:
    return next((1 / rank for rank, tool in enumerate(tools, 1) if any(tool in group for group in groups)), 0.0)


def gain(groups: list[set[Tool]], tools: list[Tool]) -> float:
    """Normalised discounted cumulative gain; each group counts once, where its first tool stands."""
    waiting = list(groups)
    total = 0.0
    for rank, tool in enumerate(tools, 1):
        if (satisfied := next((group for group in waiting if tool in group), None)) is not None:
            waiting.remove(satisfied)
            total += 1 / math.log2(rank + 1)
    return total / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(groups), 5) + 1))


def auc(answerable: Sequence[Hits], others: Sequence[Hits]) -> float | None:
    """How often the best score of a question that has an answer is above that of one that has none."""
    if any(hit[2] is None for hits in (*answerable, *others) for hit in hits):
        return None
    low = sorted(_best(hits) for hits in others)
    sides = (bisect_left(low, _best(hits)) + bisect_right(low, _best(hits)) for hits in answerable)
    return mean(sides) / 2 / len(low)


def _best(hits: Hits) -> float:
    return hits[0][2] if hits else -math.inf


def times(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Medians over the rounds of one program."""
    ordered = [sorted(one["seconds"]) for one in rounds]
    return {
        "build_s": median(one["build_s"] for one in rounds),
        "memory_mb": median(one["memory_mb"] for one in rounds),
        "query_ms": median(median(seconds) for seconds in ordered) * 1000,
        "p95_ms": median(seconds[int(0.95 * (len(seconds) - 1))] for seconds in ordered) * 1000,
    }


def quality_table(rows: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> str:
    """A line for each set and program."""
    lines = [["set", "program", *TITLES.values()]]
    for name, programs in rows.items():
        lines += [[name, label, *(_cell(figures.get(key), 2) for key in TITLES)] for label, figures in programs.items()]
    return _table(lines)


def size_table(rows: Mapping[int, Mapping[str, Mapping[str, float]]]) -> str:
    """A line for each number of tools and program."""
    lines = [["tools", "program", "query, ms", "p95, ms", "build, s", "memory, MB", "R@5"]]
    for size, programs in rows.items():
        for label, figures in programs.items():
            timed = [_cell(figures[key], 2) for key in ("query_ms", "p95_ms", "build_s")]
            lines.append([f"{size:,}", label, *timed, _cell(figures["memory_mb"], 1), _cell(figures["recall_5"], 3)])
    return _table(lines)


def _table(lines: Sequence[Sequence[str]]) -> str:
    first, *rest = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in [first, ["---"] * len(first), *rest])


def _cell(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"


def time_picture(rows: Mapping[int, Mapping[str, Mapping[str, float]]]) -> str:
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
