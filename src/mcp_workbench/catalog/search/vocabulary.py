"""The words of all tools: which tools have them, how rare they are, and which ones an unknown word may mean.

Each word has a mark, one character. A text in marks is a short string in which a pair of words is found at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from mcp_workbench.limits import Limits

SEARCH_TOOLS_LEAST = 50
"""Tools that there are at least, when it is told how rare a word is: a few tell nothing of that."""
SEARCH_GUESS_LENGTH = 4
"""Letters of an unknown word that is completed; with one more it is looked for as misspelt."""
SEARCH_GUESS_CANDIDATES = 2000
"""Known words with the same beginning that are compared for that; 17,500 real tools have 400."""
SEARCH_GUESSES = 3
"""Known words that are tried for an unknown one."""
SEARCH_GUESSED = 4000
"""Unknown words for which that is remembered, and names that are weighed: queries repeat them."""
SEARCH_STEPS = 128
"""How finely it is told what a word counts in a tool: equal values are kept once."""

GAP = "\0"
"""Stands between texts, so that no pair is found across them; no word's mark."""
_BEGINNING = 2
_SKELETON, _SHORT_SKELETON = 4, 3
"""Consonants that two words of the same origin share at least, and those that do if their first two letters are equal
too."""
_ENDING = re.compile("(?:ieren|iert|ung|en|er|ir|ar|re)\\Z")
"""What verbs and nouns end in where English has nothing: `konvertieren`, `convertir`."""
_SOUNDS = (
    ("ph", "f"),
    ("qu", "k"),
    ("ck", "k"),
    ("th", "t"),
    ("c", "k"),
    ("z", "s"),
    ("j", "g"),
    ("v", "f"),
    ("w", "f"),
)
"""Spellings that differ between languages."""


class Term:
    """A word that some tools have, and what it counts in each of them, by their numbers."""

    __slots__ = ("impacts", "mark", "owners", "word")

    def __init__(self, word: str, mark: str) -> None:
        self.word = word
        self.mark = mark
        self.impacts: dict[int, float] = {}
        self.owners = 0
        """How many tools say it of themselves, and not only their toolbox of all that is in it."""


class Vocabulary:
    """The words of the tools that are there now."""

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
        """A tool has these words. Beyond the bound new words are not taken in."""
        self._count(1)
        terms, steps, shared = self._terms, SEARCH_STEPS, self._shared
        for word, impact in impacts.items():
            term = terms.get(word) or self._new(word)
            if term is not None:
                step = int(impact * steps)
                term.impacts[number] = shared.get(step) or shared.setdefault(step, step / steps)

    def own(self, text: str, more: int = 1) -> None:
        """A tool says these words, as marks, of itself; or one less does."""
        for mark in set(text):
            if mark != GAP:
                self._marked[mark].owners += more

    def remove(self, number: int, text: str, own: str) -> None:
        """A tool is gone, whose words, as marks, these were; and those that it said of itself."""
        self._count(-1)
        self.own(own, -1)
        for mark in set(text):
            if mark != GAP:
                term = self._marked[mark]
                del term.impacts[number]
                if not term.impacts:
                    self._forget(term)

    def marks(self, words: Iterable[str]) -> str:
        """A text in marks, without the words that nobody has."""
        terms = self._terms
        return "".join([terms[word].mark for word in words if word in terms])

    def find(self, word: str) -> Term | None:
        return self._terms.get(word)

    def named(self, mark: str) -> Term:
        return self._marked[mark]

    def rarity(self, term: Term | None) -> float:
        """How much it tells that a tool has the word; None is one that nobody has."""
        having = term.owners if term is not None else 0
        known = self._rarities.get(having)
        if known is None:
            tools = max(self._tools, SEARCH_TOOLS_LEAST)
            known = self._rarities[having] = math.log(1 + (tools - having + 0.5) / (having + 0.5))
        return known

    def guesses(self, word: str) -> list[Term]:
        """The known words that an unknown one may mean: it begins them, is misspelt, or is two of them in one."""
        if word not in self._guessed:
            if len(self._guessed) >= SEARCH_GUESSED:
                self._guessed.clear()
            self._guessed[word] = self._guess(word)
        return self._guessed[word]

    def _guess(self, word: str) -> list[Term]:
        least = SEARCH_GUESS_LENGTH
        if len(word) < least or not (word.isascii() and word.isalpha()):
            return []
        known = self._beginnings.get(word[:_BEGINNING], ())
        if len(known) > SEARCH_GUESS_CANDIDATES:
            return []
        short, long = (len(word) - 1, len(word) + 1) if len(word) > least else (0, 0)
        near = [
            other
            for other in known
            if (short <= len(other) <= long and is_one_slip(word, other)) or other.startswith(word)
        ]
        near.sort(key=lambda other: (abs(len(other) - len(word)), other))
        found = near[:SEARCH_GUESSES] or self._halves(word) or self._related(word)
        return [self._terms[other] for other in found]

    def _related(self, word: str) -> list[str]:
        """Words of the same origin: `Kalender`, `calendario` and `calendrier` have the consonants of `calendar`."""
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
        same = self._beginnings[term.word[:_BEGINNING]]
        same.discard(term.word)
        if not same:
            del self._beginnings[term.word[:_BEGINNING]]


def is_one_slip(word: str, other: str) -> bool:
    """Whether one letter is missing, too many or wrong, or two neighbours are exchanged."""
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
    """The first letter and the consonants of a word, spelled alike for European languages, none twice in a row."""
    for spelling, sound in _SOUNDS:
        word = word.replace(spelling, sound)
    found = word[:1]
    for letter in word[1:]:
        if letter not in "aeiouyh" and letter != found[-1]:
            found += letter
    return found
