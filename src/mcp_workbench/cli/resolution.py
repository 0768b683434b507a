"""Schemas as one: with what they refer to and are made of, and their alternatives side by side.

What is said twice is taken from the last place: who satisfies all parts satisfies that one, so no good value is
refused. Each schema is looked at once, so whatever refers to what costs no more than its own length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from mcp_workbench.catalog.rendering import schemas
from mcp_workbench.catalog.rendering.notes import Schema
from mcp_workbench.catalog.rendering.references import References
from mcp_workbench.catalog.rendering.schemas import UNIONS
from mcp_workbench.limits import DEFAULTS

UNKNOWN: Final = "$ref"
"""A keyword that is left only where something is not known: what it refers to is not there, or too far away."""
NOTHING: Final[Schema] = {}
_MADE_OF: Final = frozenset((UNKNOWN, "allOf"))


class Resolution:
    """The schemas within one."""

    def __init__(self, root: Schema) -> None:
        self._references = References(root)  # it keeps all of them alive, so they can be told by their ids
        self._resolved: dict[int, Schema] = {}

    def resolved(self, schema: object, depth: int = 0) -> Schema:
        """A schema with what it refers to and its `allOf`; an empty one where there is none."""
        if not schemas.is_object(schema):
            return NOTHING
        if _MADE_OF.isdisjoint(schema):
            return schema
        if id(schema) not in self._resolved:
            self._resolved[id(schema)] = {}  # what it is where it leads back to itself
            self._resolved[id(schema)] = self._joined(schema, depth)
        return self._resolved[id(schema)]

    def branches(self, schema: Schema) -> Iterator[Schema]:
        """The alternatives of a resolved schema, and theirs; itself where it has none."""
        rest, seen = [schema], set[int]()
        while rest:
            one = rest.pop(0)
            parts = [part for word in UNIONS for part in _listed(one, word)]
            if not parts:
                yield one
            shared = {keyword: value for keyword, value in one.items() if keyword not in UNIONS}
            for part in parts:
                resolved = self.resolved(part)
                if id(resolved) not in seen:
                    seen.add(id(resolved))
                    rest.append({**shared, **resolved})

    def _joined(self, schema: Schema, depth: int) -> Schema:
        own = {keyword: value for keyword, value in schema.items() if keyword not in _MADE_OF}
        if depth >= DEFAULTS.schema_depth:
            return {**own, UNKNOWN: None}
        target = self._references.target(schema.get(UNKNOWN))
        whole: Schema = {UNKNOWN: None} if UNKNOWN in schema and target is None else NOTHING
        for part in (target, *_listed(schema, "allOf")):
            whole = _both(whole, self.resolved(part, depth + 1))
        return _both(whole, own)


def _both(one: Schema, other: Schema) -> Schema:
    """What two schemas say of the same value."""
    properties = {**schemas.children(one, "properties"), **schemas.children(other, "properties")}
    required = [*schemas.required(one), *schemas.required(other)]
    gathered = {"properties": properties} if properties else {}
    return {**one, **other, **gathered, **({"required": required} if required else {})}


def _listed(schema: Schema, word: str) -> list[Any]:
    found = schema.get(word)
    return cast("list[Any]", found) if isinstance(found, list) else []
