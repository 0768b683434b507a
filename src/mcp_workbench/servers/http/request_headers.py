"""The session of the handshake era: what every request repeats once a server has answered `initialize`."""

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
    """The modern version that a request names itself; None for one of the handshake era."""
    return params.get("_meta", {}).get(eras.PROTOCOL_VERSION)


def text_in(params: Params, name: str) -> str | None:
    """A string among the params of a request of ours, plain or as a client wrote it; None for any other value."""
    value = params.get(name)
    return value if isinstance(value, str) else jsonrpc.text_or_none(value) if isinstance(value, Raw) else None


def modern(method: str, params: Params, version: str) -> dict[str, str]:
    """The headers of a modern request, without those of its tool's parameters."""
    headers = {VERSION: version, "mcp-method": param_headers.encode(method)}
    named_by = "taskId" if method.startswith(_TASKS) else param_headers.NAMED_BY.get(method, "")
    if (name := text_in(params, named_by)) is not None:
        headers["mcp-name"] = param_headers.encode(name)
    return headers


EVENT_ID_LENGTH = 4096
"""Characters of an event's id that is sent back, and of a session's: more is no header."""


class _VersionHeader(msgspec.Struct, rename="camel"):
    protocol_version: str


class _Hello(msgspec.Struct):
    result: _VersionHeader


class ServerSession:
    """What was agreed in the handshake era; nothing, where the server is modern or nothing was agreed yet."""

    def __init__(self) -> None:
        self.id = ""
        self.version = ""

    def begin(self, response: httpx2.Response) -> None:
        """The answer to `initialize` begins. Raises `ProtocolViolation` for an id that can't be sent back."""
        id_ = response.headers.get(SESSION, "")
        if not re.fullmatch(r"[\x21-\x7e]*", id_) or len(id_) > EVENT_ID_LENGTH:
            raise ProtocolViolation("the id of its session is none")
        self.id = id_

    def agree(self, message: bytes) -> None:
        """Take the version from a message that may be the answer to `initialize`."""
        try:
            self.version = msgspec.json.decode(message, type=_Hello).result.protocol_version
        except (msgspec.DecodeError, RecursionError):
            return

    def headers(self) -> dict[str, str]:
        """What every request but the first has."""
        named = {SESSION: self.id, VERSION: param_headers.encode(self.version)}
        return {name: value for name, value in named.items() if value}
