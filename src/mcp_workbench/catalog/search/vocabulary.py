"""The words of all tools: which tools have them, how rare they are, and which known words an unknown one may mean.

Each word has a mark, one character. A text written in marks is a short string, so adjacent words are found quickly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from mcp_workbench.limits import Limits

SEARCH_TOOLS_LEAST = 50
"""The least number of tools that rarity assumes: few tools say nothing about how rare a word is."""
SEARCH_GUESS_LENGTH = 4
"""Letters from which an unknown word is completed; longer ones are also corrected."""
SEARCH_GUESS_CANDIDATES = 2000
"""The most known words with the same beginning that are compared with it; 17,500 real tools have at most 400."""
SEARCH_GUESSES = 3
"""Known words that replace an unknown one."""
SEARCH_GUESSED = 4000
"""Size of the caches of guesses and of name shares: queries repeat words."""
SEARCH_STEPS = 128
"""Impacts are rounded to `1 / SEARCH_STEPS`, so that equal values share one object."""

GAP = "\0"
"""Separates texts, so that no pair spans two of them; not the mark of a word."""
_BEGINNING = 2
_SKELETON, _SHORT_SKELETON = 4, 3
"""Consonants that make two words cognates; fewer are enough if the first two letters are equal too."""
_ENDING = re.compile("(?:ieren|iert|ung|en|er|ir|ar|re)\\Z")
"""Endings of German and Romance words that English lacks: `konvertieren`, `convertir`."""
_SOUNDS = {"ph": "f", "qu": "k", "ck": "k", "th": "t", "c": "k", "z": "s", "j": "g", "v": "f", "w": "f"}
"""Spellings that differ between languages."""


class Term:
    """A word, and its impact in each tool that has it, by tool number."""

    __slots__ = ("impacts", "mark", "owners", "word")

    def __init__(self, word: str, mark: str) -> None:
        self.word = word
        self.mark = mark
        self.impacts: dict[int, float] = {}
        self.owners = 0
        """Tools whose own texts have the word, not just their server's or toolbox's."""


class Vocabulary:
    """The words of the indexed tools."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._terms: dict[str, Term] = {}
        self._marked: dict[str, Term] = {}
        self._free: list[str] = []
        self._beginnings: dict[str, set[str]] = {}
        self._tools = 0
        self._shared: dict[int, float] = {}
        self._rarities: dict[int, float] = {}
        self._guessed: dict[str, list[Term]] = {}
        self._cognates: dict[str, list[str]] = {}

    def add(self, number: int, impacts: Mapping[str, float]) -> None:
        """Add a tool's words. New words beyond `limits.search_vocabulary` are left out."""
        self._count(1)
        terms, steps, shared = self._terms, SEARCH_STEPS, self._shared
        for word, impact in impacts.items():
            if (term := terms.get(word) or self._new(word)) is not None:
                step = int(impact * steps)
                term.impacts[number] = shared.get(step) or shared.setdefault(step, step / steps)

    def own(self, text: str, more: int = 1) -> None:
        """Count the words, as marks, of a tool's own texts; `more` is -1 to take them away."""
        for mark in set(text) - {GAP}:
            self._marked[mark].owners += more

    def remove(self, number: int, text: str, own: str) -> None:
        """Remove a tool with all of its words, and those of its own texts, as marks."""
        self._count(-1)
        self.own(own, -1)
        for mark in set(text) - {GAP}:
            term = self._marked[mark]
            del term.impacts[number]
            if not term.impacts:
                self._forget(term)

    def marks(self, words: Iterable[str]) -> str:
        """The marks of words; unknown words are left out."""
        terms = self._terms
        return "".join([terms[word].mark for word in words if word in terms])

    def find(self, word: str) -> Term | None:
        return self._terms.get(word)

    def named(self, mark: str) -> Term:
        return self._marked[mark]

    def rarity(self, term: Term | None) -> float:
        """The inverse document frequency of a word; None is a word that no tool has."""
        having = term.owners if term is not None else 0
        if (known := self._rarities.get(having)) is None:
            tools = max(self._tools, SEARCH_TOOLS_LEAST)
            known = self._rarities[having] = math.log(1 + (tools - having + 0.5) / (having + 0.5))
        return known

    def guesses(self, word: str) -> list[Term]:
        """The known words that an unknown one may mean: completions, corrections, halves or cognates."""
        if word not in self._guessed:
            if len(self._guessed) >= SEARCH_GUESSED:
                self._guessed.clear()
            self._guessed[word] = self._guess(word)
        return self._guessed[word]

    def _guess(self, word: str) -> list[Term]:
        least = SEARCH_GUESS_LENGTH
        if len(word) < least or not (word.isascii() and word.isalpha()):
            return []
        if len(known := self._beginnings.get(word[:_BEGINNING], ())) > SEARCH_GUESS_CANDIDATES:
            return []
        short, long = (len(word) - 1, len(word) + 1) if len(word) > least else (0, 0)
        slips = (other for other in known if short <= len(other) <= long and is_one_slip(word, other))
        near = {*slips, *(other for other in known if other.startswith(word))}
        near = sorted(near, key=lambda other: (abs(len(other) - len(word)), other))
        found = near[:SEARCH_GUESSES] or self._halves(word) or self._related(word)
        return [self._terms[other] for other in found]

    def _related(self, word: str) -> list[str]:
        """Cognates: `Kalender`, `calendario` and `calendrier` have the consonants of `calendar`."""
        if not self._cognates:
            for other in self._terms:
                self._cognates.setdefault(consonants(other), []).append(other)
        for form in (word, _ENDING.sub("", word)):
            key = consonants(form)
            near = self._cognates.get(key, []) if len(key) >= _SHORT_SKELETON else []
            if len(key) < _SKELETON:
                near = [other for other in near if other[:_BEGINNING] == word[:_BEGINNING]]
            if near:
                return near[:SEARCH_GUESSES]
        return []

    def _halves(self, word: str) -> list[str]:
        least = SEARCH_GUESS_LENGTH - 1
        for end in range(least, len(word) - least + 1):
            if word[:end] in self._terms and word[end:] in self._terms:
                return [word[:end], word[end:]]
        return []

    def _count(self, more: int) -> None:
        self._tools += more
        self._rarities.clear()
        self._guessed.clear()
        self._cognates.clear()

    def _new(self, word: str) -> Term | None:
        if len(self._terms) >= self._limits.search_vocabulary:
            return None
        term = Term(word, self._free.pop() if self._free else chr(len(self._terms) + 1))
        self._terms[word] = self._marked[term.mark] = term
        self._beginnings.setdefault(word[:_BEGINNING], set()).add(word)
        return term

    def _forget(self, term: Term) -> None:
        del self._terms[term.word], self._marked[term.mark]
        self._free.append(term.mark)
        beginning = term.word[:_BEGINNING]
        self._beginnings[beginning].discard(term.word)
        if not self._beginnings[beginning]:
            del self._beginnings[beginning]


def is_one_slip(word: str, other: str) -> bool:
    """True if one letter is missing, extra or wrong, or two adjacent ones are swapped."""
    if abs(len(word) - len(other)) > 1 or word == other:
        return False
    at = next((i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    if len(word) > len(other):
        return word[at + 1 :] == other[at:]
    if len(word) < len(other):
        return word[at:] == other[at + 1 :]
    swapped = word[at : at + 2] == other[at : at + 2][::-1]
    return word[at + 1 :] == other[at + 1 :] or (swapped and word[at + 2 :] == other[at + 2 :])


def consonants(word: str) -> str:
    """The first letter and the consonants of a word, with one spelling for European languages and none doubled."""
    for spelling, sound in _SOUNDS.items():
        word = word.replace(spelling, sound)
    found = word[:1]
    for letter in word[1:]:
        if letter not in "aeiouyh" and letter != found[-1]:
            found += letter
    return found
