"""Checks a call's arguments against the part of JSON Schema that the demo tools use.

Guarantees that a value which passes has the declared types (a boolean is no number, a number is
finite) and lies within the declared bounds. Keywords that it does not know are not checked, so a
schema must only use those named here, `description` and `default`.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Schema = dict[str, Any]

_NOUNS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


class WrongArgumentError(ValueError):
    """An argument does not fit; the text names it and says what would."""


def object_schema(properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """A closed object in which everything is required but `optional`."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def check(schema: Schema, value: object, place: str = "arguments") -> None:
    """Raise unless `value` fits `schema`; `place` is how the message names it."""
    kind = schema["type"]
    if not _is_a(kind, value):
        raise WrongArgumentError(f"{place} must be {_NOUNS[kind]}")
    if "enum" in schema and value not in schema["enum"]:
        raise WrongArgumentError(f"{place} must be one of: {', '.join(map(str, schema['enum']))}")
    if isinstance(value, str):
        _check_size(schema, len(value), place, "characters", ("minLength", "maxLength"))
    elif isinstance(value, list):
        _check_list(schema, cast("list[object]", value), place)
    elif isinstance(value, dict):
        _check_object(schema, cast("dict[str, object]", value))
    elif isinstance(value, int | float):
        _check_number(schema, value, place)


def _is_a(kind: str, value: object) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _check_size(schema: Schema, size: int, place: str, unit: str, keywords: tuple[str, str]) -> None:
    least, most = schema.get(keywords[0], 0), schema.get(keywords[1])
    if size == 0 and least > 0:
        raise WrongArgumentError(f"{place} cannot be empty")
    if size < least:
        raise WrongArgumentError(f"{place} must have at least {least} {unit}")
    if most is not None and size > most:
        raise WrongArgumentError(f"{place} can have at most {most} {unit}")


def _check_list(schema: Schema, values: list[object], place: str) -> None:
    _check_size(schema, len(values), place, "entries", ("minItems", "maxItems"))
    for index, value in enumerate(values):
        check(schema["items"], value, f"{place}[{index}]")


def _check_number(schema: Schema, value: float, place: str) -> None:
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not abs(value) <= sys.float_info.max:
        raise WrongArgumentError(f"{place} is too large")
    if value < least:
        raise WrongArgumentError(f"{place} must be at least {least}")
    if value > most:
        raise WrongArgumentError(f"{place} must be at most {most}")


def _check_object(schema: Schema, values: dict[str, object]) -> None:
    properties: dict[str, Schema] = schema["properties"]
    for name in schema["required"]:
        if name not in values:
            raise WrongArgumentError(f"{name} is missing")
    for name, value in values.items():
        if name not in properties:
            raise WrongArgumentError(f"Unknown argument '{name}'. Expected: {', '.join(properties) or 'none'}")
        check(properties[name], value, name)
