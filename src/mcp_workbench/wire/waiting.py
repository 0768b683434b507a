"""Work that a client waits for: one that asked for progress hears now and then that it goes on, and with what.

Whoever waits no longer has the work cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mcp_workbench.wire.exchange import Exchange

T = TypeVar("T")


async def meanwhile(
    exchange: Exchange | None, work: Coroutine[Any, Any, T], doing: Callable[[], str], every_seconds: float
) -> T:
    """The result of `work`; `doing` says what it is about just then."""
    if exchange is None or exchange.progress_token is None:
        return await work
    task = asyncio.ensure_future(work)
    began = asyncio.get_running_loop().time()
    try:
        while not (await asyncio.wait((task,), timeout=every_seconds))[0]:
            exchange.say(f"{doing()} ({asyncio.get_running_loop().time() - began:.0f} s)")
        return task.result()
    finally:
        task.cancel()
