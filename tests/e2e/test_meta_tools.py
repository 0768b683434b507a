"""The two meta-tools as a client sees them: constant, lazy, and faithful to what servers send."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.config.environment import is_default
from tests.peers.rogue_stdio import DIGITS, RICH_RESULT
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.procs import poll_until, wait_until
from tests.support.wire import Era, Wire, error_of, heard, lasting, result_of, serving, text_of, use_params

ERAS: list[Era] = ["handshake", "modern"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


@pytest.fixture
def config(tmp_path: Path, log: Path) -> Path:
    dev = {"fs": rogue("ok", "read", "write", log=log), "memory": rogue("ok", "store", log=log)}
    return write_config(tmp_path, {"dev": dev, "prod": {"fs": rogue("ok", "read", log=log)}})


@pytest.fixture(scope="module")
def calls_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls") / "rogue.log"


@pytest.fixture(scope="module")
def wires(
    shared_loop: asyncio.Runner, calls_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Era, Wire]]:
    """A client of each era, for tests that only call; a server for each thing that servers do."""
    servers = {mode: rogue(mode) for mode in ("unknown_fields", "modern", "digits", "is_error", "rpc_error")}
    servers |= {"fs": rogue(log=calls_log), "progress": rogue("progress", 20), "asks_sampling": rogue("asks_sampling")}
    boxes = {"dev": servers, "prod": {"fs": rogue()}}
    started = [serving(write_config(tmp_path_factory.mktemp(era), boxes), era=era) for era in ERAS]
    with lasting(shared_loop, started[0]) as old, lasting(shared_loop, started[1]) as new:
        yield {"handshake": old, "modern": new}


@pytest.fixture
def wire(wires: dict[Era, Wire]) -> Wire:
    """A client of the handshake era, for tests that only call."""
    return wires["handshake"]


async def tools_bytes(wire: Wire) -> bytes:
    """The `tools` array of a list, as the bytes that were sent."""
    _, line = await wire.finish(await wire.begin("tools/list"))
    match = re.search(rb'"tools":\[.*\](?=[,}])', line)
    assert match, line
    tools = match[0].removeprefix(b'"tools":')
    _, end = json.JSONDecoder().raw_decode(tools.decode())
    return tools.decode()[:end].encode()


async def test_the_list_is_the_two_meta_tools_in_the_same_bytes_always(config: Path):
    seen: list[bytes] = []
    for era in [*ERAS, *ERAS]:
        async with serving(config, era=era) as wire:
            seen.append(await tools_bytes(wire))
            await wire.open("dev")
            seen.append(await tools_bytes(wire))
    assert len(set(seen)) == 1
    assert [tool["name"] for tool in json.loads(seen[0])] == ["open_toolbox", "use_tool"]


async def test_open_toolbox_lists_the_configured_names_and_is_read_only(wire: Wire):
    tool = (await wire.list_tools())[0]
    assert tool["annotations"]["readOnlyHint"] is True
    assert tool["inputSchema"]["required"] == ["toolbox"]
    assert set(tool["inputSchema"]["properties"]["toolbox"]["enum"]) - {"*"} == {"dev", "prod"}
    assert all(word in tool["description"] for word in ("dev", "prod", "The toolbox dev", "The toolbox prod"))


@pytest.mark.parametrize("era", ERAS)
async def test_instructions_name_every_toolbox_with_its_servers_and_description(wires: dict[Era, Wire], era: Era):
    wire = wires[era]
    hello = result_of(await wire.request("server/discover")) if era == "modern" else wire.hello
    assert re.search(r"dev\b.*8.*The toolbox dev", hello["instructions"])
    assert re.search(r"prod\b.*1.*The toolbox prod", hello["instructions"])


async def test_without_toolboxes_the_instructions_name_the_file_to_edit(tmp_path: Path):
    config = write_config(tmp_path, {})
    async with serving(config) as wire:
        assert str(config) in wire.hello["instructions"]


async def test_nothing_is_started_before_it_is_needed(config: Path, log: Path):
    async with serving(config) as wire:
        await wire.list_tools()
        assert starts(log) == []
        await wire.open("prod")
        assert len(starts(log)) == 1


async def test_opening_again_starts_nothing_and_gives_the_same_answer(config: Path, log: Path):
    async with serving(config) as wire:
        first = await wire.open("dev")
        assert await wire.open("dev") == first
        assert len(starts(log)) == 2


async def test_a_server_that_is_still_starting_is_said_and_added_by_the_next_open(tmp_path: Path):
    boxes = {"dev": {"slow": rogue("slow_start", 2), "ok": rogue()}}
    async with serving(write_config(tmp_path, boxes, openTimeout=0.7)) as wire:
        answer = await wire.open("dev")
        assert [(failed["server"], failed["error"]) for failed in answer["servers_failed"]] == [
            ("slow", "still starting")
        ]
        assert answer["servers_connected"] == 1
        echo = heard(await wire.use("dev", "slow", "echo"))
        assert echo["argv"][0] == "slow_start"
        assert (await wire.open("dev"))["servers_connected"] == 2


async def test_every_toolbox_has_its_own_connection_to_a_server_of_the_same_name(wire: Wire):
    assert heard(await wire.use("dev", "fs", "echo"))["pid"] != heard(await wire.use("prod", "fs", "echo"))["pid"]


# -- results as the server gave them


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_comes_back_field_by_field_with_result_type_for_modern_clients_only(
    wires: dict[Era, Wire], era: Era
):
    result = await wires[era].use("dev", "unknown_fields", "rich")
    assert result == RICH_RESULT | ({"resultType": "complete"} if era == "modern" else {})


async def test_the_result_type_of_a_modern_server_is_removed_for_a_handshake_client(wire: Wire):
    assert set(await wire.use("dev", "modern", "echo")) == {"content"}


@pytest.mark.parametrize("era", ERAS)
async def test_the_digits_of_numbers_survive(wires: dict[Era, Wire], era: Era):
    call = {"name": "use_tool", "arguments": use_params("dev", "digits", "echo")}
    _, line = await wires[era].finish(await wires[era].begin("tools/call", call))
    assert DIGITS.encode() in line


async def test_the_digits_of_arguments_survive(wire: Wire, calls_log: Path):
    before = len(received(calls_log, "tools/call"))
    call = json.dumps({"name": "use_tool", "arguments": use_params("dev", "fs", "echo", "DIGITS")})
    line = f'{{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{call}}}\n'
    await wire.raw(line.replace('"DIGITS"', DIGITS).encode())
    await wait_until(lambda: len(received(calls_log, "tools/call")) > before, what="the call")
    assert DIGITS in read_log(calls_log)[-1]["line"]


async def test_an_error_of_the_tool_itself_is_its_answer(wire: Wire):
    assert await wire.use("dev", "is_error", "echo") == {
        "content": [{"type": "text", "text": "the tool itself failed"}],
        "isError": True,
        "_meta": {"vendor/why": 1},
    }


async def test_a_json_rpc_error_of_the_server_is_a_failed_call_with_its_message(wire: Wire):
    result = await wire.use("dev", "rpc_error", "echo")
    text = error_of(result)
    assert text.startswith("Tool 'echo' in server 'rpc_error' (toolbox 'dev') failed: ")
    assert "not on a Sunday" in text
    assert result["_meta"]["mcp-workbench/error"]["code"] == "server_refused"


@pytest.mark.parametrize("era", ERAS)
async def test_the_callers_meta_travels_but_for_the_token_and_the_envelope(wires: dict[Era, Wire], era: Era):
    sent: dict[str, Any] = {"vendor/trace": {"a": [1]}, "traceparent": "00-1", "progressToken": "mine"}
    meta = heard(await wires[era].use("dev", "fs", "echo", {}, _meta=sent))["meta"]
    assert meta.pop("progressToken") not in (None, "mine")
    assert meta == {"vendor/trace": {"a": [1]}, "traceparent": "00-1"}


@pytest.mark.parametrize("era", ERAS)
async def test_progress_arrives_in_order_before_the_answer_under_the_callers_token(wires: dict[Era, Wire], era: Era):
    wire, called = wires[era], use_params("dev", "progress", "echo")
    before = len(wire.order)
    number = await wire.begin(
        "tools/call", {"name": "use_tool", "arguments": called, "_meta": {"progressToken": "t-1"}}
    )
    await wire.finish(number)
    steps = [m["params"] for m in wire.order[before:] if m.get("method") == "notifications/progress"]
    assert [(step["progressToken"], step["progress"], step["message"]) for step in steps] == [
        ("t-1", step, f"step {step}") for step in range(1, 21)
    ]
    assert wire.order[-1].get("id") == number


# -- the eras of servers


EXITS = {("handshake", "modern_exits"), ("modern", "exits_on_probe")}
"""Where a server exits on the greeting of its client's era, and is started once more."""


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("mode", ["modern", "modern_exits", "modern_silent", "exits_on_probe", "silent_probe"])
async def test_a_server_of_any_era_is_reached_and_needs_no_probe_after_that(
    tmp_path: Path, log: Path, mode: str, era: Era
):
    config = write_config(tmp_path, {"dev": {"fs": rogue(mode, log=log)}})
    async with serving(config, era=era) as wire:
        assert json.loads(text_of(await wire.use("dev", "fs", "echo", {"x": 1})))["arguments"] == {"x": 1}
        assert len(starts(log)) == (2 if (era, mode) in EXITS else 1)
    before = len(received(log, "initialize")), len(received(log, "server/discover"))
    async with serving(config, era=era) as wire:
        await wire.use("dev", "fs", "echo")
    after = len(received(log, "initialize")), len(received(log, "server/discover"))
    is_modern = mode.startswith("modern")
    assert (after[0] - before[0], after[1] - before[1]) == ((0, 1) if is_modern else (1, 0))


@pytest.mark.parametrize("mode", ["list_changed", "modern"])
async def test_a_tool_that_a_server_adds_later_is_listed_and_callable(tmp_path: Path, mode: str):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue(mode)}})) as wire:
        before = [tool["name"] for tool in (await wire.open("dev"))["tools"]]
        await wire.use("dev", "fs", "grow")

        async def grown() -> bool:
            return [tool["name"] for tool in (await wire.open("dev"))["tools"]] == [*before, "grown_2"]

        await poll_until(grown, what="the new tool")
        assert not (await wire.use("dev", "fs", "grown_2")).get("isError")


async def test_a_question_of_a_server_is_declined_when_the_client_cannot_be_asked(wire: Wire):
    answer = json.loads(text_of(await wire.use("dev", "asks_sampling", "echo")))
    assert answer["error"]["code"] == -32601
    assert wire.asked == []


async def test_a_server_gets_its_own_environment_and_nothing_of_ours(tmp_path: Path):
    boxes = {"dev": {"a": rogue("dump_env", env={"CANARY_A": "1"}), "b": rogue("dump_env", env={"CANARY_B": "1"})}}
    async with serving(write_config(tmp_path, boxes), env={"AWS_SECRET_ACCESS_KEY": "canary"}) as wire:
        seen = json.loads(text_of(await wire.use("dev", "a", "echo")))
        extra = {name for name in seen if name not in ("CANARY_A", "LC_CTYPE", "PWD") and not is_default(name)}
        extra -= {"MCP_WORKBENCH_RUN"}
        assert extra == set()
        assert "CANARY_B" not in seen


async def test_a_filtered_tool_is_neither_listed_nor_callable(tmp_path: Path, log: Path):
    filters = {"some": ["read*"], "but": ["*", "!write"], "one": ["read"]}
    boxes = {box: {"fs": rogue("ok", "read", "write", log=log, toolFilters=chosen)} for box, chosen in filters.items()}
    async with serving(write_config(tmp_path, boxes)) as wire:
        for box, chosen in filters.items():
            assert [tool["name"] for tool in (await wire.open(box))["tools"]] == ["read"], chosen
            text = error_of(await wire.use(box, "fs", "write"))
            assert text.startswith(f"Tool 'write' not found in server 'fs' (toolbox '{box}')"), chosen
            assert received(log, "tools/call") == [], chosen
