"""Which tools fit a query, best first, and whether any does.

A tool's score is the sum of what the query's words count in it: rare words more than common ones, words of names more
than those of descriptions, other words for the same a little. The best are then compared closely, by words that stand
side by side, by whether their servers fit, and by how much of a tool's name was asked for. The steps of a long query
are ranked one by one, and the rankings mixed. Equal definitions take one place. Servers are taken in and out one by
one, at the cost of their own tools; the ranking depends on what is there and not on how it came there.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.search import QUERY_LENGTH, document
from mcp_workbench.catalog.search.asking import Asked, Reader
from mcp_workbench.catalog.search.clauses import clauses, sentences
from mcp_workbench.catalog.search.document import Document
from mcp_workbench.catalog.search.vocabulary import GAP, SEARCH_GUESSED, Vocabulary
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits


class Ranking(NamedTuple):
    """How the tools that match a query are ranked, and how many of them are looked at."""

    name_cover_weight: float = 0.13
    """What it counts, of the best match, that a query has all words of a tool's name."""
    shortlist: int = 200
    """Tools beyond which words that count little bring in no others: they are in thousands of tools."""
    late_share: float = 0.2
    """The part of a query that those words are."""
    candidates: int = 60
    """The best tools by their words alone, which are then compared closely: six times what is shown."""
    fit_least: float = 0.22
    """If every sentence of a query scores below this, no tool fits. It is set so that of the public questions that some
    tool answers, at most 1 in 100 is refused."""
    tail_share: float = 0.2
    """A tool that scores less than this part of the best score is not shown."""


RANKING = Ranking()

_Scores = dict[int, float]
"""By the numbers of tools."""
_AROUND = 2
"""The runs of a document that say nothing of the tool alone: those of its server and of its toolbox."""
_PAIRED, _NEIGHBOUR, _NEIGHBOURS = 1.3, 0.3, 3
"""What it counts that two words of a query stand side by side, and that up to three tools of a server match."""
_LONG_QUERY, _CLAUSE_WORDS, _CLAUSES, _CLAUSE = 20, 3, 5, 0.4
"""Words of a query whose steps are ranked too, words and number of its steps, and what they count of the whole."""
_NEAREST = 3
"""Tools that are shown where nothing fits well."""
_NAME = re.compile(r"[^\W_]+")
_KIND = frozenset(("mcp", "server"))
"""Words in the names of servers that say only what they are."""


class Hit(NamedTuple):
    """A tool that fits, and how well; the scores of different queries compare, roughly."""

    identifier: ToolIdentifier
    score: float
    also_in: tuple[ServerIdentifier, ...] = ()
    """Other servers that have a tool with the same definition."""


class Hits(NamedTuple):
    """What a search found, best first."""

    hits: list[Hit]
    is_weak: bool
    """Whether nothing fits well; then these are only the nearest."""


class _Row(NamedTuple):
    """A tool in the index; its texts are marks of the vocabulary."""

    identifier: ToolIdentifier
    server: ServerIdentifier
    name: str
    own: str
    text: str
    focus: float
    definition: int
    """The same for tools with the same definition."""


class Index:
    """The tools that can be found. One `Index` is used by one thread at a time."""

    def __init__(self, limits: Limits = DEFAULTS, ranking: Ranking = RANKING) -> None:
        self._limits = limits
        self._ranking = ranking
        self._vocabulary = Vocabulary(limits)
        self._reader = Reader(self._vocabulary, limits)
        self._servers: dict[ServerIdentifier, range] = {}
        self._names: defaultdict[str, dict[str, set[ServerIdentifier]]] = defaultdict(dict)
        """Names of servers and toolboxes, by their first word."""
        self._toolboxes: defaultdict[str, set[int]] = defaultdict(set)
        self._rows: dict[int, _Row] = {}
        self._alike: dict[int, tuple[int, ...]] = {}
        """The tools with each definition, in the order of their identifiers."""
        self._copied: dict[int, tuple[int, ...]] = {}
        """The same, by each tool that shares its definition with others."""
        self._weighed: dict[str, list[tuple[str, float]]] = {}
        """The words of names, and the part of the name that each is."""
        self._next = 0

    def put(self, server: ServerIdentifier, tools: Iterable[Definition], *, about: str = "", offer: str = "") -> None:
        """These are the tools of a server now. `about` describes its toolbox, `offer` what else the server has."""
        self.drop(server)
        around = document.around(server, about, offer, self._limits)
        named = {tool.name: tool for tool in tools}
        numbers = self._servers[server] = range(self._next, self._next + len(named))
        self._next += len(named)
        for name in map(_named, server.parts()):
            self._names[name.split(maxsplit=1)[0] if name else ""].setdefault(name, set()).add(server)
        for number, tool in zip(numbers, named.values(), strict=True):
            self._add(number, tool, server, document.read(tool, around, self._limits))

    def drop(self, server: ServerIdentifier) -> None:
        """A server is gone, and its tools with it."""
        self._weighed.clear()
        for name in map(_named, server.parts()) if server in self._servers else ():
            self._names[name.split(maxsplit=1)[0] if name else ""][name].discard(server)
        for number in self._servers.pop(server, ()):
            row = self._rows.pop(number)
            self._vocabulary.remove(number, row.text, row.own)
            self._toolboxes[server.toolbox].discard(number)
            self._group(row.definition, [other for other in self._alike[row.definition] if other != number])
            self._copied.pop(number, None)

    def search(self, query: str, most: int, *, toolbox: str | None = None) -> Hits:
        """The tools that fit best, at most so many; where nothing fits well, the few that are nearest."""
        query = query[:QUERY_LENGTH]
        asked = self._reader.read(query)
        scores, fit = self._ranked(asked, toolbox)
        if asked.length >= _LONG_QUERY:
            steps = clauses(query, max(_CLAUSE_WORDS, asked.length // _CLAUSES))
            scores = self._mixed(scores, [self._ranked(self._reader.read(step), toolbox) for step in steps])
        scores = self._compared(asked, scores)
        named = self._named(query, toolbox)
        is_weak = not named and self._is_weak(query, fit, toolbox)
        numbers = self._with_named(self._good(scores, _NEAREST if is_weak else most), scores, named, most)
        first = {server for servers in named for server in servers}
        return Hits([self._hit(n, fit * scores.get(n, 0.0), toolbox, first) for n in numbers], is_weak)

    def _is_weak(self, query: str, fit: float, toolbox: str | None) -> bool:
        """Whether neither the query nor a sentence of it fits."""
        parts = sentences(query) if fit < self._ranking.fit_least else []
        fits = (self._ranked(self._reader.read(part), toolbox)[1] for part in parts if len(parts) > 1)
        return fit < self._ranking.fit_least and not any(other >= self._ranking.fit_least for other in fits)

    def _ranked(self, asked: Asked, toolbox: str | None) -> tuple[_Scores, float]:
        """Scores up to 1, and the share of the query that the best tool covers."""
        scores = self._with_pairs(asked, self._candidates(asked, toolbox))
        fit = max(scores.values()) / asked.whole if scores else 0.0
        return _scaled(scores), fit

    def _mixed(self, whole: _Scores, steps: list[tuple[_Scores, float]]) -> _Scores:
        """The ranking of a long query and those of its steps in one: what is best for a step that fits counts."""
        best = max((fit for _, fit in steps), default=0.0) or 1.0
        most: _Scores = {}
        for scores, fit in steps:
            share = min(fit, 1.0) / min(best, 1.0)
            for number, score in scores.items():
                most[number] = max(most.get(number, 0.0), score * share)
        numbers = whole.keys() | most.keys()
        mixed = {n: (1 - _CLAUSE) * whole.get(n, 0.0) + _CLAUSE * most.get(n, 0.0) for n in numbers}
        return _scaled(self._distinct(mixed))

    def _add(self, number: int, tool: Definition, place: ServerIdentifier, found: Document) -> None:
        self._vocabulary.add(number, found.impacts)
        runs = [self._vocabulary.marks(run) for run in found.runs]
        own = GAP.join(runs[:-_AROUND])
        self._vocabulary.own(own)
        identifier = ToolIdentifier(place.toolbox, place.server, tool.name)
        text, alike = GAP.join((own, *runs[-_AROUND:])), hash(bytes(tool.raw))
        self._rows[number] = _Row(identifier, place, runs[0], own, text, found.focus, alike)
        self._toolboxes[place.toolbox].add(number)
        same = [*self._alike.get(alike, ()), number]
        self._group(alike, sorted(same, key=lambda other: self._rows[other].identifier) if len(same) > 1 else same)

    def _group(self, definition: int, numbers: list[int]) -> None:
        """These are the tools with one definition now."""
        group = self._alike[definition] = tuple(numbers)
        if len(group) > 1:
            self._copied.update(dict.fromkeys(group, group))
            return
        for number in group:
            self._copied.pop(number, None)
        if not group:
            del self._alike[definition]

    def _candidates(self, asked: Asked, toolbox: str | None) -> _Scores:
        """The tools that match best by their words alone. Where there are many, words that count little add no more."""
        inside = None if toolbox is None else self._toolboxes.get(toolbox, set[int]())
        terms = sorted(asked.terms.items(), key=lambda entry: (-entry[1], entry[0].word))
        early = (1 - self._ranking.late_share) * sum(asked.terms.values())
        room = self._limits.search_matches
        scores: _Scores = {}
        while terms and room > 0 and (early > 0 or len(scores) <= self._ranking.shortlist):
            term, weight = terms.pop(0)
            early -= weight
            room -= len(term.impacts)
            _gather(scores, term.impacts, weight, inside)
        scores = self._largest(self._distinct(scores), self._ranking.shortlist)
        for term, weight in terms:
            _raise(scores, term.impacts, weight)
        return self._largest(scores, self._ranking.candidates)

    def _distinct(self, scores: _Scores) -> _Scores:
        """The same scores with the best tool of each definition alone: copies would crowd out others."""
        few, many = sorted((self._copied, scores), key=len)
        for group in {self._copied[number] for number in few if number in many}:
            present = [number for number in group if number in scores]
            best = max(present, key=scores.__getitem__)
            for number in present:
                if number != best:
                    del scores[number]
        return scores

    def _largest(self, scores: _Scores, most: int) -> _Scores:
        """Those with the largest scores; of equal ones those whose identifiers come first."""
        if len(scores) <= most:
            return scores
        least = sorted(scores.values(), reverse=True)[most - 1]
        kept = {number: score for number, score in scores.items() if score >= least}
        if len(kept) > most:
            equal = [number for number, score in kept.items() if score == least]
            for number in sorted(equal, key=lambda number: self._rows[number].identifier)[most - len(kept) :]:
                del kept[number]
        return kept

    def _with_pairs(self, asked: Asked, scores: _Scores) -> _Scores:
        """The same, and more for tools in which words of the query stand side by side as they do there."""
        pairs = asked.pairs.items()
        for number in scores:
            row = self._rows[number]
            text = row.text
            scores[number] += _PAIRED * row.focus * sum([value for pair, value in pairs if pair in text])
        return scores

    def _compared(self, asked: Asked, scores: _Scores) -> _Scores:
        """The same, and more for tools whose servers fit and whose names were asked for; the largest is 1."""
        near, rows, weight = self._neighbours(scores), self._rows, self._ranking.name_cover_weight
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
        return {
            server: _NEIGHBOUR * sum(sorted(values)[-_NEIGHBOURS:]) / min(_NEIGHBOURS, len(self._servers[server]))
            for server, values in found.items()
        }

    def _cover(self, name: str, marks: set[str]) -> float:
        """The part of a name that was asked for."""
        if (values := self._weighed.get(name)) is None:
            if len(self._weighed) >= SEARCH_GUESSED:
                self._weighed.clear()
            found = {mark: self._vocabulary.rarity(self._vocabulary.named(mark)) for mark in name}
            whole = sum(found.values())
            values = self._weighed[name] = [(mark, value / whole) for mark, value in found.items()]
        return sum([value for mark, value in values if mark in marks])

    def _good(self, scores: _Scores, most: int) -> list[int]:
        """The best in their order, without those that are far behind the first."""
        good = [number for number, score in scores.items() if score >= self._ranking.tail_share]
        return heapq.nsmallest(most, good, key=lambda number: (-scores[number], self._rows[number].identifier))

    def _hit(self, number: int, score: float, toolbox: str | None, first: set[ServerIdentifier]) -> Hit:
        """A tool that was found, and the other servers that have it: some of them first."""
        others = (self._rows[other].server for other in self._copied.get(number, ()) if other != number)
        inside = [server for server in others if toolbox in (None, server.toolbox)]
        also_in = sorted(inside, key=lambda server: (server not in first, server))
        return Hit(self._rows[number].identifier, score, tuple(also_in))

    def _named(self, query: str, toolbox: str | None) -> list[set[ServerIdentifier]]:
        """The servers that a query names, by their own name or, in a search of all toolboxes, by that of a toolbox."""
        text = _spelled(query)
        found = {name: self._names[word][name] for word in text.split() for name in self._names.get(word, ())}
        found.pop(_named(toolbox or ""), None)
        named = (
            {server for server in servers if toolbox in (None, server.toolbox)}
            for name, servers in found.items()
            if name in text
        )
        return [servers for servers in named if servers]

    def _with_named(
        self, numbers: list[int], scores: _Scores, named: list[set[ServerIdentifier]], most: int
    ) -> list[int]:
        """The same, with tools of each server that was named and is not there: one, or up to three in free places."""
        shown = {self._rows[same].server for number in numbers for same in self._copied.get(number, (number,))}
        missing = [servers for servers in named if not servers & shown][:_NEAREST]
        each = max(1, min(_NEAREST, most - len(numbers)) // max(1, len(missing)))
        more: list[int] = []
        for servers in missing:
            tools = [number for server in servers for number in self._servers[server]]
            rank = {number: (-scores.get(number, 0.0), self._rows[number].identifier) for number in tools}
            more += heapq.nsmallest(each, tools, key=rank.__getitem__)
        more = [number for number in dict.fromkeys(more) if number not in numbers][:most]
        return [*numbers[: most - len(more)], *more]


def _spelled(text: str) -> str:
    """The words of a text, each between spaces."""
    found = _NAME.findall(text.casefold())
    return f" {' '.join(found)} " if found else ""


def _named(name: str) -> str:
    """What people call a server: `osm` for `osm-mcp-server`, unless nothing is left."""
    found = [word for word in _spelled(name).split() if word not in _KIND]
    return f" {' '.join(found)} " if found else _spelled(name)


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
