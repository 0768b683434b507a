"""Changes of one member in the text of JSON with comments: the rest of the text stays as it is, to the byte.

Guarantees: a member that is set where none was, and removed again, leaves the same text; every comment that is not
the removed member's own stays, and so do line ends, indentation and the habit of trailing commas. What is not JSON, or
has no object where one is needed, is a `ConfigError` that repeats no value. It knows no file and no configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from mcp_workbench.config import jsonc
from mcp_workbench.config.jsonc import Node, Object, kind_of
from mcp_workbench.config.source import Source, extend_path
from mcp_workbench.config.splice import (
    Cut,
    Layout,
    apply,
    has_line_end,
    margin_of,
    needs_line,
    put_in,
    taken_out,
)
from mcp_workbench.limits import DEFAULTS, Limits

Path = Sequence[str]

_USUAL_INDENT = "  "


class Style(NamedTuple):
    """How a text is written."""

    line_end: str
    indent: str
    spaced: bool
    """Whether there is a space after a colon and a comma."""
    one_line: bool


def parse(source: Source, limits: Limits = DEFAULTS) -> Node:
    """The tree of a text, whatever stands in its strings: they are not changed."""
    return jsonc.parse(source, limits, with_halves=True)


def set_member(text: str, path: Path, value: object, file: str | None = None, limits: Limits = DEFAULTS) -> str:
    """The text with `value` at `path`: in place of what is there, or behind its last neighbour; objects are made."""
    source = Source(text, file)
    root = parse(source, limits)
    place, depth = deepest(source, root, path)
    style = style_of(text, root)
    if depth == len(path) - 1 and (index := index_of(place, path[-1])) is not None:
        old = place.members[index].value
        margin = margin_of(text, old.start)
        written = _written(value, margin, style, lines=has_line_end(text[old.start : old.end]) or not style.one_line)
        return apply(text, [Cut(old.start, old.end, written)])
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    return within(text, place, lambda inner: _with_new(inner, path[depth], value, style, limits))


def remove_member(text: str, path: Path, file: str | None = None, limits: Limits = DEFAULTS) -> str:
    """The text without the member at `path` and its own comments. Raises `KeyError` where there is none."""
    return remove_members(text, path[:-1], path[-1:], file, limits)


def remove_members(
    text: str, path: Path, names: Sequence[str], file: str | None = None, limits: Limits = DEFAULTS
) -> str:
    """The text without some members of the object at `path`. Raises `KeyError` where there is one of them not."""
    source = Source(text, file)
    place, depth = deepest(source, parse(source, limits), (*path, ""))
    for name in names:
        if depth < len(path) or index_of(place, name) is None:
            raise KeyError(name)
    return within(text, place, lambda inner: _without(inner, names, limits))


def find(root: Node, path: Path) -> Node | None:
    """The value at `path`; None where there is none."""
    for name in path:
        index = index_of(root, name) if isinstance(root, Object) else None
        if index is None:
            return None
        root = cast("Object", root).members[index].value
    return root


def style_of(text: str, root: Node) -> Style:
    """How a text is written, as far as it shows."""
    line_end = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    one_line = isinstance(root, Object) and bool(root.members) and not has_line_end(text[root.start : root.end])
    first = root.members[0] if isinstance(root, Object) and root.members else None
    indent = margin_of(text, first.key.start) if first and has_line_end(text[root.start : first.key.start]) else ""
    spaced = first is None or not one_line or text[first.value.start - 1] in " \t"
    return Style(line_end, indent.removeprefix(margin_of(text, root.start)) or _USUAL_INDENT, spaced, one_line)


def deepest(source: Source, root: Node, path: Path) -> tuple[Object, int]:
    """The last object on the path that is there, and how many steps lead to it."""
    place, where = _object(source, root, ""), ""
    for depth, name in enumerate(path[:-1]):
        index = index_of(place, name)
        if index is None:
            return place, depth
        where = extend_path(where, name)
        place = _object(source, place.members[index].value, where)
    return place, len(path) - 1


def _object(source: Source, node: Node, path: str) -> Object:
    if not isinstance(node, Object):
        raise source.error(node.start, f"must be an object, not {kind_of(node)}", path=path)
    return node


def index_of(place: Object, name: str) -> int | None:
    """Which member of an object has this name; None where none has."""
    return next((index for index, member in enumerate(place.members) if member.name == name), None)


def within(text: str, place: Object, change: Callable[[str], str]) -> str:
    """The text with one object changed; `change` gets it with the margin that it has, and reads nothing but it."""
    changed = change(sliced(text, place))
    return text[: place.start] + changed[len(margin_of(text, place.start)) :] + text[place.end :]


def sliced(text: str, place: Object) -> str:
    """One object with the margin that it has."""
    return margin_of(text, place.start) + text[place.start : place.end]


def _without(text: str, names: Sequence[str], limits: Limits) -> str:
    for name in names:
        place = cast("Object", parse(Source(text), limits))
        text = apply(text, taken_out(Layout(text), place, cast("int", index_of(place, name))))
    return text


def _with_new(text: str, name: str, value: object, style: Style, limits: Limits) -> str:
    layout, place = Layout(text), cast("Object", parse(Source(text), limits))
    behind = len(place.members) - 1
    lines = needs_line(layout, place, behind) if place.members else not style.one_line
    colon = ": " if style.spaced else ":"
    indent = indent_of(text, place, style)
    member = json.dumps(name, ensure_ascii=False) + colon + _written(value, indent, style, lines=lines)
    return put(layout, place, member, behind, style, lines=lines)


def indent_of(text: str, place: Object, style: Style) -> str:
    """What a line of the object begins with."""
    if place.members and has_line_end(text[place.start : place.members[0].key.start]):
        return margin_of(text, place.members[0].key.start)
    return margin_of(text, place.start) + style.indent


def put(layout: Layout, place: Object, member: str, behind: int, style: Style, *, lines: bool) -> str:
    """The text with a member behind another one, or first for -1."""
    if lines:
        before = style.line_end + indent_of(layout.text, place, style) + member
        after = style.line_end + margin_of(layout.text, place.start)
    else:
        before, after = (" " if style.spaced and place.members else "") + member, ""
    return apply(layout.text, put_in(layout, place, before, after, behind))


def _written(value: object, margin: str, style: Style, *, lines: bool) -> str:
    """A value as text; what is in an object stands on lines of its own unless `lines` is off."""
    if not isinstance(value, Mapping) or not value or not lines:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": ") if style.spaced else (",", ":"))
    inner = margin + style.indent
    colon = ": " if style.spaced else ":"
    members = [
        inner + json.dumps(name, ensure_ascii=False) + colon + _written(one, inner, style, lines=True)
        for name, one in cast("Mapping[str, object]", value).items()
    ]
    return "{" + style.line_end + f",{style.line_end}".join(members) + style.line_end + margin + "}"
