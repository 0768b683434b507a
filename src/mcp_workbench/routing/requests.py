"""The requests that `Calls` takes. Cheap to import: surfaces make requests before the first call imports the rest."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call. The tool is looked up first. The server's messages meanwhile go to `exchange`."""

    identifier: ToolIdentifier
    arguments: Raw
    exchange: Exchange | None = None


class ForwardedRequest(msgspec.Struct, frozen=True):
    """Any request of a client, passed on unchanged to one server."""

    server: ServerIdentifier
    method: str
    params: Params
    exchange: Exchange


Request: TypeAlias = ToolCall | ForwardedRequest
