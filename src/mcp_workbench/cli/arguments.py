"""Tool arguments as a user types them, checked against the tool's schema before anything is sent.

`key=value` has the type that the schema declares for the key. `key:=JSON` is always JSON. A single word that begins
with `{`, or `-` for stdin, holds all arguments as one JSON object.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from mcp_workbench.cli.parameters import Parameters, json_of
from mcp_workbench.errors import InvalidParameters
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import jsonrpc

STDIN: Final = "-"
_HOW_BYTES: Final = "Convert it to UTF-8, the only encoding of MCP."
_WORD = re.compile(r"(?s)(.+?)(:?=)(.*)")


class TypedArguments(NamedTuple):
    """Arguments as typed, before the tool's schema is known."""

    words: Sequence[str]
    whole: str | None = None
    """All arguments as one JSON text."""

    @classmethod
    def read(cls, words: Sequence[str]) -> TypedArguments:
        """Take the words of a command line, and read stdin if one of them is `-`. Raises `InvalidParameters`."""
        for word in words:
            if not _is_text(word):
                raise InvalidParameters(f"'{escape(word)}' is not UTF-8", hint=_HOW_BYTES)
        whole = [word for word in words if word == STDIN or word.lstrip().startswith("{")]
        if not whole:
            return cls(words)
        if len(words) > 1:
            problem = "arguments are given as key=value, or as JSON, not both"
            raise InvalidParameters(problem, hint="Put all of them into the JSON.")
        return cls((), (_stdin() if whole[0] == STDIN else whole[0]).strip())


def _stdin() -> str:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] -- None if the shell closed it
        raise InvalidParameters("stdin is closed", hint="Give the arguments as key=value, or as JSON.")
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")  # JSON is UTF-8, whatever the locale says
    except UnicodeDecodeError:
        raise InvalidParameters("stdin is not UTF-8", hint=_HOW_BYTES) from None
    if not text.strip():
        raise InvalidParameters("stdin is empty", hint="Send one JSON object, {} if the tool needs no arguments.")
    return text


def read_arguments(typed: TypedArguments, parameters: Parameters) -> Raw:
    """Convert typed arguments into one JSON object. Raises `InvalidParameters`."""
    if typed.whole is not None:
        return _read_whole(typed.whole, parameters)
    given: dict[str, Raw] = {}
    words = [_split(word, parameters) for word in typed.words]
    times = Counter(name for name, _, _ in words)
    for name, sign, text in words:
        is_element = times[name] > 1
        raw = parameters.typed(name, text, is_element=is_element) if sign == "=" else _json(name, text)
        given[name] = _joined(name, given.get(name), raw, parameters)
    parameters.check(given, is_typed=True)
    return Raw(jsonrpc.encode(given))


def _read_whole(text: str, parameters: Parameters) -> Raw:
    raw = json_of(text, "{")
    if raw is None:
        problem = f"the arguments are not a JSON object{_why_not(text)}"
        raise InvalidParameters(problem, hint=f"Its parameters: {parameters.signature}")
    parameters.check(jsonrpc.members(raw), is_typed=False)
    return raw


def _why_not(text: str) -> str:
    """The JSON syntax error in a text; empty if the text is valid JSON, but not an object."""
    try:
        msgspec.json.format(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        return f": {error}"
    return ""


def _split(word: str, parameters: Parameters) -> tuple[str, str, str]:
    """Split a word into a known name, `=` or `:=`, and a value."""
    match = _WORD.fullmatch(word)
    if match is None:
        hint = f"Write key=value, or all as JSON. Its parameters: {parameters.signature}"
        raise InvalidParameters(f"'{escape(word)}' is not key=value", hint=hint)
    name, sign, text = match.groups()
    if name not in parameters.names:
        parameters.check([name, *parameters.required], is_typed=True)  # report a wrong name first
    return name, sign, text


def _json(name: str, text: str) -> Raw:
    try:
        return Raw(msgspec.json.format(text.encode(), indent=-1))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise InvalidParameters(
            f"'{escape(name)}' is not JSON: '{escape(text)}'", hint="Quotes may be missing."
        ) from None


def _joined(name: str, before: Raw | None, raw: Raw, parameters: Parameters) -> Raw:
    """Append to a list that is given element by element."""
    if before is None:
        return raw
    one, other = bytes(before), bytes(raw)
    if not parameters.is_list(name) or not (one.startswith(b"[") and other.startswith(b"[")):
        raise InvalidParameters(f"'{escape(name)}' is given twice", hint="It takes one value: leave out the others.")
    inside = [part for part in (one[1:-1], other[1:-1]) if part.strip()]
    return Raw(b"[" + b",".join(inside) + b"]")


def _is_text(word: str) -> bool:
    """Whether a word is valid UTF-8: a command line may hold any bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
