"""Lenient readers of JSON Schema: a keyword with a value of the wrong type reads as missing, and makes a schema odd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, cast

from mcp_workbench.catalog.rendering.notes import CONSTRAINTS, Schema
from mcp_workbench.catalog.rendering.references import KEYWORDS

SIGNATURE_MERGED_PARTS = 64
"""The most parts of an `allOf` that are merged: people write a few, and each is compared with the others."""

UNIONS = ("anyOf", "oneOf")
NARROWING = ("not", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contentSchema")
"""Keywords that hold one schema each and narrow a type."""

_OF_OBJECTS = ("properties", "patternProperties", "additionalProperties", "required")
_OF_ARRAYS = ("items", "prefixItems", "additionalItems")
_DEPENDENT = ("dependentSchemas", "dependentRequired", "dependencies")
_CONDITIONS = frozenset(("if", *_DEPENDENT))
_ADDING = frozenset((*KEYWORDS, *UNIONS, *NARROWING, *_CONDITIONS))
_STRUCTURAL = frozenset((*_OF_OBJECTS, *_OF_ARRAYS))
_NESTED = _ADDING | _STRUCTURAL | {"allOf"}
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies"), dict),
    **dict.fromkeys((*UNIONS, "allOf", "enum", "prefixItems"), list),
    **dict.fromkeys(("title", "description"), str),
    "type": (str, list),
    "required": (list, bool),
}
"""Types of the values of keywords. Null reads as missing."""
_VALUES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
_LEAF = frozenset(("type", "title", "description"))
_SCALARS = ("string", "integer", "number", "boolean", "null")
_SILENT = frozenset(("$schema", "$id", "$comment", "$defs", "definitions"))
_MERGEABLE = _SILENT | frozenset(("type", "properties", "required", "title", "description", "default", *CONSTRAINTS))
_GATHERED = ("properties", "required")
_LOCAL = ("additionalProperties", "patternProperties", "unevaluatedProperties")
"""Keywords that depend on the properties next to them, so that no others may be merged in."""


def is_object(schema: object) -> TypeGuard[Schema]:
    return isinstance(schema, dict)


def is_reference(schema: Schema) -> bool:
    """True if a schema contains only a reference."""
    return "$ref" in schema and all(keyword in _SILENT or keyword in ("$ref", "title") for keyword in schema)


def is_nested(schema: Schema) -> bool:
    """True if a schema contains other schemas."""
    return any(schema[keyword] is not None for keyword in _NESTED.intersection(schema))


def is_simple(schema: Schema) -> bool:
    """True if a schema has only a type, members and values."""
    return _ADDING.isdisjoint(schema)


def is_leaf(schema: Schema) -> bool:
    """True if a schema is a type in one word, perhaps with title and description: the common case."""
    if not _LEAF.issuperset(schema) or schema.get("type") not in _SCALARS:
        return False
    return isinstance(schema.get("title", ""), str) and isinstance(schema.get("description", ""), str)


def is_odd(schema: Schema) -> bool:
    """True if some keywords have values of the wrong type."""
    if _KINDS.keys().isdisjoint(schema):
        return False
    for keyword, value in schema.items():
        if (kind := _KINDS.get(keyword)) is not None and value is not None and not isinstance(value, kind):
            return True
    named = schema.get("type")
    return (
        len(_texts(schema, "required")) < len(_list(schema, "required"))
        or not all(isinstance(one, str) and one.isidentifier() for one in _list(schema, "type"))
        or (isinstance(named, str) and not named.isidentifier())
        or ("enum" in schema and "const" in schema)
    )


def types(schema: Schema) -> list[str]:
    """The types of a schema, inferred from its keywords if it names none."""
    named = schema.get("type")
    if named is None and _STRUCTURAL.isdisjoint(schema):
        return []
    if named is None:
        of_objects = any(schema.get(keyword) is not None for keyword in _OF_OBJECTS if keyword != "required")
        of_arrays = any(schema.get(keyword) is not None for keyword in _OF_ARRAYS)
        return ["object"] * (of_objects or bool(_list(schema, "required"))) + ["array"] * of_arrays
    listed = [named] if isinstance(named, str) else dict.fromkeys(_texts(schema, "type"))
    return [name for name in listed if name.isidentifier()]


def word(schema: Schema) -> str:
    """The type in one word."""
    return kinds[0] if len(kinds := types(schema)) == 1 else "object"


def values(schema: Schema) -> list[Any] | None:
    """The values that a schema allows, if it lists them."""
    if "const" in schema:
        return [schema["const"]]
    return _list(schema, "enum") if isinstance(schema.get("enum"), list) else None


def owner(schema: object) -> str | None:
    """The value that a title is compared with in a union: a title that repeats it is left out."""
    return str(schema["const"]) if is_object(schema) and isinstance(schema.get("const"), str) else None


def is_implied(schema: Schema) -> bool:
    """True if the listed values imply the types."""
    allowed = {kind for name in types(schema) for kind in _VALUES.get(name, ())}
    return not is_nested(schema) and all(type(value) in allowed for value in values(schema) or ())


def children(schema: Schema, keyword: str) -> Mapping[str, Any]:
    """The named schemas of a keyword."""
    value = schema.get(keyword)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def required(schema: Schema) -> Mapping[str, None]:
    """The required names."""
    return dict.fromkeys(_texts(schema, "required"))


def required_count(schema: Schema) -> int:
    return len(_list(schema, "required"))


def elements(schema: Schema) -> tuple[list[Any], Any]:
    """The schemas of the first elements of an array, and of all others (None: anything)."""
    if first := _list(schema, "prefixItems"):
        return first, schema.get("items")
    items = schema.get("items")
    return (_list(schema, "items"), schema.get("additionalItems")) if isinstance(items, list) else ([], items)


def conditions(schema: Schema) -> Iterator[tuple[Any, list[tuple[str, Any]]]]:
    """Conditions: each a schema, and its outcomes with `then` or `else`."""
    if _CONDITIONS.isdisjoint(schema):
        return
    outcomes = [(word, schema[word]) for word in ("then", "else") if schema.get(word) is not None]
    if schema.get("if") is not None and outcomes:
        yield schema["if"], outcomes
    for keyword in _DEPENDENT:
        for name, outcome in children(schema, keyword).items():
            is_schema = isinstance(outcome, dict | bool)
            yield {"required": [name]}, [("then", outcome if is_schema else {"required": outcome})]


def merged(schema: Schema) -> tuple[Schema, list[Any]]:
    """Merge parts of `allOf` into the schema where possible; returns the rest too. A long `allOf` is unchanged."""
    parts = _list(schema, "allOf")
    if not parts or len(parts) > SIGNATURE_MERGED_PARTS:
        return schema, parts
    whole = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
    whole["properties"], whole["required"] = dict(children(schema, "properties")), [*_list(schema, "required")]
    rest = [part for part in parts if not _join(whole, part)]
    return {keyword: value for keyword, value in whole.items() if value or keyword not in _GATHERED}, rest


def _join(whole: dict[str, Any], part: object) -> bool:
    """Merge a part into a schema if that changes the meaning of neither."""
    if not is_object(part) or not _MERGEABLE.issuperset(part) or is_odd(part) or any(word in whole for word in _LOCAL):
        return False
    properties = children(part, "properties")
    own = {keyword: value for keyword, value in part.items() if keyword not in _GATHERED and keyword not in _SILENT}
    is_new = whole["properties"].keys().isdisjoint(properties)
    if not is_new or any(keyword in whole and whole[keyword] != value for keyword, value in own.items()):
        return False
    whole.update(own)
    whole["properties"].update(properties)
    whole["required"] += _texts(part, "required")
    return True


def _list(schema: Schema, keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _texts(schema: Schema, keyword: str) -> list[str]:
    return [text for text in _list(schema, keyword) if isinstance(text, str)]
