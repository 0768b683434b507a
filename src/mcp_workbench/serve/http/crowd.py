"""Admission control for client connections: when there are too many, those that never showed a valid token go first.

A newcomer takes the slot of the one that has been without a token for longest, so a crowd of such connections can't
keep out a client that has one. Where all connections showed a token, the newcomer is refused.
"""

from __future__ import annotations

import math
from typing import Generic, TypeVar

from mcp_workbench import logger
from mcp_workbench.logger import LOG_REPEAT_SECONDS

C = TypeVar("C")


class Crowd(Generic[C]):
    """The connections that are served. The log says at most once a second how many were refused."""

    def __init__(self) -> None:
        self._strangers: dict[C, None] = {}
        self._known: set[C] = set()
        self._untold = 0
        self._told_at = -math.inf

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def enter(self, newcomer: C, most: int) -> C | None:
        """Who must leave so that the limit holds: nobody, another connection, or the newcomer itself."""
        self._strangers[newcomer] = None
        if len(self) <= most:
            return None
        is_full = len(self._strangers) == 1
        leaving = newcomer if is_full else next(iter(self._strangers))
        self.leave(leaving)
        return leaving

    def authenticated(self, connection: C) -> None:
        """It showed a valid token."""
        if connection in self._strangers:
            del self._strangers[connection]
            self._known.add(connection)

    def leave(self, connection: C) -> None:
        """It is served no longer."""
        self._strangers.pop(connection, None)
        self._known.discard(connection)

    def refused(self, open_now: int, now: float) -> None:
        """One more was refused, or closed for another one."""
        self._untold += 1
        if now - self._told_at >= LOG_REPEAT_SECONDS:
            logger.warning("connections were refused: there are too many", refused=self._untold, open=open_now)
            self._untold, self._told_at = 0, now
