"""Limits how many notifications of one server reach its client: log messages, progress and those we do not know.

A dropped one costs no more than reading it. The log says when dropping begins, and at the end of the connection how
many were dropped. Notifications that a client needs, such as changed lists and updates of what it subscribed to, are
never dropped here.
"""

from __future__ import annotations

from typing import Final

from mcp_workbench import logger
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.wire import eras
from mcp_workbench.wire.exchange import PROGRESS
from mcp_workbench.wire.fairness import RateLimit

_UNLIMITED: Final = eras.KNOWN_NOTICES - {eras.LOGGED} | {eras.ACKNOWLEDGED}
_UNIT_BYTES: Final = 1024
"""Bytes that cost as much as a notification of their own."""


class NoticeLimits:
    """The rate limits of one connection: progress has one of its own, so that logs can't use it up."""

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._label = label
        self._per_second = limits.notices_per_second
        self._progress = RateLimit(limits.notices_per_second, limits.notices_burst)
        self._others = RateLimit(limits.notices_per_second, limits.notices_burst)
        self._dropped = 0

    def admits(self, method: str, size: int) -> bool:
        """Whether a notification in a message of `size` bytes is passed on."""
        if method in _UNLIMITED:
            return True
        limit = self._progress if method == PROGRESS else self._others
        if limit.admits(1 + size / _UNIT_BYTES):
            return True
        self._dropped += 1
        if self._dropped == 1:
            logger.warning(
                "a server sends too many notifications; some are dropped",
                server=self._label,
                per_second=self._per_second,
            )
        return False

    def report(self) -> None:
        """Log how many were dropped since the last report."""
        if self._dropped:
            logger.warning("notifications of a server were dropped", server=self._label, count=self._dropped)
            self._dropped = 0
