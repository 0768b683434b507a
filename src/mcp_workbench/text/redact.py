"""Redacts secrets in text: finds them in their usual encodings and replaces them by `***`.

Guarantees: nothing is left of a registered secret, whether it appears plain, in base64 (also inside a longer encoded
text), URL-encoded, or escaped as in JSON and Python, whole or line by line. It never raises, and returns a text without
secrets unchanged. Searching a log line for a thousand secrets takes a tenth of a millisecond.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mcp_workbench.text.sanitize import escape

SECRET_LENGTH = 6
"""Shorter values are not redacted: hiding `1` or `true` would make every log line unreadable."""
ESCAPE_LAYERS = 3
"""Nested escapes that are resolved in search of a secret. JSON in JSON has two."""
SECRET_PIECE_LENGTH = 256
"""A longer secret is searched for in pieces of this length, so that no text is scanned far beyond the part that is
shown."""
FEW_PATTERNS = 500
"""Up to this many patterns are searched one by one. Beyond that, a table of their first bytes is faster."""

HIDDEN: Final = b"***"

_ESCAPED_BYTE: Final = 3
"""The length of an encoded byte, such as `%41`."""
_HEX: Final = rb"[0-9A-Fa-f]"
_PERCENT: Final = rb"%" + _HEX * 2
_PAIR: Final = rb"\\u[dD][89abAB]" + _HEX * 2 + rb"\\u[dD][c-fC-F]" + _HEX * 2
_BACKSLASH: Final = _PAIR + rb"|\\u" + _HEX * 4 + rb"|\\x" + _HEX * 2 + rb"|\\[\"'\\/bfnrt]"
_CONTINUATION: Final = range(0x80, 0xC0)
"""Continuation bytes of UTF-8."""
_CONTROLS: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class Redactor:
    """Replaces secrets by `***`."""

    def __init__(self) -> None:
        self._patterns: dict[bytes, None] = {}
        self._by_head: dict[bytes, list[bytes]] = {}
        self._longest = 0
        self._pending: list[Callable[[], Iterable[str]]] = []
        self._collecting = threading.Lock()

    @property
    def longest(self) -> int:
        """The most bytes that a secret can take in any encoding."""
        self._collect()
        return self._longest

    def hide_later(self, secrets: Callable[[], Iterable[str]]) -> None:
        """Register secrets that are computed at the first redaction, which most runs never reach."""
        self._pending.append(secrets)

    def _collect(self) -> None:
        if not self._pending:
            return
        with self._collecting:  # other threads wait until all secrets are known
            for secrets in tuple(self._pending):
                self.hide(secrets())
                self._pending.remove(secrets)

    def hide(self, secrets: Iterable[str]) -> None:
        """Register secrets. Short values and existing paths are ignored, since they are not secret."""
        for pattern in (pattern for secret in secrets if _is_worth_hiding(secret) for pattern in _patterns(secret)):
            if pattern not in self._patterns:
                self._patterns[pattern] = None
                self._by_head.setdefault(pattern[:SECRET_LENGTH], []).append(pattern)
                self._longest = max(self._longest, _ESCAPED_BYTE * len(pattern))

    def forget(self, secrets: Iterable[str]) -> None:
        """Unregister secrets, such as expired tokens, which would accumulate."""
        self._collect()
        for pattern in {pattern for secret in secrets if _is_worth_hiding(secret) for pattern in _patterns(secret)}:
            if pattern in self._patterns:
                del self._patterns[pattern]
                self._by_head[pattern[:SECRET_LENGTH]].remove(pattern)

    def __call__(self, text: str, start: int = 0, end: int | None = None) -> str:
        """`text[start:end]` without secrets, including those that extend beyond it."""
        self._collect()
        data = text.encode("utf-8", "surrogatepass")
        spans = self._secrets(data) if self._patterns else []
        if not spans:
            return text[start:end]
        at, last = (len(text[:place].encode("utf-8", "surrogatepass")) for place in (start, end))
        pieces: list[bytes] = []
        for begins, ends in spans:
            if ends > at and begins < last:
                pieces += [data[at:begins], HIDDEN]
                at = ends
        return b"".join([*pieces, data[at:last]]).decode("utf-8", "surrogatepass")

    def finds(self, data: bytes) -> bool:
        """Whether the data contains a secret."""
        self._collect()
        return bool(self._patterns and self._secrets(data))

    def _secrets(self, data: bytes) -> list[tuple[int, int]]:
        """The spans of secrets, in order, with overlapping ones merged."""
        spans = (span for view, steps in _views(data) for span in self._search_view(data, view, steps))
        merged: list[tuple[int, int]] = []
        for begins, ends in sorted(_whole_characters(data, *span) for span in spans):
            if merged and begins <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(ends, merged[-1][1]))
            else:
                merged.append((begins, ends))
        return merged

    def _search_view(self, data: bytes, view: bytes, steps: tuple[_Escapes, ...]) -> Iterator[tuple[int, int]]:
        """The spans of secrets of a view, as positions in the original text."""
        few = len(self._patterns) < min(2 * len(view), FEW_PATTERNS)
        found = list(self._search_each(view) if few else self._search_by_head(view))
        if found:
            origins = _origins(data, steps)
            for begins, ends in found:
                while origins[ends] == origins[ends - 1]:  # inside the bytes of one escape
                    ends += 1  # noqa: PLW2901
                yield origins[begins], origins[ends]

    def _search_each(self, view: bytes) -> Iterator[tuple[int, int]]:
        for pattern in self._patterns:
            begins = view.find(pattern)
            while begins >= 0:
                ends = begins + len(pattern)
                at = view.find(pattern, begins + 1)
                while begins < at < ends:  # occurrences may overlap
                    ends = at + len(pattern)
                    at = view.find(pattern, at + 1)
                yield begins, ends
                begins = at

    def _search_by_head(self, view: bytes) -> Iterator[tuple[int, int]]:
        size, by_head = SECRET_LENGTH, self._by_head
        for at in range(len(view) - size + 1):
            for pattern in by_head.get(view[at : at + size], ()):
                if view.startswith(pattern, at):
                    yield at, at + len(pattern)


# -- escapes


class _Escapes(NamedTuple):
    pattern: bytes
    meaning: Callable[[re.Match[bytes]], bytes]


def _unquoted(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[0][1:], 16),))


def _unescaped(match: re.Match[bytes]) -> bytes:
    kind, rest = match[0][1:2], match[0][2:]
    if kind == b"x":
        return bytes((int(rest, 16),))
    if kind == b"u":
        units = b"".join(int(unit, 16).to_bytes(2) for unit in rest.split(b"\\u"))
        return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
    return _CONTROLS.get(kind, kind)


_URL: Final = _Escapes(_PERCENT, _unquoted)
_TEXT: Final = _Escapes(_BACKSLASH, _unescaped)


def _views(data: bytes) -> Iterator[tuple[bytes, tuple[_Escapes, ...]]]:
    """The text unchanged, and with escapes resolved: of URLs, of JSON or Python, of JSON in JSON, and combinations."""
    view, steps = data, ()
    for _ in range(ESCAPE_LAYERS):
        yield view, steps
        if b"%" in view:
            yield re.sub(_URL.pattern, _URL.meaning, view), (*steps, _URL)
        if b"\\" not in view:
            return
        view, steps = re.sub(_TEXT.pattern, _TEXT.meaning, view), (*steps, _TEXT)


def _origins(data: bytes, steps: Iterable[_Escapes]) -> Sequence[int]:
    """The original position of each byte of a view, and of its end."""
    origins: Sequence[int] = range(len(data) + 1)
    for pattern, meaning in steps:
        new: list[int] = []
        view, at = bytearray(), 0
        for match in re.finditer(pattern, data):
            character = meaning(match)
            new += [*origins[at : match.start()], *[origins[match.start()]] * len(character)]
            view += data[at : match.start()] + character
            at = match.end()
        data, origins = bytes(view + data[at:]), [*new, *origins[at:]]
    return origins


def _whole_characters(data: bytes, begins: int, ends: int) -> tuple[int, int]:
    """Extend a span to whole characters, since a binary secret may match inside of one."""
    while begins and data[begins] in _CONTINUATION:
        begins -= 1
    while ends < len(data) and data[ends] in _CONTINUATION:
        ends += 1
    return begins, ends


# -- patterns of a secret


def _is_worth_hiding(value: str) -> bool:
    if len(value) < SECRET_LENGTH:
        return False
    ambient = (os.environ.get(name) for name in ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TMPDIR"))
    return value not in ambient and not (value.startswith("/") and os.path.exists(value))  # noqa: PTH110 -- pathlib costs a start-up import


def _patterns(secret: str) -> Iterator[bytes]:
    """The forms of a secret after escapes are resolved: whole, stripped, or line by line; also in base64."""
    for whole in {secret, secret.strip(), *secret.splitlines(), *secret.split("\n")}:
        for part in _pieces(whole):
            text, raw = part.encode("utf-8", "surrogatepass"), _bytes_of(part)
            # Web forms encode a space as a plus, and readers replace invalid UTF-8 by U+FFFD.
            yield from (text, text.replace(b" ", b"+"), raw, raw.decode("utf-8", "replace").encode())
            # Python and `escape` write \\xe4 for a character, where others mean a byte.
            for written in (repr(part)[1:-1], ascii(part)[1:-1], escape(part, len(part))):
                yield re.sub(_TEXT.pattern, _TEXT.meaning, written.encode("utf-8", "surrogatepass"))
            yield from _in_base64(raw)


def _pieces(text: str) -> Iterator[str]:
    """Split a long secret, so that a text need not be scanned far beyond the part that is shown."""
    size = SECRET_PIECE_LENGTH
    for start in range(0, len(text), size):
        piece = text[min(start, max(len(text) - size, 0)) :][:size]  # the last piece is as long as the others
        if len(piece) >= SECRET_LENGTH:
            yield piece


def _bytes_of(text: str) -> bytes:
    """The bytes of a value of the environment."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """The part of a base64 encoding that does not depend on the surrounding bytes, for each alignment."""
    from binascii import b2a_base64  # noqa: PLC0415 -- only needed if there are secrets

    for before in range(3):
        encoded = b2a_base64(bytes(before) + raw + bytes(3), newline=False)
        inside = encoded[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield inside
        yield inside.replace(b"+", b"-").replace(b"/", b"_")
