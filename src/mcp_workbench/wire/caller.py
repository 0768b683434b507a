"""The caller of a request: its protocol version, its declared capabilities, and whose connections it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT, RpcError

CAPABILITIES_BYTES = 64 * 1024
"""The capabilities that a client declares. The largest in real use are under 1 KiB."""
RECORD_CLIENTS = 50
"""Clients of one workbench that are recorded by name and version, current and former."""
RECORD_NAME_LENGTH = 200
"""Characters of a tool's name. An agent may send any name."""

QUESTIONS: Final[Mapping[str, str]] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Requests that a server may make of a client, and the capability that allows each."""

Key: TypeAlias = tuple[str, bool, bytes]
"""Identifies the connections and lists that a call uses: audience, era, declared capabilities."""

ELICIT: Final = "elicitation/create"
_FIRST_WITH_URLS: Final = "2025-11-25"

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The protocol's log levels, least severe first."""


class ClientInfo(NamedTuple):
    """A client's `clientInfo` and protocol version."""

    name: str
    version: str
    protocol: str


def read_client_info(raw: Raw | None, protocol: str) -> ClientInfo | None:
    """The client's name and version; None if it gives no name."""
    info = jsonrpc.members(raw)
    name, version = ((jsonrpc.text_or_none(info.get(key)) or "")[:RECORD_NAME_LENGTH] for key in ("name", "version"))
    return ClientInfo(name, version, protocol) if name else None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls: per session in the handshake era, per request in the modern one."""

    version: str
    modern: bool
    capabilities: Raw = EMPTY_OBJECT
    """Its declared capabilities, which are declared to servers on its behalf."""
    principal: str = "local"
    """The owner of the credentials; on stdio the user who started the workbench."""
    audience: str = ""
    """The client session that gets the servers' messages. If empty, several clients may share a connection, and
    messages on it that can't be attributed reach none of them."""
    log_level: str | None = None
    answers: frozenset[str] = frozenset()
    """The server requests that it declared it can answer."""
    transparent: bool = False
    """Whether it uses the *server* surface. If the server ends a response early, such a client reconnects for the
    rest."""
    key: Key = ("", False, b"{}")

    @property
    def is_handshake_client(self) -> bool:
        """Whether it is an MCP client of the handshake era. Python code that uses the library is not."""
        return not self.modern and bool(self.version)

    @property
    def answers_differ(self) -> bool:
        """Whether its answers depend on the call that caused the question. The roots are the same for all calls."""
        return bool(self.answers - {"roots/list"})

    def allows(self, method: str, params: Mapping[str, Raw]) -> bool:
        """Whether it declared the capability for this request. An elicitation capability without modes means forms."""
        if method != ELICIT or method not in self.answers:
            return method in self.answers
        modes = jsonrpc.members(jsonrpc.members(self.capabilities).get("elicitation"))
        if is_page(method, params):
            return "url" in modes and self.version >= _FIRST_WITH_URLS
        return "form" in modes or "url" not in modes

    def wants(self, level: str | None) -> bool:
        """Whether a modern request wants log messages of this level. Without a log level it wants none."""
        if self.log_level not in LEVELS:
            return False
        return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(self.log_level)

    def require_tasks(self) -> None:
        """Raises `RpcError` if the client did not declare the modern tasks extension."""
        if eras.TASKS in jsonrpc.members(jsonrpc.members(self.capabilities).get("extensions")):
            return
        required: dict[str, Any] = {"extensions": {eras.TASKS: {}}}
        raise RpcError(
            jsonrpc.MISSING_CLIENT_CAPABILITY, "Missing required client capability", {"requiredCapabilities": required}
        )


def is_page(method: str, params: Mapping[str, Raw]) -> bool:
    """Whether a request asks the person to open a page: an elicitation in URL mode."""
    return method == ELICIT and jsonrpc.text_or_none(params.get("mode")) == "url"


LIBRARY: Final = Caller(version="", modern=False)
"""Python code that uses the library. It answers no questions.

It counts as a handshake client, as most hosts do, so both can share cached lists. Most servers speak that era too.
"""
