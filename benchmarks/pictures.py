"""Figures as a picture: lines over a logarithmic scale, as SVG, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 40, 50
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df")
GREY = "#888888"
BAR, NAMES = 18, 130

Points = Sequence[tuple[float, float]]


def lines(title: str, across: str, up: str, series: Mapping[str, Points]) -> str:
    """A picture of several lines; both scales are logarithmic."""
    points = [point for line in series.values() for point in line]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    bottom, top = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, title, size=14),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, across, anchor="middle"),
        _text(8, TOP - 8, up),
    ]
    power = bottom
    while power <= top:
        y = _scaled(power, bottom, top, HEIGHT - BOTTOM, TOP)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GREY}" stroke-width="0.5"/>'
        )
        parts.append(_text(LEFT - 6, y + 4, f"{power:g}", anchor="end"))
        power *= 10
    for x in sorted(set(xs)):
        place = _scaled(x, min(xs), max(xs), LEFT, WIDTH - RIGHT)
        parts.append(_text(place, HEIGHT - BOTTOM + 18, f"{x:g}", anchor="middle"))
    for (name, line), colour in zip(series.items(), COLOURS, strict=False):
        placed = [
            (_scaled(x, min(xs), max(xs), LEFT, WIDTH - RIGHT), _scaled(y, bottom, top, HEIGHT - BOTTOM, TOP))
            for x, y in line
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(_text(placed[-1][0] + 8, placed[-1][1] + 4, name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


Bars = Mapping[str, float]
"""Figures by what they are of."""


def bars(title: str, groups: Mapping[str, Bars], first: str) -> str:
    """Several groups of horizontal bars, each group on a scale of its own that begins at 0; `first` stands out."""
    parts, top = [_text(LEFT, 22, title, size=14)], TOP
    for name, figures in groups.items():
        parts += [_text(LEFT, top + 12, name, size=12), *_group(figures, top + 20, first)]
        top += 20 + BAR * len(figures) + 16
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top}" fill="white"/>', *parts, "</svg>", ""])


def _group(figures: Bars, top: float, first: str) -> list[str]:
    parts: list[str] = []
    for row, (label, value) in enumerate(figures.items()):
        y = top + BAR * row
        width = value / max(figures.values()) * (WIDTH - NAMES - RIGHT)
        colour = COLOURS[0] if label == first else GREY
        parts.append(_text(NAMES - 6, y + 12, label, anchor="end"))
        parts.append(f'<rect x="{NAMES}" y="{y}" width="{max(width, 1):.1f}" height="{BAR - 4}" fill="{colour}"/>')
        parts.append(_text(NAMES + width + 6, y + 12, f"{value:,.0f}" if value >= 10 else f"{value:.2f}"))
    return parts


def _scaled(value: float, least: float, most: float, start: float, end: float) -> float:
    if most == least:
        return (start + end) / 2
    return start + (end - start) * math.log(value / least) / math.log(most / least)


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#222222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
    )
