"""Tool parameters that `x-mcp-header` mirrors in HTTP headers (modern era), and the encoding of header values.

`SentHeaders` makes the headers of a call to a server. `ReceivedHeaders` compares a client's headers with the body. Both
learn the parameters from tool lists that pass through, so no server is started or asked for them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import RpcError

MARK: Final = "x-mcp-header"
"""The member of a property's schema that names its header."""
PREFIX: Final = "mcp-param-"
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The param that `Mcp-Name` repeats, by method."""

_HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TYPES: Final = ("string", "integer", "boolean")
_SCHEMA_KEYWORDS: Final = frozenset(
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties"}
    | {"not", "if", "then", "else", "contentSchema"}
)
_LIST_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAP_KEYWORDS: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
_MARKED: Final = MARK.encode()
_NO_SCALAR: Final[list[Any]] = []
"""Stands for a value that has no header form."""
_SAFE: Final = r"[\x20-\x7e]*"
_BEGIN, _END = "=?base64?", "?="

Path: TypeAlias = tuple[str, ...]
"""Names of properties, from the outermost."""
Tree: TypeAlias = "dict[str, Parameter | Tree]"
"""The mirrored parameters of a tool, nested like its arguments."""

MIRRORED_PARAMETERS = 64
"""Header parameters of one tool."""


class Parameter(NamedTuple):
    """A mirrored parameter: its header and its type."""

    header: str
    type: str


def encode(value: str) -> str:
    """Encode a header value: plain if possible, else as base64 with a marker."""
    if re.fullmatch(_SAFE, value) and value == value.strip() and not _is_encoded(value):
        return value
    return f"{_BEGIN}{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}{_END}"


def decode(value: str | None) -> str | None:
    """Decode a header value; None for malformed or non-canonical base64."""
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
    """An argument as the text of its header; None if it has no header form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # more digits than Python formats
        return None


def matches(parameter: Parameter, value: Any, header: str) -> bool:
    """Whether a decoded header equals an argument. Whole numbers are compared as numbers: 42 equals 42.0."""
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
        except ValueError:  # more digits than Python parses
            return False
    return header == render(value)


def mirrored_parameters(schema: Any) -> dict[Path, Parameter] | None:
    """The mirrored parameters by path; None if an annotation is invalid."""
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
    """Every subschema, with its path if only `properties` lead to it."""
    waiting: list[tuple[Path | None, Any]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, dict):
            continue
        part = cast("dict[str, Any]", node)
        yield path, part
        for keyword, value in part.items():
            waiting += _children(path, keyword, value)


def _children(path: Path | None, keyword: str, value: Any) -> list[tuple[Path | None, Any]]:
    if keyword == "properties" and isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return [((*path, name) if path is not None else None, part) for name, part in named.items()]
    if keyword in _SCHEMA_KEYWORDS:
        return [(None, value)]
    if keyword in _LIST_KEYWORDS and isinstance(value, list):
        return [(None, part) for part in cast("list[Any]", value)]
    if keyword in _MAP_KEYWORDS and isinstance(value, dict):
        return [(None, part) for part in cast("dict[str, Any]", value).values()]
    return []


# -- calls to servers


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: Any = None


class _Listed(msgspec.Struct):
    """A message with a tool list; only the result is read."""

    result: dict[str, Raw]


class SentHeaders:
    """The headers of calls to one modern server, learned from its tool lists.

    The protocol requires that a tool with invalid annotations is left out of the list.
    """

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._label = label
        self._limits = limits
        self._tools: dict[str, dict[Path, Parameter]] = {}

    def knows(self, name: str) -> bool:
        """Whether the server listed a tool of this name."""
        return name in self._tools

    def learn(self, message: bytes) -> bytes:
        """Learn from a list; returns it without the tools whose annotations are invalid."""
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
        """Learn from a tool; False if its annotations are invalid."""
        if _MARKED not in bytes(raw):
            return True
        try:
            tool = msgspec.json.decode(raw, type=_Tool)
        except (msgspec.DecodeError, RecursionError):
            return True
        found = mirrored_parameters(tool.input_schema)
        if found is None:
            what = "left out a tool with invalid header annotations"
            logger.warning(what, server=self._label, tool=tool.name)
            self._tools.pop(tool.name, None)
            return False
        if len(self._tools) < self._limits.mirrored_tools and len(found) <= MIRRORED_PARAMETERS:
            self._tools[tool.name] = found
        return True

    def headers(self, name: str, arguments: Any) -> dict[str, str]:
        """The headers of a call, from its arguments."""
        known = self._tools.get(name)
        if not known or arguments is None:
            return {}
        values = msgspec.json.decode(arguments) if isinstance(arguments, Raw) else arguments
        found = ((one.header, render(_value(values, path))) for path, one in known.items())
        return {f"{PREFIX}{name}": encode(text) for name, text in found if text is not None}


def _value(arguments: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(arguments, dict):
            return None
        arguments = cast("dict[str, Any]", arguments).get(key)
    return arguments


# -- calls from clients


class _List(msgspec.Struct):
    tools: list[Raw] = []


class ReceivedHeaders:
    """The tools that mirror arguments in headers, learned from the lists that clients got at one endpoint."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._trees: dict[str, Tree] = {}

    def learn(self, listed: Raw) -> None:
        """Learn from a page of tools."""
        page = bytes(listed)
        if not self._trees and _MARKED not in page:
            return
        for raw in _tools(page):
            tool = _decoded(raw, _Tool)
            if tool is not None:
                self._trees.pop(tool.name, None)
                if _MARKED in bytes(raw) and (tree := _tree(tool.input_schema)):
                    self._keep(tool.name, tree)

    def check(self, params: dict[str, Raw], headers: Mapping[str, str], repeated: Collection[str]) -> None:
        """Raises `RpcError` if the headers of a call differ from its arguments."""
        if not self._trees or (tree := self._trees.get(jsonrpc.text_or_none(params.get("name")) or "")) is None:
            return
        try:
            _check(tree, params.get("arguments"), headers, repeated)
        except msgspec.DecodeError as error:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"params.arguments can't be read ({error})") from None

    def _keep(self, name: str, tree: Tree) -> None:
        if len(self._trees) >= self._most:
            del self._trees[next(iter(self._trees))]
        self._trees[name] = tree


def _tree(schema: Any) -> Tree:
    """The mirrored parameters; empty if an annotation is invalid, since clients ignore it then."""
    tree: Tree = {}
    for path, parameter in (mirrored_parameters(schema) or {}).items():
        node = tree
        for name in path[:-1]:
            node = cast("Tree", node.setdefault(name, {}))
        node[path[-1]] = parameter
    return tree


def _check(tree: Tree, raw: Raw | None, headers: Mapping[str, str], repeated: Collection[str]) -> None:
    members = jsonrpc.members(raw)
    for name, part in tree.items():
        if isinstance(part, Parameter):
            _compare(part, name, _scalar(members.get(name)), headers, repeated)
        else:
            _check(part, members.get(name), headers, repeated)


def _compare(
    parameter: Parameter, name: str, value: Any, headers: Mapping[str, str], repeated: Collection[str]
) -> None:
    header = f"{PREFIX}{parameter.header}".lower()
    given = headers.get(header)
    if header in repeated:
        raise _mismatch(header, "appears more than once")
    if value is None or render(value) is None:
        if given is not None:
            raise _mismatch(header, f"is present, but the argument {name!r} is missing or has no header form")
    elif given is None:
        raise _mismatch(header, f"is missing, but the argument {name!r} is present")
    elif (decoded := decode(given)) is None or not matches(parameter, value, decoded):
        raise _mismatch(header, f"does not match the argument {name!r}")


def _mismatch(header: str, problem: str) -> RpcError:
    return RpcError(jsonrpc.HEADER_MISMATCH, f"{header} header {problem}")


def _scalar(raw: Raw | None) -> Any:
    if raw is None:
        return None
    if bytes(raw)[:1] in (b"[", b"{"):
        return _NO_SCALAR
    try:
        return json.loads(bytes(raw))
    except ValueError:  # a number with thousands of digits
        return _NO_SCALAR


def _tools(page: bytes) -> list[Raw]:
    listed = _decoded(page, _List)
    return listed.tools if listed is not None else []


def _decoded(raw: bytes | Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
