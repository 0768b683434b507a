"""Renders Markdown for a terminal of a given width: headings, paragraphs, lists, code and tables.

A table whose columns would be too narrow to read becomes a list of records. Code is not wrapped, so that it can be
copied, except for usage lines. A link shows the argument for `mcp-workbench docs`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.console import Console
from rich.text import Text

from mcp_workbench.cli.display import fit_widths, wrap

Link = Callable[[str, str], str]
"""Returns the text to show for a link, from its text and target."""

_STYLES: Final = {
    "h1": "bold underline",
    "h2": "bold",
    "h3": "bold italic",
    "h4": "italic",
    "code_inline": "cyan",
    "strong": "bold",
    "em": "italic",
    "link": "underline",
    "label": "dim",
}
_PAIR: Final = 2
"""The columns of a table whose rows need no labels."""
_INDENT: Final = 4
_GAP: Final = 2
_NARROW: Final = 26
"""A column up to this width is never wrapped."""
_READABLE: Final = 30
"""A wrapped column needs this width, or that of its longest word, to be readable."""


def render(text: str, width: int, link: Link, *, is_coloured: bool) -> list[str]:
    tree = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(text))
    lines = _Renderer(link).blocks(tree.children, width)
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=True, color_system="standard" if is_coloured else None,
        highlight=False, markup=False, emoji=False,
    )  # fmt: skip
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)
    return stream.getvalue().splitlines()


class _Renderer:
    """Turns blocks into styled lines."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._measure = Console(file=io.StringIO())

    def blocks(self, nodes: Sequence[SyntaxTreeNode], width: int, *, is_tight: bool = False) -> list[Text]:
        """Render blocks, separated by empty lines unless `is_tight`."""
        lines: list[Text] = []
        for node in nodes:
            found = self._block(node, width)
            if lines and found and not is_tight:
                lines.append(Text())
            lines += found
        return lines

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        if node.type in ("heading", "paragraph"):
            return self._wrapped(self._inline(node, _STYLES.get(node.tag, "")), width)
        if node.type in ("bullet_list", "ordered_list"):
            return self._list(node, width)
        if node.type in ("fence", "code_block"):
            return list(self._code(node, width))
        if node.type == "table":
            return self._table(node, width)
        if node.type == "blockquote":
            return _indented(self.blocks(node.children, width - _GAP), "│ ")
        return []  # rules and HTML

    def _code(self, node: SyntaxTreeNode, width: int) -> Iterator[Text]:
        for line in node.content.rstrip("\n").split("\n"):
            is_usage = node.info == "text" and line.startswith("mcp-workbench ") and len(line) > width - _INDENT
            pieces = wrap(line, width - 2 * _INDENT) if is_usage else [line]
            for number, piece in enumerate(pieces):
                yield Text(" " * (2 * _INDENT if number else _INDENT) + piece)

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        start = int(node.attrs.get("start", 1))
        lines: list[Text] = []
        for number, item in enumerate(node.children, start):
            mark = "• " if node.type == "bullet_list" else f"{number}. "
            is_tight = all(child.hidden for child in item.children if child.type == "paragraph")
            if lines and not is_tight:
                lines.append(Text())
            lines += _indented(self.blocks(item.children, width - len(mark), is_tight=is_tight), mark)
        return lines

    # -- tables

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        head, *rows = [[self._inline(cell) for cell in row.children] for part in node.children for row in part.children]
        columns = list(zip(head, *rows, strict=True))
        wanted = [max(cell.cell_len for cell in column) for column in columns]
        words = [max(map(len, " ".join(cell.plain for cell in column).split()), default=0) for column in columns]
        least = [max(min(one, _READABLE), word) for one, word in zip(wanted, words, strict=True)]
        room = width - _GAP * (len(wanted) - 1)
        widths = fit_widths(wanted, room, [one <= _NARROW for one in wanted])
        if all(got >= needed for got, needed in zip(widths, least, strict=True)):
            return list(self._as_table(head, rows, widths))
        return list(self._as_records(head, rows, width))

    def _as_table(self, head: list[Text], rows: list[list[Text]], widths: list[int]) -> Iterator[Text]:
        for cell in head:
            cell.stylize(_STYLES["label"])
        is_folded = any(cell.cell_len > width for row in rows for cell, width in zip(row, widths, strict=True))
        for number, row in enumerate([head, *rows]):
            if is_folded and number > 1:
                yield Text()
            pieces = [self._wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
            for line in zip_longest(*pieces):
                yield _side_by_side(line, widths)

    def _as_records(self, head: list[Text], rows: list[list[Text]], width: int) -> Iterator[Text]:
        """Render rows as records. Labels that the records do not repeat stand above them."""
        above = [label.plain for label in (head if len(head) == _PAIR else head[:1]) if label.plain]
        if above and len(rows) > 1:
            yield from self._wrapped(Text(": ".join(above), _STYLES["label"]), width)
            yield Text()
        for number, (first, *others) in enumerate(rows):
            if number:
                yield Text()
            first.stylize(_STYLES["strong"])
            yield from self._wrapped(first, width)
            for label, cell in zip(head[1:], others, strict=True):
                name = f"{label.plain}: " if len(head) != _PAIR and label.plain else ""
                if cell.plain:
                    lines = self._wrapped(Text.assemble((name, _STYLES["label"]), cell), width - _INDENT)
                    yield from _indented(lines[:1], " " * _GAP)
                    yield from _indented(lines[1:], " " * _INDENT)

    # -- text

    def _wrapped(self, text: Text, width: int) -> list[Text]:
        lines = text.wrap(self._measure, max(width, 1), justify="left", overflow="fold")
        return list(lines) or [Text()]

    def _inline(self, node: SyntaxTreeNode, style: str = "") -> Text:
        text = Text(style=style)
        for child in node.children:
            self._append(text, child)
        return text

    def _append(self, text: Text, node: SyntaxTreeNode) -> None:
        if node.type in ("text", "code_inline"):
            text.append(node.content, _STYLES.get(node.type, ""))
        elif node.type in ("softbreak", "hardbreak"):
            text.append(" " if node.type == "softbreak" else "\n")
        elif node.type == "image":
            text.append(f"[picture: {node.content}]", _STYLES["label"])
        elif node.type == "link":
            inner = self._inline(node)
            shown = self._link(inner.plain, str(node.attrs["href"]))
            if shown.startswith(inner.plain):
                text.append_text(inner)
                shown = shown[len(inner.plain) :]
            text.append(shown, _STYLES["link"] if not shown.startswith(" ") else _STYLES["label"])
        else:
            inner = self._inline(node)
            inner.stylize(_STYLES.get(node.type, ""))
            text.append_text(inner)


def _indented(lines: Sequence[Text], mark: str) -> list[Text]:
    """Indent lines behind a mark on the first one."""
    return [Text(mark if not number else " " * len(mark)) + line for number, line in enumerate(lines)]


def _side_by_side(pieces: Sequence[Text | None], widths: Sequence[int]) -> Text:
    line = Text()
    for piece, width in zip(pieces, widths, strict=True):
        cell = piece or Text()
        cell.rstrip()
        line += cell
        line.append(" " * (width - cell.cell_len + _GAP))
    return line
