"""What a request says in its headers: the session of the handshake era, the mirrors of the modern one.

A modern server compares them with the body, and refuses what differs.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcp_workbench.wire import eras, jsonrpc, param_headers
from mcp_workbench.wire.jsonrpc import Id

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
LAST_EVENT: Final = "last-event-id"
ACCEPT: Final = "application/json, text/event-stream"
_TASKS: Final = "tasks/"


class Outgoing(msgspec.Struct):
    """A message of ours, read again from its line."""

    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = jsonrpc.NOTHING

    @property
    def is_request(self) -> bool:
        return self.method is not UNSET and self.id is not UNSET

    def members(self) -> dict[str, Raw]:
        return jsonrpc.members(self.params) if jsonrpc.is_present(self.params) else {}


read_outgoing = msgspec.json.Decoder(Outgoing).decode


def version_in(params: dict[str, Raw]) -> str | None:
    """The modern version that a request names itself; None for one of the handshake era."""
    return jsonrpc.text_or_none(jsonrpc.members(params.get("_meta")).get(eras.PROTOCOL_VERSION))


def modern(method: str, params: dict[str, Raw], version: str) -> dict[str, str]:
    """The headers of a modern request, without those of its tool's parameters."""
    headers = {VERSION: version, "mcp-method": param_headers.encode(method)}
    named_by = "taskId" if method.startswith(_TASKS) else param_headers.NAMED_BY.get(method, "")
    if (name := jsonrpc.text_or_none(params.get(named_by))) is not None:
        headers["mcp-name"] = param_headers.encode(name)
    return headers
