"""Rows D14 and E18 of the faults: peers that make the workbench hold more than it should; RSS is the program's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from mcp_workbench import Limits
from tests.faults.outcomes import MIB, peak_memory
from tests.serve.http.serving import ALICE, BOTH, Handshake, answer_in, greeting, program, rpc, served, use
from tests.support import programs
from tests.support.configs import rogue, write_config
from tests.support.procs import needs_proc, poll_until, wait_until
from tests.support.wire import environment, error_of, serving, text_of, use_params

LARGE = 120 * 65_536
"""Just under 8 MiB, the largest message."""
SMALL_MEMORY = 256 * MIB
"""The smallest `maxMemory`: 160 MiB are for what waits, 40 for one client; refuse at 96, shed at 120, close at 144."""
WITHIN = 1.25


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * 4096


def received_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text(encoding="ascii").split()[1])


async def settled(pid: int, least: int) -> None:
    """Until it has read so many bytes, and then reads no more."""
    await wait_until(lambda: received_bytes(pid) > least, 30, what=f"{least} bytes")
    last = -1

    async def is_still() -> bool:
        nonlocal last
        before, last = last, received_bytes(pid)
        await asyncio.sleep(0.2)
        return last - before < MIB

    await poll_until(is_still, 30, what="a pause")


# -- D14: a client on stdio


@pytest.mark.row("D14")
@needs_proc
async def test_d14_a_client_that_does_not_read_costs_its_share_and_loses_nothing(tmp_path: Path):
    calls = 30
    config = write_config(tmp_path, {"dev": {"a": rogue("bigline"), "b": rogue("bigline")}}, maxMemory=SMALL_MEMORY)
    command = [*programs.PROGRAM, "serve", "--config", str(config)]
    process = await programs.start(command, env=environment(tmp_path / "home"), limit=2 * LARGE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(greeting()).encode() + b"\n")
        await process.stdout.readline()
        process.stdout._transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(calls):
            params = {"name": "use_tool", "arguments": use_params("dev", "ab"[number % 2], "echo", {"bytes": LARGE})}
            process.stdin.write(json.dumps(rpc("tools/call", params, number + 1)).encode() + b"\n")
        await settled(process.pid, 40 * MIB)
        assert peak_memory(process.pid) < 180 * MIB  # the answers are 225
        process.stdout._transport.resume_reading()  # type: ignore[attr-defined]
        sizes = [len(await process.stdout.readline()) for _ in range(calls)]
        assert min(sizes) > LARGE
        assert peak_memory(process.pid) < WITHIN * SMALL_MEMORY
    finally:
        process.kill()
        await process.wait()


@pytest.mark.row("D14", "B9")
@needs_proc
async def test_d14_long_answers_of_our_own_are_not_made_while_the_client_does_not_read(tmp_path: Path):
    calls = 60
    config = write_config(tmp_path, {"dev": {"bad": rogue("costly", "properties", 60)}}, maxMemory=SMALL_MEMORY)
    command = [*programs.PROGRAM, "serve", "--config", str(config)]
    process = await programs.start(command, env=environment(tmp_path / "home"), limit=2 * LARGE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(greeting()).encode() + b"\n")
        await process.stdout.readline()
        process.stdout._transport.pause_reading()  # type: ignore[attr-defined]
        params = {"name": "open_toolbox", "arguments": {"toolbox": "dev", "detail": "full"}}
        for number in range(calls):
            process.stdin.write(json.dumps(rpc("tools/call", params, number + 1)).encode() + b"\n")
        await settled(process.pid, 11 * MIB)
        process.stdout._transport.resume_reading()  # type: ignore[attr-defined]
        sizes = [len(await process.stdout.readline()) for _ in range(calls)]
        assert min(sizes) > 7 * MIB  # 450 MiB in all
        assert peak_memory(process.pid) < WITHIN * SMALL_MEMORY
    finally:
        process.kill()
        await process.wait()


@pytest.mark.row("D14")
async def test_d14_large_requests_beyond_a_clients_share_are_refused_and_reach_no_server(tmp_path: Path):
    log = tmp_path / "log"
    boxes = {"dev": {"never": rogue("never"), "fs": rogue(log=log)}}
    async with serving(write_config(tmp_path, boxes, maxMemory=SMALL_MEMORY)) as wire:
        large = {"name": "use_tool", "arguments": use_params("dev", "never", "hang", {"nonce": "x" * LARGE})}
        under_way = [await wire.begin("tools/call", large) for _ in range(6)]
        refused = await wire.use("dev", "fs", "echo")
        assert "holds too much data for this client" in error_of(refused)
        assert refused["_meta"]["mcp-workbench/error"]["code"] == "overloaded"
        assert not log.exists()
        await wire.notify("notifications/cancelled", {"requestId": under_way[0]})
        await wire.notify("notifications/cancelled", {"requestId": under_way[1]})

        async def is_served() -> bool:
            return text_of(await wire.use("dev", "fs", "nonce", {"nonce": "7"})) == "7"

        await poll_until(is_served, what="an answer, now that less is under way")


# -- E18: clients over HTTP


@contextlib.asynccontextmanager
async def unread(http: httpx2.AsyncClient, server: str = "big") -> AsyncIterator[httpx2.Response]:
    """A new session that asks for a large answer and does not read it."""
    client = await Handshake.begin(http)
    message = rpc("tools/call", use("echo", {"bytes": LARGE}, server=server))
    async with http.stream("POST", "/mcp", json=message, headers=client.headers) as response:
        yield response


@pytest.mark.row("E18")
@needs_proc
async def test_e18_unread_answers_of_many_sessions_stay_within_the_budget_while_others_are_served(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"big": rogue("bigline"), "fs": rogue()}}, maxMemory=SMALL_MEMORY)
    async with program(config) as running, running.client() as http, contextlib.AsyncExitStack() as stack:
        http._transport._pool._max_connections = 100  # type: ignore[attr-defined]
        honest = await Handshake.begin(http)
        for _ in range(24):  # 180 MiB
            await stack.enter_async_context(unread(http))
            answer = await honest.call(use("nonce", {"nonce": "7"}))
            assert text_of(answer) == "7"
        closed = b"connections are closed to free memory"
        await wait_until(lambda: closed in running.stderr, 20, what="the third threshold")
        sizes = {len(text_of(await honest.call(use("echo", {"bytes": LARGE}, server="big")))) for _ in range(2)}
        assert sizes == {LARGE}
        assert running.process is not None
        assert peak_memory(running.process.pid) < WITHIN * SMALL_MEMORY
        levels = [line for line in running.stderr.decode().splitlines() if "memory pressure level" in line]
        assert {line.partition("level=")[2].split()[0] for line in levels} == {"refuse", "shed", "close"}


@pytest.mark.row("E18")
@needs_proc
async def test_e18_with_the_defaults_eight_of_the_largest_answers_wait_until_they_are_read(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"big": rogue("bigline")}})
    async with program(config) as running, running.client() as http:
        http._transport._pool._max_connections = 100  # type: ignore[attr-defined]
        client = await Handshake.begin(http)
        async with contextlib.AsyncExitStack() as stack:
            messages = [rpc("tools/call", use("echo", {"bytes": LARGE}, server="big"), number) for number in range(8)]
            streams = [
                await stack.enter_async_context(http.stream("POST", "/mcp", json=message, headers=client.headers))
                for message in messages
            ]
            for stream in reversed(streams):
                await stream.aread()
                assert len(text_of(answer_in(stream)["result"])) == LARGE
        assert running.process is not None
        assert peak_memory(running.process.pid) < 300 * MIB


@pytest.mark.row("E18", "D4")
async def test_e18_a_signal_while_answers_are_not_read_is_no_error(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"big": rogue("bigline")}})
    async with program(config) as running, running.client() as http, contextlib.AsyncExitStack() as stack:
        assert running.process is not None
        for _ in range(3):
            await stack.enter_async_context(unread(http))
        running.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.process.wait(), 5) == 128 + signal.SIGTERM
        assert b" error " not in running.stderr


@pytest.mark.row("D6")
@needs_proc
async def test_d6_sessions_that_end_leave_none_of_their_large_results(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"big": rogue("bigline")}})
    async with program(config) as running, running.client() as http:
        assert running.process is not None
        pid = running.process.pid
        await large_sessions(http, 7)
        await wait_until(lambda: memory(pid) < 95 * MIB, what="the end of the first sessions")
        first = memory(pid)
        await large_sessions(http, 7)
        await wait_until(lambda: memory(pid) < first + 16 * MIB, what="the end of the other sessions")


async def large_sessions(http: httpx2.AsyncClient, count: int) -> None:
    for _ in range(count):
        client = await Handshake.begin(http)
        await client.call(use("echo", {"bytes": LARGE}, server="big"))
        assert (await http.delete("/mcp", headers=client.headers)).status_code == 200


@pytest.mark.row("E18")
async def test_e18_bodies_that_do_not_end_are_cut_off_before_they_fill_the_memory(tmp_path: Path):
    limits = Limits(memory_bytes=4 * MIB, memory_base_bytes=0)
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}}), limits=limits) as running:
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nAuthorization: Bearer {ALICE}\r\n"
        head += f"Accept: {BOTH}\r\nContent-Type: application/json\r\nContent-Length: {MIB}\r\n\r\n"
        connections = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(8)]
        for _, writer in connections:
            writer.write(head.encode() + b" " * (MIB - 1))
        assert running.workbench is not None
        budget = running.workbench.budget
        first = asyncio.wait(
            [asyncio.ensure_future(reader.read()) for reader, _ in connections], return_when="FIRST_COMPLETED"
        )
        ended, _ = await asyncio.wait_for(first, 10)
        assert all(one.exception() or not one.result() for one in ended)  # closed without a word
        await wait_until(lambda: budget.held < 0.9 * 4 * MIB, what="less to hold")
        async with running.client() as http:
            assert text_of(await (await Handshake.begin(http)).call(use("nonce", {"nonce": "7"}))) == "7"
        for _, writer in connections:
            writer.close()
        await wait_until(lambda: budget.held < MIB // 8, what="little more than nothing to hold")
