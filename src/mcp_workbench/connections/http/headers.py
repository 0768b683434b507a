"""What a request says in its headers: the session of the handshake era, the mirrors of the modern one.

A modern server compares them with the body, and refuses what differs.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.jsonrpc import Id

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
LAST_EVENT: Final = "last-event-id"
ACCEPT: Final = "application/json, text/event-stream"
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_TASKS: Final = "tasks/"
_SAFE: Final = r"[\x20-\x7e]*"
_ENCODED: Final = r"=\?base64\?.*\?="


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
    headers = {VERSION: version, "mcp-method": encoded(method)}
    named_by = "taskId" if method.startswith(_TASKS) else _NAMED_BY.get(method, "")
    if (name := jsonrpc.text_or_none(params.get(named_by))) is not None:
        headers["mcp-name"] = encoded(name)
    return headers


def encoded(value: str) -> str:
    """A value that survives as a header: plain where it is plain, else in base64 and marked so."""
    if re.fullmatch(_SAFE, value) and value == value.strip() and not re.fullmatch(_ENCODED, value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="


def rendered(value: Any) -> str | None:
    """A parameter as it stands in a header; None for one that can't."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # more digits than Python writes
        return None
