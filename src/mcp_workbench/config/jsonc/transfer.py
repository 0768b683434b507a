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
    deepest_object,
    find,
    has_line_end,
    indent_of,
    index_of,
    insert_member,
    margin_of,
    needs_line,
    object_text,
    own_comments,
    parse,
    removal_cuts,
    remove_member,
    set_member,
    style_of,
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
    old, _ = deepest_object(source, parse(source, limits), (*path, ""))
    inner = object_text(original, old)
    root = parse(SourceText(text, file), limits)
    if find(root, path) is None:
        text = set_member(text, path, {}, file, limits)
        root = parse(SourceText(text, file), limits)
    parent, _ = deepest_object(SourceText(text, file), root, (*path, ""))
    style = style_of(text, root)
    return within(text, parent, lambda now: _with_restored(now, names, inner, style, limits))


def move_member(text: str, path: Path, to: Path, file: str | None = None, limits: Limits = DEFAULTS) -> str:
    """The text with the member at `path` moved to the end of the object at `to`, which is created if it does not exist.

    Raises `KeyError` if the member does not exist.
    """
    source = SourceText(text, file)
    parent, _ = deepest_object(source, parse(source, limits), path)
    index = index_of(parent, path[-1])
    if index is None:
        raise KeyError(path[-1])
    member = parent.members[index]
    comments = own_comments(Layout(text), parent, index)
    margin, written = margin_of(text, member.key.start), text[member.key.start : member.value.end]
    text = remove_member(text, path, file, limits)
    if find(parse(SourceText(text, file), limits), to) is None:
        text = set_member(text, to, {}, file, limits)
    root = parse(SourceText(text, file), limits)
    target, _ = deepest_object(SourceText(text, file), root, (*to, ""))
    style = style_of(text, root)
    written = _with_margin(written, margin, indent_of(text, target, style))
    detached = _DetachedMember(written, comments, [member.name for member in reversed(target.members)])
    lines = has_line_end(written)
    return within(text, target, lambda now: _with_detached(now, detached, style, limits, lines=lines))


def _with_margin(text: str, old: str, new: str) -> str:
    """A value of several lines with another indentation. JSON escapes line ends, so none is inside a string."""
    return re.sub(rf"(\r\n|\n|\r){re.escape(old)}", lambda match: match[1] + new, text)


class _DetachedMember(NamedTuple):
    """A member as written in a text."""

    text: str
    comments: list[str]
    """Its own comments, outside of the member."""
    neighbours: list[str]
    """The names of the members before it, nearest first."""


def _with_restored(text: str, names: Sequence[str], original: str, style: Style, limits: Limits) -> str:
    order = [member.name for member in cast("Object", parse(SourceText(original), limits)).members]
    for name in names:
        # They were removed one by one, and the comments of each depend on the neighbours that it had then.
        layout, parent = Layout(original), cast("Object", parse(SourceText(original), limits))
        index = index_of(parent, name)
        if index is None:
            raise KeyError(name)
        member = parent.members[index]
        written = original[member.key.start : member.value.end]
        detached = _DetachedMember(written, own_comments(layout, parent, index), order[: order.index(name)][::-1])
        text = _with_detached(text, detached, style, limits)
        original = apply(original, removal_cuts(layout, parent, index))
    return text


def _with_detached(text: str, detached: _DetachedMember, style: Style, limits: Limits, *, lines: bool = False) -> str:
    """The text with a member after its nearest neighbour. `lines` forces a line of its own."""
    layout, parent = Layout(text), cast("Object", parse(SourceText(text), limits))
    indexes = (index_of(parent, name) for name in detached.neighbours)
    previous = next((index for index in indexes if index is not None), -1)
    lines = lines or (needs_line(layout, parent, previous) if parent.members else not style.one_line)
    lines = lines or any(comment.startswith("//") for comment in detached.comments)
    gap = style.line_end + indent_of(text, parent, style) if lines else " "
    return insert_member(layout, parent, gap.join([*detached.comments, detached.text]), previous, style, lines=lines)
