"""Adds and removes one table in the text of TOML. Everything else stays, and comments stay with their tables.

Comment lines directly above a header belong to its table. tomlkit changes a table without a header of its own (inline,
or with dotted keys). The caller must check the values of the result.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

_HEADER = re.compile(r"[ \t]*\[[^\r\n]*\][ \t]*(?:#[^\r\n]*)?[\r\n]*")


class _Block(NamedTuple):
    """A header with the comments above it and the lines below it."""

    path: tuple[str, ...]
    text: str
    rest: str
    """The lines from the first comment after its last value. They belong to no table, so they stay."""

    @property
    def whole(self) -> str:
        return self.text + self.rest


def with_table(text: str, path: Sequence[str], value: Mapping[str, object]) -> str:
    """The text with a new table at `path`, at the end if possible."""
    import tomlkit  # noqa: PLC0415 -- only one host has such a file

    document = tomlkit.parse(text)
    parent = _table_at(document, path[:-1])
    if parent is None or not _is_inline(parent):
        lines = [f"[{'.'.join(tomlkit.key(name).as_string() for name in path)}]"]
        lines += [f"{tomlkit.key(name).as_string()} = {_inline_text(item)}" for name, item in value.items()]
        return _appended(text, _line_end(text).join(lines) + _line_end(text))
    parent[path[-1]] = tomlkit.item(dict(value), _parent=parent)
    return tomlkit.dumps(document)


def _inline_text(value: object) -> str:
    """A value on the line of its key. A table becomes an inline table."""
    import tomlkit  # noqa: PLC0415

    return tomlkit.item(value, _parent=tomlkit.inline_table()).as_string()


def without_table(text: str, path: Sequence[str]) -> str:
    """The text without the table at `path`. Raises `KeyError` if it does not exist."""
    import tomlkit  # noqa: PLC0415

    head, blocks = _blocks(text)
    if any(_is_under(block, path) for block in blocks):
        rest = head + "".join(block.rest if _is_under(block, path) else block.whole for block in blocks)
        is_end = _is_under(blocks[-1], path) and not blocks[-1].rest
        return rest.removesuffix(_line_end(text)) if is_end and _ends_blank(rest) else rest
    document = tomlkit.parse(text)
    parent = _table_at(document, path[:-1])
    if parent is None:
        raise KeyError(path[-1])
    del parent[path[-1]]
    return tomlkit.dumps(document)


def with_table_of(text: str, path: Sequence[str], original: str) -> str:
    """The text with the table at `path` of another text, after the table that it follows there."""
    import tomlkit  # noqa: PLC0415

    _, blocks = _blocks(original)
    own_indexes = [number for number, block in enumerate(blocks) if _is_under(block, path)]
    if not own_indexes:
        return with_table(text, path, _table_at(tomlkit.parse(original), path).unwrap())
    table = "".join(blocks[number].text for number in own_indexes)
    head, present = _blocks(text)
    earlier = [block.path for block in reversed(blocks[: own_indexes[0]])]
    previous = next((at for name in earlier if (at := _last(present, name)) is not None), -1)
    before = head + "".join(block.whole for block in present[: previous + 1])
    after = "".join(block.whole for block in present[previous + 1 :])
    if after:
        before, table = _with_line_end(before), _with_line_end(table)
        return before + table + ("" if _ends_blank(table) else _line_end(text)) + after
    return _appended(before, table.rstrip() + _line_end(text))


def _last(blocks: Sequence[_Block], path: tuple[str, ...]) -> int | None:
    """The index of the last table at or below a path."""
    return next((number for number, block in reversed(list(enumerate(blocks))) if _is_under(block, path)), None)


def _blocks(text: str) -> tuple[str, list[_Block]]:
    """The text before the first table, and the tables."""
    head: list[str] = []
    tables: list[tuple[tuple[str, ...], list[str]]] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        lines = tables[-1][1] if tables else head
        path = _path(line, lines)
        if path is None:
            lines.append(line)
        else:
            above = len(lines)
            while above and _is_comment(lines[above - 1]):
                above -= 1
            tables.append((path, [*lines[above:], line]))
            del lines[above:]
    return "".join(head), [_block(path, lines) for path, lines in tables]


def _block(path: tuple[str, ...], lines: list[str]) -> _Block:
    end = len(lines)
    while lines[end - 1].strip() == "" or _is_comment(lines[end - 1]):  # the header is neither
        end -= 1
    first = next((number for number in range(end, len(lines)) if _is_comment(lines[number])), len(lines))
    return _Block(path, "".join(lines[:first]), "".join(lines[first:]))


def _is_comment(line: str) -> bool:
    return line.lstrip(" \t").startswith("#")


def _path(line: str, before: list[str]) -> tuple[str, ...] | None:
    """The path of a header; None for any other line, also for one inside a value that looks like a header.

    `before` are the lines since the last header, since no value extends past one.
    """
    if not _HEADER.fullmatch(line):
        return None
    try:
        tomllib.loads("".join(before))
        tree: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path: list[str] = []
    while isinstance(tree, dict) and tree:
        name, tree = next(iter(cast("dict[str, Any]", tree).items()))
        path.append(name)
    return tuple(path)


def _is_under(block: _Block, path: Sequence[str]) -> bool:
    return block.path[: len(path)] == tuple(path)


def _table_at(document: Any, path: Sequence[str]) -> Any:
    """The table at `path`; None if it does not exist."""
    for name in path:
        if name not in document:
            return None
        document = document[name]
    return document


def _is_inline(table: Any) -> bool:
    from tomlkit.items import InlineTable  # noqa: PLC0415

    return isinstance(table, InlineTable)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _ends_blank(text: str) -> bool:
    return text.endswith(_line_end(text) * 2)


def _with_line_end(text: str) -> str:
    """The text with a line end, so that another line may follow."""
    return text if not text or text.endswith("\n") else text + _line_end(text)


def _appended(text: str, table: str) -> str:
    line_end = _line_end(text)
    gap = "" if not text else line_end if text.endswith(line_end) else line_end * 2
    return text + gap + table
