"""Checks that the headers `Mcp-Param-*` and `Mcp-Name` match the arguments and names in the body.

The values are read from the bytes that are passed on, along the paths that a tool's schema marks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from mcp.shared.inbound import (
    MCP_NAME_HEADER,
    decode_header_value,
    find_invalid_x_mcp_header,
    validate_mcp_param_headers,
    x_mcp_header_map,
)
from msgspec import Raw

from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import RpcError

_MARK = "x-mcp-header"
"""What a schema holds that wants an argument in a header."""
_MARKED = _MARK.encode()
_NO_SCALAR: list[Any] = []
"""Stands for a value that no header can say."""


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: Any = None


class _List(msgspec.Struct):
    tools: list[Raw] = []


class _Call(msgspec.Struct):
    name: str = ""
    arguments: Raw = jsonrpc.NOTHING


def check_name(headers: Mapping[str, str], params: Mapping[str, Raw], member: str) -> None:
    """Raises `RpcError` if `Mcp-Name` differs from this member of the params, as the SDK does for tools."""
    named = jsonrpc.text_or_none(params.get(member))
    if named is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != named:
        raise RpcError(jsonrpc.HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match params.{member}")


class MirroredTools:
    """What of the lists that clients got at one endpoint mirrors arguments. Nothing is started or asked for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._schemas: dict[str, dict[str, Any]] = {}

    def learn(self, listed: Raw) -> None:
        """Take note of a page of tools."""
        page = bytes(listed)
        if not self._schemas and _MARKED not in page:
            return
        for raw in _tools(page):
            tool = _decoded(raw, _Tool)
            if tool is not None:
                self._schemas.pop(tool.name, None)
                if _MARKED in bytes(raw) and (marked := _marked(tool.input_schema)):
                    self._keep(tool.name, marked)

    def check(self, params: Raw, headers: Mapping[str, str]) -> None:
        """The headers of a call. Raises `RpcError` where they do not say what its arguments say."""
        if not self._schemas or (call := _decoded(params, _Call)) is None:
            return  # what is no call is told so by whom it is for
        if (schema := self._schemas.get(call.name)) is None:
            return
        try:
            arguments = _picked(schema, call.arguments)
        except msgspec.DecodeError as error:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"params.arguments can't be read ({error})") from None
        if (rejection := validate_mcp_param_headers(schema, arguments, headers)) is not None:
            raise RpcError(rejection.code, rejection.message)

    def _keep(self, name: str, marked: dict[str, Any]) -> None:
        if len(self._schemas) >= self._most:
            del self._schemas[next(iter(self._schemas))]
        self._schemas[name] = marked


def _marked(schema: Any) -> dict[str, Any]:
    """What a schema marks, and nothing else of it; nothing where a mark is wrong: no client goes by it."""
    kept: dict[str, Any] = {}
    if find_invalid_x_mcp_header(schema) is not None:
        return kept
    for path in x_mcp_header_map(schema):
        part, node = schema, kept
        for name in path:
            part = part["properties"][name]
            node = node.setdefault("properties", {}).setdefault(name, {})
        node |= {"type": part["type"], _MARK: part[_MARK]}
    return kept


def _picked(schema: dict[str, Any], raw: Raw) -> dict[str, Any]:
    """The arguments that a schema marks. Raises `msgspec.DecodeError`."""
    parts: dict[str, dict[str, Any]] = schema.get("properties", {})
    members = jsonrpc.members(raw)
    return {
        name: _picked(part, members[name]) if jsonrpc.is_object(members[name]) else _scalar(members[name])
        for name, part in parts.items()
        if name in members
    }


def _scalar(raw: Raw) -> Any:
    if bytes(raw)[:1] == b"[":
        return _NO_SCALAR
    try:
        return json.loads(bytes(raw))
    except ValueError:  # a number of thousands of digits
        return _NO_SCALAR


def _tools(page: bytes) -> list[Raw]:
    listed = _decoded(page, _List)
    return listed.tools if listed is not None else []


def _decoded(raw: bytes | Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
