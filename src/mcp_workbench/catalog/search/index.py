"""Full-text index of tools: ranks the tools that match a query, and reports whether any fits well.

A tool's score is the sum of the weights of the query's terms times their impacts in the tool. The best candidates are
then reranked by adjacent words, by other matches on the same server, and by how much of the tool's name the query
covers. Long queries are also ranked clause by clause, and the rankings are mixed. Tools with equal definitions count as
one result. Adding or removing a server reindexes only its own tools; the ranking does not depend on the order in which
servers were added.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.search import QUERY_LENGTH, document
from mcp_workbench.catalog.search.query import Query, clauses, read, sentences
from mcp_workbench.catalog.search.vocabulary import GAP, SEARCH_GUESSED, Vocabulary
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits


class Ranking(NamedTuple):
    """Weights and thresholds of the ranking."""

    name_cover_weight: float = 0.13
    """Bonus, relative to the best score, for a tool whose whole name is in the query."""
    shortlist: int = 200
    """Once so many tools match, the weakest terms of a query add no more: they occur in thousands of tools."""
    late_share: float = 0.2
    """The share of a query's total weight that its weakest terms make up."""
    candidates: int = 60
    """Tools that are reranked: six times as many as are shown."""
    fit_least: float = 0.22
    """No tool fits if every sentence of a query scores below this. Chosen so that at most 1 in 100 of the public
    questions that have an answer is refused."""
    tail_share: float = 0.2
    """A tool that scores less than this share of the best score is not shown."""


RANKING = Ranking()

_Servers = set[ServerIdentifier]
_Scores = dict[int, float]
"""Scores by tool number."""
_AROUND = 2
"""The last runs of a document belong to its server and toolbox, not to the tool alone."""
_PAIRED, _NEIGHBOUR, _NEIGHBOURS = 1.3, 0.3, 3
"""Weight of adjacent words; weight and number of the matches on the same server that raise a tool's score."""
_LONG_QUERY, _CLAUSE_WORDS, _CLAUSES, _CLAUSE = 20, 3, 5, 0.4
"""Words from which a query is split; least words and number of its clauses; their weight in the mix."""
_NEAREST = 3
"""Tools that are shown where nothing fits well."""
_NAME = re.compile(r"[^\W_]+")
_KIND = frozenset(("mcp", "server"))
"""Words that can be left out of a server's name."""


class Hit(NamedTuple):
    """A matching tool. Scores are roughly comparable between queries."""

    identifier: ToolIdentifier
    score: float
    also_in: tuple[ServerIdentifier, ...] = ()
    """Other servers that have a tool with the same definition."""


class Hits(NamedTuple):
    """The matches of a search, best first."""

    hits: list[Hit]
    is_weak: bool
    """True if nothing fits well; `hits` then holds the nearest tools."""


class _Row(NamedTuple):
    """A tool in the index. Its texts are strings of marks of the vocabulary."""

    identifier: ToolIdentifier
    server: ServerIdentifier
    name: str
    own: str
    text: str
    focus: float
    definition: int
    """Hash of the definition."""


class Index:
    """The tools that can be found. Use an `Index` from one thread at a time."""

    def __init__(self, limits: Limits = DEFAULTS, ranking: Ranking = RANKING) -> None:
        self._limits = limits
        self._ranking = ranking
        self._vocabulary = Vocabulary(limits)
        self._servers: dict[ServerIdentifier, range] = {}
        self._names: defaultdict[str, defaultdict[str, _Servers]] = defaultdict(lambda: defaultdict(set))
        """Servers by the first word and the whole of their names and their toolboxes' names."""
        self._toolboxes: defaultdict[str, set[int]] = defaultdict(set)
        self._rows: dict[int, _Row] = {}
        self._alike: defaultdict[int, list[int]] = defaultdict(list)
        """The tools with each definition, in the order of their identifiers."""
        self._copied: dict[int, int] = {}
        """The definitions of the tools that share theirs with other tools."""
        self._name_shares: dict[str, list[tuple[str, float]]] = {}
        """The words of tool names, each with its share of the name."""
        self._next = 0

    def put(self, server: ServerIdentifier, tools: Iterable[Definition], *, about: str = "", offer: str = "") -> None:
        """Replace a server's tools. `about` describes its toolbox; `offer` is the server's own texts."""
        self.drop(server)
        around = document.around(server, about, offer, self._limits)
        named = {tool.name: tool for tool in tools}
        numbers = self._servers[server] = range(self._next, self._next + len(named))
        self._next += len(named)
        for name in map(_short_name, server.parts()):
            self._names[name[1:].partition(" ")[0]][name].add(server)
        for number, tool in zip(numbers, named.values(), strict=True):
            self._add(number, tool, server, document.read(tool, around, self._limits))

    def drop(self, server: ServerIdentifier) -> None:
        """Remove a server and its tools."""
        self._name_shares.clear()
        for name in map(_short_name, server.parts()) if server in self._servers else ():
            self._names[name[1:].partition(" ")[0]][name].discard(server)
        for number in self._servers.pop(server, ()):
            row = self._rows.pop(number)
            self._vocabulary.remove(number, row.text, row.own)
            self._toolboxes[server.toolbox].discard(number)
            alike = self._alike[row.definition]
            alike.remove(number)
            self._copied.pop(number, None)
            if len(alike) == 1:
                del self._copied[alike[0]]
            elif not alike:
                del self._alike[row.definition]

    def search(self, query: str, most: int, *, toolbox: str | None = None) -> Hits:
        """The best `most` tools, or the nearest few if nothing fits well."""
        text = query[:QUERY_LENGTH]
        whole = self._read(text)
        inside = None if toolbox is None else self._toolboxes.get(toolbox, set[int]())
        shortlist = self._shortlist(whole, inside)
        scores, fit = self._ranked(whole, shortlist)
        if whole.length >= _LONG_QUERY:
            steps = map(self._read, clauses(text, max(_CLAUSE_WORDS, whole.length // _CLAUSES)))
            among = set(shortlist)
            scores = _mixed(scores, [self._ranked(step, self._shortlist(step, among)) for step in steps])
        scores = self._reranked(whole, scores)
        named = self._named(text, toolbox)
        is_weak = not named and self._is_weak(text, fit, inside)
        good = [number for number, score in scores.items() if score >= self._ranking.tail_share]
        numbers = self._with_named(self._best(good, scores, _NEAREST if is_weak else most), scores, named, most)
        first = {server for servers in named for server in servers}
        return Hits([self._hit(n, fit * scores.get(n, 0.0), toolbox, first) for n in numbers], is_weak)

    def _read(self, text: str) -> Query:
        return read(text, self._vocabulary, self._limits.search_words)

    def _is_weak(self, query: str, fit: float, inside: set[int] | None) -> bool:
        """True if neither the query nor a sentence of it fits."""
        least = self._ranking.fit_least
        parts = sentences(query) if fit < least else []
        queries = map(self._read, parts if len(parts) > 1 else ())
        fits = (self._ranked(one, self._shortlist(one, inside))[1] for one in queries)
        return fit < least and not any(other >= least for other in fits)

    def _ranked(self, query: Query, shortlist: _Scores) -> tuple[_Scores, float]:
        """Scores of the best candidates, scaled to 1, and how well the best one fits the query."""
        scores, pairs = self._largest(shortlist, self._ranking.candidates), query.pairs.items()
        for number in scores if pairs else ():
            row = self._rows[number]
            text = row.text
            scores[number] += _PAIRED * row.focus * sum([value for pair, value in pairs if pair in text])
        return _scaled(scores), max(scores.values(), default=0.0) / query.full_score

    def _add(self, number: int, tool: Definition, server: ServerIdentifier, found: document.Document) -> None:
        self._vocabulary.add(number, found.impacts)
        runs = [self._vocabulary.marks(run) for run in found.runs]
        own = GAP.join(runs[:-_AROUND])
        self._vocabulary.own(own)
        identifier = ToolIdentifier(server.toolbox, server.server, tool.name)
        text, definition = GAP.join((own, *runs[-_AROUND:])), hash(bytes(tool.raw))
        self._rows[number] = _Row(identifier, server, runs[0], own, text, found.focus, definition)
        self._toolboxes[server.toolbox].add(number)
        alike = self._alike[definition]
        alike.append(number)
        if len(alike) > 1:
            alike.sort(key=lambda other: self._rows[other].identifier)
            self._copied.update(dict.fromkeys(alike, definition))

    def _shortlist(self, query: Query, inside: set[int] | None) -> _Scores:
        """The tools that score best by their words alone, one for each definition; all of them or those `inside`."""
        terms = sorted(query.terms.items(), key=lambda entry: (-entry[1], entry[0].word))
        early = (1 - self._ranking.late_share) * sum(query.terms.values())
        room, most = self._limits.search_matches, self._ranking.shortlist
        scores: _Scores = {}
        while terms and room > 0 and (early > 0 or len(scores) <= most):
            term, weight = terms.pop(0)
            early -= weight
            room -= len(term.impacts)
            _gather(scores, term.impacts, weight, inside)
        scores = self._largest(self._distinct(scores), most)
        for term, weight in terms:
            for number in scores.keys() & term.impacts.keys():
                scores[number] += weight * term.impacts[number]
        return scores

    def _distinct(self, scores: _Scores) -> _Scores:
        """Keep only the best tool of each definition, so that copies do not crowd out other tools."""
        copied = self._copied
        kept = {number: score for number, score in scores.items() if number not in copied}
        for definition in {copied[number] for number in scores.keys() & copied.keys()}:
            alike = self._alike[definition]
            values = [scores.get(number, 0.0) for number in alike]
            best = max(values)
            kept[alike[values.index(best)]] = best
        return kept

    def _largest(self, scores: _Scores, most: int) -> _Scores:
        """The `most` largest scores. Identifiers break ties."""
        if len(scores) <= most:
            return scores
        least = sorted(scores.values(), reverse=True)[most - 1]
        kept = {number: score for number, score in scores.items() if score >= least}
        if len(kept) > most:
            equal = [number for number, score in kept.items() if score == least]
            for number in sorted(equal, key=lambda number: self._rows[number].identifier)[most - len(kept) :]:
                del kept[number]
        return kept

    def _reranked(self, query: Query, scores: _Scores) -> _Scores:
        """Raise tools whose servers match too, or whose names the query covers; scaled to 1."""
        rows, weight = self._rows, self._ranking.name_cover_weight
        by_server: defaultdict[ServerIdentifier, list[float]] = defaultdict(list)
        for number, score in scores.items():
            by_server[rows[number].server].append(score)
        near = {
            server: _NEIGHBOUR * sum(sorted(values)[-_NEIGHBOURS:]) / min(_NEIGHBOURS, len(self._servers[server]))
            for server, values in by_server.items()
        }
        marks = {term.mark for term in query.terms}
        cover = {number: weight * self._cover(rows[number].name, marks) for number in scores}
        return _scaled({n: score + near[rows[n].server] + cover[n] for n, score in scores.items()})

    def _cover(self, name: str, marks: set[str]) -> float:
        """The share of a tool's name that a query covers."""
        if (shares := self._name_shares.get(name)) is None:
            if len(self._name_shares) >= SEARCH_GUESSED:
                self._name_shares.clear()
            rarities = {mark: self._vocabulary.rarity(self._vocabulary.named(mark)) for mark in name}
            whole = sum(rarities.values())
            shares = self._name_shares[name] = [(mark, value / whole) for mark, value in rarities.items()]
        return sum([share for mark, share in shares if mark in marks])

    def _best(self, numbers: Iterable[int], scores: _Scores, most: int) -> list[int]:
        return heapq.nsmallest(most, numbers, key=lambda n: (-scores.get(n, 0.0), self._rows[n].identifier))

    def _hit(self, number: int, score: float, toolbox: str | None, first: _Servers) -> Hit:
        """A match, with the other servers that have the same tool; servers that the query names come first."""
        row = self._rows[number]
        others = (self._rows[other].server for other in self._alike[row.definition] if other != number)
        inside = [server for server in others if toolbox in (None, server.toolbox)]  # in the order of their names
        return Hit(row.identifier, score, tuple(sorted(inside, key=lambda server: server not in first)))

    def _named(self, query: str, toolbox: str | None) -> list[_Servers]:
        """The servers that a query names, by their own name or, in a search of all toolboxes, by that of a toolbox."""
        text, own = _spelled(query), _short_name(toolbox or "")
        names = {name for word in text.split() for name in self._names.get(word, ()) if name in text and name != own}
        ordered = sorted(names, key=lambda name: (text.index(name), name))
        servers = [self._names[name[1:].partition(" ")[0]][name] for name in ordered]
        return [found for some in servers if (found := {one for one in some if toolbox in (None, one.toolbox)})]

    def _with_named(self, numbers: list[int], scores: _Scores, named: list[_Servers], most: int) -> list[int]:
        """Add tools of the named servers that are not among the matches: one each, or up to three if there is room."""
        shown = {self._rows[same].server for number in numbers for same in self._alike[self._rows[number].definition]}
        missing = [servers for servers in named if not servers & shown][:_NEAREST]
        each = max(1, min(_NEAREST, most - len(numbers)) // max(1, len(missing)))
        tools = ((number for server in servers for number in self._servers[server]) for servers in missing)
        more = dict.fromkeys(number for some in tools for number in self._best(some, scores, each))
        added = [number for number in more if number not in numbers][:most]
        return [*numbers[: most - len(added)], *added]


def _spelled(text: str) -> str:
    """The words of a text, each between spaces."""
    found = _NAME.findall(text.casefold())
    return f" {' '.join(found)} " if found else ""


def _short_name(name: str) -> str:
    """What people call a server: `osm` for `osm-mcp-server`; the whole name if nothing would be left."""
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


def _mixed(whole: _Scores, steps: list[tuple[_Scores, float]]) -> _Scores:
    """Mix the ranking of a long query with those of its clauses, each weighted by how well its best tool fits."""
    best = min(max((fit for _, fit in steps), default=0.0), 1.0) or 1.0
    most: _Scores = {}
    for scores, fit in steps:
        share = min(fit, 1.0) / best
        for number, score in scores.items():
            most[number] = max(most.get(number, 0.0), score * share)
    numbers = whole.keys() | most.keys()
    mixed = {n: (1 - _CLAUSE) * whole.get(n, 0.0) + _CLAUSE * most.get(n, 0.0) for n in numbers}
    return _scaled(mixed)


def _scaled(scores: _Scores) -> _Scores:
    best = max(scores.values(), default=0.0)
    return {number: score / best for number, score in scores.items()} if best > 0 else {}
