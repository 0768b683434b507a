"""One server as a source of tools: what stands while its list changes, and that a refresh starts nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.errors import ListTimeout
from mcp_workbench.routing import server_lists
from mcp_workbench.wire.caller import LIBRARY
from tests.support.configs import read_log, received, rogue, starts
from tests.support.library import handle_of, tool, workbench
from tests.support.procs import wait_until
from tests.wire.pair import settle


def names(opened: Any) -> list[str]:
    return [entry["name"] for entry in opened.tools]


async def test_a_refresh_never_starts_a_server_that_has_gone(tmp_path: Path):
    """It lists, says that its list changed and exits: nobody needs it, so it stays away until somebody does."""
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"fs": rogue("flap", log=log)}}, relist_interval_seconds=0.3) as bench:
        before = asyncio.all_tasks()
        assert names(await bench.open("dev")) == ["echo", "nonce"]
        handle = handle_of(bench, "dev", "fs")
        await wait_until(lambda: asyncio.all_tasks() <= before, what="the end of the refresh")
        assert handle.supervisor.state == "failing"
        assert len(starts(log)) == 1
        await bench.open("dev")
        assert len(starts(log)) == 2


@pytest.mark.parametrize("then", ["hangs", "refuses"])
async def test_a_changed_list_that_cannot_be_read_leaves_the_one_of_this_connection(then: str, tmp_path: Path):
    log = tmp_path / "log"
    boxes = {"dev": {"fs": rogue("changed_list", then, log=log)}}
    async with workbench(tmp_path, boxes, refresh_wait_seconds=0.2, relist_interval_seconds=0.1) as bench:
        await bench.open("dev")
        await bench.use(tool("fs", "change"))
        since = time.monotonic()
        for _ in range(3):
            assert names(await bench.open("dev")) == ["echo", "change"]
        await wait_until(lambda: len(received(log, "tools/list")) >= 2, what="the refresh")
        assert names(await bench.open("dev")) == ["echo", "change"]
        assert await bench.use(tool("fs", "echo"))
        assert time.monotonic() - since < bench.limits.list_page_timeout_seconds - 5
    assert len(starts(log)) == 1


@pytest.mark.parametrize("what", ["open", "use"])
async def test_whoever_comes_right_after_a_change_sees_it_at_once(what: str, tmp_path: Path):
    """The interval between two listings is for storms, not for a caller."""
    boxes = {"dev": {"fs": rogue("changed_list", "lists")}}
    async with workbench(tmp_path, boxes, refresh_wait_seconds=20.0, relist_interval_seconds=20.0) as bench:
        await bench.open("dev")
        await bench.use(tool("fs", "change"))
        since = time.monotonic()
        if what == "open":
            assert names(await bench.open("dev")) == ["echo", "change", "new"]
        else:
            assert await bench.use(tool("fs", "new"))
        assert time.monotonic() - since < bench.limits.relist_interval_seconds / 2


@pytest.mark.parametrize("turns", range(6))
async def test_an_open_in_the_moment_in_which_a_refresh_failed_is_no_surprise(
    turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    unexpected: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unexpected.append(context))
    async with workbench(tmp_path, {"dev": {"fs": rogue()}}, relist_interval_seconds=0.01) as bench:
        await bench.open("dev")
        failed = asyncio.Event()

        async def fail(*_: object, **__: object) -> Any:
            failed.set()
            raise ListTimeout("it did not list")

        with monkeypatch.context() as patched:
            patched.setattr(server_lists, "list_items", fail)
            handle_of(bench, "dev", "fs").lists.tools.invalidate()
            await asyncio.wait_for(failed.wait(), 5)
            await settle(turns)  # before whoever waits has seen it, or after
        assert names(await bench.open("dev")) == ["echo", "nonce"]
    gc.collect()
    assert unexpected == []


async def test_a_change_while_the_list_is_read_is_read_after_it(tmp_path: Path):
    log = tmp_path / "log"
    boxes = {"dev": {"fs": rogue("changed_list", "lists", log=log)}}
    async with workbench(tmp_path, boxes, relist_interval_seconds=0.05) as bench:
        await bench.open("dev")
        await asyncio.gather(*(bench.use(tool("fs", "change")) for _ in range(3)))
        await wait_until(lambda: not handle_of(bench, "dev", "fs").lists.tools.is_outdated, what="a current list")
        opened = await bench.open("dev")
    assert read_log(log)
    assert [withheld.name for _, withheld in opened.withheld] == ["new"]  # three of that name: the last listing saw all


async def test_after_a_refresh_that_failed_the_next_one_who_asks_has_it_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    boxes = {"dev": {"fs": rogue("changed_list", "lists")}}
    async with workbench(tmp_path, boxes, relist_interval_seconds=0.05) as bench:
        await bench.open("dev")
        failed = asyncio.Event()

        async def fail(*_: object, **__: object) -> Any:
            failed.set()
            raise ListTimeout("it did not list this once")

        with monkeypatch.context() as patched:
            patched.setattr(server_lists, "list_items", fail)
            await bench.use(tool("fs", "change"))
            await asyncio.wait_for(failed.wait(), 5)
            await settle()
        assert names(await bench.open("dev")) == ["echo", "change", "new"]


async def test_after_a_restart_the_list_is_read_again(tmp_path: Path):
    """A new process may offer other tools than the one that died."""
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"fs": rogue(log=log)}}, relist_interval_seconds=0.05) as bench:
        await bench.open("dev")
        os.kill(starts(log)[0], signal.SIGKILL)
        await wait_until(lambda: handle_of(bench, "dev", "fs").supervisor.state == "failing")
        await bench.use(tool("fs", "echo"))
        await wait_until(lambda: len(received(log, "tools/list")) == 2, what="the second listing")
    assert len(starts(log)) == 2


CHANGES_AT_ONCE = """
import json, os, sys
listed = 0
for line in sys.stdin:
    message = json.loads(line)
    answers = []
    if message.get("method") == "initialize":
        tools = {"listChanged": True}
        answers = [{"id": message["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": tools}}}]
    elif message.get("method") == "tools/list":
        listed += 1
        tools = [{"name": f"t{number}", "inputSchema": {}} for number in range(listed)]
        answers = [{"id": message["id"], "result": {"tools": tools}}]
        answers += [{"method": "notifications/tools/list_changed"}] if listed == 1 else []
    elif "id" in message:
        answers = [{"id": message["id"], "error": {"code": -32601, "message": "Method not found"}}]
    os.write(1, b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\\n" for one in answers))
"""


async def test_a_change_right_behind_the_first_listing_is_read(tmp_path: Path):
    """In one write with the answer: it is heard before whoever asked for the list has taken it."""
    entry = {"command": sys.executable, "args": ["-SEc", CHANGES_AT_ONCE]}
    async with workbench(tmp_path, {"dev": {"fs": entry}}, relist_interval_seconds=0.05) as bench:
        await bench.open("dev")
        await wait_until(lambda: len(list(bench.at(LIBRARY).catalog.known())) == 2, what="the second listing")
        assert names(await bench.open("dev")) == ["t0", "t1"]
