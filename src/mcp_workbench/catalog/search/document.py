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
from mcp_workbench.catalog.search.words import pieces, words
from mcp_workbench.limits import Limits


class Document(NamedTuple):
    """A tool as search sees it."""

    impacts: dict[str, float]
    """What each of its words counts in it."""
    runs: list[list[str]]
    """Its words in their order, the name's first: for words that stand side by side."""
    focus: float
    """How much it is about few things."""
    gist: str
    """What it is, in words that a person would read."""


class Surroundings(NamedTuple):
    """What all tools of a server have in common: its name, and the words of that and of what its toolbox is about."""

    name: str
    server: list[str]
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


def around(toolbox: str, server: str, about: str, limits: Limits) -> Surroundings:
    """What the tools of a server have in common."""
    most = limits.search_text_length
    return Surroundings(server[:most], words(server[:most]), words(f"{toolbox} {about}"[:most]))


def read(tool: Definition, place: Surroundings, limits: Limits, *, with_gist: bool = False) -> Document:
    """The document of a tool, with its gist only where that is wanted."""
    name, texts = tool.name[: limits.search_text_length], _texts(tool, limits)
    fields = list(_fields(name, texts, place, limits))
    counts = _weighed(fields, limits.search_length_share)
    damped = {word: count if count < 1 else 1 + math.log(count) for word, count in counts.items()}
    length = 2 * sum([value * value for value in damped.values()])
    focus = limits.search_focus_weight / length**limits.search_focus_power if length else 0.0
    soon = limits.search_saturation
    impacts = {word: count / (soon + count) + focus * damped[word] for word, count in counts.items()}
    gist = _gist(f"{place.name} {name}", texts, limits.search_gist_length) if with_gist else ""
    return Document(impacts, [field.words for field in fields], focus, gist)


def _gist(name: str, texts: _Texts, most: int) -> str:
    return " ".join([*pieces(name), texts.description[:most], *pieces(texts.names)])


def _weighed(fields: Iterable[_Field], share: float) -> dict[str, float]:
    """How often each word occurs: less where the text is long, and more where it is telling."""
    counts: dict[str, float] = {}
    for found, weight, usual in fields:
        each = weight / (1 - share + share * len(found) / usual)
        for word in found:
            counts[word] = counts.get(word, 0.0) + each
    return counts


def _fields(name: str, texts: _Texts, place: Surroundings, limits: Limits) -> Iterator[_Field]:
    short, long = limits.search_short_words, limits.search_long_words
    yield _Field(words(name), limits.search_name_weight, short)
    yield _Field(words(texts.title), limits.search_title_weight, short)
    yield _Field(place.server, limits.search_server_weight, short)
    yield _Field(words(texts.description), 1.0, long)
    yield _Field(words(texts.names), limits.search_parameter_weight, short)
    yield _Field(words(texts.explained), limits.search_parameter_text_weight, long)
    yield _Field(place.about, limits.search_about_weight, long)


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
        room = limits.search_parameters - len(names)
        for name, inner in islice(_members(_members(node).get("properties")).items(), max(0, room)):
            names.append(name)
            texts.append(_text(_members(inner).get("description"))[: limits.search_text_length])
            waiting += [inner, _members(inner).get("items")]
    return " ".join(names), " ".join(texts)


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
