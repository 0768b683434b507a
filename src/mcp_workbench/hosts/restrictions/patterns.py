"""The rules of hosts name a tool by one string that holds the server's name; these functions find the tool's part.

A name is never split: the prefix that a host gives the tools of a known server is matched against the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ODD = "[!0-9A-Za-z-]"
"""A character that hosts replace by an underscore, or the underscore itself."""
_WORD = re.compile(r"[A-Za-z0-9_*-]+")
EVERYTHING = "*"


def remainders(pattern: str, prefix: str) -> list[str]:
    """The patterns for what follows `prefix` in the strings that `pattern` matches; `*` stands for any text."""
    positions = {0}
    for character in prefix:
        positions = {after for at in positions for after in _steps(pattern, at, character)}
    found = {pattern[at:] for at in positions} - {""}
    return [EVERYTHING] if any(not one.strip("*") for one in found) else sorted(found)


def _steps(pattern: str, at: int, character: str) -> Iterator[int]:
    while at < len(pattern) and pattern[at] == EVERYTHING:
        yield at
        at += 1
    if at < len(pattern) and pattern[at] == character:
        yield at + 1


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern in which only `*` is special matches the whole text."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split(EVERYTHING)), text, re.DOTALL) is not None


def exclusions(name: str) -> list[str]:
    """The filters against the tools that a host calls `name`, where it replaces unusual characters by underscores.

    A tool `mail.send` is `mail_send` there, so a rule for that name has to exclude both.
    """
    if not _WORD.fullmatch(name):
        return []  # no tool has such a name in the host
    return [f"!{name}", *([f"!{name.replace('_', _ODD)}"] if "_" in name else [])]
