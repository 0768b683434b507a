"""A question that is answered with yes or no, by somebody who has seen it: what was typed before is no answer."""

from __future__ import annotations

import contextlib
import sys
import termios
from typing import TextIO

from mcp_workbench.cli.display import is_terminal


def is_agreed(question: str, *, to: TextIO | None = None) -> bool:
    """Whether the person at the terminal says yes. Anything else is a no, the end of the input too."""
    stream = to if to is not None else sys.stdout
    forget_typed()
    stream.write(f"{question} [y/N] ")
    stream.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def forget_typed() -> None:
    """Drop what was typed so far, before a question is shown to which it could pass for the answer."""
    if is_terminal(sys.stdin):
        with contextlib.suppress(termios.error):  # the terminal has gone away, and so has the person
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
