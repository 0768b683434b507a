"""Rows A29, B9 and E16: servers that flood us, or list what is costly, take a bounded share of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from tests.peers import flood_http
from tests.peers.costly_tools import SCHEMAS
from tests.peers.rogue_stdio import FLOODS
from tests.support import programs
from tests.support.configs import LAUNCH, Server, Toolboxes, read_log, rogue, write_config
from tests.support.neighbour import END_SECONDS, STRETCH_SECONDS, Neighbour, loop_seconds, process_seconds
from tests.support.procs import needs_proc, wait_until
from tests.support.wire import Wire, serving, text_of, use_params

CALLS_AT_ONCE = 8
FIRST_SECONDS, AGAIN_SECONDS = 0.3, 0.01
"""CPU time of opening 64 costly tools, the first time and later."""
KNOWN_SECONDS = 0.005
"""CPU time of opening 200 tools that were opened before."""
SLACK = 1.25
"""How much more a first open may take where other programs take turns on the processor: caches are cold more often."""
LOADING_SECONDS = 0.01
"""CPU time of `loading_seconds` on the machine that they were measured on."""

pytestmark = needs_proc


def with_ends(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Each kind of flood, with one of the two ways to end the workbench."""
    return list(zip(kinds, itertools.cycle(("SIGTERM", "EOF")), strict=False))


async def flood(wire: Wire, calls: int = 1) -> list[int]:
    """Call the server that floods, which never answers."""
    params = {"name": "use_tool", "arguments": use_params("dev", "bad", "echo"), "_meta": {"progressToken": "t"}}
    return [await wire.begin("tools/call", params) for _ in range(calls)]


async def end(wire: Wire, how: str) -> float:
    """How long the workbench takes to end while it is flooded."""
    began = time.monotonic()
    if how == "SIGTERM":
        wire.process.send_signal(signal.SIGTERM)
        await wire.ended()
    else:
        await wire.hang_up()
    return time.monotonic() - began


@contextlib.asynccontextmanager
async def remote_flood(kind: str) -> AsyncIterator[Server]:
    """The entry of a remote server that floods."""
    process = await programs.start([sys.executable, "-SE", str(LAUNCH), "flood_http", kind])
    try:
        assert process.stdout is not None
        yield {"url": (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()}
    finally:
        process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


@pytest.mark.row("A29", "D4", "D11")
@pytest.mark.parametrize(("kind", "how"), with_ends(FLOODS))
async def test_a29_a_server_that_floods_us_with_messages_delays_nobody(tmp_path: Path, kind: str, how: str):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"good": rogue(), "bad": rogue("flood", kind, log=log)}})
    async with serving(config) as wire:
        neighbour = await Neighbour.start(wire)
        await flood(wire)
        await wait_until(lambda: any(entry["event"] == "flooding" for entry in read_log(log)), what="the flood")
        await neighbour.observe()
        assert neighbour.broken == []
        assert await end(wire, how) < END_SECONDS


@pytest.mark.row("E16", "D4", "D11")
@pytest.mark.parametrize(("kind", "how"), with_ends(flood_http.FLOODS))
async def test_e16_remote_responses_that_never_end_delay_nobody(tmp_path: Path, kind: str, how: str):
    async with remote_flood(kind) as entry:
        config = write_config(tmp_path, {"dev": {"good": rogue(), "bad": entry}})
        async with serving(config) as wire:
            neighbour = await Neighbour.start(wire)
            await flood(wire, CALLS_AT_ONCE)
            await neighbour.observe()
            assert neighbour.broken == []
            assert await end(wire, how) < END_SECONDS


@pytest.mark.row("E16")
async def test_e16_interim_responses_without_end_fail_their_call_alone(tmp_path: Path):
    async with remote_flood("continue") as entry:
        config = write_config(tmp_path, {"dev": {"bad": entry}})
        async with serving(config) as wire:
            answer = await wire.use("dev", "bad", "echo")
            assert "endless interim responses" in text_of(answer)


@pytest.mark.row("A29")
async def test_a29_what_belongs_to_a_call_comes_before_its_answer_though_much_of_it_is_dropped(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"bad": rogue("chatter", "log"), "slow": rogue("progress", 20)}})
    async with serving(config) as wire:
        await wire.use("dev", "slow", "echo", _meta={"progressToken": "t"})
        kinds = [message.get("method", "answer") for message in wire.order]
        assert kinds[-21:] == ["notifications/progress"] * 20 + ["answer"]
        await wire.use("dev", "bad", "echo")
        assert 0 < len(wire.seen("notifications/message")) < 2000
        assert wire.order[-1].get("result") is not None
        assert "some are dropped" in wire.stderr


@pytest.mark.row("B9", "D11")
@pytest.mark.parametrize("kind", [*SCHEMAS, "output_references", "output_patterns", "names"])
async def test_b9_costly_definitions_are_opened_in_little_time_and_short_turns(tmp_path: Path, kind: str):
    boxes = {"dev": {"bad": rogue("costly", kind, 64)}, "other": {"good": rogue()}}
    folders = [tmp_path / str(number) for number in range(6)]  # the least counts: neighbours only add to CPU time
    for folder in folders:
        folder.mkdir()
    assert min([await first_seconds(folder, boxes) for folder in folders]) < FIRST_SECONDS * SLACK
    async with serving(write_config(tmp_path, boxes)) as wire:
        await opening_seconds(wire)
        assert min([await opening_seconds(wire) for _ in range(6)]) < AGAIN_SECONDS
        assert await opening_seconds(wire, query="tool") < FIRST_SECONDS * SLACK
        opens = [await wire.begin("tools/call", OPEN) for _ in range(20)]
        assert await worst_ping_seconds(wire, opens) < STRETCH_SECONDS


@pytest.mark.row("B1")
async def test_b1_two_hundred_tools_that_were_opened_before_take_five_milliseconds(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"good": rogue("pages", 200, 200)}})) as wire:
        assert len((await wire.open("dev"))["tools"]) == 200
        assert min([await opening_seconds(wire) for _ in range(5)]) < KNOWN_SECONDS


DOCUMENT = json.dumps([{"name": f"n{number}"} for number in range(50_000)])
OPEN = {"name": "open_toolbox", "arguments": {"toolbox": "dev", "detail": "signature"}}


def loading_seconds() -> float:
    """The CPU time of a fixed piece of work. It grows with that of an open while neighbours share caches and cores."""
    times: list[float] = []
    for _ in range(5):
        began = time.thread_time()
        json.loads(DOCUMENT)
        times.append(time.thread_time() - began)
    return statistics.median(times)


async def first_seconds(folder: Path, boxes: Toolboxes) -> float:
    """The CPU time of the first open of `dev`, when the program has loaded all that an open needs."""
    async with serving(write_config(folder, boxes)) as wire:
        await wire.open("other")
        return await opening_seconds(wire)


async def opening_seconds(wire: Wire, **refinements: str) -> float:
    """The CPU time of an open, on a machine as fast as the one that the bounds were measured on."""
    before = loading_seconds()
    began = process_seconds(wire.process.pid)
    opened = await wire.open("dev", **refinements)
    assert opened["tools"]
    seconds = process_seconds(wire.process.pid) - began
    return seconds / max(1.0, before / LOADING_SECONDS, loading_seconds() / LOADING_SECONDS)


async def worst_ping_seconds(wire: Wire, opens: list[int]) -> float:
    """What the event loop computed at most while a ping waited, until all opens are answered."""
    answers = asyncio.gather(*(wire.finish(number) for number in opens))
    worst = 0.0
    while not answers.done():
        began = loop_seconds(wire.process.pid)
        await wire.request("ping")
        worst = max(worst, loop_seconds(wire.process.pid) - began)
    return worst
