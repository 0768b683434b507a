"""Servers on the SDK whose start takes no time: see tests/peers/warm.py."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.configs import Server

WARM = Path(__file__).parents[1] / "peers" / "warm.py"

Warm = Callable[..., Server]


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
