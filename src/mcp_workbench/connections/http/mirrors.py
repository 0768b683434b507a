"""Which parameters of a modern server's tools are sent as headers too (`x-mcp-header`).

Learned from the lists that pass by; of each tool only the names are kept. By the protocol a tool whose
annotations are wrong is left out of the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.connections.http.headers import encoded, rendered
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc

MARK: Final = "x-mcp-header"
_MARKED: Final = b"x-mcp-header"
_PREFIX: Final = "mcp-param-"
_HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TYPES: Final = ("string", "integer", "boolean")
_ONE: Final = frozenset(
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "contentSchema"}
)
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})

Path: TypeAlias = tuple[str, ...]
"""Names of properties, from the outermost."""


class _Listed(msgspec.Struct):
    """The message with a list, as far as it is looked at."""

    result: dict[str, Raw]


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: Any = None


class Mirrors:
    """What is known of one server's tools."""

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._label = label
        self._limits = limits
        self._tools: dict[str, dict[Path, str]] = {}

    def knows(self, name: str) -> bool:
        """Whether the server listed a tool of this name."""
        return name in self._tools

    def learn(self, message: bytes) -> bytes:
        """Take note of a list that passes by; the list without the tools that may not be offered."""
        if _MARKED not in message:
            return message
        try:
            listed = msgspec.json.decode(message, type=_Listed).result
            tools = msgspec.json.decode(listed["tools"], type=list[Raw])
        except (msgspec.DecodeError, KeyError, RecursionError):
            return message
        kept = [tool for tool in tools if self._take(tool)]
        if len(kept) == len(tools):
            return message
        whole = msgspec.json.decode(message, type=dict[str, Raw])
        return jsonrpc.encode({**whole, "result": {**listed, "tools": kept}})

    def _take(self, raw: Raw) -> bool:
        """Note a tool; False where it may not be offered."""
        if _MARKED not in bytes(raw):
            return True
        try:
            tool = msgspec.json.decode(raw, type=_Tool)
        except (msgspec.DecodeError, RecursionError):
            return True
        found = mirrored(tool.input_schema)
        if found is None:
            what = "a tool is left out: its header annotations are invalid"
            observe.warning(what, server=self._label, tool=tool.name)
            self._tools.pop(tool.name, None)
            return False
        if len(self._tools) < self._limits.mirrored_tools and len(found) <= self._limits.mirrored_parameters:
            self._tools[tool.name] = found
        return True

    def headers(self, name: str, arguments: Raw | None) -> dict[str, str]:
        """The headers of a call of the tool of this name, from its arguments."""
        known = self._tools.get(name)
        if not known or arguments is None:
            return {}
        values = msgspec.json.decode(arguments)
        found = ((header, rendered(_value(values, path))) for path, header in known.items())
        return {f"{_PREFIX}{header}": encoded(text) for header, text in found if text is not None}


def _value(arguments: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(arguments, dict):
            return None
        arguments = cast("dict[str, Any]", arguments).get(key)
    return arguments


def mirrored(schema: Any) -> dict[Path, str] | None:
    """The parameters that are headers, and their names there; None where an annotation is wrong."""
    found: dict[Path, str] = {}
    taken: set[str] = set()
    for path, part in _positions(schema):
        if MARK not in part:
            continue
        name = part[MARK]
        if not path or part.get("type") not in _TYPES or not isinstance(name, str):
            return None
        if not re.fullmatch(_HEADER_NAME, name) or name.lower() in taken:
            return None
        taken.add(name.lower())
        found[path] = name
    return found


def _positions(schema: Any) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    """Every schema within a schema; its path where properties alone lead to it."""
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
