"""Rows D1, D2, D7, D8 and D9 of the faults: what a client can do to the workbench, its servers and other clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.limits import DEFAULTS
from mcp_workbench.surfaces.server_info import EVERYTHING
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.library import workbench
from tests.support.near import near
from tests.support.procs import census, needs_proc, new_marker, wait_until
from tests.support.wire import Era, Json, Wire, error_of, heard, result_of, serving, text_of, use_params

MIB = 1024 * 1024
ERAS: list[Era] = ["handshake", "modern"]
HANG: Json = {"name": "use_tool", "arguments": use_params("dev", "fs", "hang")}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


def about(result: Json) -> Json:
    """The code of an error result, and what else programs are told."""
    error_of(result)
    return result["_meta"]["mcp-workbench/error"]


# -- D1: the client gives up


@pytest.mark.row("D1")
@pytest.mark.parametrize("era", ERAS)
async def test_d1_a_cancelled_call_is_cancelled_at_its_server_within_a_second_and_not_answered(
    tmp_path: Path, log: Path, era: Era
):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}}), era=era) as wire:
        number = await wire.begin("tools/call", HANG)
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        await wire.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
        await wait_until(lambda: received(log, "notifications/cancelled"), 1, what="the cancellation")
        [call] = received(log, "tools/call")
        assert [heard["params"]["requestId"] for heard in received(log, "notifications/cancelled")] == [call["id"]]
        # The server answers the call that was given up, just before the next one.
        assert heard(await wire.use("dev", "fs", "echo", {"n": 1}))["arguments"] == {"n": 1}
        assert all(message.get("id") != number for message in wire.order)


@pytest.mark.row("D1")
async def test_d1_cancelled_calls_free_their_slots_and_those_that_waited_for_one_never_leave(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})) as wire:
        await wire.open("dev")
        for round_ in (1, 2):
            numbers = [await wire.begin("tools/call", HANG) for _ in range(DEFAULTS.in_flight + 8)]
            in_all = round_ * DEFAULTS.in_flight
            await wait_until(lambda most=in_all: len(received(log, "tools/call")) >= most, what="a full server")
            for number in reversed(numbers):  # those that wait first
                await wire.notify("notifications/cancelled", {"requestId": number})
            await wait_until(
                lambda most=in_all: len(received(log, "notifications/cancelled")) == most, 1, what="the cancellations"
            )
            assert len(received(log, "tools/call")) == in_all
        assert heard(await wire.use("dev", "fs", "echo"))


@pytest.mark.row("D1")
@needs_proc
@pytest.mark.parametrize("era", ERAS)
async def test_d1_a_client_that_hangs_up_during_a_call_cancels_it_and_ends_everything(
    tmp_path: Path, log: Path, era: Era
):
    marker = new_marker()
    boxes = {"dev": {"fs": rogue("never", log=log, env=marker)}}
    async with serving(write_config(tmp_path, boxes), era=era) as wire:
        await wire.begin("tools/call", HANG)
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        lines = len(wire.lines)
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        await wait_until(lambda: received(log, "notifications/cancelled"), 1, what="the cancellation")
        assert await wire.ended() == 0
        assert census(marker) == []
        assert len(wire.lines) == lines


@pytest.mark.row("D1")
async def test_d1_a_client_that_hangs_up_costs_another_client_of_the_workbench_nothing(tmp_path: Path, log: Path):
    boxes = {"dev": {"fs": rogue("never", log=log)}}
    async with workbench(tmp_path, boxes) as wb, near(wb, EVERYTHING, "handshake", {}) as stays:
        pid = heard(await stays.use("dev", "fs", "echo"))["pid"]
        async with near(wb, EVERYTHING, "handshake", {}) as leaves:
            await leaves.begin("tools/call", HANG)
            await wait_until(lambda: received(log, "tools/call")[1:], what="the call")
        await wait_until(lambda: received(log, "notifications/cancelled"), 1, what="the cancellation")
        assert heard(await stays.use("dev", "fs", "echo"))["pid"] == pid


# -- D2: many at once


@pytest.mark.row("D2")
async def test_d2_a_hundred_opens_at_once_start_each_server_once(tmp_path: Path, log: Path):
    box = {name: rogue("slow_start", 0.3, log=log) for name in ("a", "b", "c")}
    async with serving(write_config(tmp_path, {"dev": box})) as wire:
        answers = await asyncio.gather(*(wire.open("dev", seconds=15) for _ in range(100)))
        assert answers[0]["servers_connected"] == 3
        assert all(answer == answers[0] for answer in answers)
        assert len(starts(log)) == 3


@pytest.mark.row("D2")
async def test_d2_a_hundred_opens_of_a_broken_toolbox_get_the_same_error(tmp_path: Path, log: Path):
    """It is started twice, once without the probe: the first word that it heard may have been one that it hates."""
    async with workbench(tmp_path, {"dev": {"dead": rogue("exit_at_start", log=log)}}) as wb:
        outcomes = await asyncio.gather(*(wb.open("dev") for _ in range(100)), return_exceptions=True)
        assert {getattr(outcome, "code", "") for outcome in outcomes} == {"toolbox_failed"}
        assert len({str(outcome) for outcome in outcomes}) == 1
        assert len(starts(log)) == 2


@pytest.mark.row("D2")
async def test_d2_cancelling_the_first_opener_does_not_cancel_the_others(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"slow": rogue("slow_start", 0.7, log=log)}})) as wire:
        params = {"name": "open_toolbox", "arguments": {"toolbox": "dev"}}
        first = await wire.begin("tools/call", params)
        others = [await wire.begin("tools/call", params) for _ in range(99)]
        await wait_until(lambda: starts(log), what="the start")
        await wire.notify("notifications/cancelled", {"requestId": first})
        texts = {text_of(result_of((await wire.finish(number))[0])) for number in others}
        assert [json.loads(text)["servers_connected"] for text in texts] == [1]
        assert len(starts(log)) == 1
        assert all(message.get("id") != first for message in wire.order)


# -- D7: a flood

CALLS = 10_000


def flood(first: int) -> bytes:
    """Calls under the ids from `first` on, in one piece."""
    call = json.dumps({"name": "use_tool", "arguments": use_params("dev", "fs", "echo")})
    lines = (f'{{"jsonrpc":"2.0","id":{first + n},"method":"tools/call","params":{call}}}\n' for n in range(CALLS))
    return "".join(lines).encode()


def check_outcomes(wire: Wire, first: int) -> None:
    """Each call has one outcome; the server never had more than it may; the rest was told when to come again."""
    answers = [message for message in wire.order if "method" not in message and message.get("id", 0) >= first]
    assert sorted(message["id"] for message in answers) == list(range(first, first + CALLS))
    results = [result_of(message) for message in answers]
    served = [int(text_of(result)) for result in results if not result.get("isError")]
    refused = [about(result) for result in results if result.get("isError")]
    assert DEFAULTS.in_flight / 2 < max(served) <= DEFAULTS.in_flight
    assert len(served) >= DEFAULTS.in_flight + DEFAULTS.queued
    assert {error["code"] for error in refused} == {"overloaded"}
    assert all(error["retry_after"] > 0 for error in refused)


def peak_memory(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


@pytest.mark.row("D7")
@needs_proc
async def test_d7_a_flood_of_calls_is_queued_and_refused_in_bounded_memory(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("crowd")}})) as wire:
        await wire.use("dev", "fs", "echo")
        before = peak_memory(wire.process.pid)
        await wire.raw(flood(1000))
        await wire.wait_for(lambda: len(wire.order) >= CALLS + 2, "every outcome", seconds=30)
        check_outcomes(wire, 1000)
        assert peak_memory(wire.process.pid) - before < 32 * MIB
        assert not (await wire.use("dev", "fs", "echo")).get("isError")


@pytest.mark.row("D7")
async def test_d7_another_client_is_served_during_a_flood(tmp_path: Path):
    """Its waits are measured in what this process, with the workbench and both clients, computes meanwhile."""
    async with (
        workbench(tmp_path, {"dev": {"fs": rogue("crowd")}}) as wb,
        near(wb, EVERYTHING, "handshake", {}) as rude,
        near(wb, EVERYTHING, "handshake", {}) as polite,
    ):
        await rude.use("dev", "fs", "echo")
        await polite.use("dev", "fs", "echo")
        already = len(rude.order)
        writing = asyncio.create_task(rude.raw(flood(1000)))
        waits: list[float] = []
        while len(rude.order) < already + CALLS:
            since = time.process_time()
            assert int(text_of(await polite.use("dev", "fs", "echo"))) == 1
            waits.append(time.process_time() - since)
        await writing
        check_outcomes(rude, 1000)
        assert sorted(waits)[len(waits) // 2] < 0.1
        assert max(waits) < 0.5


# -- D8: nonsense

NONSENSE: dict[str, bytes] = {
    "garbage": b"hello\xff\xfe there\n",
    "empty lines": b"\n\n  \n",
    "deep": b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "deep arguments": b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"use_tool","arguments":'
    b'{"tool":{"toolbox":"dev","server":"fs","tool":"echo"},"arguments":'
    + b'{"a":' * 100_000
    + b"0"
    + b"}" * 100_000
    + b"}}}\n",
    "truncated": b'{"jsonrpc":"2.0","id":8,"method":"tools/ca\n',
    "batch": b'[{"jsonrpc":"2.0","id":9,"method":"nothing"}]\n',
    "batch of a call": b'[{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"use_tool","arguments":'
    b'{"tool":{"toolbox":"dev","server":"fs","tool":"echo"}}}}]\n',
    "empty batch": b"[]\n",
    "unknown method": b'{"jsonrpc":"2.0","id":10,"method":"no/such/method"}\n',
    "null id": b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"use_tool","arguments":'
    b'{"tool":{"toolbox":"dev","server":"fs","tool":"echo"}}}}\n',
    "float id": b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}\n',
    "wrong version": b'{"jsonrpc":"1.0","id":11,"method":"tools/list"}\n',
    "params are text": b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":"x"}\n',
    "params are missing": b'{"jsonrpc":"2.0","id":13,"method":"tools/call"}\n',
    "name is a number": b'{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"name":5}}\n',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":15,"result":{}}\n',
    "a cancellation of nothing": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}\n',
    "an unknown notification": b'{"jsonrpc":"2.0","method":"notifications/none"}\n',
    "scalar": b"5\n",
}
UNANSWERED = {"empty lines", "an answer to nothing", "a cancellation of nothing", "an unknown notification"}
"""By the protocol. What follows them is answered, and so they have been read."""


@pytest.mark.row("D8")
@pytest.mark.parametrize("era", ERAS)
async def test_d8_nonsense_reaches_no_server_and_the_next_good_call_reaches_it_once(
    tmp_path: Path, log: Path, era: Era
):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}}), era=era) as wire:
        for line in NONSENSE.values():  # the server has not been started, and stays so
            await wire.raw(line)
        answered = len(NONSENSE) - len(UNANSWERED)
        await wire.wait_for(lambda: len(wire.order) >= answered, "the errors")
        await wire.list_tools()
        assert read_log(log) == []
        for calls, (kind, line) in enumerate(NONSENSE.items(), 1):
            before = len(wire.order)
            await wire.raw(line)
            if kind not in UNANSWERED:
                await wire.wait_for(lambda before=before: len(wire.order) > before, f"an error after {kind}")
                assert "error" in wire.order[-1], kind
            assert heard(await wire.use("dev", "fs", "echo", {"kind": kind}))["arguments"] == {"kind": kind}
            assert len(received(log, "tools/call")) == calls, kind
        assert len(starts(log)) == 1
        assert wire.process.returncode is None


@pytest.mark.row("D8")
async def test_d8_a_huge_line_is_answered_with_an_error_and_ends_the_session_alone(tmp_path: Path, log: Path):
    """What follows the part that was read can't be told from a message, so nothing more is read."""
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})
    async with serving(config) as wire:
        call = json.dumps({"name": "use_tool", "arguments": use_params("dev", "fs", "echo", {"x": "y" * 20 * MIB})})
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await wire.raw(f'{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{call}}}\n'.encode())
        assert await wire.ended() == 0
        assert "error" in wire.order[-1]
        assert "Traceback" not in wire.stderr
        assert read_log(log) == []
    async with serving(config) as wire:
        assert heard(await wire.use("dev", "fs", "echo"))
        assert len(received(log, "tools/call")) == 1


@pytest.mark.row("D8")
async def test_d8_a_huge_line_of_one_client_costs_another_one_nothing(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"fs": rogue()}}) as wb, near(wb, EVERYTHING, "handshake", {}) as polite:
        pid = heard(await polite.use("dev", "fs", "echo"))["pid"]
        async with near(wb, EVERYTHING, "handshake", {}) as rude:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await rude.raw(b"x" * 20 * MIB)
            assert await rude.process.wait() == 0
            assert heard(await polite.use("dev", "fs", "echo"))["pid"] == pid
        assert heard(await polite.use("dev", "fs", "echo"))["pid"] == pid


@pytest.mark.row("D8")
async def test_d8_a_call_before_the_handshake_is_refused(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}}), greet=False) as wire:
        answer = await wire.request("tools/call", {"name": "use_tool", "arguments": use_params("dev", "fs", "echo")})
        assert "error" in answer
        assert read_log(log) == []
        await wire.handshake()
        assert heard(await wire.use("dev", "fs", "echo"))
        assert len(received(log, "tools/call")) == 1


# -- D9: wrong arguments

GOOD = {"toolbox": "dev", "server": "fs", "tool": "echo"}
IDENTIFIER, PARAMETERS = "invalid_tool_identifier", "invalid_parameters"
WRONG: list[tuple[str, Any, str, str]] = [
    ("use_tool", {}, IDENTIFIER, ""),
    ("use_tool", {"tool": None}, IDENTIFIER, ""),
    ("use_tool", {"tool": 5}, IDENTIFIER, ""),
    ("use_tool", {"tool": ["dev", "fs", "echo"]}, IDENTIFIER, ""),
    ("use_tool", {"tool": "dev__fs__echo"}, IDENTIFIER, ""),
    ("use_tool", {"tool_name": "echo"}, IDENTIFIER, ""),
    ("use_tool", {"tool": {}}, IDENTIFIER, "toolbox"),
    ("use_tool", {"tool": GOOD | {"server": ""}}, IDENTIFIER, "server"),
    ("use_tool", {"tool": GOOD | {"tool": 5}}, IDENTIFIER, "tool"),
    ("use_tool", {"tool": GOOD | {"toolbox": ["dev"]}}, IDENTIFIER, "toolbox"),
    ("use_tool", {"tool": GOOD | {"extra": 1}}, PARAMETERS, "'extra'"),
    ("use_tool", {"tool": GOOD, "argument": {}}, PARAMETERS, "Did you mean 'arguments'?"),
    ("use_tool", {"tool": GOOD, "arguments": []}, PARAMETERS, ""),
    ("use_tool", {"tool": GOOD, "arguments": "text"}, PARAMETERS, ""),
    ("use_tool", {"tool": GOOD, "arguments": 5}, PARAMETERS, ""),
    ("use_tool", {"tool": GOOD | {"toolbox": "dve"}}, "toolbox_not_found", "Did you mean 'dev'?"),
    ("use_tool", {"tool": GOOD | {"toolbox": "nowhere"}}, "toolbox_not_found", "dev"),
    ("use_tool", {"tool": GOOD | {"server": "sf"}}, "server_not_found", "'fs'"),
    ("use_tool", {"tool": GOOD | {"server": "nobody-knows"}}, "server_not_found", "fs"),
    ("open_toolbox", {}, PARAMETERS, "dev"),
    ("open_toolbox", {"toolbox": 5}, PARAMETERS, ""),
    ("open_toolbox", {"toolbox": ""}, PARAMETERS, ""),
    ("open_toolbox", {"toolbox": {"toolbox": "dev"}}, PARAMETERS, ""),
    ("open_toolbox", {"toolbox": "dev", "extra": 1}, PARAMETERS, "'extra'"),
    ("open_toolbox", {"toolbox_name": "dev"}, PARAMETERS, "'toolbox'"),
    ("open_toolbox", {"toolbox": "dve"}, "toolbox_not_found", "Did you mean 'dev'?"),
    ("open_toolbox", [], PARAMETERS, ""),
    ("open_toolbox", "dev", PARAMETERS, ""),
    ("read_file", {}, "unknown_tool_name", "use_tool"),
]


@pytest.mark.row("D9")
async def test_d9_wrong_arguments_are_told_with_what_helps_and_contact_no_server(tmp_path: Path, log: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as wire:
        for name, arguments, code, helps in WRONG:
            result = await wire.call(name, arguments)
            assert about(result)["code"] == code, (name, arguments, text_of(result))
            assert helps in text_of(result), (name, arguments, text_of(result))
            assert "Traceback" not in text_of(result)
        assert read_log(log) == []
        assert heard(await wire.use("dev", "fs", "echo"))
        assert len(received(log, "tools/call")) == 1
        assert len(starts(log)) == 1


@pytest.mark.row("D9")
async def test_d9_what_exists_is_listed_by_twenty_names_at_most_and_an_unknown_tool_is_never_called(
    tmp_path: Path, log: Path
):
    """Whether a tool exists only its server can tell, so that one is asked for its list."""
    tools = [f"tool-{number:02}" for number in range(30)]
    servers = {f"server-{number:02}": rogue("ok", *tools, log=log) for number in range(30)}
    boxes = {f"box-{number:02}": servers if number == 0 else {"x": rogue()} for number in range(30)}
    async with serving(write_config(tmp_path, boxes)) as wire:
        for missing in (("zzzzzzzz", "x", "x"), ("box-00", "zzzzzzzz", "x")):
            text = error_of(await wire.use(*missing))
            assert len(set(re.findall(r"(?:box|server)-\d\d", text)) - {missing[0]}) == 20, text
            assert read_log(log) == []
        text = error_of(await wire.use("box-00", "server-00", "zzzzzzzz"))
        assert len(set(re.findall(r"tool-\d\d", text))) == 20, text
        result = await wire.use("box-00", "server-00", "tool-7")
        assert about(result)["code"] == "tool_not_found"
        assert "Did you mean 'tool-" in text_of(result)
        assert len(starts(log)) == 1
        assert received(log, "tools/call") == []
