"""Parser for JSON with comments and trailing commas that keeps the position of every token.

Guarantees: every key and value has its start and end in the text, so that an edit can leave everything else alone.
Except for comments and trailing commas it is strict JSON: no NaN, no single quotes, no raw control characters, no lone
surrogates, no duplicate keys. Every failure is a `ConfigError` with line and column that repeats no value.
"""

from __future__ import annotations

import re
from math import isinf
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

import msgspec

from mcp_workbench.config.jsonc.source import BOM, SourceText, extend_path
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.text.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_workbench.errors import ConfigError


TokenKind = Literal["bom", "whitespace", "comment", "string", "number", "word", "punctuation"]

# Possessive quantifiers: a string of megabytes must not build up a backtracking stack.
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
    """A piece of the text. All tokens joined are the text."""

    kind: TokenKind
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens(source: SourceText, where: Callable[[], str] = lambda: "") -> Iterator[Token]:
    """All tokens of the text in order. `where` returns the path for an error message."""
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
    """Why no token starts here: the problem, its offset and a hint."""
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


_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_NOT_NUMBERS = frozenset(("NaN", "Infinity"))
_CUT = "Is a closing bracket missing, or the end of the file?"


class Scalar(msgspec.Struct, frozen=True):
    """A string, number, boolean or null. `repr` omits its value, which may be a secret."""

    start: int
    end: int
    value: str | int | float | bool | None

    def __repr__(self) -> str:
        return f"Scalar({self.start}, {self.end})"


class Array(msgspec.Struct, frozen=True):
    start: int
    end: int
    items: tuple[Node, ...]


class Member(msgspec.Struct, frozen=True):
    """A key and its value; the span from `key.start` to `value.end` is the whole member."""

    key: Scalar
    name: str
    value: Node


class Object(msgspec.Struct, frozen=True):
    start: int
    end: int
    members: tuple[Member, ...]


Node = Scalar | Array | Object


def parse(source: SourceText, limits: Limits = DEFAULTS, *, lone_surrogates: bool = False) -> Node:
    """The tree of the whole text. `lone_surrogates` accepts those, which programs write that cut strings."""
    return _Parser(source, limits, lone_surrogates=lone_surrogates).document()


def plain(node: Node) -> object:
    """The node as Python values, as `json.loads` returns them."""
    if isinstance(node, Object):
        return {member.name: plain(member.value) for member in node.members}
    if isinstance(node, Array):
        return [plain(item) for item in node.items]
    return node.value


def kind_of(node: Node) -> str:
    """The kind of a node in words: `a string`, `an object`, `null`."""
    if isinstance(node, Object):
        return "an object"
    if isinstance(node, Array):
        return "a list"
    if node.value is None:
        return "null"
    if isinstance(node.value, bool):
        return "true or false"
    return "a string" if isinstance(node.value, str) else "a number"


class _Parser:
    """A recursive-descent parser with one token of lookahead."""

    def __init__(self, source: SourceText, limits: Limits, *, lone_surrogates: bool) -> None:
        self._source = source
        self._limits = limits
        self._lone_surrogates = lone_surrogates
        self._steps: list[str | int] = []
        self._open: list[int] = []
        self._values = 0
        self._tokens = (token for token in tokens(source, self._path) if token.kind not in INSIGNIFICANT)
        self._token = next(self._tokens, None)

    def document(self) -> Node:
        if self._ended():
            raise self._error("the file is empty", 'Start with {"toolboxes": {}} or copy an example.')
        root = self._value()
        if not self._ended():
            raise self._error("expected nothing more after the end of the configuration", "Is a bracket too many?")
        return root

    def _path(self) -> str:
        path = ""
        for step in self._steps:
            path = extend_path(path, step)
        return path

    def _error(self, problem: str, hint: str = "", offset: int | None = None) -> ConfigError:
        if offset is None:
            offset = self._token.start if self._token else len(self._source.text)
        return self._source.error(offset, problem, path=self._path(), hint=hint)

    def _advance(self) -> None:
        self._token = next(self._tokens, None)

    def _ended(self) -> bool:
        return self._token is None

    def _at(self, text: str) -> bool:
        return self._token is not None and self._token.text == text

    def _value(self) -> Node:
        token = self._token
        if token is None:
            self._fail_at_end("expected a value")
        self._values += 1
        if self._values > self._limits.config_values:
            raise self._error(f"the file holds more than {self._limits.config_values} values", "Is it the right file?")
        if token.text == "{":
            return self._object()
        if token.text == "[":
            return self._array()
        return self._scalar(token)

    def _scalar(self, token: Token) -> Scalar:
        if token.kind == "string":
            value = self._string(token)
        elif token.kind == "number":
            value = self._number(token)
        elif token.text in _WORDS:
            value = _WORDS[token.text]
        elif token.text in _NOT_NUMBERS:
            raise self._error(f"{token.text} is not allowed in JSON", "Write a finite number.")
        elif token.kind == "word":
            raise self._error("expected a value, found a bare word", "Put text in double quotes.")
        else:
            raise self._error(f"expected a value, found '{token.text}'", "Is something missing before this?")
        self._advance()
        return Scalar(token.start, token.end, value)

    def _string(self, token: Token) -> str:
        if "\\" not in token.text:
            return token.text[1:-1]
        try:
            value = msgspec.json.decode(token.text.encode(), type=str)
            value.encode()
        except (msgspec.DecodeError, UnicodeError):
            if self._lone_surrogates:
                import json  # noqa: PLC0415 -- such strings are rare

                return json.loads(token.text)
            raise self._error(
                "half of a surrogate pair in a string", "Write the character itself, or both \\u escapes."
            ) from None
        return value

    def _number(self, token: Token) -> int | float:
        try:
            number = int(token.text) if token.text.lstrip("-").isdecimal() else float(token.text)
            if not isinf(number):
                return number
        except (ValueError, OverflowError):  # more digits than Python converts, or than a float holds
            pass
        raise self._error("this number is too large")

    def _object(self) -> Object:
        start = self._enter()
        members: list[Member] = []
        seen: dict[str, int] = {}
        more = True
        while more and not self._at("}"):
            member = self._member(seen)
            members.append(member)
            more = self._separator("}", member.name)
        return Object(start, self._leave(), tuple(members))

    def _member(self, seen: dict[str, int]) -> Member:
        key = self._key(seen)
        name = str(key.value)
        if not self._at(":"):
            self._fail_without_colon()
        self._steps.append(name)
        self._advance()
        value = self._value()
        self._steps.pop()
        return Member(key, name, value)

    def _fail_without_colon(self) -> NoReturn:
        # Does not repeat the key: it may be a value in the wrong place, and so a secret.
        if self._token is None:
            self._fail_at_end("expected ':' after a key")
        raise self._error("expected ':' after a key", 'Write "key": value.')

    def _key(self, seen: dict[str, int]) -> Scalar:
        token = self._token
        if token is None:
            self._fail_at_end("expected a key or '}'")
        if token.kind != "string":
            raise self._error("expected a key in double quotes", 'Keys are written as "key".')
        key = self._scalar(token)
        name = str(key.value)
        if name in seen:
            self._steps.append(name)
            line, column = self._source.position(seen[name])
            problem = f"duplicate key '{escape(name)}', first defined at line {line}, column {column}"
            raise self._error(problem, "Keep one of the two.", token.start)
        seen[name] = token.start
        return key

    def _array(self) -> Array:
        start = self._enter()
        items: list[Node] = []
        more = True
        while more and not self._at("]"):
            self._steps.append(len(items))
            items.append(self._value())
            self._steps.pop()
            more = self._separator("]", len(items))
        return Array(start, self._leave(), tuple(items))

    def _separator(self, closer: str, last: str | int) -> bool:
        """Consume a comma, if there is one. `last` is the key or the number of the value before it."""
        if self._at(","):
            self._advance()
            if self._token is None:
                self._fail_at_end(f"expected '{closer}'")
            return True
        if self._at(closer):
            return False
        before = f"the value of '{escape(last)}'" if isinstance(last, str) else f"item {last} of the list"
        if self._token is None:
            self._fail_at_end(f"expected ',' or '{closer}' after {before}")
        raise self._error(f"expected ',' or '{closer}' after {before}", "Is a comma missing before this?")

    def _enter(self) -> int:
        start = self._token.start if self._token else 0
        if len(self._open) >= self._limits.config_depth:
            raise self._error(f"nested deeper than {self._limits.config_depth} levels")
        self._open.append(start)
        self._advance()
        return start

    def _leave(self) -> int:
        if self._token is None:
            self._fail_at_end("expected the end of a value")
        end = self._token.end
        self._open.pop()
        self._advance()
        return end

    def _fail_at_end(self, expected: str) -> NoReturn:
        if not self._open:
            raise self._error(f"{expected}, but the file ends", _CUT)
        line, column = self._source.position(self._open[-1])
        bracket = self._source.text[self._open[-1]]
        problem = f"{expected}, but the file ends: '{bracket}' at line {line}, column {column} is not closed"
        raise self._error(problem, _CUT)
