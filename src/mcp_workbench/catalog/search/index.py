"""Which tools fit a query, best first, and whether any does.

A tool's score is the sum of what the query's words count in it: rare words more than common ones, words of names more
than those of descriptions, other words for the same a little. The best are then compared closely, by words that stand
side by side, by whether their servers fit, and by how much of a tool's name was asked for. Where the index compares
meanings too, both scores are mixed. Servers are taken in and out one by one, at the cost of their own tools; the
ranking depends on what is there and not on how it came there.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.search import document
from mcp_workbench.catalog.search.asking import Asked, Reader
from mcp_workbench.catalog.search.document import Document
from mcp_workbench.catalog.search.meanings import Embedder, Meanings
from mcp_workbench.catalog.search.vocabulary import GAP, Vocabulary
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits

_Scores = dict[int, float]
"""By the numbers of tools."""


class Hit(NamedTuple):
    """A tool that fits, and how well; the scores of different queries compare, roughly."""

    identifier: ToolIdentifier
    score: float


class _Row(NamedTuple):
    """A tool in the index; its texts are marks of the vocabulary."""

    identifier: ToolIdentifier
    server: ServerIdentifier
    name: str
    own: str
    text: str
    focus: float
    definition: int
    """The same for tools that are defined alike."""


class Index:
    """The tools that can be found. One `Index` is used by one thread at a time."""

    def __init__(self, limits: Limits = DEFAULTS, *, embed: Embedder | None = None) -> None:
        self._limits = limits
        self._vocabulary = Vocabulary(limits)
        self._reader = Reader(self._vocabulary, limits)
        self._meanings = None if embed is None else Meanings(embed)
        self._servers: dict[ServerIdentifier, range] = {}
        self._toolboxes: defaultdict[str, set[int]] = defaultdict(set)
        self._rows: dict[int, _Row] = {}
        self._next = 0

    def put(self, toolbox: str, server: str, tools: Iterable[Definition], *, about: str = "") -> None:
        """These are the tools of a server now. `about` is what its toolbox says of itself."""
        self.drop(toolbox, server)
        place, around = ServerIdentifier(toolbox, server), document.around(toolbox, server, about, self._limits)
        named = {tool.name: tool for tool in tools}
        with_gist = self._meanings is not None
        found = [document.read(tool, around, self._limits, with_gist=with_gist) for tool in named.values()]
        numbers = self._servers[place] = range(self._next, self._next + len(found))
        self._next += len(found)
        for number, tool, one in zip(numbers, named.values(), found, strict=True):
            self._add(number, tool, place, one)
        if self._meanings is not None:
            self._meanings.put(place, numbers, [one.gist for one in found])

    def drop(self, toolbox: str, server: str) -> None:
        """A server is gone, and its tools with it."""
        place = ServerIdentifier(toolbox, server)
        for number in self._servers.pop(place, ()):
            row = self._rows.pop(number)
            self._vocabulary.remove(number, row.text, row.own)
            self._toolboxes[toolbox].discard(number)
        if self._meanings is not None:
            self._meanings.drop(place)

    def search(self, query: str, most: int, *, toolbox: str | None = None) -> list[Hit]:
        """The tools that fit best, at most so many; none where nothing fits."""
        asked = self._reader.read(query)
        scores = self._with_pairs(asked, self._candidates(asked, toolbox))
        fit = max(scores.values()) / asked.whole if scores else 0.0
        fits = fit >= self._limits.search_fit_least
        scores = self._compared(asked, scores)
        if self._meanings is not None:
            near = self._meanings.near(query[: self._limits.query_length], toolbox)
            nearest = max(near.values(), default=0.0)
            fits = fits or nearest >= self._limits.search_meaning_least
            fit, scores = max(fit, nearest), self._mixed(scores, near)
        return self._hits(scores, fit, most) if fits else []

    def _add(self, number: int, tool: Definition, place: ServerIdentifier, found: Document) -> None:
        self._vocabulary.add(number, found.impacts)
        runs = [self._vocabulary.marks(run) for run in found.runs]
        own = GAP.join(runs[:-1])
        self._vocabulary.own(own)
        identifier = ToolIdentifier(place.toolbox, place.server, tool.name)
        text, alike = GAP.join((own, runs[-1])), hash(bytes(tool.raw))
        self._rows[number] = _Row(identifier, place, runs[0], own, text, found.focus, alike)
        self._toolboxes[place.toolbox].add(number)

    def _candidates(self, asked: Asked, toolbox: str | None) -> _Scores:
        """The tools that match best by their words alone. Where there are many, words that count little add no more."""
        inside = None if toolbox is None else self._toolboxes.get(toolbox, set[int]())
        terms = sorted(asked.terms.items(), key=lambda entry: (-entry[1], entry[0].word))
        early = (1 - self._limits.search_late_share) * sum(asked.terms.values())
        room = self._limits.search_matches
        scores: _Scores = {}
        while terms and room > 0 and (early > 0 or len(scores) <= self._limits.search_shortlist):
            term, weight = terms.pop(0)
            early -= weight
            room -= len(term.impacts)
            _gather(scores, term.impacts, weight, inside)
        scores = self._largest(scores, self._limits.search_shortlist)
        for term, weight in terms:
            _raise(scores, term.impacts, weight)
        return self._largest(scores, self._limits.search_candidates)

    def _largest(self, scores: _Scores, most: int) -> _Scores:
        """Those with the largest scores; of equal ones those whose identifiers come first."""
        if len(scores) <= most:
            return scores
        least = sorted(scores.values(), reverse=True)[most - 1]
        kept = {number: score for number, score in scores.items() if score > least}
        equal = [number for number, score in scores.items() if score == least]
        rest = heapq.nsmallest(most - len(kept), equal, key=lambda number: self._rows[number].identifier)
        return kept | dict.fromkeys(rest, least)

    def _with_pairs(self, asked: Asked, scores: _Scores) -> _Scores:
        """The same, and more for tools in which words of the query stand side by side as they do there."""
        weight, pairs = self._limits.search_pair_weight, asked.pairs.items()
        for number in scores:
            row = self._rows[number]
            text = row.text
            scores[number] += weight * row.focus * sum([value for pair, value in pairs if pair in text])
        return scores

    def _compared(self, asked: Asked, scores: _Scores) -> _Scores:
        """The same, and more for tools whose servers fit and whose names were asked for; the largest is 1."""
        scores = _scaled(scores)
        near, rows, weight = self._neighbours(scores), self._rows, self._limits.search_name_cover_weight
        marks = {term.mark for term in asked.terms}
        return _scaled(
            {
                number: score + near[rows[number].server] + weight * self._cover(rows[number].name, marks)
                for number, score in scores.items()
            }
        )

    def _neighbours(self, scores: _Scores) -> dict[ServerIdentifier, float]:
        """What the tools of each server get for one another."""
        found: defaultdict[ServerIdentifier, list[float]] = defaultdict(list)
        for number, score in scores.items():
            found[self._rows[number].server].append(score)
        most, weight = self._limits.search_neighbours, self._limits.search_neighbour_weight
        return {
            server: weight * sum(sorted(values)[-most:]) / min(most, len(self._servers[server]))
            for server, values in found.items()
        }

    def _cover(self, name: str, marks: set[str]) -> float:
        """The part of a name that was asked for."""
        rarity, named = self._vocabulary.rarity, self._vocabulary.named
        values = {mark: rarity(named(mark)) for mark in name}
        whole = sum(values.values())
        return sum([value for mark, value in values.items() if mark in marks]) / whole if whole else 0.0

    def _mixed(self, scores: _Scores, near: _Scores) -> _Scores:
        """Scores by words and by meaning in one, each with a largest of 1."""
        weight, nearest = self._limits.search_meaning_weight, max(near.values(), default=1.0)
        numbers = scores.keys() | self._largest(near, self._limits.search_candidates).keys()
        return _scaled({n: (1 - weight) * scores.get(n, 0.0) + weight * near.get(n, 0.0) / nearest for n in numbers})

    def _hits(self, scores: _Scores, fit: float, most: int) -> list[Hit]:
        """The best in their order, without those that are far behind the first, and few of those that are alike."""
        least, rows, times = self._limits.search_tail_share, self._rows, Counter[int]()
        good = [number for number, score in scores.items() if score >= least]
        good.sort(key=lambda number: (-scores[number], rows[number].identifier))
        hits: list[Hit] = []
        for row, score in ((rows[number], scores[number]) for number in good):
            times[row.definition] += 1
            if times[row.definition] <= self._limits.search_alike:
                hits.append(Hit(row.identifier, fit * score))
        return hits[:most]


def _gather(scores: _Scores, impacts: _Scores, weight: float, inside: set[int] | None) -> None:
    get = scores.get
    if inside is None:
        for number, impact in impacts.items():
            scores[number] = get(number, 0.0) + weight * impact
    else:
        for number in inside & impacts.keys():
            scores[number] = get(number, 0.0) + weight * impacts[number]


def _raise(scores: _Scores, impacts: _Scores, weight: float) -> None:
    for number in scores.keys() & impacts.keys():
        scores[number] += weight * impacts[number]


def _scaled(scores: _Scores) -> _Scores:
    best = max(scores.values(), default=0.0)
    return {number: score / best for number, score in scores.items()} if best > 0 else {}
