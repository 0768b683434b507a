"""Resolves the references within a JSON Schema. Never fetches anything.

A definition that is used once can be inlined. One that is used more often, or recursively, gets a name and is written
once, so the result is never longer than the schema.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any, cast
from urllib.parse import unquote

from mcp_workbench.catalog.rendering.notes import Schema
from mcp_workbench.identity import NAME_LENGTH

KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
"""Reference keywords. Dynamic ones are read as plain ones: nothing outside the schema can change their targets."""

_ANCHORS = ("$anchor", "$dynamicAnchor")
_NAMING = frozenset((*KEYWORDS, *_ANCHORS, "$id"))
_HOMES = ("$defs", "definitions")
_STEPS = frozenset(("", "items", "prefixItems", "properties", "additionalProperties", "anyOf", "oneOf", "allOf"))
"""Path segments that do not name a definition."""
_ODD = re.compile(r"\W+", re.ASCII)


class References:
    """The references of one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._movable = {
            id(one)
            for word in _HOMES
            if isinstance(home := root.get(word), dict)
            for one in cast("Schema", home).values()
        }
        self._targets: dict[str, Schema | bool | None] = {}
        self._anchors: dict[str, Schema] = {}
        self._bundled: dict[str, Schema] = {}
        self._uses: Counter[int] = Counter()
        self._referred: dict[int, str] = {}
        self._survey()

    def reference_to(self, schema: Schema) -> str | None:
        """The reference to a schema that stands outside of `$defs`."""
        return None if id(schema) in self._movable else self._referred.get(id(schema))

    def target(self, reference: object) -> Schema | bool | None:
        """The target of a reference; None if it is not in this schema."""
        return self._targets.get(reference) if isinstance(reference, str) else None

    def is_used_once(self, target: Schema) -> bool:
        """True if the definition can be inlined."""
        return self._uses[id(target)] <= 1

    def _survey(self) -> None:
        """Collect names, then targets and how often each is used."""
        references: list[str] = []
        for schema in _objects(self._root):
            if schema.keys().isdisjoint(_NAMING):
                continue
            references += [value for word in KEYWORDS if isinstance(value := schema.get(word), str)]
            self._note_names(schema)
        self._targets = {reference: self._find(reference) for reference in dict.fromkeys(references)}
        self._uses = Counter(id(self._targets[reference]) for reference in references)
        self._referred = {id(target): reference for reference, target in self._targets.items()}

    def _note_names(self, schema: Schema) -> None:
        for word in _ANCHORS:
            if isinstance(anchor := schema.get(word), str):
                self._anchors.setdefault(f"#{anchor}", schema)
        if schema is not self._root and isinstance(identifier := schema.get("$id"), str):
            self._bundled.setdefault(identifier, schema)

    def _find(self, reference: str) -> Schema | bool | None:
        """Resolve a reference. Not possible in a bundle, where a pointer may be relative to any of the schemas."""
        if self._bundled:
            return self._bundled.get(reference)
        own = self._root.get("$id")
        if isinstance(own, str) and own and (reference == own or reference.startswith(f"{own}#")):
            reference = reference.removeprefix(own) or "#"
        if reference == "#" or reference in self._anchors:
            return self._anchors.get(reference, self._root)
        if not reference.startswith("#/"):
            return None
        found: object = self._root
        for step in unquote(reference[2:]).split("/"):
            if (found := _child(found, step.replace("~1", "/").replace("~0", "~"))) is None:
                break
        return cast("Schema | bool", found) if isinstance(found, dict | bool) else None


class Names:
    """Unique names for definitions, in order of first use."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self.pending: list[tuple[str, Schema]] = []

    def of(self, target: Schema, reference: str) -> str:
        """The name of a definition: the last part of its reference, as an identifier."""
        if id(target) not in self._names:
            name = self._names[id(target)] = self._free(reference)
            self._taken.add(name)
            self.pending.append((name, target))
        return self._names[id(target)]

    def _free(self, reference: str) -> str:
        steps = unquote(reference).split("/")
        while len(steps) > 1 and steps[-2] not in _HOMES and (steps[-1] in _STEPS or steps[-1].isdecimal()):
            steps.pop()
        name = _ODD.sub("_", steps[-1].replace("~1", "/")).strip("_")[:NAME_LENGTH] or "Input"
        name = name[0].upper() + name[1:] if name.isidentifier() else f"T{name}"
        numbers = count(len(self._names) + 1)
        free = name
        while free in self._taken:
            free = f"{name}_{next(numbers)}"
        return free


def _objects(root: Schema) -> Iterator[Schema]:
    """Every object in a schema, at any depth."""
    rest: list[Any] = [root]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield cast("Schema", value)
            value = cast("dict[str, Any]", value).values()
        rest += [one for one in value if isinstance(one, dict | list)]


def _child(parent: object, step: str) -> object:
    if isinstance(parent, dict):
        return cast("dict[str, Any]", parent).get(step)
    if isinstance(parent, list):
        items = cast("list[Any]", parent)
        is_index = step.isdecimal() and len(step) <= len(str(len(items))) and int(step) < len(items)
        return items[int(step)] if is_index else None
    return None
