"""Tokenizes texts for search: splits, folds case and accents, removes stop words, and stems.

Identifiers are split (`getFileInfo`, `get_file_info`). Scripts without spaces yield pairs of characters. English and
Russian words are stemmed; words of other languages stay unchanged. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from mcp_workbench.catalog.search.stopwords import STOP

SEARCH_WORD_LENGTH = 200
"""A longer run of characters without a space is data and is skipped."""
SEARCH_REMEMBERED_WORDS = 16_384
"""Size of the caches of stems: the words of a catalog repeat."""

_DATA = re.compile(rf"[!-~]{{{SEARCH_WORD_LENGTH},}}")
_PIECE = re.compile(rf"[^\W_]{{1,{SEARCH_WORD_LENGTH}}}")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
_ENDS_IN_DIGITS = re.compile(r"([a-z]{3,})[0-9]+\Z")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_VOWEL = re.compile("[aeiouy]")
_SYLLABLE = re.compile("[^aeiouy]*[aeiouy][^aeiouywx]")
_CYRILLIC = re.compile("[\u0400-\u052f]")
_RUSSIAN_ENDING = re.compile(
    "(?:иями|ями|ами|ией|иям|иях|ого|его|ому|ему|ыми|ими|ов|ев|ей|ой|ий|ый|ом|ем|ам|ям|ах|ях|ая|яя|ое|ее|"  # noqa: RUF001
    "ие|ые|их|ых|ую|юю|ия|ию|ии|ть|[аеиоуыьэюяй])\\Z"
)
_WHOLE = frozenset(("news", "canvas", "embed"))
"""Words whose last letters are not an ending."""
_STEM_LENGTH = 3
"""The shortest stem."""


def words(text: str) -> list[str]:
    """The stems of a text in order, without stop words unless there are no other words."""
    found = _PIECE.findall(_plain(text))
    return [word for piece in found for word in _telling(piece)] or [stem(word) for word in pieces(text)]


def pieces(text: str) -> list[str]:
    """All words of a text in order, folded but not stemmed."""
    return [word for piece in _PIECE.findall(_plain(text)) for word in _parts(piece)]


def _plain(text: str) -> str:
    """The text without accents and long runs of data, in compatibility form."""
    if not text.isascii():
        text = "".join(map(_base, unicodedata.normalize("NFKC", text)))
    return _DATA.sub(" ", text)


@lru_cache(maxsize=SEARCH_REMEMBERED_WORDS)
def _base(character: str) -> str:
    if unicodedata.category(character).startswith("M"):
        return ""
    base = unicodedata.normalize("NFD", character)[0]
    return base if base < "\u0590" else character


@lru_cache(maxsize=SEARCH_REMEMBERED_WORDS)
def _telling(piece: str) -> tuple[str, ...]:
    return tuple(stem(part) for part in _parts(piece) if part not in STOP)


def _parts(piece: str) -> list[str]:
    """The words in a piece. Two words are also one name (`GitHub`); trailing digits are optional."""
    if not piece.isascii():
        return _characters(piece.casefold())
    parts = [part.lower() for part in _PART.findall(piece)]
    if len(parts) == 2:  # noqa: PLR2004
        parts.append(piece.lower())
    return parts + [match[1] for part in parts if (match := _ENDS_IN_DIGITS.match(part))]


def _characters(piece: str) -> list[str]:
    """Pairs of characters for scripts without spaces, whole words for others."""
    found: list[str] = []
    end = 0
    for match in _UNSPACED.finditer(piece):
        found += [piece[end : match.start()]] if match.start() > end else []
        run, end = match[0], match.end()
        found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
    return found + ([piece[end:]] if end < len(piece) else [])


@lru_cache(maxsize=SEARCH_REMEMBERED_WORDS)
def stem(word: str) -> str:
    """A word without its ending: `files`, `filing` and `file` have one stem."""
    if not word.isascii():
        return _without_russian_ending(word) if _CYRILLIC.match(word) else word
    return _without_e(_without_ending(_singular(word))) if word.isalpha() and len(word) > _STEM_LENGTH else word


def _singular(word: str) -> str:
    if word in _WHOLE:
        return word
    if word.endswith("ies") and len(word) > _STEM_LENGTH + 1:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_ending(word: str) -> str:
    """A verb without `ing` or `ed`: `stopping`, `filing`, `reading` become `stop`, `file`, `read`."""
    if word in _WHOLE or word.endswith("eed"):
        return word
    if word.endswith("ied"):
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= _STEM_LENGTH and _VOWEL.search(rest):
            if len(rest) > _STEM_LENGTH and rest[-1] == rest[-2] and rest[-1] not in "lsz":
                return rest[:-1]
            return rest + "e" if _SYLLABLE.fullmatch(rest) else rest
    return word


def _without_e(word: str) -> str:
    """`create` becomes `creat`, as `creating` does. Short words keep their `e`: `plane` is not `plan`."""
    return word[:-1] if word.endswith("e") and not _SYLLABLE.fullmatch(word[:-1]) else word


def _without_russian_ending(word: str) -> str:
    rest = _RUSSIAN_ENDING.sub("", word)
    return rest if len(rest) >= _STEM_LENGTH else word
