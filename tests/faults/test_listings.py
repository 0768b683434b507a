"""Rows B1 to B4 of the faults: lists of tools that are long, endless, ambiguous or huge."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.snapshot import take_listing
from mcp_workbench.errors import Fault, ListTimeout, ListTooLarge, ToolNotFound
from mcp_workbench.limits import Limits
from mcp_workbench.surfaces.server_info import View
from tests.peers.rogue_stdio import CURSORS
from tests.support.configs import received, rogue, write_config
from tests.support.lag import LagProbe
from tests.support.library import fault_of, tool, workbench
from tests.support.near import near
from tests.support.wire import serving

CODE = "mcp-workbench/error"


# -- B1: many tools


@pytest.mark.row("B1")
async def test_b1_a_thousand_tools_in_pages_of_fifty_are_listed_in_order_within_a_second(tmp_path: Path):
    boxes = {"dev": {"many": rogue("pages", 1000, 50)}}
    entries: list[tuple[Raw, ...]] = []
    seconds: list[float] = []
    for _ in range(2):
        async with workbench(tmp_path, boxes) as wb:
            since, computed = time.monotonic(), time.process_time()
            opened = await wb.open("dev")
            seconds.append(time.monotonic() - since)
            assert time.process_time() - computed < 0.5
            assert [info["name"] for info in opened.tools] == [f"tool_{number:04}" for number in range(1000)]
            entries.append(opened.entries)
            assert await wb.use(tool("many", "tool_0999"), {})
    assert entries[0] == entries[1]
    assert min(seconds) < 1  # the better of two, since the machine has other things to do


# -- B2: no end


@pytest.mark.row("B2")
@pytest.mark.parametrize("kind", CURSORS)
async def test_b2_an_endless_list_is_refused_and_none_of_it_served(tmp_path: Path, kind: str):
    log = tmp_path / "rogue.log"
    async with serving(
        write_config(tmp_path, {"dev": {"endless": rogue("cursor", kind, log=log), "good": rogue()}})
    ) as wire:
        answer = await wire.open("dev")
        assert answer["servers_connected"] == 1
        assert {info["source_server"] for info in answer["tools"]} == {"good"}
        assert [failed["server"] for failed in answer["servers_failed"]] == ["endless"]
        assert 1 < len(received(log, "tools/list")) <= 250
        result = await wire.use("dev", "endless", "tool_1")
        assert result["_meta"][CODE]["code"] == "list_too_large"
        assert received(log, "tools/call") == []


@pytest.mark.row("B2")
@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"list_pages": 20}, ListTooLarge),
        ({"list_tools": 20}, ListTooLarge),
        ({"list_bytes": 2000}, ListTooLarge),
        ({"list_total_timeout_seconds": 0.2}, ListTimeout),
    ],
)
async def test_b2_each_cap_ends_an_endless_list(tmp_path: Path, limits: dict[str, Any], fault: type[Fault]):
    """Only the cap in question is within reach."""
    endless = {"list_pages": 10**9, "list_tools": 10**9, "list_bytes": 10**12} | limits
    async with workbench(tmp_path, {"dev": {"endless": rogue("cursor", "new")}}, **endless) as wb:
        assert type(await asyncio.wait_for(fault_of(wb.use(tool("endless", "tool_1"), {})), 5)) is fault


@pytest.mark.row("B2")
async def test_b2_the_empty_string_is_a_cursor_like_any_other(tmp_path: Path):
    log = tmp_path / "rogue.log"
    async with workbench(tmp_path, {"dev": {"two": rogue("empty_cursor_once", log=log)}}) as wb:
        assert [info["name"] for info in (await wb.open("dev")).tools] == ["first", "second"]
    assert [(asked.get("params") or {}).get("cursor") for asked in received(log, "tools/list")] == [None, ""]


# -- B3: ambiguous


@pytest.mark.row("B3")
async def test_b3_tools_of_one_name_on_one_server_are_all_withheld_and_said(tmp_path: Path):
    log = tmp_path / "rogue.log"
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("duptools", log=log)}})) as wire:
        answer = await wire.open("dev")
        assert [info["name"] for info in answer["tools"]] == ["first", "last"]
        assert {(entry["server"], entry["name"]) for entry in answer["tools_withheld"]} == {("fs", "twice")}
        assert all(entry["reason"] for entry in answer["tools_withheld"])
        assert (await wire.use("dev", "fs", "twice"))["_meta"][CODE]["code"] == "tool_not_found"
        assert received(log, "tools/call") == []


# -- B4: huge


@pytest.mark.row("B4")
@pytest.mark.parametrize("kind", ["huge", "many", "nested", "deep"])
async def test_b4_a_tool_with_an_oversized_schema_is_withheld_with_its_reason_and_the_others_are_served(
    tmp_path: Path, kind: str
):
    boxes = {"dev": {"fs": rogue("schemas", "plain", kind, "cycle"), "good": rogue()}}
    async with workbench(tmp_path, boxes) as wb:
        async with LagProbe() as lag:
            computed = time.process_time()
            opened = await wb.open("dev")
            assert time.process_time() - computed < 1
        assert opened.failed == ()
        served = [(info["source_server"], info["name"]) for info in opened.tools]
        assert served == [("fs", "plain"), ("fs", "cycle"), ("good", "echo"), ("good", "nonce")]
        [(server, withheld)] = opened.withheld
        assert (server, withheld.name) == ("fs", kind)
        assert withheld.reason
        with pytest.raises(ToolNotFound):
            await wb.use(tool("fs", kind), {})
        assert await wb.use(tool("fs", "plain"), {})
        assert lag.worst_cpu_seconds < 0.1


@pytest.mark.row("B4")
async def test_b4_a_list_that_is_passed_on_as_it_is_is_never_rewritten(tmp_path: Path):
    """Where the list is ours one tool of it is withheld; where it is the server's own, it can't be passed on."""
    async with (
        workbench(tmp_path, {"dev": {"fs": rogue("schemas", "plain", "deep")}}) as wb,
        near(wb, View("dev", "fs"), "handshake", {}) as wire,
    ):
        error = (await wire.request("tools/list"))["error"]
        assert (error["code"], error["data"]["code"]) == (-31001, "protocol_violation")
        assert [info["name"] for info in (await wb.open("dev")).tools] == ["plain"]
        assert "result" in await wire.request("tools/call", {"name": "plain", "arguments": {}})


@pytest.mark.row("B4")
@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
async def test_b4_references_in_a_schema_are_neither_followed_nor_refused(tmp_path: Path, mode: str):
    with socket.create_server(("127.0.0.1", 0)) as honeypot:
        honeypot.settimeout(0)
        address = f"http://127.0.0.1:{honeypot.getsockname()[1]}/schema.json"
        boxes = {"dev": {"fs": rogue("schemas", "cycle", "remote", env={"ROGUE_REF": address})}}
        async with serving(write_config(tmp_path, boxes, toolMode=mode)) as wire:
            tools = (await wire.open("dev"))["tools"]
            assert [info["name"] for info in tools] == ["cycle", "remote"]
            assert tools[0]["inputSchema"]["properties"]["a"]["$ref"] == "#/properties/a"
            assert tools[1]["inputSchema"]["properties"]["a"]["$ref"] == address
            assert len(await wire.list_tools()) == (4 if mode == "dynamic" else 2)
            for info in tools:
                assert not (await wire.use("dev", "fs", info["name"], {"a": {}})).get("isError")
        with pytest.raises(BlockingIOError):
            honeypot.accept()


@pytest.mark.row("B4")
async def test_b4_a_list_of_large_tools_never_blocks_the_event_loop(tmp_path: Path):
    """Sixty tools, each just within the cap and with more brackets than the depth that is allowed."""
    async with workbench(tmp_path, {"dev": {"fs": rogue("large_tools", 60, 255 * 1024)}}) as wb:
        async with LagProbe() as lag:
            opened = await asyncio.wait_for(wb.open("dev"), 20)
        assert len(opened.entries) == 60
        assert lag.worst_cpu_seconds < 0.1


SHAPES: dict[str, Callable[[int], str]] = {
    "flat": lambda size: '{"p":[' + "{},[]," * (size // 6) + "0]}",
    "deep": lambda size: '{"p":' + "[" * 60 + "1," * (size // 2) + "1" + "]" * 60 + "}",
    "quotes": lambda size: '{"p":"' + '\\"[{' * (size // 4) + '"}',
    "backslashes": lambda size: '{"p":"' + "\\\\" * (size // 2) + '"}',
    "many strings": lambda size: '{"p":[' + '"[",' * (size // 4) + '"{"]}',
}


@pytest.mark.row("B4")
@pytest.mark.parametrize("shape", SHAPES)
def test_b4_the_time_of_a_listing_grows_no_faster_than_its_size(shape: str):
    """In a tool's size, whatever it is made of, and in the number of tools."""
    limits = Limits(schema_bytes=10**9)

    def cost(size: int, count: int) -> float:
        schema = SHAPES[shape](size)
        raw = [Raw(f'{{"name":"t{number}","inputSchema":{schema}}}'.encode()) for number in range(count)]
        spent = []
        for _ in range(3):
            since = time.thread_time()
            assert len(take_listing(raw, (), limits).tools) == count
            spent.append(time.thread_time() - since)
        return min(spent)

    assert cost(1_600_000, 1) < 32 * max(cost(200_000, 1), 0.002)
    assert cost(1_000, 1600) < 32 * max(cost(1_000, 200), 0.002)
