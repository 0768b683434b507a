"""What a remote server starts by itself. A message that can't be read concerns its own request, never the others."""

from __future__ import annotations

from mcp_workbench import logger
from mcp_workbench.servers.inbox import Inbox, violation
from mcp_workbench.wire.jsonrpc import ErrorBody, Unreadable


class RemoteInbox(Inbox):
    """As on stdio, but each message came on a wire of its own, whose request fails by itself."""

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        if not self.peer.fail_request(line, lambda: violation(problem)):
            logger.debug("a remote server sent something that is no message", server=self._label)

    def complaint(self, error: ErrorBody) -> None:
        """It is about the request that it answers, and fails that."""
