"""Signals, and what nobody caught: how a process that serves ends, on every front."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from mcp_workbench import logger
from mcp_workbench.logger import LOG_REPEAT_SECONDS

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def on_signal(number: int, handle: Callable[[int], None]) -> None:
    """Have a signal handled by the loop, and exit at once where that has ended already.

    A handler that asyncio installs is gone while the loop closes, and a signal then would change the exit status.
    """
    loop = asyncio.get_running_loop()

    def received(number: int, frame: object) -> None:
        del frame
        if loop.is_closed():
            os._exit(128 + number)
        loop.call_soon_threadsafe(handle, number)

    signal.signal(number, received)


def ignore_signals() -> None:
    """All is done. While Python ends, the system's own handlers are back, unless a signal is ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def report_threads() -> None:
    """What nobody caught in a thread is told as it is elsewhere."""
    threading.excepthook = lambda it: sys.excepthook(it.exc_type, it.exc_value or it.exc_type(), it.exc_traceback)


class UncaughtReporter:
    """What nobody caught is one line in the log, not a traceback on the terminal; the same again, one a second."""

    def __init__(self) -> None:
        self._last = ""
        self._since = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        what, error = context.get("message"), repr(context.get("exception"))
        if f"{what}{error}" == self._last and loop.time() - self._since < LOG_REPEAT_SECONDS:
            return
        self._last, self._since = f"{what}{error}", loop.time()
        logger.error("unexpected", what=what, error=error)


report: Final = UncaughtReporter()
