"""Sanitizes untrusted text for people and models: one line, nothing invisible.

Control characters, format characters (zero-width, right-to-left marks), line and paragraph
separators, lone surrogates and private-use characters become escapes. Ordinary text of any script is unchanged.
"""

from __future__ import annotations

import unicodedata

NAMES_SHOWN = 20
"""Names that an error lists."""
NAME_SHOWN_LENGTH = 200
"""Characters of a hostile name that an error or a log line repeats."""

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def escape(text: str, length: int = NAME_SHOWN_LENGTH) -> str:
    """`text` with invisible characters escaped, cut after `length` characters."""
    cut = text if len(text) <= length else text[:length] + "…"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(_escape_character(character) for character in cut)


def slashed(*names: str) -> str:
    r"""The name of a server or a tool for people: `toolbox/server/tool`.

    `/` and `\` inside a name are escaped, so different names never look the same: toolbox `a`, server `b/c` is
    `a/b\/c`, and toolbox `a/b`, server `c` is `a\/b/c`. Programs get the names as separate fields.
    """
    return "/".join(_escape_slashes(name) for name in names)


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 tool`, `2 tools`; `many` is the plural where an `s` does not make it."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _escape_slashes(name: str) -> str:
    cut = name if len(name) <= NAME_SHOWN_LENGTH else name[:NAME_SHOWN_LENGTH] + "…"
    escaped = cut.replace("\\", r"\\").replace("/", r"\/")
    return escape(escaped, len(escaped))


def _escape_character(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()
