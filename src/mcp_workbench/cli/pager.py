"""Shows long text at a terminal in the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from mcp_workbench.cli.display import is_dumb, is_terminal

_DEFAULT: Final = "less -R"
_NO_PAGERS: Final = ("", "cat")


def show_lines(lines: Iterable[str], *, is_paged: bool = True) -> None:
    """Write lines to stdout; where it is a terminal and they don't fit, through `$PAGER` or `less -R`."""
    shown = list(lines)
    text = "".join(f"{line}\n" for line in shown)
    is_long = is_terminal(sys.stdout) and not is_dumb() and len(shown) >= shutil.get_terminal_size().lines
    if not (is_paged and is_long and _paged(text)):
        sys.stdout.write(text)


def _paged(text: str) -> bool:
    """Whether a pager could show it."""
    command = os.environ.get("PAGER", _DEFAULT).strip()
    if command in _NO_PAGERS:
        return False
    try:
        words = shlex.split(command)
        # `less` without -R would show colours as escape sequences; who has LESS set has decided.
        process = subprocess.Popen(words, stdin=subprocess.PIPE, env={"LESS": "R", **os.environ})  # noqa: S603
    except (OSError, ValueError):
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
    try:
        with suppress(BrokenPipeError):  # the person has seen enough
            process.communicate(text.encode(errors="replace"))
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return True
