"""Fits texts into token budgets: estimates tokens, and sanitizes and shortens the instructions of servers.

The estimate loads no tokenizer. It splits a text as GPT-4o's tokenizer (o200k) does before the vocabulary lookup: into
words with the preceding mark, numbers of up to three digits, and runs of marks. The cost of a piece depends on its kind
and length. The weights are fitted to tool lists of public catalogs; a fit to half of their servers did as well on the
other half. Of the answers of 300 tokens or more, 99 in 100 are estimated within 10 %, and all within 19 %, so fill a
budget only up to `usable`. Languages other than English vary more.

Instructions are foreign text: invisible characters are escaped and the length is bounded.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Raw

from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import jsonrpc

INSTRUCTIONS_LENGTH = 4000
"""Characters of a server's instructions that are kept: two pages, enough for nearly all servers."""
INSTRUCTIONS_LEAST_LENGTH = 120
"""The shortest length that instructions are cut to before whole servers are left out: a sentence or two."""
INSTRUCTIONS_SHARE: Final = 4
"""Instructions take at most `1 / INSTRUCTIONS_SHARE` of the budget: most of it is for the tools."""
_SENTENCE_END: Final = re.compile("[.!?](?=\\s)|[\u3002\uff01\uff1f]|(?=\n)")
_TAB_WIDTH: Final = 4

_RESERVE, _RESERVE_LEAST = 16, 64
"""Margin for estimates that are too low: `1 / _RESERVE` of a budget, but at least `_RESERVE_LEAST` tokens."""

_REMEMBERED_LENGTH: Final = 32
"""The cost of longer pieces is not cached: a hostile text may be one piece of megabytes."""
_ASCII_END: Final = 0x80
_PIECE: Final = re.compile(
    rb"[^\r\n0-9A-Za-z\x80-\xff]?(?:[A-Z]*[a-z\x80-\xff]+|[A-Z]+)|[0-9]{1,3}| ?[^\s0-9A-Za-z\x80-\xff]+|\s+"
)
_SPACED, _UNDERSCORED, _MARKED, _PLAIN = 0.98, 1.3, 1.48, 0.9
"""Cost of a word by the mark before it: the vocabulary has most words after a space, few after other marks."""
_MARKED_CAPITAL, _CAPITAL, _MIXED, _UPPER = 0.84, 0.06, 1.6, 0.42
"""Added for `(Name`, ` Name` and `XMLHttp`, and for each letter of a word in capitals."""
_LONGER, _LONG, _SPACED_UPPER = {True: (0.02, 0.2), False: (0.085, 0.28)}, (4, 11), 0.22
"""Added for each letter after the 4th and after the 11th, for words after a space and for others."""
_RUN, _LONG_RUN, _SPACE = (3, 0.4), (12, 0.25), 0.02
"""Added for each mark after the 3rd and after the 12th, and for each space after the first."""
_FOREIGN: Final = (
    *(0.0,) * 0xC0, *(1.7,) * 14, *(0.2,) * 18, 0.36, 0.6, 0.9, *(0.65,) * 7, *(0.4,) * 4, *(0.9,) * 2, *(2.5,) * 16,
)  # fmt: skip
"""Cost by first byte of a character: accented letters, alphabets, signs, ideographs, syllables, rare signs, emoji."""


def estimate(text: bytes) -> int:
    """Estimated tokens of a text in UTF-8. Takes about 0.1 s per megabyte."""
    pieces = Counter(_PIECE.findall(text))
    values = text.count(b"'|'")  # one token more than other runs of marks; signatures have many
    return math.ceil(values + sum([_cost_of(piece) * times for piece, times in pieces.items()]))


def usable(budget: int) -> int:
    """The highest estimate of a text that must not exceed a budget."""
    return budget - max(budget // _RESERVE, _RESERVE_LEAST)


def _cost_of(piece: bytes) -> float:
    return _remembered_cost(piece) if len(piece) <= _REMEMBERED_LENGTH else _cost(piece)


@lru_cache(maxsize=16_384)
def _remembered_cost(piece: bytes) -> float:
    return _cost(piece)


def _cost(piece: bytes) -> float:
    if piece[-1] >= _ASCII_END or piece[-1:].isalpha():
        return _word(piece)
    if piece.isspace():
        return _SPACED + _SPACE * (len(piece) - 1)
    length, (short, more), (long, most) = len(piece), _RUN, _LONG_RUN
    return 1 + more * max(0, min(length, long) - short) + most * max(0, length - long)


def _word(piece: bytes) -> float:
    foreign = 0.0 if piece.isascii() else sum([_FOREIGN[byte] for byte in piece])
    mark = piece[:1] if piece[0] < _ASCII_END and not piece[:1].isalpha() else b""
    base = foreign + {b"": _PLAIN, b" ": _SPACED, b"_": _UNDERSCORED}.get(mark, _MARKED)
    letters = [byte for byte in piece[len(mark) :] if byte < _ASCII_END]
    length, capitals = len(letters), sum([byte <= ord("Z") for byte in letters])
    if capitals > 1:
        base += (_SPACED_UPPER if mark == b" " else _UPPER) * (capitals - 2) + (_MIXED if capitals < length else 0.0)
        length -= capitals
    elif capitals and length > 1:
        base += _CAPITAL if mark in (b"", b" ") else _MARKED_CAPITAL
    (more, most), (short, long) = _LONGER[mark == b" "], _LONG
    return base + more * max(0, min(length, long) - short) + most * max(0, length - long)


def read_instructions(hello: Raw) -> str:
    """The instructions in a server's answer to `initialize` or `server/discover`; empty if there are none."""
    text = (jsonrpc.text_or_none(jsonrpc.members(hello).get("instructions")) or "").strip()
    cut = shortened(text, INSTRUCTIONS_LENGTH)
    return "\n".join(escape(line.expandtabs(_TAB_WIDTH).rstrip(), len(cut)) for line in cut.splitlines())


def shortened(text: str, length: int) -> str:
    """At most `length` characters plus an ellipsis, cut after a sentence if that keeps half, else after a word."""
    if len(text) <= length:
        return text
    kept = text[:length]
    ends = (found.end() for found in _SENTENCE_END.finditer(text, 0, length + 1))
    end = max((end for end in ends if end <= length), default=0)
    if end < length // 2:
        words = kept if text[length].isspace() else kept.rpartition(" ")[0]
        return f"{(words or kept).rstrip()}…"
    return f"{kept[:end].rstrip()} …"


def fitted(texts: Mapping[str, str], tokens: int) -> dict[str, Any]:
    """The members of an answer for the servers' instructions, in at most `tokens`; empty if there are none.

    Long texts are shortened first. If that is not enough, the last servers are left out and counted.
    """
    fitting, length = dict(texts), INSTRUCTIONS_LENGTH
    while _members_cost(fitting, texts) > tokens and length > INSTRUCTIONS_LEAST_LENGTH:
        length = max(length // 2, INSTRUCTIONS_LEAST_LENGTH)
        fitting = {server: shortened(text, length) for server, text in texts.items()}
    while fitting and _members_cost(fitting, texts) > tokens:
        fitting.popitem()
    return _members(fitting, texts)


def _members_cost(fitting: Mapping[str, str], texts: Mapping[str, str]) -> int:
    return estimate(jsonrpc.encode(members)) if (members := _members(fitting, texts)) else 0


def _members(fitting: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    left_out = len(texts) - len(fitting)
    members: dict[str, Any] = {"instructions": fitting} if fitting else {}
    return members | ({"instructions_left_out": left_out} if left_out else {})
