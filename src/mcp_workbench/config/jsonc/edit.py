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


def taken_out(layout: Layout, place: Object, index: int) -> list[Cut]:
    """The cuts that remove a member and its own comments."""
    member = place.members[index]
    ahead = layout.gap(place.members[index - 1].value.end if index else place.start + 1)
    behind = layout.gap(member.value.end)
    is_last = index == len(place.members) - 1
    cuts = [_span(layout, _owned_from(layout, ahead, place.start + 1), member.value.end, behind, is_last=is_last)]
    if is_last and behind.comma is None and ahead.comma is not None:
        cuts.append(Cut(ahead.comma.start, ahead.comma.end))
    if len(place.members) == 1 and not _has_comments(ahead) and not _has_comments(behind):
        cuts = [_emptied(layout.text, cuts[0], place)]
    return cuts


class _Beginning(NamedTuple):
    """Where a key and its comments begin."""

    line: int
    """Including the line end above, if it has lines of its own."""
    text: int
    """Its first comment, or the key itself."""


def _owned_from(layout: Layout, ahead: Gap, opened: int) -> _Beginning:
    tail = ahead.after if ahead.comma else ahead.before
    line = layout.owned_end(ahead.comma.end if ahead.comma else opened, tail)
    text = ahead.end
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


def _span(layout: Layout, begins: _Beginning, value_end: int, behind: Gap, *, is_last: bool) -> Cut:
    """The cut for a member: whole lines if it has lines of its own, else only the member itself."""
    start, tail = (behind.comma.end, behind.after) if behind.comma else (value_end, behind.before)
    if is_last or any(has_line_end(token.text) for token in tail if token.kind == "whitespace"):
        end = layout.owned_end(start, tail)
        if not layout.ends_line_comment(begins.line):
            return Cut(begins.line, end)
        # A line comment must still end with its line.
        blank = layout.text[end : behind.end]
        return Cut(begins.line if has_line_end(blank) else begins.text, end + len(blank) - len(blank.lstrip(" \t")))
    return Cut(begins.text, tail[0].end if tail and tail[0].kind == "whitespace" else start)


def own_comments(layout: Layout, place: Object, index: int) -> list[str]:
    """The comments that `removal_cuts` removes with a member, without those inside its value."""
    member, cut = place.members[index], taken_out(layout, place, index)[0]
    around = (range(cut.start, member.key.start), range(member.value.end, cut.end))
    return [token.text for token in layout.comments() if any(token.start in one for one in around)]


def put_in(layout: Layout, place: Object, before: str, after: str, behind: int) -> list[Cut]:
    """The cuts that insert a member after the one with the index `previous`; -1 inserts it first.

    `before` is the text of the member with its separator. `after` follows it in an empty object.
    """
    if not place.members:
        gap = layout.gap(place.start + 1)
        owned = layout.owned_end(place.start + 1, gap.before)
        return [Cut(owned, owned, before if _has_comments(gap) else before + after)]
    start, tail = _tail(layout, place, behind)
    owned = layout.owned_end(start, tail)
    if behind < 0:
        is_tight = not has_line_end(before) and not tail
        return [Cut(owned, owned, f"{before.removeprefix(' ')}, " if is_tight else f"{before},")]
    end = place.members[behind].value.end
    if start != end:
        return [Cut(owned, owned, before + ",")]
    return [Cut(end, end, "," + before)] if owned == end else [Cut(end, end, ","), Cut(owned, owned, before)]


def _tail(layout: Layout, place: Object, index: int) -> tuple[int, tuple[Token, ...]]:
    """The end of a member with its comma, and the tokens that follow. For -1: of the opening bracket."""
    opened = place.members[index].value.end if index >= 0 else place.start + 1
    gap = layout.gap(opened)
    return (gap.comma.end, gap.after) if gap.comma else (opened, gap.before)


def needs_line(layout: Layout, place: Object, behind: int) -> bool:
    """Whether a new member needs a line of its own, because the others have one or a line comment precedes it."""
    if has_line_end(layout.text[place.start : place.members[0].key.start]):
        return True
    return layout.ends_line_comment(layout.owned_end(*_tail(layout, place, behind)))


def _has_comments(gap: Gap) -> bool:
    return any(token.kind == "comment" for token in (*gap.before, *gap.after))


def _emptied(text: str, cut: Cut, place: Object) -> Cut:
    """Extend the cut so that an object that becomes empty closes on the line on which it opens."""
    margin = margin_of(text, place.start)
    rest = text[cut.end : place.end - 1]
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
    return parser.parse(source, limits, with_halves=True)


def set_member(text: str, path: Path, value: object, file: str | None = None, limits: Limits = DEFAULTS) -> str:
    """The text with `value` at `path`. A new member comes last; missing objects are created."""
    source = SourceText(text, file)
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
    """The text without the member at `path` and its own comments. Raises `KeyError` if it does not exist."""
    return remove_members(text, path[:-1], path[-1:], file, limits)


def remove_members(
    text: str, path: Path, names: Sequence[str], file: str | None = None, limits: Limits = DEFAULTS
) -> str:
    """The text without these members of the object at `path`. Raises `KeyError` if one does not exist."""
    source = SourceText(text, file)
    place, depth = deepest(source, parse(source, limits), (*path, ""))
    for name in names:
        if depth < len(path) or index_of(place, name) is None:
            raise KeyError(name)
    return within(text, place, lambda inner: _without(inner, names, limits))


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


def deepest(source: SourceText, root: Node, path: Path) -> tuple[Object, int]:
    """The last object on the path that exists, and its depth."""
    place, where = _object(source, root, ""), ""
    for depth, name in enumerate(path[:-1]):
        index = index_of(place, name)
        if index is None:
            return place, depth
        where = extend_path(where, name)
        place = _object(source, place.members[index].value, where)
    return place, len(path) - 1


def _object(source: SourceText, node: Node, path: str) -> Object:
    if not isinstance(node, Object):
        raise source.error(node.start, f"must be an object, not {kind_of(node)}", path=path)
    return node


def index_of(place: Object, name: str) -> int | None:
    """The index of the member with this name; None if there is none."""
    return next((index for index, member in enumerate(place.members) if member.name == name), None)


def within(text: str, place: Object, change: Callable[[str], str]) -> str:
    """The text with one object changed. `change` gets only the text of that object, with its indentation."""
    changed = change(sliced(text, place))
    return text[: place.start] + changed[len(margin_of(text, place.start)) :] + text[place.end :]


def sliced(text: str, place: Object) -> str:
    """The text of one object, with its indentation."""
    return margin_of(text, place.start) + text[place.start : place.end]


def _without(text: str, names: Sequence[str], limits: Limits) -> str:
    for name in names:
        place = cast("Object", parse(SourceText(text), limits))
        text = apply(text, taken_out(Layout(text), place, cast("int", index_of(place, name))))
    return text


def _with_new(text: str, name: str, value: object, style: Style, limits: Limits) -> str:
    layout, place = Layout(text), cast("Object", parse(SourceText(text), limits))
    behind = len(place.members) - 1
    lines = needs_line(layout, place, behind) if place.members else not style.one_line
    colon = ": " if style.spaced else ":"
    indent = indent_of(text, place, style)
    member = json.dumps(name, ensure_ascii=False) + colon + _written(value, indent, style, lines=lines)
    return put(layout, place, member, behind, style, lines=lines)


def indent_of(text: str, place: Object, style: Style) -> str:
    """The indentation of the members of an object."""
    if place.members and has_line_end(text[place.start : place.members[0].key.start]):
        return margin_of(text, place.members[0].key.start)
    return margin_of(text, place.start) + style.indent


def put(layout: Layout, place: Object, member: str, behind: int, style: Style, *, lines: bool) -> str:
    """The text with a member after the one with the index `previous`; -1 inserts it first."""
    if lines:
        before = style.line_end + indent_of(layout.text, place, style) + member
        after = style.line_end + margin_of(layout.text, place.start)
    else:
        before, after = (" " if style.spaced and place.members else "") + member, ""
    return apply(layout.text, put_in(layout, place, before, after, behind))


def _written(value: object, margin: str, style: Style, *, lines: bool) -> str:
    """A value as text. With `lines`, each member of an object gets its own line."""
    if not isinstance(value, Mapping) or not value or not lines:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": ") if style.spaced else (",", ":"))
    inner = margin + style.indent
    colon = ": " if style.spaced else ":"
    members = [
        inner + json.dumps(name, ensure_ascii=False) + colon + _written(one, inner, style, lines=True)
        for name, one in cast("Mapping[str, object]", value).items()
    ]
    return "{" + style.line_end + f",{style.line_end}".join(members) + style.line_end + margin + "}"
