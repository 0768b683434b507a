"""What the references in a schema lead to, within the schema: nothing is ever fetched.

A definition that is used once can stand in its place. One that is used more often, or leads back to itself, gets a
name and is told once; so a schema is told in no more than its own length, whatever refers to what.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote

from mcp_workbench.catalog.rendering.notes import Schema
from mcp_workbench.identity import NAME_LENGTH

KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
"""What refers. The dynamic ones are read as plain ones: nothing outside of the schema can change where they lead."""

_ANCHORS = ("$anchor", "$dynamicAnchor")
_NAMING = frozenset((*KEYWORDS, *_ANCHORS, "$id"))
_HOMES = ("$defs", "definitions")
_STEPS = frozenset(("", "items", "prefixItems", "properties", "additionalProperties", "anyOf", "oneOf", "allOf"))
"""What names no definition, in a path to one."""
_ODD = re.compile(r"\W+", re.ASCII)


class References:
    """What refers to what in one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._movable = {id(one) for home in _HOMES for one in _values(root.get(home))}
        self._targets: dict[str, Schema | bool | None] = {}
        self._anchors: dict[str, Schema] = {}
        self._bundled: dict[str, Schema] = {}
        self._uses: Counter[int] = Counter()
        self._referred: dict[int, str] = {}
        self._survey()

    def reference_to(self, schema: Schema) -> str | None:
        """What refers to a schema that stands in a place of its own."""
        return None if id(schema) in self._movable else self._referred.get(id(schema))

    def target(self, reference: object) -> Schema | bool | None:
        """The schema that it leads to; None where that is not in this one."""
        if not isinstance(reference, str):
            return None
        return self._targets.get(reference)

    def is_used_once(self, target: Schema) -> bool:
        """Whether it may stand where it is used."""
        return self._uses[id(target)] <= 1

    def _survey(self) -> None:
        """Find what has a name of its own, then what is referred to, and how often."""
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
        """In a bundle of schemas a pointer may be meant within any of them, so it is not followed there."""
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
    """Names for definitions, in the order in which they were first needed."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self.pending: list[tuple[str, Schema]] = []

    def of(self, target: Schema, reference: str) -> str:
        """The name of a definition: the last part of what refers to it, made an identifier."""
        if id(target) not in self._names:
            name = self._free(reference)
            self._names[id(target)] = name
            self._taken.add(name)
            self.pending.append((name, target))
        return self._names[id(target)]

    def _free(self, reference: str) -> str:
        steps = unquote(reference).split("/")
        while len(steps) > 1 and steps[-2] not in _HOMES and (steps[-1] in _STEPS or steps[-1].isdecimal()):
            steps.pop()
        name = _ODD.sub("_", steps[-1].replace("~1", "/")).strip("_")[:NAME_LENGTH] or "Input"
        name = name[0].upper() + name[1:] if name.isidentifier() else f"T{name}"
        number = len(self._names)
        free = name
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        return free


def _objects(root: Schema) -> Iterator[Schema]:
    """Every object in a schema, wherever it stands."""
    rest: list[Any] = [root]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield cast("Schema", value)
            value = cast("dict[str, Any]", value).values()
        rest += [one for one in value if isinstance(one, dict | list)]


def _values(home: object) -> list[Any]:
    return list(cast("dict[str, Any]", home).values()) if isinstance(home, dict) else []


def _child(parent: object, step: str) -> object:
    if isinstance(parent, dict):
        return cast("dict[str, Any]", parent).get(step)
    if isinstance(parent, list):
        items = cast("list[Any]", parent)
        is_index = step.isdecimal() and len(step) <= len(str(len(items))) and int(step) < len(items)
        return items[int(step)] if is_index else None
    return None
