"""A shell in a pseudo-terminal, and what a person would see of it.

Guarantees: what stands on the screen was written there by the programs that ran. One thing alone is put in its
place: the path of the home folder, by one of the same length, so that nothing moves.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyte

COLUMNS, ROWS = 100, 64
DEADLINE = 30.0
"""Seconds that anything may take to appear."""
AGAIN = 0.5
"""Seconds after which a shell that did not end is told so again."""
PIECE = 64
"""Bytes that are read at once: few, so that no frame of a live display is passed over."""
PROMPT = r"\[\e]2;\#\a\]\[\e[1;32m\]$\[\e[0m\] "
"""Sets the title of the window to the number of the command: when that is there, all output before it is there too."""
_FAINT, _BLINK, _NORMAL = 2, 5, 22
_COLOURS, _LITERAL, _INDEXED = {38, 48}, 2, 5


class Screen(pyte.Screen):
    """A screen that knows faint text, which the library does not: it is kept as text that blinks, which nobody uses."""

    def select_graphic_rendition(self, *attributes: int, **_: Any) -> None:
        rest = list(attributes)
        known: list[int] = []
        while rest:
            one = rest.pop(0)
            known.append({_FAINT: _BLINK}.get(one, one))
            if one in _COLOURS and rest:
                count = {_LITERAL: 4, _INDEXED: 2}.get(rest[0], 1)
                known += rest[:count]
                del rest[:count]
            if one == _NORMAL:
                known.append(_BLINK + 20)
        super().select_graphic_rendition(*known)


class Emulator:
    """A `bash` that people type into."""

    def __init__(self, environ: Mapping[str, str], folder: Path, stand_in: str, rows: int = ROWS) -> None:
        self.screen = Screen(COLUMNS, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._home, self._stand_in = os.fsencode(environ["HOME"]), os.fsencode(stand_in)
        if len(self._home) != len(self._stand_in):
            raise ValueError("what stands for the home folder must be as long as its path")
        self._held = b""
        self._commands = 1
        self._pid, self._descriptor = _shell(environ, folder, rows)

    def __enter__(self) -> Emulator:
        self.wait_until(self.is_ready, "the prompt")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hang_up()
        os.close(self._descriptor)
        os.waitpid(self._pid, 0)

    def run(self, command: str) -> None:
        """Type a command, and wait until it has ended."""
        self.start(command)
        self.wait_until(self.is_ready, "the end of the command")

    def start(self, command: str) -> None:
        """Type a command."""
        self.type(f"{command}\n")
        self._commands += 1

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> None:
        """Wait until a text stands on the screen."""
        self.wait_until(lambda: text in "\n".join(self.screen.display), repr(text))

    def wait_for_line(self, text: str, after: str = "") -> None:
        """Wait until the line that is being typed ends with a text, and the line before has another one in it."""
        self.wait_until(lambda: self._row(0).endswith(text) and after in self._row(1), repr(text))

    def _row(self, above: int) -> str:
        return self.screen.display[max(0, self.screen.cursor.y - above)].rstrip()

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Read until something is so: it is looked at after each piece that the terminal gets."""
        end = time.monotonic() + DEADLINE
        while not is_so():
            readable, _, _ = select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))
            if not readable:
                raise TimeoutError(f"{what} did not appear; the screen is:\n" + "\n".join(self.screen.display).rstrip())
            self._feed(os.read(self._descriptor, PIECE))

    def clear(self) -> None:
        """Begin with an empty screen: what was shown until now does not belong to the picture."""
        self.run("clear")

    def is_ready(self) -> bool:
        """Whether the shell waits for a command."""
        return self.screen.title == str(self._commands) and self.screen.cursor.x > 0

    def _hang_up(self) -> None:
        """Until nobody has the terminal any more: then all that was started in it has ended.

        A shell that is about to wait for a key notes the signal and waits all the same: the next one wakes it.
        """
        with suppress(OSError):  # that is how Linux says that nobody has it
            while True:
                os.kill(self._pid, signal.SIGHUP)
                while select.select([self._descriptor], [], [], AGAIN)[0]:
                    if not os.read(self._descriptor, PIECE):
                        return

    def _feed(self, data: bytes) -> None:
        data = (self._held + data).replace(self._home, self._stand_in)
        kept = next((n for n in range(len(self._home) - 1, 0, -1) if data.endswith(self._home[:n])), 0)
        self._held = data[len(data) - kept :]
        self._stream.feed(data[: len(data) - kept])


def _shell(environ: Mapping[str, str], folder: Path, rows: int) -> tuple[int, int]:
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "--noprofile", "--norc", "-i"], {**environ, "PS1": PROMPT})  # noqa: S606, S607
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    return pid, descriptor
