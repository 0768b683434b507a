"""Processes, found by a random marker in their environment and never by their name; and waiting for a condition."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

MARKER = "WORKBENCH_TEST_MARKER"
PROC = Path("/proc")
POLL_SECONDS = 0.02

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="platform: the census reads /proc")


class Process(NamedTuple):
    pid: int
    command: str


def new_marker() -> dict[str, str]:
    """For the `env` of a server: whatever it starts inherits it."""
    return {MARKER: secrets.token_hex(12)}


def census(marker: dict[str, str]) -> list[Process]:
    """Every living process that carries the marker."""
    needle = f"{MARKER}={marker[MARKER]}".encode()
    found = []
    for folder in PROC.glob("[0-9]*"):
        try:
            if needle in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(Process(int(folder.name), command))
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
    return found


def is_alive(pid: int) -> bool:
    """Whether it runs: a zombie does not."""
    try:
        os.kill(pid, 0)
        state = (PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


async def guardian_running() -> int:
    """The only guardian process of this process, once it has begun."""
    await wait_until(lambda: len(_guardians()) == 1, what="the guardian")
    return _guardians()[0]


def _guardians() -> list[int]:
    found: list[int] = []
    for entry in PROC.iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and b"guardian.py" in (entry / "cmdline").read_bytes():
                parent = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
                found += [int(entry.name)] if int(parent) == os.getpid() else []
    return found


def hang_up(process: int) -> None:
    """Close our ends of the pipe to its stdin, as our own end would; the descriptors stay taken."""
    pipe = (PROC / str(process) / "fd/0").readlink()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for entry in (PROC / "self/fd").iterdir():
        with contextlib.suppress(OSError):
            if entry.readlink() == pipe:
                os.dup2(nothing, int(entry.name), inheritable=False)
    os.close(nothing)


async def wait_until(condition: Callable[[], object], seconds: float = 5.0, *, what: str = "the condition") -> None:
    """Return once `condition()` is true; fail when it is not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come about within {seconds} s")
        await asyncio.sleep(POLL_SECONDS)


async def poll_until(probe: Callable[[], Awaitable[object]], seconds: float = 8.0, *, what: str = "it") -> None:
    """The same for a condition that must be asked over a wire."""
    deadline = time.monotonic() + seconds
    while not await probe():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come about within {seconds} s")
        await asyncio.sleep(POLL_SECONDS)


def queued_seconds(process: int | str = "self") -> float:
    """How long threads of a process wanted to run, and the machine was busy: one of them may hold the others up."""
    total, folder = 0, f"/proc/{process}/task"
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(folder):  # noqa: PTH208 -- asked twice for every call that is timed
            with (
                contextlib.suppress(FileNotFoundError, ProcessLookupError),
                open(f"{folder}/{task}/schedstat", "rb") as file,  # noqa: PTH123
            ):
                total += int(file.read().split()[1])
    return total / 1e9
