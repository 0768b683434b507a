"""Programs at a pseudo-terminal: what a person would see and type."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.procs import POLL_SECONDS
from tests.support.programs import PROGRAM

WAIT_SECONDS = 30.0
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
USING = re.compile(r"^using [^\n]*/[^\n]*\.json\r?\n", re.MULTILINE)
"""The line that names the configuration; `tests/cli/test_folder_config.py` looks at it."""
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3|4|9)[0-9](?:;[0-9]+)*m")


class Screen:
    """One program at a terminal of its own."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, columns: int, cwd: Path | None, typed: str = ""
    ) -> None:
        self.terminal, device = pty.openpty()
        self.type(typed)
        fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = started(command, env, cwd, device)
        os.close(device)
        self.text = ""
        """Everything that was written so far."""

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def wait_for(self, found: str | Callable[[str], object], *, what: str = "") -> str:
        """Read until a text is there, since the beginning; fail if it does not come."""
        is_there = found if callable(found) else lambda text: found in text
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_there(self.text):
            if time.monotonic() > deadline or not self._read(deadline):
                pytest.fail(f"{what or found!r} did not come; on the terminal stands:\n{self.text}")
        return self.text

    def finish(self) -> int:
        """Read to the end; the exit status."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(WAIT_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_SECONDS)
        os.close(self.terminal)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            piece = os.read(self.terminal, 65_536)
        except OSError:  # Linux: nobody holds the other end any more
            return False
        self.text += piece.decode("utf-8", "replace")
        return bool(piece)


def started(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None, device: int
) -> subprocess.Popen[bytes] | programs.Forked:
    if programs.forks(command, env):
        return programs.start_at_terminal(command, env, cwd, device)
    return subprocess.Popen(
        command, stdin=device, stdout=device, stderr=device, env=dict(env), cwd=cwd,
        preexec_fn=_own_terminal,  # noqa: PLW1509 -- only so does a typed Ctrl-C reach it; tests have no threads here
    )  # fmt: skip


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def at_terminal(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    columns: int = 100,
    command: Sequence[str] = PROGRAM,
    cwd: Path | None = None,
    typed: str = "",
) -> Iterator[Screen]:
    """A command at a terminal that is `columns` wide, at which something was typed before it started."""
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables = {**inherited, **(env or {}), "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES"):  # the terminal itself knows
        variables.pop(name, None)
    screen = Screen([*command, *arguments], variables, columns=columns, cwd=cwd, typed=typed)
    try:
        yield screen
    finally:
        screen.close()


def seen(text: str) -> list[str]:
    """The lines as a person reads them, without the one that names the configuration."""
    return [line.rstrip() for line in USING.sub("", SEQUENCE.sub("", text)).replace("\r", "").splitlines()]


def piped(*arguments: str, env: Mapping[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command whose input and output are pipes."""
    return programs.run([*PROGRAM, *arguments], stdin=stdin, timeout=WAIT_SECONDS, env={**os.environ, **(env or {})})


def wait_for(condition: Callable[[], object]) -> None:
    """Return once `condition()` is true; fail when it is not in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(POLL_SECONDS)
