"""Identifies the caller of each request on a connection. The first request decides the era of the connection.

A handshake client declares its version and capabilities once, in `initialize`. A modern client declares them in every
request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.surfaces.server_info import EVERYTHING, View
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import CAPABILITIES_BYTES, LEVELS, QUESTIONS, Caller, ClientInfo, read_client_info
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from mcp_workbench.wire.jsonrpc import RpcError

REMEMBERED_CLIENTS = 16
"""Clients and sets of capabilities that are cached for a connection. It has one of each, unless it is a proxy."""
Introduce: TypeAlias = Callable[[ClientInfo], None]


class Declared(NamedTuple):
    """The declared capabilities of a client."""

    capabilities: Raw
    canonical: bytes
    """The capabilities in canonical form, to compare them."""
    answers: frozenset[str]
    """The methods of questions that the client answers."""


class Callers:
    """The caller of each request on one connection."""

    def __init__(self, audience: str = "", view: View = EVERYTHING, principal: str = "local") -> None:
        self.audience = audience
        """Identifies this client's session."""
        self._principal = principal
        self._view = view
        self._modern: bool | None = None
        self.handshake: Caller | None = None
        """The caller of every request after an accepted handshake."""
        self._declared: dict[bytes, Declared] = {}
        self._clients: dict[bytes, ClientInfo | None] = {}
        self._introduce: Introduce = lambda _client: None

    def introduce_to(self, introduce: Introduce) -> None:
        """Register a callback that is called once for each client of this connection, also for earlier ones."""
        self._introduce = introduce
        for client in filter(None, self._clients.values()):
            introduce(client)

    def of(self, method: str, params: dict[str, Raw], meta: dict[str, Raw]) -> Caller:
        """The caller of a request with this `_meta`. Raises `RpcError` if the era or the order of requests is wrong."""
        has_envelope = eras.PROTOCOL_VERSION in meta
        if self._modern is None and (has_envelope or method == "initialize"):
            self._modern = method != "initialize"
        if self._modern:
            return self._modern_caller(method, params, meta)
        if has_envelope and method != "initialize":
            raise RpcError(
                jsonrpc.INVALID_REQUEST, "This connection was initialized; requests must not have a protocol version"
            )
        return self._handshake_caller(method, params)

    @property
    def version(self) -> str:
        """The version that the handshake negotiated; empty if there was none."""
        return self.handshake.version if self.handshake is not None else ""

    def forget(self) -> None:
        """Start over after a failed handshake: the client may try again."""
        self._modern = self.handshake = None

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
        if level is not None and level not in LEVELS:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"{eras.LOG_LEVEL} must be one of {', '.join(LEVELS)}")
        self._meet(meta.get(eras.CLIENT_INFO), version)
        return self._caller(version, capabilities, modern=True, log_level=level)

    def _handshake_caller(self, method: str, params: dict[str, Raw]) -> Caller:
        if method == "initialize":
            if self.handshake is not None:
                raise RpcError(jsonrpc.INVALID_REQUEST, "This connection is already initialized")
            self.handshake = self._initializing(params)
        elif self.handshake is None:
            if method == "ping":
                return self._caller(HANDSHAKE_VERSIONS[-1], jsonrpc.EMPTY_OBJECT, modern=False)
            raise RpcError(jsonrpc.INVALID_REQUEST, "The first request must be initialize")
        return self.handshake

    def _initializing(self, params: dict[str, Raw]) -> Caller:
        requested = _value(params.get("protocolVersion"))
        if not isinstance(requested, str):
            raise RpcError(jsonrpc.INVALID_PARAMS, "protocolVersion must be a string")
        version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        capabilities = params.get("capabilities", jsonrpc.EMPTY_OBJECT)
        if not jsonrpc.is_object(capabilities):
            raise RpcError(jsonrpc.INVALID_PARAMS, "capabilities must be an object")
        self._meet(params.get("clientInfo"), version)
        return self._caller(version, capabilities, modern=False)

    def _meet(self, info: Raw | None, version: str) -> None:
        """Introduce a client if it is new. A modern client sends its info with every request."""
        encoded = b"" if info is None else bytes(info)
        if not encoded or encoded in self._clients or len(encoded) > CAPABILITIES_BYTES:
            return
        if len(self._clients) >= REMEMBERED_CLIENTS:
            self._clients.clear()
        self._clients[encoded] = client = read_client_info(info, version)
        if client is not None:
            self._introduce(client)

    def _caller(self, version: str, capabilities: Raw, *, modern: bool, log_level: str | None = None) -> Caller:
        encoded = bytes(capabilities)
        if len(encoded) > CAPABILITIES_BYTES:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"Capabilities over {CAPABILITIES_BYTES} bytes")
        if (declared := self._declared.get(encoded)) is None:
            # Clients send the same bytes every time. Those that do not must not make the cache grow.
            declared = _read_declared(capabilities, self._view, modern=modern)
            if len(self._declared) >= REMEMBERED_CLIENTS:
                self._declared.clear()
            self._declared[encoded] = declared
        return Caller(
            version=version,
            modern=modern,
            capabilities=declared.capabilities,
            principal=self._principal,
            audience=self.audience,
            log_level=log_level,
            answers=declared.answers,
            transparent=bool(self._view.server),
            key=(self.audience, modern, declared.canonical),
        )


def _read_declared(capabilities: Raw, view: View, *, modern: bool) -> Declared:
    """Read the capabilities that are passed on to servers, without tasks where these can't be forwarded.

    Tasks differ between the eras, the meta-tools have none, and the tasks that a client runs for one server must stay
    hidden from other servers.
    """
    declared: dict[str, Any] = dict(jsonrpc.members(capabilities))
    answers = frozenset(method for method, name in QUESTIONS.items() if name in declared)
    extensions = jsonrpc.members(declared.get("extensions"))
    changed = not view.server and declared.pop("tasks", None) is not None
    if not (modern and view.has_tasks) and extensions.pop(eras.TASKS, None) is not None:
        declared["extensions"] = extensions
        changed = True
    if changed:
        capabilities = Raw(jsonrpc.encode(declared))
    return Declared(capabilities, canonical(capabilities), answers)


def canonical(raw: Raw | bytes) -> bytes:
    """JSON with sorted keys, to compare values; unchanged if it is not readable."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted")
    except (msgspec.DecodeError, RecursionError):
        return bytes(raw)


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
