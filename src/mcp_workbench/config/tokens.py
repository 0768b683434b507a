"""The tokens of JSON with comments: whitespace and comments are tokens too.

Guarantees: the texts of all tokens, joined, are the file. A text that ends in the middle of a token,
or holds something that is none, is a `ConfigError` with line and column that repeats no value. It does
not know which token may follow which.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from mcp_workbench.config.source import BOM, Source
from mcp_workbench.text.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TokenKind = Literal["bom", "whitespace", "comment", "string", "number", "word", "punctuation"]

# Possessive quantifiers: a string of megabytes must not leave a backtracking stack behind.
_TOKEN = re.compile(
    r"""
      (?P<whitespace>[ \t\r\n]++)
    | (?P<comment>//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)
    | (?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+")
    | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![0-9A-Za-z_.+-]))
    | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)
    | (?P<punctuation>[{}\[\],:])
    """,
    re.VERBOSE,
)
_STRING_START = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+')
INSIGNIFICANT = frozenset(("bom", "whitespace", "comment"))


class Token(NamedTuple):
    """A piece of the file; joined, the pieces are the file."""

    kind: TokenKind
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens(source: Source, where: Callable[[], str] = lambda: "") -> Iterator[Token]:
    """All tokens of the text in order; `where` tells the path for an error message."""
    text = source.text
    offset = 0
    if text.startswith(BOM):
        yield Token("bom", 0, BOM)
        offset = len(BOM)
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            problem, at, hint = _diagnose(text, offset)
            raise source.error(at, problem, path=where(), hint=hint)
        yield Token(match.lastgroup, offset, match.group())  # pyright: ignore[reportArgumentType] -- the groups are the kinds
        offset = match.end()


def _diagnose(text: str, offset: int) -> tuple[str, int, str]:
    """Why no token starts here: the problem, its offset and what to do."""
    character = text[offset]
    if character == '"':
        return _diagnose_string(text, offset)
    if character == "'":
        return "a string must be in double quotes", offset, "Write \" instead of '."
    if text.startswith("/*", offset):
        return "this comment is never closed", offset, "Close it with */."
    if character in "+-.0123456789":
        return "this is not a valid number", offset, "JSON numbers look like 20, -1 or 0.5; put text in double quotes."
    return f"unexpected character '{escape(character)}'", offset, ""


def _diagnose_string(text: str, offset: int) -> tuple[str, int, str]:
    match = _STRING_START.match(text, offset)
    stop = match.end() if match else offset
    if text[stop : stop + 1] == "\\":
        return "invalid escape in a string", stop, "A backslash in text is written as two: \\\\."
    if text[stop : stop + 1] in ("", "\r", "\n"):
        return "this string is never closed", offset, 'Close it with " on the same line.'
    return "a control character in a string must be escaped", stop, "Write a tab as \\t, others as \\u0000."
