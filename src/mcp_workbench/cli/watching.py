"""`mcp-workbench status --watch`: shown again whenever something is different, until somebody has seen enough."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Generator
from contextlib import contextmanager, suppress

from mcp_workbench.cli.display import Block, Live, Words
from mcp_workbench.cli.happenings import blocks
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.record.reading import Reader

_QUIT = b"qQ\x04"
"""Also the end of input, as Ctrl-D types it."""


def watch(reader: Reader, *, everything: bool) -> int:
    """Until somebody presses q, or Ctrl-C."""
    before: list[Block] = []
    with suppress(KeyboardInterrupt), _orderly_end(), _each_key() as keys, Live(to=sys.stdout) as live:
        while True:
            now = [*blocks(reader.statuses(everything=everything), time.time(), everything=everything), *_FOOT]
            if now != before:
                live.show(*now)
                before = now
            if _is_over(keys):
                break
    return 0


_FOOT: tuple[Block, ...] = ("", Words("q: quit", "quiet"))


def _is_over(keys: int) -> bool:
    """Wait for a key, for a moment; whether it was one that quits."""
    ready, _, _ = select.select([keys], [], [], DEFAULTS.shown_every_seconds)
    typed = os.read(keys, DEFAULTS.typed_line_bytes) if ready else b"-"
    return not typed or any(key in _QUIT for key in typed)


@contextmanager
def _orderly_end() -> Generator[None]:
    """Signals that end a program do so in order: a terminal that was changed is put right before."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _each_key() -> Generator[int]:
    """Stdin with keys as they are pressed, and as it was before at the end."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    try:
        tty.setcbreak(keys)
        yield keys
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
