"""Servers on the SDK whose start takes no time: see tests/peers/warm.py."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.configs import Server

WARM = Path(__file__).parents[1] / "peers" / "warm.py"

Warm = Callable[..., Server]

_lasting: dict[int, Warm] = {}
"""By process: one that was forked has none of its own."""


def warm_server(module: str, *arguments: str) -> Server:
    """The entry of a server; what it is forked from runs as long as this process."""
    if os.getpid() not in _lasting:
        opened = contextlib.ExitStack()
        _lasting[os.getpid()] = opened.enter_context(warm_servers())
        atexit.register(opened.close)
    return _lasting[os.getpid()](module, *arguments)


@contextlib.contextmanager
def warm_servers() -> Iterator[Warm]:
    """Gives the entry of a server: a module of tests/peers, and its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, str(WARM), path], stdin=pipe, stdout=pipe) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"

            def entry(module: str, *arguments: str) -> Server:
                return {"command": sys.executable, "args": ["-SE", str(WARM), path, module, *arguments]}

            yield entry
