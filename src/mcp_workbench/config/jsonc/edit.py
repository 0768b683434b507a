"""Sets and removes members in the text of JSON with comments. The rest of the text stays the same to the byte.

Guarantees: adding a member and removing it again restores the text. Comments stay, except those that belong to a
removed member; so do line ends, indentation and the style of trailing commas. A text that is not JSON, or that lacks
an object where the path needs one, raises a `ConfigError` that repeats no value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from mcp_workbench.config.jsonc import parser
from mcp_workbench.config.jsonc.parser import Node, Object, Token, kind_of, tokens
from mcp_workbench.config.jsonc.source import SourceText, extend_path
from mcp_workbench.limits import DEFAULTS, Limits


class Cut(NamedTuple):
    """Replaces the text from `start` to `end` by `text`."""

    start: int
    end: int
    text: str = ""


def apply(text: str, cuts: Iterable[Cut]) -> str:
    """The text after all cuts. They must not overlap."""
    for cut in sorted(cuts, reverse=True):
        text = text[: cut.start] + cut.text + text[cut.end :]
    return text


class Gap(NamedTuple):
    """The white space, the comments and the comma between two values, or between a bracket and a value."""

    before: tuple[Token, ...]
    """The tokens before the comma; all tokens if there is none."""
    comma: Token | None
    after: tuple[Token, ...]
    end: int
    """The offset of the next key or bracket."""


class Layout:
    """The tokens of a text, and the gaps between the members of its objects."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(tokens(SourceText(text)))
        self._starting = {token.start: number for number, token in enumerate(self._tokens)}

    def gap(self, start: int) -> Gap:
        """The gap that begins at the offset `start`, the end of a token."""
        number = self._starting.get(start, len(self._tokens))
        before: list[Token] = []
        after: list[Token] = []
        comma: Token | None = None
        for token in self._tokens[number:]:
            if token.text == "," and comma is None:
                comma = token
            elif token.kind in ("whitespace", "comment"):
                (after if comma else before).append(token)
            else:
                return Gap(tuple(before), comma, tuple(after), token.start)
        return Gap(tuple(before), comma, tuple(after), len(self.text))

    def comments(self) -> Iterator[Token]:
        return (token for token in self._tokens if token.kind == "comment")

    def ends_line_comment(self, offset: int) -> bool:
        """Whether a `//` comment ends at this offset, so that a line end must follow."""
        number = self._starting.get(offset, len(self._tokens))
        return number > 0 and self._tokens[number - 1].text.startswith("//")

    def owned_end(self, start: int, tail: Iterable[Token]) -> int:
        """The end of the comments on the line of `start`, which are the first tokens of `tail`."""
        end = start
        for token in tail:
            if token.kind == "comment":
                end = token.end
            elif has_line_end(token.text):
                break
        return end


def has_line_end(text: str) -> bool:
    return "\n" in text or "\r" in text


def line_end_before(text: str, offset: int) -> int:
    """The offset of the line end before the line of `offset`."""
    at = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    return at - 1 if at > 0 and text[at - 1 : at + 1] == "\r\n" else at


def removal_cuts(layout: Layout, parent: Object, index: int) -> list[Cut]:
    """The cuts that remove a member and its own comments."""
    member = parent.members[index]
    gap_before = layout.gap(parent.members[index - 1].value.end if index else parent.start + 1)
    gap_after = layout.gap(member.value.end)
    is_last = index == len(parent.members) - 1
    cuts = [
        _span(layout, _beginning_of(layout, gap_before, parent.start + 1), member.value.end, gap_after, is_last=is_last)
    ]
    if is_last and gap_after.comma is None and gap_before.comma is not None:
        cuts.append(Cut(gap_before.comma.start, gap_before.comma.end))
    if len(parent.members) == 1 and not _has_comments(gap_before) and not _has_comments(gap_after):
        cuts = [_emptied(layout.text, cuts[0], parent)]
    return cuts


class _Beginning(NamedTuple):
    """Where a key and its comments begin."""

    line: int
    """Including the line end above, if it has lines of its own."""
    text: int
    """Its first comment, or the key itself."""


def _beginning_of(layout: Layout, gap_before: Gap, opened: int) -> _Beginning:
    tail = gap_before.after if gap_before.comma else gap_before.before
    line = layout.owned_end(gap_before.comma.end if gap_before.comma else opened, tail)
    text = gap_before.end
    for token in reversed([token for token in tail if token.start >= line]):
        if token.kind == "comment":
            text = token.start
        elif _is_blank(token.text):
            return _Beginning(line_end_before(layout.text, token.end), text)
        elif has_line_end(token.text) and token.start == line:
            line = line_end_before(layout.text, token.end)
    return _Beginning(line, text)


def _is_blank(text: str) -> bool:
    """Whether it contains an empty line."""
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n") > 1


def _span(layout: Layout, begins: _Beginning, value_end: int, gap_after: Gap, *, is_last: bool) -> Cut:
    """The cut for a member: whole lines if it has lines of its own, else only the member itself."""
    start, tail = (gap_after.comma.end, gap_after.after) if gap_after.comma else (value_end, gap_after.before)
    if is_last or any(has_line_end(token.text) for token in tail if token.kind == "whitespace"):
        end = layout.owned_end(start, tail)
        if not layout.ends_line_comment(begins.line):
            return Cut(begins.line, end)
        # A line comment must still end with its line.
        blank = layout.text[end : gap_after.end]
        return Cut(begins.line if has_line_end(blank) else begins.text, end + len(blank) - len(blank.lstrip(" \t")))
    return Cut(begins.text, tail[0].end if tail and tail[0].kind == "whitespace" else start)


def own_comments(layout: Layout, parent: Object, index: int) -> list[str]:
    """The comments that `removal_cuts` removes with a member, without those inside its value."""
    member, cut = parent.members[index], removal_cuts(layout, parent, index)[0]
    spans = (range(cut.start, member.key.start), range(member.value.end, cut.end))
    return [token.text for token in layout.comments() if any(token.start in span for span in spans)]


def insertion_cuts(layout: Layout, parent: Object, before: str, after: str, previous: int) -> list[Cut]:
    """The cuts that insert a member after the one with the index `previous`; -1 inserts it first.

    `before` is the text of the member with its separator. `after` follows it in an empty object.
    """
    if not parent.members:
        gap = layout.gap(parent.start + 1)
        owned = layout.owned_end(parent.start + 1, gap.before)
        return [Cut(owned, owned, before if _has_comments(gap) else before + after)]
    start, tail = _tail(layout, parent, previous)
    owned = layout.owned_end(start, tail)
    if previous < 0:
        is_tight = not has_line_end(before) and not tail
        return [Cut(owned, owned, f"{before.removeprefix(' ')}, " if is_tight else f"{before},")]
    end = parent.members[previous].value.end
    if start != end:
        return [Cut(owned, owned, before + ",")]
    return [Cut(end, end, "," + before)] if owned == end else [Cut(end, end, ","), Cut(owned, owned, before)]


def _tail(layout: Layout, parent: Object, index: int) -> tuple[int, tuple[Token, ...]]:
    """The end of a member with its comma, and the tokens that follow. For -1: of the opening bracket."""
    opened = parent.members[index].value.end if index >= 0 else parent.start + 1
    gap = layout.gap(opened)
    return (gap.comma.end, gap.after) if gap.comma else (opened, gap.before)


def needs_line(layout: Layout, parent: Object, previous: int) -> bool:
    """Whether a new member needs a line of its own, because the others have one or a line comment precedes it."""
    if has_line_end(layout.text[parent.start : parent.members[0].key.start]):
        return True
    return layout.ends_line_comment(layout.owned_end(*_tail(layout, parent, previous)))


def _has_comments(gap: Gap) -> bool:
    return any(token.kind == "comment" for token in (*gap.before, *gap.after))


def _emptied(text: str, cut: Cut, parent: Object) -> Cut:
    """Extend the cut so that an object that becomes empty closes on the line on which it opens."""
    margin = margin_of(text, parent.start)
    rest = text[cut.end : parent.end - 1]
    for line_end in ("\r\n", "\n", "\r"):
        if cut.start < cut.end and rest.startswith(line_end + margin) and has_line_end(text[cut.start : cut.end]):
            return Cut(cut.start, cut.end + len(line_end + margin))
    return cut


def margin_of(text: str, offset: int) -> str:
    """The indentation of the line of `offset`."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    line = text[start:offset].removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


Path = Sequence[str]

_USUAL_INDENT = "  "


class Style(NamedTuple):
    """The formatting style of a text."""

    line_end: str
    indent: str
    spaced: bool
    """Whether a space follows colons and commas."""
    one_line: bool


def parse(source: SourceText, limits: Limits = DEFAULTS) -> Node:
    """The tree of a text. Its strings may hold lone surrogates, since edits do not change them."""
    return parser.parse(source, limits, lone_surrogates=True)


def set_member(text: str, path: Path, value: object, file: str | None = None, limits: Limits = DEFAULTS) -> str:
    """The text with `value` at `path`. A new member comes last; missing objects are created."""
    source = SourceText(text, file)
    root = parse(source, limits)
    parent, depth = deepest_object(source, root, path)
    style = style_of(text, root)
    if depth == len(path) - 1 and (index := index_of(parent, path[-1])) is not None:
        old = parent.members[index].value
        margin = margin_of(text, old.start)
        rendered = _rendered(value, margin, style, lines=has_line_end(text[old.start : old.end]) or not style.one_line)
        return apply(text, [Cut(old.start, old.end, rendered)])
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    return within(text, parent, lambda inner: _with_new(inner, path[depth], value, style, limits))


def remove_member(text: str, path: Path, file: str | None = None, limits: Limits = DEFAULTS) -> str:
    """The text without the member at `path` and its own comments. Raises `KeyError` if it does not exist."""
    return remove_members(text, path[:-1], path[-1:], file, limits)


def remove_members(
    text: str, path: Path, names: Sequence[str], file: str | None = None, limits: Limits = DEFAULTS
) -> str:
    """The text without these members of the object at `path`. Raises `KeyError` if one does not exist."""
    source = SourceText(text, file)
    parent, depth = deepest_object(source, parse(source, limits), (*path, ""))
    for name in names:
        if depth < len(path) or index_of(parent, name) is None:
            raise KeyError(name)
    return within(text, parent, lambda inner: _without(inner, names, limits))


def find(root: Node, path: Path) -> Node | None:
    """The value at `path`; None if it does not exist."""
    for name in path:
        index = index_of(root, name) if isinstance(root, Object) else None
        if index is None:
            return None
        root = cast("Object", root).members[index].value
    return root


def style_of(text: str, root: Node) -> Style:
    """The style of a text, with defaults where it shows none."""
    line_end = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    one_line = isinstance(root, Object) and bool(root.members) and not has_line_end(text[root.start : root.end])
    first = root.members[0] if isinstance(root, Object) and root.members else None
    indent = margin_of(text, first.key.start) if first and has_line_end(text[root.start : first.key.start]) else ""
    spaced = first is None or not one_line or text[first.value.start - 1] in " \t"
    return Style(line_end, indent.removeprefix(margin_of(text, root.start)) or _USUAL_INDENT, spaced, one_line)


def deepest_object(source: SourceText, root: Node, path: Path) -> tuple[Object, int]:
    """The last object on the path that exists, and its depth."""
    parent, parent_path = _object(source, root, ""), ""
    for depth, name in enumerate(path[:-1]):
        index = index_of(parent, name)
        if index is None:
            return parent, depth
        parent_path = extend_path(parent_path, name)
        parent = _object(source, parent.members[index].value, parent_path)
    return parent, len(path) - 1


def _object(source: SourceText, node: Node, path: str) -> Object:
    if not isinstance(node, Object):
        raise source.error(node.start, f"must be an object, not {kind_of(node)}", path=path)
    return node


def index_of(parent: Object, name: str) -> int | None:
    """The index of the member with this name; None if there is none."""
    return next((index for index, member in enumerate(parent.members) if member.name == name), None)


def within(text: str, parent: Object, change: Callable[[str], str]) -> str:
    """The text with one object changed. `change` gets only the text of that object, with its indentation."""
    changed = change(object_text(text, parent))
    return text[: parent.start] + changed[len(margin_of(text, parent.start)) :] + text[parent.end :]


def object_text(text: str, parent: Object) -> str:
    """The text of one object, with its indentation."""
    return margin_of(text, parent.start) + text[parent.start : parent.end]


def _without(text: str, names: Sequence[str], limits: Limits) -> str:
    for name in names:
        parent = cast("Object", parse(SourceText(text), limits))
        text = apply(text, removal_cuts(Layout(text), parent, cast("int", index_of(parent, name))))
    return text


def _with_new(text: str, name: str, value: object, style: Style, limits: Limits) -> str:
    layout, parent = Layout(text), cast("Object", parse(SourceText(text), limits))
    previous = len(parent.members) - 1
    lines = needs_line(layout, parent, previous) if parent.members else not style.one_line
    colon = ": " if style.spaced else ":"
    indent = indent_of(text, parent, style)
    member = json.dumps(name, ensure_ascii=False) + colon + _rendered(value, indent, style, lines=lines)
    return insert_member(layout, parent, member, previous, style, lines=lines)


def indent_of(text: str, parent: Object, style: Style) -> str:
    """The indentation of the members of an object."""
    if parent.members and has_line_end(text[parent.start : parent.members[0].key.start]):
        return margin_of(text, parent.members[0].key.start)
    return margin_of(text, parent.start) + style.indent


def insert_member(layout: Layout, parent: Object, member: str, previous: int, style: Style, *, lines: bool) -> str:
    """The text with a member after the one with the index `previous`; -1 inserts it first."""
    if lines:
        before = style.line_end + indent_of(layout.text, parent, style) + member
        after = style.line_end + margin_of(layout.text, parent.start)
    else:
        before, after = (" " if style.spaced and parent.members else "") + member, ""
    return apply(layout.text, insertion_cuts(layout, parent, before, after, previous))


def _rendered(value: object, margin: str, style: Style, *, lines: bool) -> str:
    """A value as text. With `lines`, each member of an object gets its own line."""
    if not isinstance(value, Mapping) or not value or not lines:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": ") if style.spaced else (",", ":"))
    inner = margin + style.indent
    colon = ": " if style.spaced else ":"
    members = [
        inner + json.dumps(name, ensure_ascii=False) + colon + _rendered(item, inner, style, lines=True)
        for name, item in cast("Mapping[str, object]", value).items()
    ]
    return "{" + style.line_end + f",{style.line_end}".join(members) + style.line_end + margin + "}"
