"""A full-screen terminal program: draws lines, and reads keys as they are pressed.

Guarantees: the terminal gets back its content, cursor and echo however the program ends (by a key, a signal or an
error), and while it is suspended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Final

ESCAPE_SECONDS = 0.05
"""The wait after Esc for the rest of a key sequence: a slow connection may split it."""
TYPED_LINE_BYTES = 4096
"""The longest line that a terminal passes on."""

KEYS: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x04": "end of input",
}
"""The byte sequences of named keys. All other input is text."""
_LONGEST: Final = max(map(len, KEYS))
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"


class FullScreen:
    """Takes over the terminal at stdin and stdout for the duration of the context."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno()
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._pending = b""
        self._drawn: list[str] | None = None

    def __enter__(self) -> FullScreen:
        self._before = termios.tcgetattr(self._keys)
        handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _leave, signal.SIGHUP: _leave}
        handlers[signal.SIGTSTP] = self._suspend
        self._handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._take()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._handlers:  # no other signal may interrupt this
            signal.signal(number, signal.SIG_IGN)
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines from the top, if they are not there already; there is nothing below them."""
        if lines == self._drawn:
            return
        self._drawn = list(lines)
        drawn = "\r\n".join(f"{line}\x1b[K" for line in lines)
        sys.stdout.write(f"\x1b[H{drawn}\x1b[J")
        sys.stdout.flush()

    def pressed(self, seconds: float) -> list[str]:
        """The keys pressed next: names, or the characters that they type. The end of input counts as a key."""
        self._read(seconds)
        if self._pending == b"\x1b":  # the Esc key, or the start of a sequence
            self._read(ESCAPE_SECONDS)
        keys: list[str] = []
        while self._pending:
            size = next((size for size in range(_LONGEST, 0, -1) if self._pending[:size] in KEYS), 0)
            if size:
                keys.append(KEYS[self._pending[:size]])
            elif not (size := _text_size(self._pending)):
                break  # wait for the rest of the character
            else:
                keys.append(self._pending[:size].decode("utf-8", "replace"))
            self._pending = self._pending[size:]
        return keys

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self._keys], [], [], seconds)
        if ready:
            self._pending += os.read(self._keys, TYPED_LINE_BYTES) or b"\x04"

    def _take(self) -> None:
        self._drawn = None
        tty.setcbreak(self._keys)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def _give_back(self) -> None:
        with contextlib.suppress(OSError, termios.error):  # the terminal is gone
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _suspend(self, number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back to the shell until the program continues."""
        self._give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._suspend)
        self._take()


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _text_size(data: bytes) -> int:
    """The size of the first character, or of an unknown escape sequence; 0 if bytes are missing."""
    if data[:1] == b"\x1b":
        return len(data)
    first = data[0]
    size = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4  # noqa: PLR2004 -- UTF-8
    return size if len(data) >= size else 0
