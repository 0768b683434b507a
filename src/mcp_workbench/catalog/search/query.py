"""Turns the text of a query into weighted terms, and splits it into sentences and clauses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from mcp_workbench.catalog.search.stopwords import GROUPS, WEAK
from mcp_workbench.catalog.search.vocabulary import Term, Vocabulary
from mcp_workbench.catalog.search.words import stem, words

_QUOTED_WEIGHT, _WEAK_WEIGHT, _SYNONYM, _GUESS = 0.5, 0.5, 0.35, 0.5
"""Weights of quoted words, weak words, synonyms and guesses, relative to an ordinary word."""
_UNKNOWN, _FIT_POWER = 0.5, 0.7
"""For the full score: the weight of a word that no tool has, and how the score grows with the length of the query."""
_QUOTED = re.compile("\"[^\"]+\"|\u201c[^\u201d]+\u201d|`[^`]+`|(?<!\\w)'[^']+'(?!\\w)")
_SENTENCE = re.compile("(?<=[.!?;])\\s+|\n+|[\u3002\uff01\uff1f\uff1b]")
_CLAUSE = re.compile(
    "(?<=[.!?;:,])\\s+(?:and |then |or |also )?|\n+|[\u3001\u3002\uff01\uff0c\uff1b\uff1f]"
    "|\\s(?:and|then|also|or|\\+)\\s"
)
_WEAK = frozenset(map(stem, WEAK))
_SYNONYMS: dict[str, list[str]] = {}
for _group in ([stem(word) for word in group] for group in GROUPS):
    for _word in _group:
        _SYNONYMS.setdefault(_word, []).extend(other for other in _group if other != _word)


class Query(NamedTuple):
    """The weighted terms of a query."""

    terms: dict[Term, float]
    """Weights of the words of the query, their synonyms and guesses."""
    pairs: dict[str, float]
    """Weights of adjacent words, keyed by their two marks."""
    full_score: float
    """Roughly the score of a tool that matches all of the query."""
    length: int
    """Number of words."""


def read(text: str, vocabulary: Vocabulary, most_words: int) -> Query:
    """Weigh the first `most_words` significant words of a query by how rare they are in the vocabulary."""
    found = words(text)[:most_words]
    weights = {word: _weight(word, times) for word, times in Counter(found).items()}
    unquoted, quotes = _QUOTED.subn(" ", text)
    for word in weights.keys() - words(unquoted) if quotes else ():
        weights[word] *= _QUOTED_WEIGHT  # quoted words are usually values and do not describe the task
    known = {word: vocabulary.find(word) for word in weights}
    exact = {term: weights[word] for word, term in known.items() if term}
    rarity = vocabulary.rarity
    terms = {term: weight * rarity(term) for term, weight in (_related(found, weights, vocabulary) | exact).items()}
    pairs = {
        one.mark + two.mark: max(rarity(one), rarity(two))
        for one, two in pairwise([known[word] for word in found])
        if one and two
    }
    return Query(terms, pairs, _full_score(weights, vocabulary), len(found))


def _weight(word: str, times: int) -> float:
    """Repetition raises the weight, but never doubles it."""
    return 2 * times / (times + 1) * (_WEAK_WEIGHT if word in _WEAK else 1.0)


def _related(found: list[str], weights: Mapping[str, float], vocabulary: Vocabulary) -> dict[Term, float]:
    """Weights of compounds of adjacent words, of guesses for unknown words, and of synonyms."""
    compounds = (vocabulary.find(first + second) for first, second in pairwise(found))
    related = {term: _GUESS for term in compounds if term}
    for word, weight in weights.items():
        for term in vocabulary.guesses(word) if vocabulary.find(word) is None else ():
            related[term] = max(related.get(term, 0.0), weight * _GUESS)
        for other in _SYNONYMS.get(word, ()):
            if term := vocabulary.find(other):
                related[term] = max(related.get(term, 0.0), weight * _SYNONYM)
    return related


def _full_score(weights: Mapping[str, float], vocabulary: Vocabulary) -> float:
    """Sublinear in long queries, since no single tool matches all of their words."""
    total = 0.0
    for word, weight in weights.items():
        term = vocabulary.find(word)
        total += weight * (1.0 if term else _UNKNOWN if word.isalpha() else 0.0) * vocabulary.rarity(term)
    most = vocabulary.rarity(None)
    total = total or most
    return total**_FIT_POWER * min(total, most) ** (1 - _FIT_POWER)


def sentences(query: str) -> list[str]:
    """The sentences and lines of a query."""
    return [part for part in _SENTENCE.split(query) if part]


def clauses(query: str, least: int) -> list[str]:
    """The clauses of a query. Clauses with fewer than `least` significant words are joined with the next."""
    found: list[str] = []
    rest = ""
    for part in filter(None, _CLAUSE.split(query)):
        rest = f"{rest}, {part}" if rest else part
        if len(words(rest)) >= least:
            found.append(rest)
            rest = ""
    return [*found[:-1], f"{found[-1]}, {rest}"] if found and rest else found or [query]
