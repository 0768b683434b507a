"""What a call is made of. Light to import: a surface makes requests before the first call loads the rest."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool that is checked first. What the server says meanwhile goes to `exchange`."""

    identifier: ToolIdentifier
    arguments: Raw
    exchange: Exchange | None = None


class ForwardedRequest(msgspec.Struct, frozen=True):
    """Any request of a client, passed on to one server as it is."""

    server: ServerIdentifier
    method: str
    params: Params
    exchange: Exchange


Request: TypeAlias = ToolCall | ForwardedRequest
