"""Text that fits into the columns of a terminal: measured, cut, broken into lines, and columns that make room."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

COLUMN_LEAST = 10
"""How narrow a column of a table becomes before columns that should stay whole give way: less can't be read."""

_EMOJI: Final = "\ufe0f"
"""Makes a picture, which is wide, of the character before it."""
_WIDE_SINCE_UNICODE_16: Final = frozenset(
    chr(code)
    for block in ((0x2630, 0x2637), (0x268A, 0x268F), (0x4DC0, 0x4DFF), (0x1D300, 0x1D356), (0x1D360, 0x1D376))
    for code in range(block[0], block[1] + 1)
)
"""Symbols of the Yijing and counting rods: older Pythons know them as narrow."""


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(_widths(text))


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits, and a sign that there is more."""
    if _fitting(text, width) == len(text):
        return text
    return f"{text[: _fitting(text, width - 1)]}…"


def folded(line: str, width: int) -> Iterator[str]:
    """A line as lines that fit, broken between words; within a word only where that alone does not fit."""
    line = line.rstrip()
    while (fits := _fitting(line, width)) < len(line):
        space = line.rfind(" ", 0, fits + 1)
        end = space if line[: max(space, 0)].strip() else max(fits, 1)
        yield line[:end].rstrip()
        line = line[end:].lstrip(" ")
    yield line


def shared(wanted: Sequence[int], room: int, is_whole: Sequence[bool]) -> list[int]:
    """How wide columns can be: the widest give way first, and those that are to stay whole after all others.

    None becomes so narrow that it can't be read while another has room to give.
    """
    widths = [min(width, max(room, 1)) for width in wanted]
    for least in (COLUMN_LEAST, 1):
        for is_last in (False, True):
            giving = [number for number, whole in enumerate(is_whole) if whole is is_last]
            while sum(widths) > room and max((widths[number] for number in giving), default=0) > least:
                widths[max(giving, key=widths.__getitem__)] -= 1
    return widths


def _fitting(text: str, width: int) -> int:
    """How many characters of the beginning of a text fit."""
    if text.isascii():
        return min(len(text), max(width, 0))
    taken = 0
    for number, cell in enumerate(_widths(text)):
        taken += cell
        if taken > width:
            return number
    return len(text)


def _widths(text: str) -> Iterator[int]:
    before = 0
    for character in text:
        if character == _EMOJI:
            before = 1 if before == 1 else 0
        elif unicodedata.category(character) in {"Mn", "Me"}:
            before = 0
        else:
            before = 2 if _is_wide(character) else 1
        yield before


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in {"W", "F"} or character in _WIDE_SINCE_UNICODE_16
