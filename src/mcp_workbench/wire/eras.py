"""The two eras of the protocol: their versions, reserved names and notifications.

The handshake era has `initialize`, sessions and requests from servers. The modern era has no sessions: the `_meta` of
every request carries the client and the version.
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
ENVELOPE: Final = frozenset({PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL})
"""The keys of a modern request's `_meta` that are for its receiver and are not passed on."""
SERVER_INFO: Final = f"{RESERVED}serverInfo"
SUBSCRIPTION_ID: Final = f"{RESERVED}subscriptionId"

LIST_CHANGED: Final[dict[str, str]] = {
    f"notifications/{kind}/list_changed": kind for kind in ("tools", "prompts", "resources")
}
"""Notifications of a changed list, and the list."""
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LOGGED: Final = "notifications/message"
RESOURCE_UPDATED: Final = "notifications/resources/updated"
TASK_CHANGED: Final = ("notifications/tasks/status", "notifications/tasks")
"""Status notifications of tasks, in the handshake era and in the modern extension."""
HANDSHAKE_NOTICES: Final = frozenset({"notifications/initialized", "notifications/roots/list_changed"})
"""Notifications that a client may send in the handshake era only."""
ELICITED: Final = "notifications/elicitation/complete"
SUBSCRIBED: Final = frozenset({*LIST_CHANGED, RESOURCE_UPDATED, *TASK_CHANGED})
"""Notifications that belong to a subscription or a session, not to a call."""
KNOWN_NOTICES: Final = SUBSCRIBED | {LOGGED, ELICITED}
"""Notifications that a handshake server may send at any time. A modern client gets them only on request."""
TASKS: Final = f"{RESERVED}tasks"
"""The modern extension for tasks."""
SKILLS: Final = f"{RESERVED}skills"
"""The extension for skills: `skills/list` and `skills/get`."""
APPS: Final = f"{RESERVED}ui"
"""The extension for MCP Apps: tools that name a `ui://` resource for the host to show."""
RELATED_TASK: Final = f"{RESERVED}related-task"
INPUT_REQUIRED: Final = "input_required"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 -- no password

SELF: Final[dict[str, Any]] = {"name": "mcp-workbench", "title": "MCP Workbench", "version": __version__}
"""The name and version that the workbench sends to clients and servers."""
