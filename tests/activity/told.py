"""What `status` and `logs` tell of workbenches that share a home folder."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import programs
from tests.support.procs import poll_until
from tests.support.wire import environment

Json = dict[str, Any]


def record_file(folder: Path) -> Path:
    """The record of workbenches whose configuration is in a folder."""
    return folder / "home" / "XDG_STATE_HOME" / "mcp-workbench" / "record.sqlite"


async def told(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit status, stdout and stderr of a command."""
    command, chosen = [*programs.PROGRAM, *arguments], environment(folder / "home") | (env or {})
    done = await asyncio.to_thread(programs.run, command, env=chosen)
    return done.returncode, done.stdout, done.stderr


async def runs(folder: Path, *arguments: str) -> list[Json]:
    """The runs that `status --json` tells of."""
    status, out, err = await told(folder, "status", "--json", *arguments)
    assert status == 0, out + err
    document = json.loads(out)
    assert document["ok"] is True
    return document["runs"]


async def run_when(folder: Path, is_so: Callable[[Json], object], *arguments: str, what: str = "the run") -> Json:
    """The first run of which something is true, as soon as it is."""
    found: list[Json] = []

    async def probe() -> bool:
        found[:] = [run for run in await runs(folder, *arguments) if is_so(run)]
        return bool(found)

    await poll_until(probe, 30.0, what=what)
    return found[0]


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """What stands in the file, read by another program."""
    connection = sqlite3.connect(f"file:{record_file(folder)}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def everything(folder: Path) -> bytes:
    """The bytes of the file, and of what may lie beside it."""
    files = record_file(folder).parent.glob("record.sqlite*")
    return b"".join(file.read_bytes() for file in files if file.is_file())
