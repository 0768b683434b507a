"""Moves members within the text of JSON with comments, or copies them from another text, exactly as written.

Guarantees: a member keeps its own comments, and the rest of the text stays the same to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, cast

from mcp_workbench.config.jsonc.edit import (
    Layout,
    Path,
    Style,
    apply,
    deepest,
    find,
    has_line_end,
    indent_of,
    index_of,
    margin_of,
    needs_line,
    own_comments,
    parse,
    put,
    remove_member,
    set_member,
    sliced,
    style_of,
    taken_out,
    within,
)
from mcp_workbench.config.jsonc.parser import Object
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.limits import DEFAULTS, Limits


def restore_members(
    text: str, path: Path, names: Sequence[str], original: str, *, file: str | None = None, limits: Limits = DEFAULTS
) -> str:
    """The text with members of the object at `path` that it lacks, copied from another text.

    Each is inserted after the same neighbour as in the other text, with its own comments above it. Raises `KeyError` if
    the other text lacks one of them.
    """
    source = SourceText(original)
    old, _ = deepest(source, parse(source, limits), (*path, ""))
    inner = sliced(original, old)
    root = parse(SourceText(text, file), limits)
    if find(root, path) is None:
        text = set_member(text, path, {}, file, limits)
        root = parse(SourceText(text, file), limits)
    place, _ = deepest(SourceText(text, file), root, (*path, ""))
    style = style_of(text, root)
    return within(text, place, lambda now: _with_members_of(now, names, inner, style, limits))


def move_member(text: str, path: Path, to: Path, file: str | None = None, limits: Limits = DEFAULTS) -> str:
    """The text with the member at `path` moved to the end of the object at `to`, which is created if it does not exist.

    Raises `KeyError` if the member does not exist.
    """
    source = SourceText(text, file)
    place, _ = deepest(source, parse(source, limits), path)
    index = index_of(place, path[-1])
    if index is None:
        raise KeyError(path[-1])
    member = place.members[index]
    comments = own_comments(Layout(text), place, index)
    margin, written = margin_of(text, member.key.start), text[member.key.start : member.value.end]
    text = remove_member(text, path, file, limits)
    if find(parse(SourceText(text, file), limits), to) is None:
        text = set_member(text, to, {}, file, limits)
    root = parse(SourceText(text, file), limits)
    target, _ = deepest(SourceText(text, file), root, (*to, ""))
    style = style_of(text, root)
    written = _with_margin(written, margin, indent_of(text, target, style))
    taken = _Taken(written, comments, [member.name for member in reversed(target.members)])
    lines = has_line_end(written)
    return within(text, target, lambda now: _with_taken(now, taken, style, limits, lines=lines))


def _with_margin(written: str, old: str, new: str) -> str:
    """A value of several lines with another indentation. JSON escapes line ends, so none is inside a string."""
    return re.sub(rf"(\r\n|\n|\r){re.escape(old)}", lambda found: found[1] + new, written)


class _Taken(NamedTuple):
    """A member as written in a text."""

    text: str
    comments: list[str]
    """Its own comments, outside of the member."""
    neighbours: list[str]
    """The names of the members before it, nearest first."""


def _with_members_of(text: str, names: Sequence[str], original: str, style: Style, limits: Limits) -> str:
    order = [member.name for member in cast("Object", parse(SourceText(original), limits)).members]
    for name in names:
        # They were removed one by one, and the comments of each depend on the neighbours that it had then.
        layout, place = Layout(original), cast("Object", parse(SourceText(original), limits))
        index = index_of(place, name)
        if index is None:
            raise KeyError(name)
        member = place.members[index]
        written = original[member.key.start : member.value.end]
        taken = _Taken(written, own_comments(layout, place, index), order[: order.index(name)][::-1])
        text = _with_taken(text, taken, style, limits)
        original = apply(original, taken_out(layout, place, index))
    return text


def _with_taken(text: str, taken: _Taken, style: Style, limits: Limits, *, lines: bool = False) -> str:
    """The text with a member after its nearest neighbour. `lines` forces a line of its own."""
    layout, place = Layout(text), cast("Object", parse(SourceText(text), limits))
    places = (index_of(place, name) for name in taken.neighbours)
    behind = next((place for place in places if place is not None), -1)
    lines = lines or (needs_line(layout, place, behind) if place.members else not style.one_line)
    lines = lines or any(comment.startswith("//") for comment in taken.comments)
    gap = style.line_end + indent_of(text, place, style) if lines else " "
    return put(layout, place, gap.join([*taken.comments, taken.text]), behind, style, lines=lines)
