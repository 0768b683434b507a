"""Tasks whose failure is told in another way."""

from __future__ import annotations

import asyncio
from typing import Any


def heard(done: asyncio.Future[Any]) -> None:
    """A done-callback: the outcome is known to whoever needs it, and needs no report by the event loop."""
    if not done.cancelled():
        done.exception()
