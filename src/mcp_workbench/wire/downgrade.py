"""Projects tools and results that only the modern era allows onto the handshake era, as the official SDKs do.

Since 2026-07-28 an `outputSchema` may have any root, and `structuredContent` may be any JSON value. Handshake
clients accept objects only, so both are wrapped: `{"result": …}`. A schema and the results of its tool are always
wrapped together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.wire import jsonrpc

Projection: TypeAlias = Literal["none", "value", "schema"]
"""How a call's result is projected: not at all, if its value requires it, or because its tool's schema is wrapped."""

_ROOT: Final = "#/properties/result"
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef"})
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data: a `$ref` in them is not a reference."""
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
"""Keywords whose values are schemas under arbitrary names."""


def wrapped_schema(schema: Raw) -> Raw | None:
    """An output schema wrapped for handshake clients; None if its root is an object already."""
    members = jsonrpc.members(schema)
    if jsonrpc.text_or_none(members.get("type")) == "object":
        return None
    dialect = {"$schema": members["$schema"]} if jsonrpc.text_or_none(members.get("$schema")) is not None else {}
    wrapper = {**dialect, "type": "object", "properties": {"result": _rebased(schema)}, "required": ["result"]}
    return Raw(jsonrpc.encode(wrapper))


def handshake_tools(result: Raw, is_compilable: Callable[[Raw], bool]) -> Raw:
    """A `tools/list` result in which the output schemas that handshake clients refuse are wrapped.

    A schema that does not compile even when wrapped is left out; the results of its tool are projected accordingly.
    Anything that is not a list of tools, and a schema that is nested too deep, is passed on unchanged.
    """
    members = jsonrpc.members(result)
    listed = members.get("tools")
    if listed is None or not jsonrpc.is_list(listed) or b"outputSchema" not in bytes(listed):
        return result
    tools = msgspec.json.decode(listed, type=list[Raw])
    projected = [_handshake_tool(tool, is_compilable) for tool in tools]
    if all(new is old for new, old in zip(projected, tools, strict=True)):
        return result
    return Raw(jsonrpc.encode({**members, "tools": projected}))


def _handshake_tool(tool: Raw, is_compilable: Callable[[Raw], bool]) -> Raw:
    members = jsonrpc.members(tool)
    schema = members.get("outputSchema")
    if schema is None or not jsonrpc.is_object(schema):
        return tool
    try:
        wrapped = wrapped_schema(schema)
        is_kept = wrapped is None or is_compilable(wrapped)
    except (msgspec.DecodeError, RecursionError):
        return tool
    if wrapped is None:
        return tool
    others = {name: value for name, value in members.items() if name != "outputSchema"}
    return Raw(jsonrpc.encode({**members, "outputSchema": wrapped} if is_kept else others))


def handshake_result(members: dict[str, Raw], projection: Projection) -> dict[str, Any] | None:
    """The members of a call's result with `structuredContent` wrapped; None if nothing changes."""
    value = members.get("structuredContent")
    if value is None or projection == "none":
        return None
    if jsonrpc.is_object(value):
        return {**members, "structuredContent": {"result": value}} if projection == "schema" else None
    # Handshake clients show text. Without a text block their models would not see the value.
    return {**members, **_with_text(members, value), "structuredContent": {"result": value}}


def _with_text(members: dict[str, Raw], value: Raw) -> dict[str, Any]:
    """The `content` with the value added as text; empty if there is a text block already."""
    try:
        blocks = msgspec.json.decode(members.get("content", b"[]"), type=list[Raw])
    except msgspec.DecodeError:
        return {}
    if any(jsonrpc.text_or_none(jsonrpc.members(block).get("type")) == "text" for block in blocks):
        return {}
    return {"content": [*blocks, {"type": "text", "text": bytes(value).decode()}]}


# -- references inside a wrapped schema


def _rebased(schema: Raw) -> Raw:
    """The schema with its pointers adjusted to its new location."""
    text = bytes(schema)
    if b"ef" not in text and b"\\u" not in text:  # no `$ref`, even in escaped form
        return schema
    return _rebase(schema, _rebase_keyword)


def _rebase(raw: Raw, rebase: Callable[[str, Raw], Any]) -> Raw:
    """Rebase every member of an object or item of a list. Other values have no references."""
    if jsonrpc.is_list(raw):
        items = msgspec.json.decode(raw, type=list[Raw])
        return Raw(jsonrpc.encode([_rebase(item, _rebase_keyword) for item in items]))
    if not jsonrpc.is_object(raw):
        return raw
    members = jsonrpc.fields(raw)
    if rebase is _rebase_keyword and _is_own_document(members.get("$id")):
        return raw
    return Raw(jsonrpc.encode({name: rebase(name, value) for name, value in members.items()}))


def _rebase_keyword(name: str, value: Raw) -> Raw:
    if name in _DATA:
        return value
    if name in _REFERENCES:
        return _pointer(value)
    return _rebase(value, _rebase_schema if name in _NAMED else _rebase_keyword)


def _rebase_schema(_: str, schema: Raw) -> Raw:
    return _rebase(schema, _rebase_keyword)


def _pointer(raw: Raw) -> Raw:
    reference = jsonrpc.text_or_none(raw)
    if reference is None or not (reference == "#" or reference.startswith("#/")):
        return raw
    return Raw(jsonrpc.encode(_ROOT + reference[1:]))


def _is_own_document(identifier: Raw | None) -> bool:
    """Whether a schema's `$id` makes it the root of its pointers. A bare fragment does not."""
    return identifier is not None and not (jsonrpc.text_or_none(identifier) or "").startswith("#")
