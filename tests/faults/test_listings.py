"""Rows B of the faults: lists of tools that are long, endless, ambiguous or huge."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from mcp_workbench.errors import ListTooLarge, ToolNotFound
from tests.peers.rogue_stdio import CURSORS
from tests.support.configs import rogue, write_config
from tests.support.lag import LagProbe
from tests.support.library import fault_of, tool, workbench
from tests.support.wire import serving


async def test_b1_a_thousand_tools_in_pages_of_fifty_are_listed_in_order(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"many": rogue("pages", 1000, 50)}}) as wb:
        since = time.monotonic()
        names = [info["name"] for info in (await wb.open("dev")).tools]
        assert names == [f"tool_{number:04}" for number in range(1000)]
        assert time.monotonic() - since < 3
        assert await wb.use(tool("many", "tool_0999"), {})


@pytest.mark.parametrize("kind", CURSORS)
async def test_b2_an_endless_list_is_refused_and_none_of_it_served(tmp_path: Path, kind: str):
    boxes = {"dev": {"endless": rogue("cursor", kind), "good": rogue()}}
    async with workbench(tmp_path, boxes, list_pages=50) as wb:
        opened = await asyncio.wait_for(wb.open("dev"), 10)
        assert {info["source_server"] for info in opened.tools} == {"good"}
        assert isinstance(await fault_of(wb.use(tool("endless", "tool_1"), {})), ListTooLarge)


async def test_b2_the_empty_string_is_a_cursor_like_any_other(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"two": rogue("empty_cursor_once")}}) as wb:
        assert [info["name"] for info in (await wb.open("dev")).tools] == ["first", "second"]


async def test_b3_tools_of_one_name_on_one_server_are_all_withheld_and_said(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("duptools")}})) as wire:
        answer = await wire.open("dev")
        assert [info["name"] for info in answer["tools"]] == ["first", "last"]
        assert {(entry["server"], entry["name"]) for entry in answer["tools_withheld"]} == {("fs", "twice")}
        assert all(entry["reason"] for entry in answer["tools_withheld"])
        assert (await wire.use("dev", "fs", "twice"))["isError"]


@pytest.mark.parametrize("kind", ["huge", "many", "nested", "deep"])
async def test_b4_a_tool_with_an_oversized_schema_is_not_served_and_that_is_said(tmp_path: Path, kind: str):
    boxes = {"dev": {"fs": rogue("schemas", "plain", kind), "good": rogue()}}
    async with workbench(tmp_path, boxes) as wb:
        since = time.monotonic()
        opened = await wb.open("dev")
        assert time.monotonic() - since < 5
        served = {(info["source_server"], info["name"]) for info in opened.tools}
        assert ("fs", kind) not in served
        assert ("good", "echo") in served
        if kind == "deep":  # a page that no parser of this Python may be able to read
            assert opened.withheld or opened.failed
        else:
            assert ("fs", "plain") in served
            assert len(opened.withheld) == 1
            with pytest.raises(ToolNotFound):
                await wb.use(tool("fs", kind), {})


async def test_b4_references_in_a_schema_are_neither_followed_nor_refused(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as honeypot:
        honeypot.settimeout(0)
        address = f"http://127.0.0.1:{honeypot.getsockname()[1]}/schema.json"
        boxes = {"dev": {"fs": rogue("schemas", "cycle", "remote", env={"ROGUE_REF": address})}}
        async with workbench(tmp_path, boxes) as wb:
            opened = await wb.open("dev")
            assert [info["name"] for info in opened.tools] == ["cycle", "remote"]
            assert opened.tools[1]["inputSchema"]["properties"]["a"]["$ref"] == address
            assert await wb.use(tool("fs", "cycle"), {})
            assert await wb.use(tool("fs", "remote"), {})
        with pytest.raises(BlockingIOError):
            honeypot.accept()


async def test_b4_a_list_of_large_tools_never_blocks_the_event_loop(tmp_path: Path):
    """Sixty tools, each just within the cap and with more brackets than the depth that is allowed."""
    async with workbench(tmp_path, {"dev": {"fs": rogue("large_tools", 60, 255 * 1024)}}) as wb:
        async with LagProbe() as lag:
            opened = await asyncio.wait_for(wb.open("dev"), 20)
        assert len(opened.entries) == 60
        assert lag.worst_seconds < 0.25
