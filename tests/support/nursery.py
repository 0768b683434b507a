"""What programs are forked from for tests: see tests/peers/warm_workbench.py.

A program is forked but where that would make a difference: where `forks` says no. With `WORKBENCH_TESTS_FORK=no` in
the environment nothing is forked, and every program is started as its users do.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PYTHON = sys.executable
PROGRAM = (PYTHON, "-m", "mcp_workbench")
PEERS = Path(__file__).parents[1] / "peers"
WARM = PEERS / "warm_workbench.py"
SRC = Path(__file__).parents[2] / "src"
SWITCH = "WORKBENCH_TESTS_FORK"
READ_AT_THE_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "MALLOC_", "SSL_", "OPENSSL_")
"""How variables begin that count when a program starts, and not later."""
CAN_FORK = sys.platform == "linux"


class Nursery:
    """The process that is forked; one for each process that runs tests, from the first time on that it is needed."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp()
        self.path = f"{self._folder}/socket"
        self.owner = os.getpid()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, str(WARM), self.path], stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        atexit.register(self.close)

    def fork(self, wish: dict[str, Any], streams: Sequence[int]) -> tuple[int, socket.socket]:
        """The process, and where it is told how it ended."""
        said = json.dumps(wish).encode() + b"\n"
        for is_last_try in (False, True):
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(self.path)
                sent = socket.send_fds(line, [said], streams)
                line.sendall(said[sent:])
                break
            except (BrokenPipeError, ConnectionResetError):  # it hung up before it read the wish: nothing was forked
                line.close()
                if is_last_try:
                    raise
        return told_number(line), line

    def close(self) -> None:
        if os.getpid() == self.owner:
            self._process.communicate()
            shutil.rmtree(self._folder)


_nursery: list[Nursery] = []


def told_number(line: socket.socket) -> int:
    """One that was told, and nothing of the next."""
    said = b""
    while not said.endswith(b"\n"):
        piece = line.recv(1)
        assert piece, "what is forked is gone"
        said += piece
    return int(said)


def forks(command: Sequence[str], env: Mapping[str, str] | None) -> bool:
    """Whether a command is the program or a peer, and nothing in its environment changes how Python starts."""
    is_peer = command[0] == PYTHON and Path("".join(command[1:2])).parent == PEERS
    is_ours = tuple(command[: len(PROGRAM)]) == PROGRAM or is_peer
    if not CAN_FORK or os.environ.get(SWITCH) == "no" or not is_ours:
        return False
    ours = _read_at_the_start(os.environ)
    wanted = _read_at_the_start(os.environ if env is None else env)
    before, both = ours.pop("PYTHONPATH", ""), wanted.pop("PYTHONPATH", "")
    return wanted == ours and both in (before, os.pathsep.join(filter(None, [str(SRC), before])))


def _read_at_the_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_THE_START)}


def fork(
    command: Sequence[str],
    env: Mapping[str, str] | None,
    cwd: Path | str | None,
    streams: Sequence[int],
    *,
    at_terminal: bool = False,
) -> tuple[int, socket.socket]:
    wish = {
        "words": list(command[1:]),
        "env": dict(os.environ if env is None else env),
        "cwd": os.path.realpath(cwd or "."),
        "at_terminal": at_terminal,
    }
    return warm().fork(wish, streams)


def warm() -> Nursery:
    """The process that is forked, started if there is none."""
    if not _nursery or _nursery[0].owner != os.getpid():
        _nursery[:] = [Nursery()]
    return _nursery[0]


def lent(command: Sequence[str]) -> list[str]:
    """What something else than a test may start in place of a command."""
    if not forks(command, None):
        return list(command)
    return [PYTHON, "-SE", str(PEERS / "lend.py"), warm().path, *command[1:]]
