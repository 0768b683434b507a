"""Rows D11 and D12 of the faults: nothing blocks the event loop, and nothing depends on the time of day."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path
from unittest import mock

import pytest

from mcp_workbench.errors import WorkbenchError
from tests.support.configs import rogue
from tests.support.library import tool, workbench
from tests.support.procs import needs_proc, queued_seconds
from tests.support.wire import SRC

MIB = 1024 * 1024
WORK_SECONDS = 0.1
"""What one turn of the event loop may compute."""
BLOCK_SECONDS = 0.25
"""What it may take in all, where it gave the processor away by itself: it waited for something."""


@contextlib.asynccontextmanager
async def watched_loop() -> AsyncIterator[list[str]]:
    """The callbacks that took too long, by their work or since they waited; a busy machine makes none of them so."""
    slow: list[str] = []
    run = asyncio.Handle._run

    def watched_run(handle: asyncio.Handle) -> None:
        since, computed, waits, queued = time.monotonic(), time.thread_time(), given_away(), queued_seconds()
        run(handle)
        work = time.thread_time() - computed
        waited = time.monotonic() - since - (queued_seconds() - queued)
        blocked = waited > BLOCK_SECONDS and given_away() > waits
        if work > WORK_SECONDS or blocked:
            slow.append(f"{handle!r}: {work:.3f} s of work, {time.monotonic() - since:.3f} s in all")

    with mock.patch.object(asyncio.Handle, "_run", watched_run):
        await asyncio.sleep(0)  # the turn that is under way is not watched
        yield slow
        await asyncio.sleep(0)


def given_away() -> int:
    """How often this thread gave the processor away by itself."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


SERVERS = {
    "good": rogue(),
    "loud": rogue("garbage", 500),
    "many": rogue("pages", 1000, 50),
    "large": rogue("schemas", "plain", "huge", "many", "nested"),
    "big": rogue("bigline"),
    "dead": rogue("exit_at_start"),
    "gone": {"command": "/nowhere/to/be/found"},
    "crash": rogue("crash"),
    "stubborn": rogue("ignore_sigterm"),
    "daemon": rogue("daemon"),
    "stderr": rogue("stderrflood"),
}
CALLS = [
    ("good", "echo", {"text": "x" * MIB}),
    ("loud", "echo", {"lines": 500}),
    ("many", "tool_0500", {}),
    ("large", "plain", {}),
    ("big", "echo", {"bytes": 7 * MIB}),
    ("big", "echo", {"bytes": 20 * MIB}),
    ("crash", "crash", {}),
    ("daemon", "echo", {}),
    ("stderr", "echo", {"bytes": 5_000_000}),
    ("good", "missing", {}),
]


@pytest.mark.row("D11")
@needs_proc
async def test_d11_nothing_that_servers_do_blocks_the_event_loop(tmp_path: Path):
    limits = {"stdin_eof_seconds": 0.2, "terminate_seconds": 0.2}
    async with watched_loop() as slow, workbench(tmp_path, {"dev": SERVERS}, **limits) as wb:
        assert (await wb.open("dev")).servers_connected == len(SERVERS) - 2
        outcomes = await asyncio.gather(
            *(wb.use(tool(server, name), arguments) for server, name, arguments in CALLS), return_exceptions=True
        )
        assert all(isinstance(outcome, dict | WorkbenchError) for outcome in outcomes), outcomes
        assert sum(isinstance(outcome, dict) for outcome in outcomes) == len(CALLS) - 3
    assert slow == []


@pytest.mark.row("D11")
@needs_proc
@pytest.mark.parametrize("how", ["work", "sleep"])
async def test_d11_what_blocks_the_event_loop_is_found(how: str):
    def block() -> None:
        until = time.thread_time() + 2 * WORK_SECONDS
        if how == "sleep":
            time.sleep(2 * BLOCK_SECONDS)
        while how == "work" and time.thread_time() < until:
            pass

    async with watched_loop() as slow:
        asyncio.get_running_loop().call_soon(block)
    assert len(slow) == 1


# -- D12: the clock

WALL_CLOCK = {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "now", "utcnow", "today", "mktime"}


@pytest.mark.row("D12")
def test_d12_only_the_log_and_the_age_of_what_is_remembered_read_the_time_of_day():
    """A clock that jumps changes no deadline. (The servers of the demonstration stand alone.)

    When a login ends is remembered, too; and a server may say by a date when to come back. The record tells people
    when something happened, and the commands that show it how long ago that was. Since when a file is trusted, and a
    list is known, is a date for people, too.
    """
    aged = {"catalog/cache/server_cache.py", "catalog/cache/store.py", "activity/recorder.py", "activity/writer.py"}
    aged |= {f"servers/http/{name}.py" for name in ("login", "oauth", "status_errors")}
    aged |= {f"cli/{name}.py" for name in ("status", "status_view", "status_watch", "server_states", "listing")} | {
        "storage/trusted_configs.py"
    }
    read = []
    package = SRC / "mcp_workbench"
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        if name.startswith("demo/"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in {"time", "datetime"}:
                read += [(name, alias.name) for alias in node.names if alias.name not in {"monotonic", "sleep"}]
            if isinstance(node, ast.Attribute) and node.attr in WALL_CLOCK:
                read.append((name, ast.unparse(node)))
    monotonic = ("loop.time", "loop().time")
    others = [found for found in read if not found[1].endswith(monotonic) and found[0] not in aged]
    assert others == [("logger.py", "time.strftime"), ("logger.py", "time.time")]
    assert aged <= {name for name, _ in read}


@pytest.mark.row("D12")
async def test_d12_a_clock_that_jumps_ends_no_call(tmp_path: Path):
    """By a day, at every look."""
    start = time.time()
    with mock.patch.object(time, "time", side_effect=(start + 86_400 * n for n in range(10**9)).__next__):
        async with workbench(tmp_path, {"dev": {"slow": rogue("progress", 5)}}, call_idle_timeout_seconds=2.0) as wb:
            assert await wb.use(tool("slow", "echo"), {"gap": 0.05})
