"""Work that a client waits for: one that asked for progress hears now and then that it goes on, and with what.

Whoever waits no longer has the work cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.tasks import beside

T = TypeVar("T")


async def meanwhile(
    exchange: Exchange | None, work: Coroutine[Any, Any, T], doing: Callable[[], str], every_seconds: float
) -> T:
    """The result of `work`; `doing` says what it is about just then."""
    if exchange is None or exchange.progress_token is None:
        return await work
    began = asyncio.get_running_loop().time()
    with beside(work) as task:
        while not (await asyncio.wait((task,), timeout=every_seconds))[0]:
            exchange.say(f"{doing()} ({asyncio.get_running_loop().time() - began:.0f} s)")
        return task.result()
