"""English stop words, weak words and synonyms, from `words.txt`. They concern tools in general and name no product."""

from __future__ import annotations

from pathlib import Path


def _sections() -> list[str]:
    text = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
    return ["".join(section.splitlines(keepends=True)[1:]) for section in text.split("\n\n")]


_STOP, _WEAK, _GROUPS = _sections()
STOP = frozenset(_STOP.split())
WEAK = frozenset(_WEAK.split())
GROUPS = tuple(tuple(group.split()) for group in _GROUPS.split("/"))
