"""The two eras of the protocol: their versions, and the names that the modern one reserves.

Handshake era: `initialize`, a session, requests from servers. Modern era: no session, every request
carries who calls and at which version in its `_meta`.
"""

from __future__ import annotations

from typing import Any, Final

from mcp_workbench import __version__

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)

RESERVED: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = f"{RESERVED}protocolVersion"
CLIENT_INFO: Final = f"{RESERVED}clientInfo"
CLIENT_CAPABILITIES: Final = f"{RESERVED}clientCapabilities"
LOG_LEVEL: Final = f"{RESERVED}logLevel"
SERVER_INFO: Final = f"{RESERVED}serverInfo"
SUBSCRIPTION_ID: Final = f"{RESERVED}subscriptionId"

LIST_CHANGED: Final = "notifications/tools/list_changed"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 -- no password

SELF: Final[dict[str, Any]] = {"name": "mcp-workbench", "title": "MCP Workbench", "version": __version__}
"""How we introduce ourselves to clients and servers."""
