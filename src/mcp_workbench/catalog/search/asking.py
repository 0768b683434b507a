"""A query, as an index understands it: which of its words count, and how much."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from mcp_workbench.catalog.search import QUERY_LENGTH
from mcp_workbench.catalog.search.lexicon import GROUPS, WEAK
from mcp_workbench.catalog.search.vocabulary import Term, Vocabulary
from mcp_workbench.catalog.search.words import stem, words
from mcp_workbench.limits import Limits


def _synonyms() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for group in GROUPS:
        stems = [stem(word) for word in group]
        for word in stems:
            table.setdefault(word, []).extend(other for other in stems if other != word)
    return table


_QUOTED_WEIGHT, _WEAK_WEIGHT, _SYNONYM, _GUESS = 0.5, 0.5, 0.35, 0.5
"""What a word counts that is in quotes, that asks more than it names, or that may only have been meant."""
_UNKNOWN, _FIT_POWER = 0.5, 0.7
"""Of whether anything fits: what a word counts that no tool has, and how much more longer queries must match."""
_QUOTED = re.compile("\"[^\"]+\"|\u201c[^\u201d]+\u201d|`[^`]+`|(?<!\\w)'[^']+'(?!\\w)")
_WEAK = frozenset(map(stem, WEAK))
_SYNONYMS = _synonyms()


class Asked(NamedTuple):
    """What a query asks for."""

    terms: dict[Term, float]
    """What each word counts: those of the query, and others that may mean the same."""
    pairs: dict[str, float]
    """What it counts that two of its words stand side by side, by their marks."""
    whole: float
    """What a tool scores that has about all of it."""
    length: int
    """How many words it has."""


class Reader:
    """Reads queries with the words of an index."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits) -> None:
        self._vocabulary = vocabulary
        self._limits = limits

    def read(self, query: str) -> Asked:
        """What a query asks for. A long one is cut."""
        found = words(query[:QUERY_LENGTH])[: self._limits.search_words]
        importance = {word: self._importance(word, times) for word, times in Counter(found).items()}
        for word in _only_quoted(query):
            if word in importance:
                importance[word] *= _QUOTED_WEIGHT
        said = {term: weight for word, weight in importance.items() if (term := self._vocabulary.find(word))}
        weights = self._meant(found, importance) | said
        rarity = self._vocabulary.rarity
        terms = {term: weight * rarity(term) for term, weight in weights.items()}
        return Asked(terms, self._pairs(found), self._whole(importance), len(found))

    def _meant(self, found: list[str], importance: Mapping[str, float]) -> dict[Term, float]:
        """Known words that may have been meant: two that were written for one, and others for the same."""
        joined = (self._vocabulary.find(first + second) for first, second in pairwise(found))
        meant = {term: _GUESS for term in joined if term}
        for word, weight in importance.items():
            for term, share in self._others(word):
                meant[term] = max(meant.get(term, 0.0), weight * share)
        return meant

    def _whole(self, importance: Mapping[str, float]) -> float:
        """What its words count, known or not. Nobody finds all words of a long query in one tool, so less for those."""
        total = 0.0
        for word, weight in importance.items():
            term = self._vocabulary.find(word)
            known = 1.0 if term else _UNKNOWN if word.isalpha() else 0.0
            total += weight * known * self._vocabulary.rarity(term)
        most = self._vocabulary.rarity(None)
        total = total or most
        return total**_FIT_POWER * min(total, most) ** (1 - _FIT_POWER)

    def _importance(self, word: str, times: int) -> float:
        """More for a word that is repeated, though never twice as much; less for one that names nothing."""
        return 2 * times / (times + 1) * (_WEAK_WEIGHT if word in _WEAK else 1.0)

    def _others(self, word: str) -> list[tuple[Term, float]]:
        """Known words that may mean the same, and how sure that is."""
        vocabulary = self._vocabulary
        near = vocabulary.guesses(word) if vocabulary.find(word) is None else []
        same = (term for other in _SYNONYMS.get(word, ()) if (term := vocabulary.find(other)))
        return [
            *((term, _GUESS) for term in near),
            *((term, _SYNONYM) for term in same),
        ]

    def _pairs(self, found: list[str]) -> dict[str, float]:
        pairs: dict[str, float] = {}
        for one, two in pairwise([self._vocabulary.find(word) for word in found]):
            if one is not None and two is not None:
                pairs[one.mark + two.mark] = max(self._vocabulary.rarity(one), self._vocabulary.rarity(two))
        return pairs


def _only_quoted(query: str) -> set[str]:
    """Words that stand in quotes alone: most are values for a tool, and not what it does."""
    unquoted, quotes = _QUOTED.subn(" ", query)
    return set(words(query)).difference(words(unquoted)) if quotes else set()
