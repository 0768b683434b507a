"""What stands between the members of an object: its commas, its comments, and which member each comment belongs to.

A comment that begins on the line of a value belongs to that value. Comment lines directly above a key, without an
empty line between, belong to that key. Everything else belongs to nobody and is never touched. `taken_out` and
`put_in` agree on this: what one puts in, the other takes out, and the text is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mcp_workbench.config.jsonc import Object
from mcp_workbench.config.source import Source
from mcp_workbench.config.tokens import Token, tokens


class Cut(NamedTuple):
    """Text from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str = ""


def apply(text: str, cuts: Iterable[Cut]) -> str:
    """The text after all of the cuts, which do not overlap."""
    for cut in sorted(cuts, reverse=True):
        text = text[: cut.start] + cut.text + text[cut.end :]
    return text


class Gap(NamedTuple):
    """What stands between two values, or a bracket and a value: white space, comments, and perhaps a comma."""

    before: tuple[Token, ...]
    """Up to the comma; everything where there is none."""
    comma: Token | None
    after: tuple[Token, ...]
    end: int
    """Where the next key, or the bracket, begins."""


class Layout:
    """The tokens of a text, and the gaps between the members of its objects."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(tokens(Source(text)))
        self._starting = {token.start: number for number, token in enumerate(self._tokens)}

    def gap(self, start: int) -> Gap:
        """The gap that begins at the offset `start`, where a token ends."""
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
        """Whether a comment ends there that only a line end closes."""
        number = self._starting.get(offset, len(self._tokens))
        return number > 0 and self._tokens[number - 1].text.startswith("//")

    def owned_end(self, start: int, tail: Iterable[Token]) -> int:
        """Where the comments end that begin on the line of what ends at `start`; `tail` follows it."""
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
    """Where the line end stands that ends the line before the one of `offset`."""
    at = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    return at - 1 if at > 0 and text[at - 1 : at + 1] == "\r\n" else at


def taken_out(layout: Layout, place: Object, index: int) -> list[Cut]:
    """The cuts that take a member out, with its own comments."""
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
    """Where what belongs to a key begins."""

    line: int
    """With the line end above it, where it has lines of its own."""
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
    """Whether there is an empty line in it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n") > 1


def _span(layout: Layout, begins: _Beginning, value_end: int, behind: Gap, *, is_last: bool) -> Cut:
    """What is cut out: whole lines where it has them, and what follows on its line takes its place otherwise."""
    start, tail = (behind.comma.end, behind.after) if behind.comma else (value_end, behind.before)
    if is_last or any(has_line_end(token.text) for token in tail if token.kind == "whitespace"):
        end = layout.owned_end(start, tail)
        if not layout.ends_line_comment(begins.line):
            return Cut(begins.line, end)
        # A line comment must end where it did.
        blank = layout.text[end : behind.end]
        return Cut(begins.line if has_line_end(blank) else begins.text, end + len(blank) - len(blank.lstrip(" \t")))
    return Cut(begins.text, tail[0].end if tail and tail[0].kind == "whitespace" else start)


def own_comments(layout: Layout, place: Object, index: int) -> list[str]:
    """The comments that `taken_out` takes with a member, but for those inside it."""
    member, cut = place.members[index], taken_out(layout, place, index)[0]
    around = (range(cut.start, member.key.start), range(member.value.end, cut.end))
    return [token.text for token in layout.comments() if any(token.start in one for one in around)]


def put_in(layout: Layout, place: Object, before: str, after: str, behind: int) -> list[Cut]:
    """Cuts that put a member behind another, or first for -1.

    `before` is the member with what separates it; `after` ends a line.
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
    """Where a member ends, its comma included, and what follows; for -1 where the object opens."""
    opened = place.members[index].value.end if index >= 0 else place.start + 1
    gap = layout.gap(opened)
    return (gap.comma.end, gap.after) if gap.comma else (opened, gap.before)


def needs_line(layout: Layout, place: Object, behind: int) -> bool:
    """Whether a new member must stand on a line of its own: the others do, or a line comment is in the way."""
    if has_line_end(layout.text[place.start : place.members[0].key.start]):
        return True
    return layout.ends_line_comment(layout.owned_end(*_tail(layout, place, behind)))


def _has_comments(gap: Gap) -> bool:
    return any(token.kind == "comment" for token in (*gap.before, *gap.after))


def _emptied(text: str, cut: Cut, place: Object) -> Cut:
    """An object that becomes empty closes on the line on which it opened."""
    margin = margin_of(text, place.start)
    rest = text[cut.end : place.end - 1]
    for line_end in ("\r\n", "\n", "\r"):
        if cut.start < cut.end and rest.startswith(line_end + margin) and has_line_end(text[cut.start : cut.end]):
            return Cut(cut.start, cut.end + len(line_end + margin))
    return cut


def margin_of(text: str, offset: int) -> str:
    """The white space at the beginning of the line of `offset`."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    line = text[start:offset].removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]
