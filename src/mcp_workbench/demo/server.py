"""A demo server: its tools, and its answers in the one or two protocol eras that it speaks.

Guarantees: every request gets either a result or an `RpcError` with the code that the protocol
names for it. A server with `modern` answers each request in the era that the request shows: with a
2026-07-28 envelope in its `_meta`, or without. Knows nothing of lines and pipes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mcp_workbench import __version__

if TYPE_CHECKING:
    from mcp_workbench.demo.tool import Call, JsonObject, Tool

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

_ENVELOPE = "io.modelcontextprotocol/"
# The tools of a demo server never change, so a client may keep the list for an hour.
_CACHING: JsonObject = {"ttlMs": 3_600_000, "cacheScope": "public"}


class RpcError(Exception):
    """The request cannot be answered with a result."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def body(self) -> JsonObject:
        """The `error` member of the response."""
        data = {} if self.data is None else {"data": self.data}
        return {"code": self.code, "message": str(self), **data}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server, stateless in itself: what a session changes lives in its tools."""

    name: str
    title: str
    instructions: str
    tools: tuple[Tool, ...]
    modern: bool = False

    def answer(self, method: str, params: JsonObject, call: Call) -> JsonObject:
        """The result of one request."""
        meta = _meta(params)
        if self.modern and (method == "server/discover" or f"{_ENVELOPE}protocolVersion" in meta):
            _check_envelope(meta)
            return {**self._modern(method, params, call), "resultType": "complete", "_meta": self._signature()}
        return self._handshake(method, params, call)

    def _handshake(self, method: str, params: JsonObject, call: Call) -> JsonObject:
        match method:
            case "initialize":
                return self._initialize(params)
            case "ping":
                return {}
            case _:
                return self._either(method, params, call)

    def _modern(self, method: str, params: JsonObject, call: Call) -> JsonObject:
        match method:
            case "server/discover":
                return {"supportedVersions": [MODERN_VERSION], **self._introduction(), **_CACHING}
            case "tools/list":
                return {**self._either(method, params, call), **_CACHING}
            case _:
                return self._either(method, params, call)

    def _either(self, method: str, params: JsonObject, call: Call) -> JsonObject:
        match method:
            case "tools/list":
                return self._list(params)
            case "tools/call":
                return self._call(params, call)
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _initialize(self, params: JsonObject) -> JsonObject:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise RpcError(INVALID_PARAMS, "protocolVersion must be a string")
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": version, "serverInfo": self._identity(), **self._introduction()}

    def _introduction(self) -> JsonObject:
        return {"capabilities": {"tools": {}}, "instructions": self.instructions}

    def _identity(self) -> JsonObject:
        return {"name": self.name, "title": self.title, "version": __version__}

    def _signature(self) -> JsonObject:
        return {f"{_ENVELOPE}serverInfo": self._identity()}

    def _list(self, params: JsonObject) -> JsonObject:
        if params.get("cursor") is not None:
            raise RpcError(INVALID_PARAMS, "Unknown cursor: there is one page only")
        return {"tools": [tool.definition() for tool in self.tools]}

    def _call(self, params: JsonObject, call: Call) -> JsonObject:
        name, arguments = params.get("name"), params.get("arguments")
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
        if arguments is not None and not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "arguments must be an object")
        return tool.result(cast("dict[str, Any]", arguments or {}), call)


def _meta(params: JsonObject) -> JsonObject:
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        raise RpcError(INVALID_PARAMS, "_meta must be an object")
    return cast("JsonObject", meta)


def _check_envelope(meta: JsonObject) -> None:
    version = meta.get(f"{_ENVELOPE}protocolVersion")
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"_meta must hold {_ENVELOPE}protocolVersion")
    if version != MODERN_VERSION:
        data = {"supported": [MODERN_VERSION], "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, f"Unsupported protocol version: {version}", data)
    if not isinstance(meta.get(f"{_ENVELOPE}clientCapabilities"), dict):
        raise RpcError(INVALID_PARAMS, f"_meta must hold {_ENVELOPE}clientCapabilities")
