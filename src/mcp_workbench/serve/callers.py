"""Who is calling. On a connection the first request decides the era; this is where that is kept.

A handshake client says who it is once, in `initialize`. A modern one says it in every request.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from mcp_workbench.wire.jsonrpc import RpcError

ASKABLE = ("sampling", "elicitation", "roots")


class Callers:
    """The caller of each request on one connection."""

    def __init__(self) -> None:
        self._modern: bool | None = None
        self._handshake: Caller | None = None

    def of(self, method: str, params: dict[str, Raw]) -> Caller:
        """Who makes this request. Raises `RpcError` where the era or the order is wrong."""
        meta = jsonrpc.members(params.get("_meta"))
        enveloped = eras.PROTOCOL_VERSION in meta
        if self._modern is None:
            self._modern = enveloped and method != "initialize"
        if self._modern:
            return self._modern_caller(method, params, meta)
        if enveloped and method != "initialize":
            raise RpcError(
                jsonrpc.INVALID_REQUEST, "This connection began with initialize; send no per-request version"
            )
        return self._handshake_caller(method, params)

    def _modern_caller(self, method: str, params: dict[str, Raw], meta: dict[str, Raw]) -> Caller:
        if method == "initialize":
            raise _unsupported(_value(params.get("protocolVersion")))
        for key in (eras.PROTOCOL_VERSION, eras.CLIENT_CAPABILITIES):
            if key not in meta:
                raise RpcError(jsonrpc.INVALID_PARAMS, f"params._meta must have {key}")
        version = _value(meta[eras.PROTOCOL_VERSION])
        if not isinstance(version, str):
            raise RpcError(jsonrpc.INVALID_PARAMS, f"{eras.PROTOCOL_VERSION} must be a string")
        if version not in MODERN_VERSIONS:
            raise _unsupported(version)
        capabilities = meta[eras.CLIENT_CAPABILITIES]
        if not jsonrpc.is_object(capabilities):
            raise RpcError(jsonrpc.INVALID_PARAMS, f"{eras.CLIENT_CAPABILITIES} must be an object")
        level = _value(meta.get(eras.LOG_LEVEL))
        return _caller(version, capabilities, modern=True, log_level=level if isinstance(level, str) else None)

    def _handshake_caller(self, method: str, params: dict[str, Raw]) -> Caller:
        if method == "initialize":
            if self._handshake is not None:
                raise RpcError(jsonrpc.INVALID_REQUEST, "This connection is initialized already")
            self._handshake = _initializing(params)
        elif self._handshake is None:
            if method == "ping":
                return _caller(HANDSHAKE_VERSIONS[-1], jsonrpc.EMPTY_OBJECT, modern=False)
            raise RpcError(jsonrpc.INVALID_REQUEST, "The first request must be initialize")
        return self._handshake


def _initializing(params: dict[str, Raw]) -> Caller:
    requested = _value(params.get("protocolVersion"))
    if not isinstance(requested, str):
        raise RpcError(jsonrpc.INVALID_PARAMS, "protocolVersion must be a string")
    version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    capabilities = params.get("capabilities", jsonrpc.EMPTY_OBJECT)
    if not jsonrpc.is_object(capabilities):
        raise RpcError(jsonrpc.INVALID_PARAMS, "capabilities must be an object")
    return _caller(version, capabilities, modern=False)


def _caller(version: str, capabilities: Raw, *, modern: bool, log_level: str | None = None) -> Caller:
    declared = jsonrpc.members(capabilities)
    return Caller(
        version=version,
        modern=modern,
        capabilities=capabilities,
        log_level=log_level,
        can_be_asked=any(name in declared for name in ASKABLE),
    )


def _unsupported(requested: Any) -> RpcError:
    data: dict[str, Any] = {"supported": list(MODERN_VERSIONS)}
    if isinstance(requested, str):
        data["requested"] = requested
    return RpcError(jsonrpc.UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _value(raw: Raw | None) -> Any:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
