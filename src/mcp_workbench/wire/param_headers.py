"""Values in HTTP headers of the modern era: their encoding, and the tool parameters that `x-mcp-header` mirrors.

Both sides use it: to send the headers of a call to a server, and to compare those of a client with the body.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

MARK: Final = "x-mcp-header"
"""The member of a property's schema that names its header."""
PREFIX: Final = "mcp-param-"
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The param that `Mcp-Name` repeats, by method."""

_HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TYPES: Final = ("string", "integer", "boolean")
_ONE: Final = frozenset(
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "contentSchema"}
)
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
_SAFE: Final = r"[\x20-\x7e]*"
_BEGIN, _END = "=?base64?", "?="

Path: TypeAlias = tuple[str, ...]
"""Names of properties, from the outermost."""


class Parameter(NamedTuple):
    """A parameter that has a header."""

    header: str
    type: str


def encode(value: str) -> str:
    """A value that survives as a header: plain if possible, else as marked base64."""
    if re.fullmatch(_SAFE, value) and value == value.strip() and not _is_encoded(value):
        return value
    return f"{_BEGIN}{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}{_END}"


def decode(value: str | None) -> str | None:
    """The value that `encode` was given; None for malformed or non-canonical base64."""
    if value is None or not _is_encoded(value):
        return value
    payload = value[len(_BEGIN) : -len(_END)]
    try:
        decoded = base64.b64decode(payload, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode("ascii") == payload else None
    except (binascii.Error, ValueError):
        return None


def _is_encoded(value: str) -> bool:
    return len(value) >= len(_BEGIN) + len(_END) and value.startswith(_BEGIN) and value.endswith(_END)


def render(value: Any) -> str | None:
    """An argument as the text of its header; None if it has no such form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # more digits than Python writes
        return None


def matches(parameter: Parameter, value: Any, header: str) -> bool:
    """Whether a decoded header has the value of an argument. Whole numbers compare as numbers: 42 is 42.0."""
    whole, point, fraction = header.partition(".")
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if (
        parameter.type == "integer"
        and is_whole
        and not isinstance(value, bool)
        and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", header)
    ):
        try:
            return int(whole) == int(value) and (not point or not fraction.strip("0"))
        except ValueError:  # more digits than Python reads
            return False
    return header == render(value)


def mirrored(schema: Any) -> dict[Path, Parameter] | None:
    """The parameters that have headers, by their path; None if an annotation is invalid."""
    found: dict[Path, Parameter] = {}
    taken: set[str] = set()
    for path, part in _positions(schema):
        if MARK not in part:
            continue
        name, type_ = part[MARK], part.get("type")
        if not path or type_ not in _TYPES or not isinstance(name, str):
            return None
        if not re.fullmatch(_HEADER_NAME, name) or name.lower() in taken:
            return None
        taken.add(name.lower())
        found[path] = Parameter(name, type_)
    return found


def _positions(schema: Any) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    """Every schema within a schema; its path if only `properties` lead to it."""
    waiting: list[tuple[Path | None, Any]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, dict):
            continue
        part = cast("dict[str, Any]", node)
        yield path, part
        for keyword, value in part.items():
            waiting += _below(path, keyword, value)


def _below(path: Path | None, keyword: str, value: Any) -> list[tuple[Path | None, Any]]:
    if keyword == "properties" and isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return [((*path, name) if path is not None else None, part) for name, part in named.items()]
    if keyword in _ONE:
        return [(None, value)]
    if keyword in _SEVERAL and isinstance(value, list):
        return [(None, part) for part in cast("list[Any]", value)]
    if keyword in _NAMED and isinstance(value, dict):
        return [(None, part) for part in cast("dict[str, Any]", value).values()]
    return []
