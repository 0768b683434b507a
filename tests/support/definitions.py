"""Definitions of every kind, whole and with something odd in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

TOOL: Json = {
    "name": "t",
    "title": "T",
    "description": "Does t.",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": True},
        "required": ["a"],
    },
    "outputSchema": {"type": "object", "properties": {"c": {"$ref": "#/$defs/d"}}, "$defs": {"d": {}}, "required": []},
    "annotations": {"title": "A", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
    "execution": {"taskSupport": "optional"},
    "icons": [{"src": "data:,", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    "_meta": {"k": 1},
    "x-unknown": {"any": [1]},
}
PROMPT: Json = {
    "name": "p",
    "title": "P",
    "description": "Asks p.",
    "arguments": [{"name": "a", "title": "A", "description": "An a.", "required": True}],
    "icons": [{"src": "data:,"}],
    "_meta": {"k": 1},
}
PLACED: Json = {
    "title": "R",
    "description": "Holds r.",
    "mimeType": "text/plain",
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
    "icons": [{"src": "data:,"}],
    "_meta": {"k": 1},
}
RESOURCE: Json = {"uri": "mem://r", "name": "r", "size": 5, **PLACED}
TEMPLATE: Json = {"uriTemplate": "mem://{r}", "name": "r", **PLACED}
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 5, 1.5, 1e300, "", "x", "object", "a b", [], {}, [None], [5], ["object", "null"], ["a"],
    [[]], [{}], {"a": None}, {"a": 5}, {"a": True}, {"a": []}, {"type": "array"}, {"type": "object"}, {"anyOf": [{}]},
)  # fmt: skip


class Kind(NamedTuple):
    """One kind of definition: how it is listed."""

    method: str
    member: str
    whole: Json
    named_by: str = "name"


KINDS = (
    Kind("tools/list", "tools", TOOL),
    Kind("prompts/list", "prompts", PROMPT),
    Kind("resources/list", "resources", RESOURCE, "uri"),
    Kind("resources/templates/list", "resourceTemplates", TEMPLATE, "uriTemplate"),
)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something may be replaced: every member, at any depth."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """A copy with something else at a place; the member is missing if that is an `Ellipsis`."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, list):
        return [replaced(one, tuple(rest), new) if number == key else one for number, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    changed = {**value, key: replaced(value.get(key), tuple(rest), new)}
    return {name: one for name, one in changed.items() if one is not ...}


def numbered(kind: Kind, definitions: list[Json]) -> list[Json]:
    """Under names of their own, where they are texts."""
    return [
        {**one, kind.named_by: f"{one[kind.named_by]}{number}"} if isinstance(one.get(kind.named_by), str) else one
        for number, one in enumerate(definitions)
    ]


def oddities(kind: Kind) -> list[Json]:
    """A definition of a kind with every odd value in the place of each member, and without it."""
    values = (None, True, 5, 1.5, "x", [], {}, [5], ...)
    places = [path for path in paths(kind.whole) if path[0] != kind.named_by]
    found = [replaced(kind.whole, path, new) for path in places for new in values if isinstance(path[-1], str)]
    return numbered(kind, [kind.whole, *found])
