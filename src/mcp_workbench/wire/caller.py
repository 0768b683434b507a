"""Who calls, as far as the rest of the program needs to know."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls: per session in the handshake era, per request in the modern one."""

    version: str
    modern: bool
    capabilities: Raw = EMPTY_OBJECT
    principal: str = "local"
    """Whose credentials the call came with; on stdio the user that started us."""
    audience: str = "stdio"
    """Which client's session may see what servers say during the call."""
    log_level: str | None = None
    can_be_asked: bool = False
    """It declared sampling, elicitation or roots."""
