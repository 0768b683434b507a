"""Turns a tool definition into a document: what search indexes of it, and how much each word counts.

A document depends only on the tool and its server, so the index can add and remove it without reading others. Values
of the wrong type read as missing.
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
"""Weight of a word in each field, relative to the description: names are short and deliberate."""
_SHORT, _LONG, _LENGTH_SHARE = 3.0, 20.0, 0.75
"""Usual words of a name and of a description; how strongly length lowers the weight of a word, from 0 to 1."""
_SATURATION = 1.5
"""Repetitions at which a word reaches half of its weight."""
_FOCUS, _FOCUS_POWER = 3.5, 0.45
"""Weight of a focused document, one about few things; at a power of 0.5 the score would be a cosine similarity."""


class Document(NamedTuple):
    """A tool as search sees it."""

    impacts: dict[str, float]
    """The weight of each word."""
    runs: list[list[str]]
    """The words of each field in order, the name first: adjacent words are found in them."""
    focus: float


class Surroundings(NamedTuple):
    """The words that all tools of a server share: of its name, its own texts, and its toolbox."""

    server: list[str]
    offer: list[str]
    about: list[str]


def around(server: ServerIdentifier, about: str, offer: str, limits: Limits) -> Surroundings:
    """The words that a server's tools share. `offer` is its own texts, `about` the description of its toolbox."""
    texts = (server.server, offer, f"{server.toolbox} {about}")
    return Surroundings(*(words(text[: limits.search_text_length]) for text in texts))


def read(tool: Definition, shared: Surroundings, limits: Limits) -> Document:
    """The document of a tool. Its last two runs are those of its surroundings."""
    fields = list(_fields(tool, shared, limits))
    counts = _weighed(fields)
    damped = {word: count if count < 1 else 1 + math.log(count) for word, count in counts.items()}
    length = 2 * sum([value * value for value in damped.values()])
    focus = _FOCUS / length**_FOCUS_POWER if length else 0.0
    impacts = {word: count / (_SATURATION + count) + focus * damped[word] for word, count in counts.items()}
    return Document(impacts, [found for found, _, _ in fields], focus)


def _weighed(fields: Iterable[tuple[list[str], float, float]]) -> dict[str, float]:
    """The count of each word, weighted by field and by the length of the field."""
    counts: dict[str, float] = {}
    for found, weight, usual in fields:
        each = weight / (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(found) / usual)
        for word in found:
            counts[word] = counts.get(word, 0.0) + each
    return counts


def _fields(tool: Definition, shared: Surroundings, limits: Limits) -> Iterator[tuple[list[str], float, float]]:
    """The words of each field, its weight, and its usual length."""
    whole = _decoded(tool)
    title = _text(whole.get("title")) or _text(_members(whole.get("annotations")).get("title"))
    names, explained = _parameters(whole.get("inputSchema"), limits)
    texts = (tool.name, title, _text(whole.get("description")), names, explained)
    name, titled, described, named, told = (words(text[: limits.search_text_length]) for text in texts)
    yield name, _NAME, _SHORT
    yield titled, _TITLE, _SHORT
    yield shared.server, _SERVER, _SHORT
    yield described, 1.0, _LONG
    yield named, _PARAMETER, _SHORT
    yield told, _PARAMETER_TEXT, _LONG
    yield shared.offer, _AROUND, _LONG
    yield shared.about, _AROUND, _LONG


def _decoded(tool: Definition) -> dict[str, Any]:
    try:
        return _members(msgspec.json.decode(tool.raw))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _parameters(schema: Any, limits: Limits) -> tuple[str, str]:
    """The names of a tool's parameters, nested ones after their parents, and their descriptions."""
    names: list[str] = []
    texts: list[str] = []
    waiting = [schema]
    for node in waiting:  # grows while we iterate
        room = max(0, SEARCH_PARAMETERS - len(names))
        for name, inner in islice(_members(_members(node).get("properties")).items(), room):
            names.append(name)
            texts.append(_text(_members(inner).get("description"))[: limits.search_text_length])
            waiting += [inner, _members(inner).get("items")]
    return " ".join(names), " ".join(texts)


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
