"""Headers of our requests: the session in the handshake era, copies of parts of the body in the modern era.

A modern server compares these headers with the body, and refuses a request in which they differ.
"""

from __future__ import annotations

import re
from typing import Final

import httpx2
import msgspec
from msgspec import Raw

from mcp_workbench.errors import ProtocolViolation
from mcp_workbench.wire import eras, jsonrpc, param_headers
from mcp_workbench.wire.jsonrpc import Params

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
LAST_EVENT: Final = "last-event-id"
ACCEPT: Final = "application/json, text/event-stream"
_TASKS: Final = "tasks/"


def version_in(params: Params) -> str | None:
    """The protocol version in a modern request; None in the handshake era."""
    return params.get("_meta", {}).get(eras.PROTOCOL_VERSION)


def text_in(params: Params, name: str) -> str | None:
    """A string from the params of a request, plain or as raw JSON; None for any other value."""
    value = params.get(name)
    return value if isinstance(value, str) else jsonrpc.text_or_none(value) if isinstance(value, Raw) else None


def modern(method: str, params: Params, version: str) -> dict[str, str]:
    """The headers of a modern request, except those for the parameters of its tool."""
    headers = {VERSION: version, "mcp-method": param_headers.encode(method)}
    named_by = "taskId" if method.startswith(_TASKS) else param_headers.NAMED_BY.get(method, "")
    if (name := text_in(params, named_by)) is not None:
        headers["mcp-name"] = param_headers.encode(name)
    return headers


EVENT_ID_LENGTH = 4096
"""The longest id of an event or a session that is sent back in a header."""


class _VersionHeader(msgspec.Struct, rename="camel"):
    protocol_version: str


class _Hello(msgspec.Struct):
    result: _VersionHeader


class ServerSession:
    """The session id and version of the handshake era; empty for a modern server and before the handshake."""

    def __init__(self) -> None:
        self.id = ""
        self.version = ""

    def begin(self, response: httpx2.Response) -> None:
        """Take the session id from the response to `initialize`. Raises `ProtocolViolation` if it is not valid."""
        id_ = response.headers.get(SESSION, "")
        if not re.fullmatch(r"[\x21-\x7e]*", id_) or len(id_) > EVENT_ID_LENGTH:
            raise ProtocolViolation("its session id is not valid")
        self.id = id_

    def agree(self, message: bytes) -> None:
        """Take the version from a message that may be the answer to `initialize`."""
        try:
            self.version = msgspec.json.decode(message, type=_Hello).result.protocol_version
        except (msgspec.DecodeError, RecursionError):
            return

    def headers(self) -> dict[str, str]:
        """The headers of every request after the first."""
        named = {SESSION: self.id, VERSION: param_headers.encode(self.version)}
        return {name: value for name, value in named.items() if value}
