"""What real workbenches leave in the record while they run, when they end and when they are killed."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import stat
from pathlib import Path

import pytest

from tests.activity.told import Json, everything, record_file, rows, run_when, runs, told
from tests.serve.http.serving import Handshake, modern, post_modern, program
from tests.support.canary import Canaries
from tests.support.configs import Toolboxes, rogue, write_config
from tests.support.procs import needs_proc, poll_until
from tests.support.wire import Era, serving, text_of, use_params


async def test_a_running_workbench_tells_its_servers_its_calls_and_what_went_wrong(tmp_path: Path):
    toolboxes: Toolboxes = {"dev": {"fs": rogue(), "bad": {"command": "/nowhere/at/all"}, "sour": rogue("is_error")}}
    config = write_config(tmp_path, toolboxes)
    async with serving(config) as wire:
        await wire.open("dev")
        for _ in range(4):
            await wire.use("dev", "fs", "nonce", {"nonce": "7"})
        await wire.use("dev", "sour", "nonce", {"nonce": "7"})
        await wire.use("dev", "bad", "nonce", {"nonce": "7"})
        run = await run_when(tmp_path, lambda run: len(run["tools"]) == 3)
        assert (run["pid"], run["state"], run["transport"]) == (wire.process.pid, "running", "stdio")
        assert run["config"] == str(config)
        servers = {server["server"]: server for server in run["servers"]}
        assert {name: server["state"] for name, server in servers.items()} == {
            "fs": "ready",
            "sour": "ready",
            "bad": "failing",
        }
        assert servers["fs"]["tools"] == 2
        assert servers["fs"]["last_error"] is None
        assert servers["bad"]["last_error"]["code"] == "spawn_failed"
        tools = {tool["server"]: (tool["calls"], tool["errors"]) for tool in run["tools"]}
        assert tools == {"fs": (4, 0), "sour": (1, 1), "bad": (1, 1)}
        assert {(error["server"], error["code"], error["message"]) for error in run["errors"]} == {
            ("sour", "tool_error", "the tool itself failed"),
            ("bad", "spawn_failed", servers["bad"]["last_error"]["message"]),
        }
        assert "/nowhere/at/all" in servers["bad"]["last_error"]["message"]
        [fast] = [tool for tool in run["tools"] if tool["server"] == "fs"]
        assert 0 < fast["p50_ms"] <= fast["p95_ms"]
        assert run["tokens"]["opens"] == 1
        assert run["tokens"]["answered"] > 0
        assert run["in_flight"] == []


@pytest.mark.parametrize(("era", "protocol"), [("handshake", "2025-11-25"), ("modern", "2026-07-28")])
async def test_the_host_is_named_while_it_is_there_and_afterwards(tmp_path: Path, era: Era, protocol: str):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    client = {"name": "raw-wire", "version": "1", "protocol": protocol}
    async with serving(config, era=era) as wire:
        await wire.open("dev")
        run = await run_when(tmp_path, lambda run: run["clients"])
        assert run["clients"] == [client | {"sessions": 1}]
        assert f"  host: raw-wire 1 (MCP {protocol})\n" in (await told(tmp_path, "status"))[1]
    run = await run_when(tmp_path, lambda run: run["state"] == "ended", "--all")
    assert run["clients"] == [client | {"sessions": 0}]
    assert f"  host: raw-wire 1 (MCP {protocol})\n" in (await told(tmp_path, "status", "--all"))[1]


async def test_every_host_over_http_is_named_with_its_sessions(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with program(config) as running, running.client() as http:
        first, second = [await Handshake.begin(http) for _ in range(2)]
        await post_modern(http, modern("tools/list"))
        run = await run_when(tmp_path, lambda run: len(run["clients"]) == 2)
        assert [(one["protocol"], one["sessions"]) for one in run["clients"]] == [("2025-11-25", 2), ("2026-07-28", 1)]
        hosts = "  hosts: t 1 (MCP 2025-11-25, 2 sessions), t 1 (MCP 2026-07-28)\n"
        assert hosts in (await told(tmp_path, "status"))[1]
        for session in (first, second):
            await http.delete("/mcp", headers=session.headers)
        run = await run_when(tmp_path, lambda run: run["clients"][0]["protocol"] == "2026-07-28")
        assert [one["sessions"] for one in run["clients"]] == [1, 0]


async def test_a_failure_that_ends_with_a_traceback_is_kept_in_a_sentence(tmp_path: Path):
    words = (
        "Traceback (most recent call last):\n" + '  File "/x/y.py", line 3, in f\n    g()\n' * 30 + "KeyError: 'HOME'"
    )
    config = write_config(tmp_path, {"dev": {"fs": rogue("crash")}})
    async with serving(config) as wire:
        await wire.use("dev", "fs", "crash", {"words": words})
        run = await run_when(tmp_path, lambda run: run["errors"])
        assert run["errors"][0]["message"].endswith("its last words: KeyError: 'HOME'")


async def test_servers_whose_joined_names_would_be_the_same_stay_two(tmp_path: Path):
    config = write_config(tmp_path, {"a": {"b/c": rogue()}, "a/b": {"c": rogue()}})
    async with serving(config) as wire:
        for toolbox, server in (("a", "b/c"), ("a/b", "c")):
            await wire.use(toolbox, server, "nonce", {"nonce": "7"})
        await run_when(tmp_path, lambda run: len(run["tools"]) == 2)

        async def is_ready(name: str, toolbox: str, server: str) -> bool:
            _, out, _ = await told(tmp_path, "logs", "--json", "--server", name)
            lines = [json.loads(line) for line in out.splitlines()]
            assert {(line["toolbox"], line["server"]) for line in lines} <= {(toolbox, server)}
            return any(f"is ready toolbox={toolbox} server={server} " in line["line"] for line in lines)

        await poll_until(lambda: is_ready(r"a/b\/c", "a", "b/c"), 10, what="the line of the first")
        await poll_until(lambda: is_ready(r"a\/b/c", "a/b", "c"), 10, what="the line of the second")
        _, out, _ = await told(tmp_path, "status")
        assert (out.count(r"a/b\/c/nonce"), out.count(r"a\/b/c/nonce"), "a/b/c" in out) == (1, 1, False)


@pytest.mark.parametrize(
    ("arguments", "served"), [((), ["dev/a", "dev/b", "ops/c"]), (("--toolbox", "dev", "--server", "b"), ["dev/b"])]
)
async def test_servers_that_nobody_needed_yet_are_told_of_where_they_are_served(
    tmp_path: Path, arguments: tuple[str, ...], served: list[str]
):
    def names(run: Json) -> list[str]:
        return sorted(f"{server['toolbox']}/{server['server']}" for server in run["servers"])

    config = write_config(tmp_path, {"dev": {"a": rogue(), "b": rogue()}, "ops": {"c": rogue()}})
    async with serving(config, *arguments):
        run = await run_when(tmp_path, lambda run: names(run) == served)
        assert {server["state"] for server in run["servers"]} <= {"idle", "ready", "starting"}
        assert not arguments or "ops/c" not in names(run)
        write_config(tmp_path, {"dev": {"a": rogue(), "b": rogue(), "new": rogue()}, "ops": {"c": rogue()}})
        more = [] if arguments else ["dev/new"]
        await run_when(tmp_path, lambda run: names(run) == sorted([*served, *more]))


async def test_a_file_that_can_not_be_used_is_told_of(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"a": rogue()}})
    async with serving(config) as wire:
        await run_when(tmp_path, lambda run: run["config_problem"] is None)
        good = config.read_text(encoding="utf-8")
        config.write_text("{", encoding="utf-8")
        run = await run_when(tmp_path, lambda run: run["config_problem"])
        assert run["config_problem"].startswith(f"{config}:1:")
        assert "is not used" in text_of(await wire.use("more", "a", "echo", {}))
        config.write_text(good, encoding="utf-8")
        await run_when(tmp_path, lambda run: run["config_problem"] is None)


async def test_a_call_that_hangs_is_shown_while_it_does_and_as_cancelled_later(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"slow": rogue("never")}})
    async with serving(config) as wire:
        number = await wire.begin(
            "tools/call", {"name": "use_tool", "arguments": use_params("dev", "slow", "hang", {})}
        )
        run = await run_when(tmp_path, lambda run: run["in_flight"])
        [flight] = run["in_flight"]
        assert (flight["toolbox"], flight["server"], flight["tool"]) == ("dev", "slow", "hang")
        assert flight["seconds"] > 0
        assert run["tools"] == []
        await wire.notify("notifications/cancelled", {"requestId": number})
        run = await run_when(tmp_path, lambda run: run["tools"])
        assert run["in_flight"] == []
        assert run["errors"][0]["code"] == "cancelled"


async def test_two_workbenches_share_the_record_and_one_that_ended_is_told_of_on_request(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with serving(config) as first, serving(config) as second:
        for wire, count in ((first, 2), (second, 3)):
            for _ in range(count):
                await wire.use("dev", "fs", "nonce", {"nonce": "7"})

        async def both() -> bool:
            return [[tool["calls"] for tool in run["tools"]] for run in await runs(tmp_path)] in (
                [[2], [3]],
                [[3], [2]],
            )

        await poll_until(both, 30.0)
        assert await first.hang_up() == 0
        [left] = await runs(tmp_path)
        assert left["pid"] == second.process.pid
        states = {run["pid"]: run["state"] for run in await runs(tmp_path, "--all")}
        assert states == {first.process.pid: "ended", second.process.pid: "running"}


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
async def test_what_happened_in_the_last_moment_is_written_at_the_end(tmp_path: Path, ending: signal.Signals):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with serving(config) as wire:
        for _ in range(3):
            await wire.use("dev", "fs", "nonce", {"nonce": "7"})
        wire.process.send_signal(ending)
        assert await wire.ended() == 128 + ending
    [run] = await runs(tmp_path, "--all")
    assert run["state"] == "ended"
    assert [tool["calls"] for tool in run["tools"]] == [3]
    assert rows(tmp_path, "SELECT text FROM record_lines WHERE text LIKE '%ending signal=%'")


@needs_proc
async def test_a_killed_workbench_is_seen_as_such_and_cleared_away_by_the_next(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"slow": rogue("never")}})
    async with serving(config) as wire:
        await wire.begin("tools/call", {"name": "use_tool", "arguments": use_params("dev", "slow", "hang", {})})
        await run_when(tmp_path, lambda run: run["in_flight"])
        wire.process.kill()
        await wire.process.wait()
    assert await runs(tmp_path) == []
    [dead] = await runs(tmp_path, "--all")
    assert (dead["state"], dead["in_flight"]) == ("killed", [])
    assert rows(tmp_path, "SELECT ended FROM record_runs") == [(None,)]
    assert len(rows(tmp_path, "SELECT 1 FROM record_flights")) == 1
    async with serving(config):
        await run_when(tmp_path, lambda run: run["state"] == "running")
        assert rows(tmp_path, "SELECT count(*), sum(was_killed) FROM record_runs WHERE ended IS NOT NULL") == [(1, 1)]
        assert rows(tmp_path, "SELECT 1 FROM record_flights") == []


async def test_the_record_is_private_and_nobody_else_can_read_it(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue()}})):
        await run_when(tmp_path, lambda run: run)
    assert stat.S_IMODE(record_file(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE(record_file(tmp_path).parent.stat().st_mode) == 0o700


async def test_nothing_of_arguments_results_or_secrets_is_in_the_file(tmp_path: Path):
    canaries = Canaries()
    secret, given = canaries.new("token"), "argument-that-nobody-keeps-7261"
    config = write_config(
        tmp_path, {"dev": {"fs": rogue(env={"TOKEN": secret}), "spy": rogue("leak", env={"T": secret})}}
    )
    async with serving(config, "--log-level", "debug") as wire:
        await wire.open("dev")
        result = await wire.use("dev", "fs", "echo", {"nonce": given, "token": secret})
        assert given in json.dumps(result)
        await wire.use("dev", "spy", "nonce", {"nonce": given})
        await run_when(tmp_path, lambda run: len(run["tools"]) == 2)
    left = everything(tmp_path)
    assert b"nonce" in left
    assert given.encode() not in left
    assert canaries.found_in({"the record": left.decode("utf-8", "replace")}) == []


async def test_a_full_record_has_arguments_and_results_without_secrets_and_not_too_much(tmp_path: Path):
    canaries = Canaries()
    secret, given = canaries.new("token"), "argument-that-is-kept-7261"
    config = write_config(tmp_path, {"dev": {"fs": rogue(env={"TOKEN": secret})}}, record="full")
    async with serving(config) as wire:
        await wire.use("dev", "fs", "echo", {"nonce": given, "token": secret, "long": "x" * 100_000})
        await run_when(tmp_path, lambda run: run["tools"])
    [(arguments, result)] = rows(tmp_path, "SELECT arguments, result FROM record_calls")
    assert given in arguments
    assert given in result
    assert "***" in arguments
    assert 3900 < len(arguments) <= 4000
    assert 15_900 < len(result) <= 16_000
    assert canaries.found_in({"the record": everything(tmp_path).decode("utf-8", "replace")}) == []


@pytest.mark.parametrize("how", ["config", "variable"])
async def test_a_record_that_is_switched_off_is_not_made(tmp_path: Path, how: str):
    settings = {"record": "off"} if how == "config" else {}
    env = {"WORKBENCH_RECORD": "none"} if how == "variable" else {}
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue()}}, **settings), env=env) as wire:
        await wire.use("dev", "fs", "nonce", {"nonce": "7"})
        assert await wire.hang_up() == 0
    assert not record_file(tmp_path).exists()


async def test_a_record_in_the_way_costs_one_warning_and_no_call(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    record_file(tmp_path).mkdir(parents=True)
    async with serving(config) as wire:
        await wire.use("dev", "fs", "nonce", {"nonce": "7"})

        async def is_told() -> bool:
            result = await wire.use("dev", "fs", "nonce", {"nonce": "7"})
            assert "isError" not in result
            return "is not recorded" in wire.stderr

        await poll_until(is_told, 20.0)
        assert await wire.hang_up() == 0
        assert wire.stderr.count("is not recorded") == 1


async def test_a_record_that_is_locked_for_long_holds_nothing_up(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with serving(config):
        await run_when(tmp_path, lambda run: run)
    lock = sqlite3.connect(record_file(tmp_path), isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    try:
        async with serving(config) as wire, asyncio.timeout(10):
            for _ in range(20):
                await wire.use("dev", "fs", "nonce", {"nonce": "7"})
            assert await wire.hang_up() == 0
        status, _, err = await told(tmp_path, "status")
        assert status == 1
        assert "another process keeps it locked" in err
    finally:
        lock.close()


async def test_what_was_put_off_because_of_a_lock_is_written_later(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with serving(config) as wire:
        await run_when(tmp_path, lambda run: run)
        lock = sqlite3.connect(record_file(tmp_path), isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        for _ in range(3):
            await wire.use("dev", "fs", "nonce", {"nonce": "7"})
        await asyncio.sleep(1.5)  # longer than it takes to be tried
        lock.close()
        await wire.use("dev", "fs", "nonce", {"nonce": "7"})
        run = await run_when(tmp_path, lambda run: [tool["calls"] for tool in run["tools"]] == [4])
        assert run["lost"] == 0


@pytest.mark.parametrize("content", [b"SQLite format 3\0 and then nothing of it" * 100, b"not a database"])
async def test_a_damaged_record_is_made_anew(tmp_path: Path, content: bytes):
    record_file(tmp_path).parent.mkdir(parents=True)
    record_file(tmp_path).write_bytes(content)
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue()}})) as wire:

        async def is_told() -> bool:
            return "the record was lost" in wire.stderr

        await poll_until(is_told, 20.0)
        await run_when(tmp_path, lambda run: run["state"] == "running")


async def test_a_removed_record_is_made_anew_with_the_servers_that_are_known(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue()}})) as wire:
        await wire.use("dev", "fs", "nonce", {"nonce": "7"})
        await run_when(tmp_path, lambda run: run["servers"])
        record_file(tmp_path).unlink()
        await wire.call("open_toolbox", {"toolbox": "dev"})
        run = await run_when(tmp_path, lambda run: run["tokens"]["opens"])
        assert [(server["server"], server["state"]) for server in run["servers"]] == [("fs", "ready")]


async def test_a_workbench_over_http_is_told_of_too(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with serving(config, "--http", "127.0.0.1:0", greet=False) as wire:
        run = await run_when(tmp_path, lambda run: run)
        assert (run["pid"], run["transport"]) == (wire.process.pid, "http")
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 128 + signal.SIGTERM


async def test_calls_of_a_server_that_is_served_as_it_is_are_told_of_too(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with serving(config, "--toolbox", "dev", "--server", "fs") as wire:
        await wire.call("nonce", {"nonce": "7"})
        run = await run_when(tmp_path, lambda run: run["tools"])
        assert [(tool["tool"], tool["calls"]) for tool in run["tools"]] == [("nonce", 1)]
