"""Notifications and answers of ours on their way to a remote server: bounded in time and in number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mcp_workbench import logger
from mcp_workbench.errors import Fault
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.wire.background import BackgroundTasks

NOTICE_SECONDS = 10.0
"""How long a remote server may take to accept a notification or an answer of ours; it has nothing to do for it."""
NOTICES = 256
"""Notifications and answers that it has not accepted yet, before it counts as one that does not read."""


class Notices:
    """What the server has not accepted yet. Notifications go one after the other, answers as they come."""

    def __init__(self, tell: Callable[[bytes], Coroutine[Any, Any, None]], label: ServerIdentifier) -> None:
        """`tell` sends one, and raises the `Fault` that prevents it."""
        self._tell = tell
        self._label = label
        self._last: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.tasks = BackgroundTasks()

    @property
    def congested(self) -> bool:
        return len(self.tasks) >= NOTICES

    async def drained(self) -> None:
        await self._room.wait()

    def send(self, line: bytes, *, in_order: bool) -> asyncio.Task[None]:
        """Send one soon: with `in_order` after those before it."""
        before = self._last if in_order else None
        task = self.tasks.start(self._send(line, before))
        task.add_done_callback(self._sent)
        if self.congested:
            self._room.clear()
        if in_order:
            self._last = task
        return task

    def stop(self) -> None:
        self.tasks.cancel()
        self._room.set()

    def _sent(self, task: asyncio.Task[None]) -> None:
        if self._last is task:
            self._last = None
        if not self.congested:
            self._room.set()

    async def _send(self, line: bytes, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        try:
            async with asyncio.timeout(NOTICE_SECONDS):
                await self._tell(line)
        except (Fault, TimeoutError) as error:
            why = str(error) or "it did not accept it in time"
            logger.info("a server did not take a notification or an answer", server=self._label, reason=why)
