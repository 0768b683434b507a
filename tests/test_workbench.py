"""The workbench as a library, with real tiny servers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench import ToolIdentifier, Workbench, load_config, logger
from mcp_workbench.errors import (
    CallFailed,
    ConnectFailed,
    ListTooLarge,
    ServerExited,
    ServerNotFound,
    ServerRefused,
    ShuttingDown,
    SpawnFailed,
    StillStarting,
    ToolboxFailed,
    ToolboxNotFound,
    ToolNotFound,
    WorkbenchError,
)
from mcp_workbench.routing.requests import ToolCall
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.exchange import Exchange
from tests.support.configs import received, rogue, starts, write_config
from tests.support.library import DeafLine, ListeningClient, fault_of, handle_of, text_of, tool, workbench
from tests.support.procs import census, guardian_running, is_alive, needs_proc, new_marker, wait_until
from tests.wire.pair import settle


def names(opened: Any) -> list[tuple[str, str]]:
    return [(entry["source_server"], entry["name"]) for entry in opened.tools]


# -- opening and using


async def test_open_use_and_close_end_to_end(tmp_path: Path):
    log, marker = tmp_path / "log", new_marker()
    async with workbench(tmp_path, {"dev": {"one": rogue(log=log, env=marker), "two": rogue("ok", "z", "a")}}) as bench:
        assert starts(log) == []  # nothing is started by constructing it
        opened = await bench.open("dev")
        assert (opened.toolbox, opened.description, opened.servers_connected) == ("dev", "The toolbox dev", 2)
        assert names(opened) == [("one", "echo"), ("one", "nonce"), ("two", "z"), ("two", "a")]
        identifier = ToolIdentifier.of(opened.tools[1])
        assert text_of(await bench.use(identifier, {"nonce": "7"})) == "7"
        heard = json.loads(text_of(await bench.use(tool("one", "echo"))))
        assert (heard["name"], heard["arguments"]) == ("echo", {})
    assert census(marker) == []


async def test_opening_again_and_a_hundred_opens_at_once_start_each_server_once(tmp_path: Path):
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"one": rogue("slow_start", 0.1, log=log), "two": rogue(log=log)}}) as bench:
        opened = await asyncio.gather(*(bench.open("dev") for _ in range(100)))
        again = await bench.open("dev")
        assert {len(one.entries) for one in (*opened, again)} == {4}
    assert len(starts(log)) == 2
    assert len(received(log, "tools/list")) == 2


async def test_a_tool_can_be_used_without_opening_and_only_its_server_starts(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    async with workbench(tmp_path, {"dev": {"one": rogue(log=one), "two": rogue(log=two)}}) as bench:
        await bench.use(tool("one", "echo"))
    assert len(starts(one)) == 1
    assert starts(two) == []


async def test_the_same_server_name_in_two_toolboxes_is_two_servers(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"fs": rogue()}, "ops": {"fs": rogue()}}) as bench:
        pids = {
            json.loads(text_of(await bench.use(tool("fs", "echo", toolbox=toolbox))))["pid"]
            for toolbox in ("dev", "ops")
        }
        assert len(pids) == 2


async def test_a_result_is_passed_on_as_its_bytes(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"fs": rogue("digits")}}) as bench:
        raw = bytes(await bench.relay(tool("fs", "echo"), Raw(b"{}")))
    assert b'{"n":[1.00,12345678901234567890.10,1e400,-0.0,1E+2,0.1000000000000000055511151231257827]}' in raw


async def test_a_result_with_digits_that_python_cannot_hold_is_no_crash_of_another_kind(tmp_path: Path):
    """`use` promises Python objects or a `WorkbenchError`."""
    async with workbench(tmp_path, {"dev": {"fs": rogue("digits")}}) as bench:
        try:
            result = await bench.use(tool("fs", "echo"))
        except WorkbenchError:
            return
        assert result["structuredContent"]["n"][0] == 1


async def test_what_of_the_callers_meta_travels_reaches_the_server(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"fs": rogue()}}) as bench:
        caller = Caller(version="2025-11-25", modern=False)
        exchange = Exchange(caller, DeafLine(), meta={"trace": Raw(b'{"n":1.00}')})
        heard = json.loads(text_of(json.loads(bytes(await bench.relay(tool("fs", "echo"), Raw(b"{}"), exchange)))))
        token = heard["meta"].pop("progressToken")
        assert isinstance(token, int), "progress keeps a long call alive, also for a client that did not ask for it"
        assert heard["meta"] == {"trace": {"n": 1.0}}


async def test_an_error_result_of_a_server_is_its_answer(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"fs": rogue("is_error")}}) as bench:
        result = await bench.use(tool("fs", "echo"))
        assert result["isError"] is True
        assert result["_meta"] == {"vendor/why": 1}


async def test_a_call_that_fails_gives_its_slot_back(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"bad": rogue("malformed")}}, in_flight=1, queued=0) as bench:
        for _ in range(3):
            assert (await fault_of(bench.use(tool("bad", "float_id")))).code == "protocol_violation"
        assert await bench.use(tool("bad", "echo"))


# -- what does not exist


async def test_nothing_is_started_for_what_does_not_exist(tmp_path: Path):
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"fs": rogue(log=log)}}) as bench:
        with pytest.raises(ToolboxNotFound):
            await bench.open("nothing")
        with pytest.raises(ToolboxNotFound):
            await bench.use(tool("fs", "echo", toolbox="nothing"))
        with pytest.raises(ServerNotFound):
            await bench.use(tool("nothing", "echo"))
        assert starts(log) == []
        with pytest.raises(ToolNotFound) as caught:
            await bench.use(tool("fs", "ehco"))
        assert caught.value.hint == "Did you mean 'echo'? Available tools: 'echo', 'nonce'"
    assert received(log, "tools/call") == []


async def test_a_filtered_tool_is_neither_listed_nor_callable(tmp_path: Path):
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"fs": rogue(log=log, toolFilters=["nonce"])}}) as bench:
        assert names(await bench.open("dev")) == [("fs", "nonce")]
        with pytest.raises(ToolNotFound):
            await bench.use(tool("fs", "echo"))
    assert received(log, "tools/call") == []


async def test_withheld_tools_are_told_and_cannot_be_called(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"fs": rogue("duptools")}}) as bench:
        opened = await bench.open("dev")
        assert names(opened) == [("fs", "first"), ("fs", "last")]
        assert [(server, one.name) for server, one in opened.withheld] == [("fs", "twice")]
        with pytest.raises(ToolNotFound):
            await bench.use(tool("fs", "twice"))


# -- failures


async def test_a_server_that_fails_is_reported_and_the_others_are_served(tmp_path: Path):
    servers = {"bad": rogue("exit_at_start"), "endless": rogue("cursor", "same"), "good": rogue()}
    async with workbench(tmp_path, {"dev": servers}) as bench:
        opened = await bench.open("dev")
        assert opened.servers_connected == 1
        assert {failure.server: type(failure.fault) for failure in opened.failed} == {
            "bad": ServerExited,
            "endless": ListTooLarge,
        }
        assert names(opened) == [("good", "echo"), ("good", "nonce")]
        with pytest.raises(
            ConnectFailed, match="Failed to connect to server 'bad' in toolbox 'dev': it exited with status 3"
        ):
            await bench.use(tool("bad", "echo"))


async def test_if_every_server_fails_the_toolbox_does(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"a": rogue("exit_at_start"), "b": {"command": "/no/such"}}}) as bench:
        with pytest.raises(ToolboxFailed) as caught:
            await bench.open("dev")
        assert [type(failure.fault) for failure in caught.value.failures] == [ServerExited, SpawnFailed]


async def test_an_open_answers_at_its_deadline_and_the_next_one_adds_what_was_still_starting(tmp_path: Path):
    log = tmp_path / "log"
    servers = {"slow": rogue("slow_start", 0.6, log=log), "good": rogue()}
    async with workbench(tmp_path, {"dev": servers}, open_timeout_seconds=0.3) as bench:
        await bench.use(tool("good", "echo"))
        opened = await bench.open("dev")
        assert names(opened) == [("good", "echo"), ("good", "nonce")]
        (failure,) = opened.failed
        assert isinstance(failure.fault, StillStarting)
        assert str(failure.fault) == "still starting"
        await wait_until(lambda: bench.at(LIBRARY).catalog.listing("dev", "slow") is not None)
        assert (await bench.open("dev")).servers_connected == 2
    assert len(starts(log)) == 1


async def test_a_failed_server_is_tried_again_by_the_next_open(tmp_path: Path):
    flag = tmp_path / "healed"
    code = (
        f"import os, sys, runpy; os.path.exists({str(flag)!r}) or sys.exit(1); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    entry = rogue()
    entry["args"] = ["-SEc", code, *entry["args"][1:]]
    async with workbench(tmp_path, {"dev": {"fs": entry}}) as bench:
        with pytest.raises(ToolboxFailed):
            await bench.open("dev")
        flag.touch()
        assert (await bench.open("dev")).servers_connected == 1


async def test_a_server_that_died_is_started_again_by_the_next_use(tmp_path: Path):
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"fs": rogue("crash", log=log)}}) as bench:
        with pytest.raises(CallFailed) as caught:
            await bench.use(tool("fs", "crash"))
        assert isinstance(caught.value.fault, ServerExited)
        assert "failed: it exited with status 3" in str(caught.value)
        await bench.use(tool("fs", "echo"))
    assert len(starts(log)) == 2


async def test_a_known_server_that_can_no_longer_be_started_could_not_be_reached(tmp_path: Path):
    """By the contract: `Failed to connect to server …`, since the call was never made."""
    program = tmp_path / "program"
    entry = rogue(log=tmp_path / "log")
    program.symlink_to(entry["command"])
    entry["command"] = str(program)
    async with workbench(tmp_path, {"dev": {"fs": entry}}) as bench:
        await bench.open("dev")
        program.unlink()
        os.kill(starts(tmp_path / "log")[0], signal.SIGKILL)
        supervisor = handle_of(bench, "dev", "fs").supervisor
        await wait_until(lambda: supervisor.state == "failing")
        with pytest.raises(ConnectFailed, match="Failed to connect to server 'fs' in toolbox 'dev'"):
            await bench.use(tool("fs", "echo"))


REFUSES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize" and WHERE != "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif "id" in message:
        code = -32000 if message["method"] == WHERE else -32601
        text = "bad key 'canary-4711-secret'\\n\\x1b[31m" + "x" * 100_000
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}), flush=True)
"""


@pytest.mark.parametrize("where", ["initialize", "tools/list"])
async def test_what_a_server_says_when_it_refuses_is_redacted_escaped_and_short(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logger.log, "redact", logger.Redactor())
    code = f"WHERE = {where!r}\n{REFUSES}"
    entry = {"command": rogue()["command"], "args": ["-SEc", code], "env": {"KEY": "canary-4711-secret"}}
    async with workbench(tmp_path, {"dev": {"bad": entry, "good": rogue()}}) as bench:
        (failure,) = (await bench.open("dev")).failed
        assert "bad key '***'" in str(failure)
        assert "canary" not in str(failure)
        assert "\x1b" not in str(failure)
        assert len(str(failure)) < 5_000


async def test_what_a_server_says_when_it_refuses_a_call_is_redacted_and_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logger.log, "redact", logger.Redactor())
    async with workbench(tmp_path, {"dev": {"fs": rogue("rpc_error", env={"KEY": "not on a Sunday"})}}) as bench:
        with pytest.raises(CallFailed, match=r"failed: \*\*\* \(code -32050\)$") as caught:
            await bench.use(tool("fs", "echo"))
        assert isinstance(caught.value.fault, ServerRefused)


NAIVE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"error": {"code": -32601, "message": "Method not found"}}
    if "id" not in message:
        answer = {"error": {"code": -32600, "message": "Invalid Request: no id"}}
    elif message["method"] == "initialize":
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {}}}
    elif message["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "t", "inputSchema": {}}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **answer}), flush=True)
"""


async def test_a_naive_server_that_answers_notifications_with_an_error_stays_usable(tmp_path: Path):
    """It complains of `notifications/initialized`, to which there is no answer; no request of ours is lost by that."""
    entry = {"command": rogue()["command"], "args": ["-SEc", NAIVE]}
    async with workbench(tmp_path, {"dev": {"naive": entry, "good": rogue()}}) as bench:
        assert (await bench.open("dev")).failed == ()


# -- changes


async def test_a_changed_list_is_read_again_and_told(tmp_path: Path):
    client = ListeningClient()
    async with workbench(tmp_path, {"dev": {"fs": rogue("list_changed")}}, relist_interval_seconds=0.05) as bench:
        await bench.open("dev")
        bench.join(LIBRARY.audience, client)
        await bench.use(tool("fs", "grow"))
        await wait_until(lambda: client.changes == [("dev", "tools")])
        assert names(await bench.open("dev")) == [("fs", "echo"), ("fs", "grow"), ("fs", "grown_2")]
        bench.join(LIBRARY.audience, ListeningClient())  # another one listens from now on
        await bench.use(tool("fs", "grow"))
        await wait_until(lambda: len(list(bench.at(LIBRARY).catalog.known())) == 4)
        assert client.changes == [("dev", "tools")]


async def test_a_change_is_told_to_the_client_whose_connection_it_came_on_and_to_no_other(tmp_path: Path):
    boxes = {"dev": {"fs": rogue("list_changed")}}
    async with workbench(tmp_path, boxes, relist_interval_seconds=0.05) as bench:
        clients = {audience: ListeningClient() for audience in ("one", "two")}
        routers = {}
        for audience, client in clients.items():
            caller = Caller(version="2025-11-25", modern=False, audience=audience, key=(audience, False, b"{}"))
            bench.join(audience, client)
            routers[audience] = bench.at(caller)
            await routers[audience].open("dev")
            client.changes.clear()
        await routers["one"].calls.call(ToolCall(tool("fs", "grow"), Raw(b"{}")))
        await wait_until(lambda: clients["one"].changes == [("dev", "tools")])
        assert clients["two"].changes == []
        assert [len(list(routers[audience].catalog.known())) for audience in clients] == [3, 2]
        await bench.leave("one")
        assert bench.routers("one") == []
        assert await routers["two"].calls.call(ToolCall(tool("fs", "echo"), Raw(b"{}")))


async def test_a_storm_of_changes_leads_to_few_new_listings(tmp_path: Path):
    log = tmp_path / "log"
    async with workbench(
        tmp_path, {"dev": {"fs": rogue("list_changed", log=log)}}, relist_interval_seconds=0.2
    ) as bench:
        await bench.open("dev")
        await asyncio.gather(*(bench.use(tool("fs", "grow")) for _ in range(100)))
        await wait_until(lambda: len(list(bench.at(LIBRARY).catalog.known())) == 102)
        assert len(received(log, "tools/list")) <= 8


async def test_an_unchanged_list_is_not_told(tmp_path: Path):
    log = tmp_path / "log"
    client = ListeningClient()
    async with workbench(tmp_path, {"dev": {"fs": rogue("ok", log=log)}}, relist_interval_seconds=0.01) as bench:
        await bench.open("dev")
        bench.join(LIBRARY.audience, client)
        handle_of(bench, "dev", "fs").lists.tools.invalidate()
        await wait_until(lambda: len(received(log, "tools/list")) == 2)
        await bench.use(tool("fs", "echo"))
        assert client.changes == []


# -- closing


async def test_nothing_starts_after_close_and_closing_twice_is_harmless(tmp_path: Path):
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"fs": rogue(log=log)}}) as bench:
        await asyncio.gather(bench.close(), bench.close())
        with pytest.raises(ShuttingDown):
            await bench.open("dev")
        with pytest.raises(ShuttingDown):
            await bench.use(tool("fs", "echo"))
    assert starts(log) == []


@needs_proc
async def test_whoever_closes_second_waits_for_the_same_end(tmp_path: Path):
    marker = new_marker()
    async with workbench(tmp_path, {"dev": {"fs": rogue("ignore_eof", env=marker)}}, stdin_eof_seconds=0.3) as bench:
        await bench.open("dev")
        guardian = await guardian_running()
        first = asyncio.ensure_future(bench.close())
        await settle()
        await bench.close()
        assert census(marker) == []
        assert not is_alive(guardian)
        await asyncio.wait_for(first, 1)


@needs_proc
async def test_a_cancelled_close_goes_on_to_its_end(tmp_path: Path):
    marker = new_marker()
    async with workbench(tmp_path, {"dev": {"fs": rogue("ignore_eof", env=marker)}}, stdin_eof_seconds=0.3) as bench:
        await bench.open("dev")
        guardian = await guardian_running()
        closing = asyncio.ensure_future(bench.close())
        await settle()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert closing.cancelled()
        assert len(census(marker)) == 1
        await wait_until(lambda: census(marker) == [], what="the end of the server")
        await wait_until(lambda: not is_alive(guardian), what="the end of the guardian")


@needs_proc
@pytest.mark.parametrize("what", ["open", "use"])
async def test_whoever_waits_for_a_start_is_told_that_the_workbench_closes(what: str, tmp_path: Path):
    """Not a `CancelledError`: nobody cancelled the caller."""
    marker = new_marker()
    async with workbench(tmp_path, {"dev": {"fs": rogue("hang_init", env=marker)}}, stdin_eof_seconds=0.3) as bench:
        waiting = asyncio.ensure_future(bench.open("dev") if what == "open" else bench.use(tool("fs", "echo")))
        await wait_until(lambda: census(marker))
        await bench.close()
        (outcome,) = await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), 5)
        assert isinstance(outcome, WorkbenchError)
        assert census(marker) == []


@pytest.mark.parametrize("what", ["open", "use"])
async def test_a_cancelled_caller_does_not_stop_the_start_that_others_wait_for(what: str, tmp_path: Path):
    log = tmp_path / "log"
    async with workbench(tmp_path, {"dev": {"fs": rogue("slow_start", 0.2, log=log)}}) as bench:
        first = asyncio.ensure_future(bench.open("dev") if what == "open" else bench.use(tool("fs", "echo")))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(bench.open("dev"))
        third = asyncio.ensure_future(bench.use(tool("fs", "echo")))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).servers_connected == 1
        await third
    assert len(starts(log)) == 1


async def test_the_deadline_of_the_file_is_the_deadline_of_an_open(tmp_path: Path):
    config = load_config(write_config(tmp_path, {"dev": {"fs": rogue()}}, openTimeout=7))
    assert Workbench(config).limits.open_timeout_seconds == 7


def test_the_secrets_of_very_many_servers_cost_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logger.log, "redact", logger.Redactor())
    env = {f"server{number}": {f"KEY{key}": f"{number:016}-{key:016}+/" for key in range(10)} for number in range(1000)}
    servers = {name: {"command": "true", "env": variables} for name, variables in env.items()}
    config = load_config(write_config(tmp_path, {"dev": servers}))
    since = time.process_time()
    Workbench(config)
    assert time.process_time() - since < 2
    assert logger.redacted(f"a {env['server999']['KEY9']} b") == "a *** b"
