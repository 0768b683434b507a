"""Terminal output: tables, paragraphs and a live display; in a pipe, aligned text.

Guarantees: invisible characters are escaped, so no server can color text or move the cursor. Only `Verbatim` text may
be wider than the terminal. With `NO_COLOR` and at a dumb terminal there are no colors.

Only this module and `cli/markdown.py` use `rich`, here only for the live display: loading it takes as long as a whole
`list`.
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
"""Other columns shrink to this width before columns with `is_whole` shrink: less can't be read."""

_EMOJI: Final = "\ufe0f"
"""Turns the character before it into an emoji, which is two columns wide."""
_WIDE_SINCE_UNICODE_16: Final = frozenset(
    chr(code)
    for block in ((0x2630, 0x2637), (0x268A, 0x268F), (0x4DC0, 0x4DFF), (0x1D300, 0x1D356), (0x1D360, 0x1D376))
    for code in range(block[0], block[1] + 1)
)
"""Yijing symbols and counting rods: the tables of older Pythons say that they are narrow."""


def text_width(text: str) -> int:
    """The number of terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(_character_widths(text))


def truncate(text: str, width: int) -> str:
    """The text, or as much of it as fits, followed by `…`."""
    if _fitting(text, width) == len(text):
        return text
    return f"{text[: _fitting(text, width - 1)]}…"


def wrap(line: str, width: int) -> Iterator[str]:
    """Wrap a line between words; break a word only if it does not fit on a line of its own."""
    line = line.rstrip()
    while (fits := _fitting(line, width)) < len(line):
        space = line.rfind(" ", 0, fits + 1)
        end = space if line[: max(space, 0)].strip() else max(fits, 1)
        yield line[:end].rstrip()
        line = line[end:].lstrip(" ")
    yield line


def fit_widths(wanted: Sequence[int], room: int, is_whole: Sequence[bool]) -> list[int]:
    """Fit column widths into a line. The widest column shrinks first, columns with `is_whole` after all others.

    No column becomes narrower than `COLUMN_LEAST` while another column can still shrink.
    """
    widths = [min(width, max(room, 1)) for width in wanted]
    for least in (COLUMN_LEAST, 1):
        for is_last in (False, True):
            giving = [number for number, whole in enumerate(is_whole) if whole is is_last]
            while sum(widths) > room and max((widths[number] for number in giving), default=0) > least:
                widths[max(giving, key=widths.__getitem__)] -= 1
    return widths


def _fitting(text: str, width: int) -> int:
    """The number of leading characters that fit."""
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


REFRESH_SECONDS = 0.5
"""The refresh interval of live displays, which show whole seconds."""
TERMINAL_COLUMNS = 80
"""The assumed width of a terminal that does not report its own."""
TERMINAL_ROWS = 24
"""The assumed height of a terminal that does not report its own."""
SENTENCE_COLUMNS = 24
"""The width that a sentence needs next to names. With less, it stands below them."""

Tone: TypeAlias = Literal["", "strong", "quiet", "good", "doubtful", "bad"]
"""The meaning of a text, which decides its style."""

_STYLES: Final[Mapping[Tone, str]] = {
    "": "",
    "strong": "1",
    "quiet": "2",
    "good": "32",
    "doubtful": "33",
    "bad": "31",
}
"""The SGR parameters of each tone."""
_GAP: Final = "  "


class Words(NamedTuple):
    """A text in one tone: a cell, or a paragraph, which may contain line ends."""

    text: str
    tone: Tone = ""
    indent: int = 0


Cell: TypeAlias = str | Words


class Column(NamedTuple):
    title: str = ""
    is_number: bool = False
    tone: Tone = ""
    is_whole: bool = False
    """Whether its cells are never wrapped: the other columns shrink instead."""
    is_optional: bool = False
    """Whether it is left out if the terminal is too narrow."""
    most_lines: int = 0
    """The maximum number of lines in a cell; 0: no limit."""


class Table(NamedTuple):
    """Rows of cells, with a header if any column has a title."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    indent: int = 0


class Verbatim(NamedTuple):
    """Text to copy: its lines are never wrapped here, only by the terminal."""

    text: str


Block: TypeAlias = str | Words | Table | Verbatim


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def write(*blocks: Block, to: TextIO | None = None) -> None:
    """Write blocks to stdout or another stream."""
    stream = to if to is not None else sys.stdout
    for line in lines(*blocks, to=stream):
        stream.write(f"{line}\n")


def lines(*blocks: Block, to: TextIO | None = None) -> Iterator[str]:
    look = _look_of(to if to is not None else sys.stdout)
    for block in blocks:
        yield from _lines(block, look)


def lines_of(text: str) -> Iterator[str]:
    """Split a text into lines and escape their invisible characters."""
    for line in text.expandtabs().splitlines():
        yield escape(line, len(line))


class Live:
    """A progress display, redrawn in place at a terminal and removed at the end. In a pipe it shows nothing."""

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
        """Replace the current display."""
        if not self._is_seen:
            return
        from rich.live import Live as Display  # noqa: PLC0415 -- large
        from rich.text import Text  # noqa: PLC0415

        if self._display is None:
            self._display = Display(console=_console(self._stream), auto_refresh=False, transient=True)
            self._display.start()
        look = _look_of(self._stream)._replace(is_cut=True)
        lines = [line for block in blocks for line in _lines(block, look)]
        self._display.update(Text.from_ansi("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)

    def clear(self) -> None:
        """Remove the display; `show` brings it back."""
        if self._display is not None:
            self._display.stop()
            self._display = None


# -- blocks as lines


class _Look(NamedTuple):
    """The properties of an output stream."""

    width: int
    is_coloured: bool = False
    is_cut: bool = False
    """Whether long lines are truncated instead of wrapped."""


def _look_of(stream: TextIO) -> _Look:
    if not is_terminal(stream):
        return _Look(sys.maxsize)
    return _Look(_columns(stream), is_coloured=not (os.environ.get("NO_COLOR") or is_dumb()))


def terminal_look(stream: TextIO) -> tuple[int, bool]:
    """The width of a terminal, and whether to use colors."""
    look = _look_of(stream)
    return look.width, look.is_coloured


def is_dumb() -> bool:
    """Whether the terminal has no cursor control."""
    return os.environ.get("TERM", "dumb") in {"dumb", "unknown"}


def _columns(stream: TextIO) -> int:
    named = os.environ.get("COLUMNS", "")
    try:
        columns = int(named) if named.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    return columns or TERMINAL_COLUMNS


def terminal_rows(stream: TextIO) -> int:
    """The height of a terminal."""
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
        for piece in [truncate(line.rstrip(), room)] if look.is_cut else wrap(line, room):
            yield f"{' ' * words.indent}{_painted(piece, words.tone, look)}".rstrip()


def _table_lines(table: Table, look: _Look) -> Iterator[str]:
    rows = [[_cell(*one) for one in zip(row, table.columns, strict=True)] for row in table.rows]
    if any(column.title for column in table.columns):
        rows.insert(0, [Words(column.title, "strong") for column in table.columns])
    if not rows:
        return
    wanted = [max(text_width(cell.text) for cell in cells_below) for cells_below in zip(*rows, strict=True)]
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
    if column.is_whole or look.is_cut:
        return [truncate(cell.text, width)]
    found = list(wrap(cell.text, width))
    if not column.most_lines or len(found) <= column.most_lines:
        return found
    *kept, last = found[: column.most_lines]
    return [*kept, truncate(f"{last} …", width)]


def _widths(table: Table, wanted: Sequence[int], look: _Look) -> list[int]:
    room = look.width - table.indent - len(_GAP) * (len(table.columns) - 1)
    return fit_widths(wanted, room, [column.is_whole for column in table.columns])


def _without(row: Sequence[Any], at: int) -> Sequence[Any]:
    return [*row[:at], *row[at + 1 :]]


def _cell(cell: Cell, column: Column) -> Words:
    words = cell if isinstance(cell, Words) else Words(cell)
    return Words(" ".join(lines_of(words.text)), words.tone or column.tone)


def _placed(piece: str, cell: Words, width: int, column: Column, look: _Look) -> str:
    blank = " " * (width - text_width(piece))
    text = _painted(piece, cell.tone, look)
    return f"{blank}{text}" if column.is_number else f"{text}{blank}"


def _painted(text: str, tone: Tone, look: _Look) -> str:
    return f"\x1b[{_STYLES[tone]}m{text}\x1b[0m" if look.is_coloured and tone and text else text


def _console(stream: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 -- as above

    color_system = "auto" if _look_of(stream).is_coloured else None
    return Console(file=stream, color_system=color_system, markup=False, highlight=False, emoji=False)
