"""A screen as a picture: text that can be read, searched and scaled, in a window of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from wcwidth import wcswidth

if TYPE_CHECKING:
    from pyte.screens import Char

    from docs.pictures.emulator import Screen

WIDTH, HEIGHT, SIZE = 8.4, 19, 14
"""Of a cell, and of the letters in it."""
MARGIN, BAR = 16, 34
BACK, FRAME, TEXT = "#0d1117", "#30363d", "#e6edf3"
FONTS = "ui-monospace,SFMono-Regular,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
COLOURS = {
    "black": "#6e7681",
    "red": "#ff7b72",
    "green": "#56d364",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
    "white": "#e6edf3",
}
"""The names are those of the library: `brown` is yellow."""
_PIECE = re.compile(r"\S+(?: \S+)*")


class Run(NamedTuple):
    """Cells of one look, one after the other in a row."""

    column: int
    text: str
    look: Char

    @property
    def width(self) -> int:
        return max(1, wcswidth(self.text))


def picture(screen: Screen, title: str, *, is_full: bool = False) -> str:
    """The SVG of what stands on a screen, without the empty rows at its end and the prompt that waits there.

    With `is_full` a program fills the screen, and no command stands above it.
    """
    cells = ([screen.buffer[row][column] for column in range(screen.columns)] for row in range(screen.lines))
    rows = [list(_runs(row)) for row in cells]
    while rows and [run.text for run in rows[-1]] in ([], ["$"]):
        rows.pop()
    if not rows or (not is_full and rows[0][0].text != "$"):
        raise ValueError("the screen is too small: its first row is no command")
    width, height = screen.columns * WIDTH + 2 * MARGIN, len(rows) * HEIGHT + BAR + MARGIN
    lines = [line for number, row in enumerate(rows) for run in row for line in _drawn(run, BAR + number * HEIGHT)]
    return "\n".join([*_window(width, height, title), *lines, "</g>", "</svg>", ""])


def _runs(cells: Sequence[Char]) -> Iterator[Run]:
    """A wide character is a run of its own, so that what follows stands where it should; its second cell is empty."""
    column = 0
    for (look, _), group in groupby(cells, lambda cell: (cell._replace(data=""), _is_odd(cell.data))):
        members = list(group)
        if _is_odd(members[0].data):
            yield from (Run(column + n, cell.data, look) for n, cell in enumerate(members) if cell.data)
        else:
            yield from _pieces(Run(column, "".join(cell.data for cell in members), look))
        column += len(members)


def _pieces(run: Run) -> Iterator[Run]:
    """What has a gap in it is several texts, since some viewers make one space of many, and columns would be gone."""
    if run.look.reverse or run.look.bg != "default":
        yield run
        return
    for piece in _PIECE.finditer(run.text):
        yield Run(run.column + piece.start(), piece[0], run.look)


def _is_odd(data: str) -> bool:
    return wcswidth(data) != 1


def _window(width: float, height: float, title: str) -> Iterator[str]:
    name = escape(title)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{name}">'
    )
    yield f"<title>{name}</title>"
    yield (
        f"<style>text{{font:{SIZE}px {FONTS};fill:{TEXT};white-space:pre}}.b{{font-weight:700}}.f{{fill-opacity:.62}}"
        ".u{text-decoration:underline}.i{font-style:italic}</style>"
    )
    yield (f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="9" fill="{BACK}" stroke="{FRAME}"/>')
    for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        yield f'<circle cx="{MARGIN + 4 + number * 18}" cy="17" r="5.5" fill="{colour}"/>'
    yield f'<g transform="translate({MARGIN} 0)">'


def _drawn(run: Run, top: int) -> Iterator[str]:
    x, wide = round(run.column * WIDTH, 1), round(run.width * WIDTH, 1)
    front, back = _colour(run.look.fg, TEXT), _colour(run.look.bg, BACK)
    if run.look.reverse:
        front, back = back, front
    if back != BACK:
        yield f'<rect x="{x:g}" y="{top}" width="{wide:g}" height="{HEIGHT}" fill="{back}"/>'
    classes = " ".join(_classes(run.look))
    look = f' class="{classes}"' if classes else ""
    fill = f' style="fill:{front}"' if front != TEXT else ""
    yield (f'<text x="{x:g}" y="{top + 14}" textLength="{wide:g}"{look}{fill}>{escape(run.text, quote=False)}</text>')


def _classes(look: Char) -> Iterator[str]:
    known = {"b": look.bold, "f": look.blink, "u": look.underscore, "i": look.italics}
    return (name for name, has in known.items() if has)


def _colour(name: str, otherwise: str) -> str:
    if name == "default":
        return otherwise
    plain = name.removeprefix("bright")
    return COLOURS.get(plain) or f"#{name}"
