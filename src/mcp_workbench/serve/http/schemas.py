"""The input schemas of tools that want arguments repeated in headers, so that those headers can be checked."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench.wire import jsonrpc

_MARK = b"x-mcp-header"
"""What a schema holds that wants an argument in a header."""


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: Raw = jsonrpc.NOTHING


class _List(msgspec.Struct):
    tools: list[Raw] = []


class MirroredTools:
    """What of the lists that clients got at one endpoint mirrors arguments. Nothing is started or asked for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._schemas: dict[str, Any] = {}

    def learn(self, listed: Raw) -> None:
        """Take note of a page of tools."""
        page = bytes(listed)
        if not self._schemas and _MARK not in page:
            return
        for raw in _tools(page):
            tool = _decoded(bytes(raw), _Tool)
            if tool is not None:
                self._schemas.pop(tool.name, None)
                if _MARK in bytes(raw) and jsonrpc.is_object(tool.input_schema):
                    self._keep(tool)

    def schema_of(self, name: str) -> Any:
        """None where the tool mirrors nothing, or is not known."""
        return self._schemas.get(name)

    def _keep(self, tool: _Tool) -> None:
        if len(self._schemas) >= self._most:
            del self._schemas[next(iter(self._schemas))]
        self._schemas[tool.name] = _decoded(bytes(tool.input_schema), dict[str, Any])


def _tools(page: bytes) -> list[Raw]:
    listed = _decoded(page, _List)
    return listed.tools if listed is not None else []


def _decoded(raw: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
