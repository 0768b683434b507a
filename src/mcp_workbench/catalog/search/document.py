"""What of a tool is searched, and how much each word of it counts there.

That depends on the tool alone and not on what else there is, so an index can take one in or out without a look at
the others. A definition may hold anything: what is not as the protocol has it is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, cast

import msgspec

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.search.words import words
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits

SEARCH_PARAMETERS = 200
"""Parameters of a tool that are searched, nested ones included."""

_NAME, _TITLE, _SERVER, _PARAMETER, _PARAMETER_TEXT, _AROUND = 2.0, 1.5, 1.5, 1.0, 0.6, 0.3
"""What a word counts in each, of one in the description: names are short and chosen; many tools share the rest."""
_SHORT, _LONG, _LENGTH_SHARE = 3.0, 20.0, 0.75
"""Words of a usual name and description, and how much less each counts in a longer one: not at all at 0."""
_SATURATION = 1.5
"""How soon a word that is repeated counts no more."""
_FOCUS, _FOCUS_POWER = 3.5, 0.45
"""What it counts that a tool is about few things; at a power of 0.5 it would be the cosine of two texts."""


class Document(NamedTuple):
    """A tool as search sees it."""

    impacts: dict[str, float]
    """What each of its words counts in it."""
    runs: list[list[str]]
    """Its words in their order, the name's first: for words that stand side by side."""
    focus: float
    """How much it is about few things."""


class Surroundings(NamedTuple):
    """What all tools of a server have in common: the words of its name, of its own texts and of its toolbox's."""

    server: list[str]
    offer: list[str]
    about: list[str]


class _Texts(NamedTuple):
    """What a definition says."""

    title: str
    description: str
    names: str
    explained: str


class _Field(NamedTuple):
    words: list[str]
    weight: float
    usual: float


def around(server: ServerIdentifier, about: str, offer: str, limits: Limits) -> Surroundings:
    """What the tools of a server have in common. `offer` is what it says of itself beside its tools."""
    texts = (server.server, offer, f"{server.toolbox} {about}")
    return Surroundings(*(words(text[: limits.search_text_length]) for text in texts))


def read(tool: Definition, place: Surroundings, limits: Limits) -> Document:
    """The document of a tool. Its last two runs are those of its surroundings."""
    name, texts = tool.name[: limits.search_text_length], _texts(tool, limits)
    fields = list(_fields(name, texts, place))
    counts = _weighed(fields)
    damped = {word: count if count < 1 else 1 + math.log(count) for word, count in counts.items()}
    length = 2 * sum([value * value for value in damped.values()])
    focus = _FOCUS / length**_FOCUS_POWER if length else 0.0
    impacts = {word: count / (_SATURATION + count) + focus * damped[word] for word, count in counts.items()}
    return Document(impacts, [field.words for field in fields], focus)


def _weighed(fields: Iterable[_Field]) -> dict[str, float]:
    """How often each word occurs: less where the text is long, and more where it is telling."""
    counts: dict[str, float] = {}
    for found, weight, usual in fields:
        each = weight / (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(found) / usual)
        for word in found:
            counts[word] = counts.get(word, 0.0) + each
    return counts


def _fields(name: str, texts: _Texts, place: Surroundings) -> Iterator[_Field]:
    yield _Field(words(name), _NAME, _SHORT)
    yield _Field(words(texts.title), _TITLE, _SHORT)
    yield _Field(place.server, _SERVER, _SHORT)
    yield _Field(words(texts.description), 1.0, _LONG)
    yield _Field(words(texts.names), _PARAMETER, _SHORT)
    yield _Field(words(texts.explained), _PARAMETER_TEXT, _LONG)
    yield _Field(place.offer, _AROUND, _LONG)
    yield _Field(place.about, _AROUND, _LONG)


def _texts(tool: Definition, limits: Limits) -> _Texts:
    whole = _object(tool)
    title = _text(whole.get("title")) or _text(_members(whole.get("annotations")).get("title"))
    found = _Texts(title, _text(whole.get("description")), *_parameters(whole.get("inputSchema"), limits))
    return _Texts(*(text[: limits.search_text_length] for text in found))


def _object(tool: Definition) -> dict[str, Any]:
    try:
        whole = msgspec.json.decode(tool.raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", whole) if isinstance(whole, dict) else {}


def _parameters(schema: Any, limits: Limits) -> tuple[str, str]:
    """The names of a tool's parameters, nested ones after their parents, and what is said of them."""
    names: list[str] = []
    texts: list[str] = []
    waiting = [schema]
    for node in waiting:  # it grows meanwhile
        room = SEARCH_PARAMETERS - len(names)
        for name, inner in islice(_members(_members(node).get("properties")).items(), max(0, room)):
            names.append(name)
            texts.append(_text(_members(inner).get("description"))[: limits.search_text_length])
            waiting += [inner, _members(inner).get("items")]
    return " ".join(names), " ".join(texts)


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
