"""What a person sees: tables, paragraphs and a live display at a terminal; aligned text everywhere else.

The one room that knows `rich`, besides `cli/markdown.py`; it takes as long to load as a list takes in all: only what
moves is left to it.
Every text that is given here is shown with everything invisible escaped, so no server can colour or move what stands on
a terminal. Only `Verbatim` text may be wider than the terminal. With `NO_COLOR`, and at a dumb terminal, nothing is
coloured.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TextIO, TypeAlias

from mcp_workbench.text.sanitize import escape

if TYPE_CHECKING:
    from rich.console import Console


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
    return len(text) if text.isascii() else sum(_character_widths(text))


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
    for number, cell in enumerate(_character_widths(text)):
        taken += cell
        if taken > width:
            return number
    return len(text)


def _character_widths(text: str) -> Iterator[int]:
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


SHOWN_EVERY_SECONDS = 0.5
"""How often it is shown anew at a terminal how long a server has been waited for: people look at whole seconds."""
TERMINAL_COLUMNS = 80
"""The width of a terminal that does not tell its own: that of the first ones, which all others have."""
TERMINAL_ROWS = 24
"""The assumed height of a terminal that does not report its own."""
SENTENCE_COLUMNS = 24
"""The room that a sentence needs beside names: in less there are a word or two to a line, and it stands below."""

Tone: TypeAlias = Literal["", "strong", "quiet", "good", "doubtful", "bad"]
"""What a text is, as far as its look is concerned."""

_STYLES: Final[Mapping[Tone, str]] = {
    "": "",
    "strong": "1",
    "quiet": "2",
    "good": "32",
    "doubtful": "33",
    "bad": "31",
}
"""What a terminal is told for it."""
_GAP: Final = "  "


class Words(NamedTuple):
    """A text in one tone: a cell, or a paragraph with its own line ends."""

    text: str
    tone: Tone = ""
    indent: int = 0


Cell: TypeAlias = str | Words


class Column(NamedTuple):
    """A column of a table."""

    title: str = ""
    is_number: bool = False
    tone: Tone = ""
    is_whole: bool = False
    """Whether it is never broken in two: the others make room."""
    is_optional: bool = False
    """Whether it is left out where the terminal is too narrow for the rest."""
    most_lines: int = 0
    """The lines that a cell may take; 0 for any number."""


class Table(NamedTuple):
    """Rows of cells. It has a head where a column has a title."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    indent: int = 0


class Verbatim(NamedTuple):
    """Text to be copied: its lines are never broken, so the terminal itself wraps them."""

    text: str


Block: TypeAlias = str | Words | Table | Verbatim


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it."""
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def write(*blocks: Block, to: TextIO | None = None) -> None:
    """Show these, one below the other, on stdout or on another stream."""
    stream = to if to is not None else sys.stdout
    for line in lines(*blocks, to=stream):
        stream.write(f"{line}\n")


def lines(*blocks: Block, to: TextIO | None = None) -> Iterator[str]:
    """The lines that `write` writes."""
    look = _look_of(to if to is not None else sys.stdout)
    for block in blocks:
        yield from _lines(block, look)


def lines_of(text: str) -> Iterator[str]:
    """A text line by line, with everything invisible in it escaped."""
    for line in text.expandtabs().splitlines():
        yield escape(line, len(line))


class Live:
    """What is under way: shown at a terminal, written over again and again, and gone at the end; elsewhere nothing."""

    def __init__(self, *, to: TextIO | None = None) -> None:
        self._stream = to if to is not None else sys.stderr
        self._is_seen = is_terminal(self._stream)
        self._display: Any = None

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, *blocks: Block) -> None:
        """Show these instead of what stands there."""
        if not self._is_seen:
            return
        from rich.live import Live as Display  # noqa: PLC0415 -- large, and only for what moves
        from rich.text import Text  # noqa: PLC0415

        if self._display is None:
            self._display = Display(console=_console(self._stream), auto_refresh=False, transient=True)
            self._display.start()
        look = _look_of(self._stream)._replace(is_cut=True)
        lines = [line for block in blocks for line in _lines(block, look)]
        self._display.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)

    def clear(self) -> None:
        """Take away what stands there; the next `show` begins anew."""
        if self._display is not None:
            self._display.stop()
            self._display = None


# -- blocks as lines


class _Look(NamedTuple):
    """How a stream is written to."""

    width: int
    is_coloured: bool = False
    is_cut: bool = False
    """Whether a line that does not fit is cut, and not broken."""


def _look_of(stream: TextIO) -> _Look:
    if not is_terminal(stream):
        return _Look(sys.maxsize)
    return _Look(_columns(stream), is_coloured=not (os.environ.get("NO_COLOR") or is_dumb()))


def terminal_look(stream: TextIO) -> tuple[int, bool]:
    """How many columns a terminal has, and whether it shows colours."""
    look = _look_of(stream)
    return look.width, look.is_coloured


def is_dumb() -> bool:
    """Whether the terminal knows nothing but lines."""
    return os.environ.get("TERM", "dumb") in {"dumb", "unknown"}


def _columns(stream: TextIO) -> int:
    named = os.environ.get("COLUMNS", "")
    try:
        columns = int(named) if named.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    return columns or TERMINAL_COLUMNS


def terminal_rows(stream: TextIO) -> int:
    """How many lines a terminal shows."""
    named = os.environ.get("LINES", "")
    try:
        rows = int(named) if named.isdecimal() else os.get_terminal_size(stream.fileno()).lines
    except OSError:
        rows = 0
    return rows or TERMINAL_ROWS


def _lines(block: Block, look: _Look) -> Iterator[str]:
    if isinstance(block, Table):
        return _table_lines(block, look)
    if isinstance(block, Verbatim):
        return lines_of(block.text)
    return _paragraph_lines(block if isinstance(block, Words) else Words(block), look)


def _paragraph_lines(words: Words, look: _Look) -> Iterator[str]:
    room = look.width - words.indent
    for line in lines_of(words.text) if words.text else ("",):
        for piece in [cut(line.rstrip(), room)] if look.is_cut else folded(line, room):
            yield f"{' ' * words.indent}{_painted(piece, words.tone, look)}".rstrip()


def _table_lines(table: Table, look: _Look) -> Iterator[str]:
    rows = [[_cell(*one) for one in zip(row, table.columns, strict=True)] for row in table.rows]
    if any(column.title for column in table.columns):
        rows.insert(0, [Words(column.title, "strong") for column in table.columns])
    if not rows:
        return
    wanted = [max(cells(cell.text) for cell in cells_below) for cells_below in zip(*rows, strict=True)]
    widths = _widths(table, wanted, look)
    optional = [at for at, column in enumerate(table.columns) if column.is_optional]
    is_narrow = any(width < min(want, SENTENCE_COLUMNS) for width, want in zip(widths, wanted, strict=True))
    if optional and is_narrow:
        columns, *kept = (_without(row, optional[-1]) for row in (table.columns, *table.rows))
        yield from _table_lines(Table(columns, kept, table.indent), look)
        return
    for row in rows:
        pieces = [_pieces(*place, look) for place in zip(row, widths, table.columns, strict=True)]
        for line in zip_longest(*pieces, fillvalue=""):
            places = zip(line, row, widths, table.columns, strict=True)
            yield f"{' ' * table.indent}{_GAP.join(_placed(*place, look) for place in places)}".rstrip()


def _pieces(cell: Words, width: int, column: Column, look: _Look) -> list[str]:
    """The lines of a cell."""
    if column.is_whole or look.is_cut:
        return [cut(cell.text, width)]
    found = list(folded(cell.text, width))
    if not column.most_lines or len(found) <= column.most_lines:
        return found
    *kept, last = found[: column.most_lines]
    return [*kept, cut(f"{last} …", width)]


def _widths(table: Table, wanted: Sequence[int], look: _Look) -> list[int]:
    room = look.width - table.indent - len(_GAP) * (len(table.columns) - 1)
    return shared(wanted, room, [column.is_whole for column in table.columns])


def _without(row: Sequence[Any], at: int) -> Sequence[Any]:
    return [*row[:at], *row[at + 1 :]]


def _cell(cell: Cell, column: Column) -> Words:
    words = cell if isinstance(cell, Words) else Words(cell)
    return Words(" ".join(lines_of(words.text)), words.tone or column.tone)


def _placed(piece: str, cell: Words, width: int, column: Column, look: _Look) -> str:
    blank = " " * (width - cells(piece))
    text = _painted(piece, cell.tone, look)
    return f"{blank}{text}" if column.is_number else f"{text}{blank}"


def _painted(text: str, tone: Tone, look: _Look) -> str:
    return f"\x1b[{_STYLES[tone]}m{text}\x1b[0m" if look.is_coloured and tone and text else text


def _console(stream: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 -- as above

    color_system = "auto" if _look_of(stream).is_coloured else None
    return Console(file=stream, color_system=color_system, markup=False, highlight=False, emoji=False)
