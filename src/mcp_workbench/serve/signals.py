"""Signals and uncaught exceptions of a serving process, on any transport."""

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
    """Handle a signal in the event loop, and exit at once if the loop has ended.

    asyncio removes its own handlers while the loop closes, and a signal at that time would change the exit status.
    """
    loop = asyncio.get_running_loop()

    def received(number: int, frame: object) -> None:
        del frame
        if loop.is_closed():
            os._exit(128 + number)
        loop.call_soon_threadsafe(handle, number)

    signal.signal(number, received)


def ignore_signals() -> None:
    """Ignore signals while the interpreter exits: it restores the default handlers, which would change the status."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def report_threads() -> None:
    """Report uncaught exceptions of threads like those of the main thread."""
    threading.excepthook = lambda it: sys.excepthook(it.exc_type, it.exc_value or it.exc_type(), it.exc_traceback)


class UncaughtReporter:
    """Logs an uncaught exception as one line instead of a traceback. An identical one is logged once a second."""

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
