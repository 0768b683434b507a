"""The session of the handshake era: what every request repeats once a server has answered `initialize`."""

from __future__ import annotations

import re

import httpx2
import msgspec

from mcp_workbench.errors import ProtocolViolation
from mcp_workbench.servers.http import headers
from mcp_workbench.wire import param_headers

EVENT_ID_LENGTH = 4096
"""Characters of an event's id that is sent back, and of a session's: more is no header."""


class _Version(msgspec.Struct, rename="camel"):
    protocol_version: str


class _Hello(msgspec.Struct):
    result: _Version


class Session:
    """What was agreed in the handshake era; nothing, where the server is modern or nothing was agreed yet."""

    def __init__(self) -> None:
        self.id = ""
        self.version = ""

    def begin(self, response: httpx2.Response) -> None:
        """The answer to `initialize` begins. Raises `ProtocolViolation` for an id that can't be sent back."""
        id_ = response.headers.get(headers.SESSION, "")
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
        named = {headers.SESSION: self.id, headers.VERSION: param_headers.encode(self.version)}
        return {name: value for name, value in named.items() if value}
