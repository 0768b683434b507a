"""What a request says in its headers: the session of the handshake era, the mirrors of the modern one.

A modern server compares them with the body, and refuses what differs.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

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
