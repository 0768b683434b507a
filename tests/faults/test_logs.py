"""Rows F of the faults: what servers and clients say is shown without harm, passed on untouched, never in the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mcp_workbench.errors import WorkbenchError
from tests.faults.watched_log import check_lines, hidden, watched
from tests.peers.rogue_stdio import BANNER, SAYS
from tests.support.configs import rogue, write_config
from tests.support.library import tool, workbench
from tests.support.wire import Era, Wire, environment, error_of, heard, serving, text_of, use_params

NASTY = "a\r\nb\x1b[31mred\x1b]8;;http://x\x07link\x1b]8;;\x07\u202eright\u2066\u200bzero\u2028line\x85next\x00nul\x9b31m\U000e0041"
"""Line ends, colours, a link, directions, invisible letters."""
ANY_TEXT = st.just(NASTY) | st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
few = settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))


# -- F1: one event is one line


@pytest.mark.row("F1")
@few
@given(st.lists(ANY_TEXT, min_size=4, max_size=4))
def test_f1_whatever_a_server_says_one_event_is_one_line_with_nothing_invisible(texts: list[str]):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_says(Path(folder), texts))


async def check_says(folder: Path, texts: list[str]) -> None:
    with watched(folder / "log") as log:
        async with workbench(folder, {"dev": {"fs": rogue("says")}}, call_idle_timeout_seconds=10.0) as wb:
            for text in texts:
                for where in SAYS[:-1]:
                    await check_error(wb.use(tool("fs", where), {"text": text, "arguments": {text: text}}))
            await check_error(wb.use(tool("fs", "exit"), {"text": "\n".join(texts)}))
    assert log.events
    log.check()


async def check_error(call: object) -> None:
    """What is told of a failure may have several lines, and nothing invisible."""
    [outcome] = await asyncio.gather(call, return_exceptions=True)  # type: ignore[call-overload]
    if isinstance(outcome, Exception):
        assert isinstance(outcome, WorkbenchError), outcome
        assert outcome.wire_code != "call_timeout"
        assert not hidden(f"{outcome} {outcome.hint}".replace("\n", ""))


@pytest.mark.row("F1")
async def test_f1_names_and_arguments_of_a_client_and_the_words_of_a_server_leave_whole_lines_in_the_log(
    tmp_path: Path,
):
    boxes = {"dev": {"fs": rogue("says"), "\u202e\u200bodd": rogue("garbage", 3)}}
    async with serving(write_config(tmp_path, boxes), "--log-level", "debug") as wire:
        for where in SAYS:
            result = await wire.use("dev", "fs", where, {"text": NASTY})
            assert not (result.get("isError") and hidden(text_of(result).replace("\n", "")))
        for parts in ((NASTY, "fs", "x"), ("dev", NASTY, "x"), ("dev", "fs", NASTY), ("dev", "\u202e\u200bodd", NASTY)):
            assert not hidden(error_of(await wire.use(*parts)).replace("\n", ""))
        answer = await wire.request(NASTY, {NASTY: NASTY})
        assert not hidden(answer["error"]["message"])
        await wire.notify(NASTY, {NASTY: NASTY})
        await wire.notify("notifications/cancelled", {"requestId": 99, "reason": NASTY})
        await wire.raw(f'{{"jsonrpc":{json.dumps(NASTY)},"id":{json.dumps(NASTY)},"method":"x"}}\n'.encode())
        await wire.raw(NASTY.replace("\n", "").encode() + b"\n")
        await wire.list_tools()
        await wire.hang_up()
        assert all(not hidden(message.get("error", {}).get("message", "")) for message in wire.order)
        assert "\\x1b" in wire.stderr
        check_lines(wire.stderr)


# -- F2: results are data


@pytest.mark.row("F2")
@pytest.mark.parametrize("era", ["handshake", "modern"])
@settings(few, max_examples=2)
@given(st.lists(st.tuples(ANY_TEXT, st.booleans()), min_size=30, max_size=40))
def test_f2_whatever_a_result_holds_it_is_passed_on_byte_for_byte(era: Era, texts: list[tuple[str, bool]]):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_results(Path(folder), era, texts))


async def check_results(folder: Path, era: Era, texts: list[tuple[str, bool]]) -> None:
    """The tool `raw` sends the line that it is given, with the id of the call in place of ID."""
    async with serving(write_config(folder, {"dev": {"fs": rogue("malformed")}}), era=era) as wire:
        for text, ascii_only in texts:
            block = {"type": "text", "text": text.replace("ID", "id")}
            content = json.dumps([block], ensure_ascii=ascii_only).encode()
            result = b'"content":%s,"structuredContent":{"x":%s}' % (content, content)
            line = b'{"jsonrpc":"2.0","id":ID,"result":{%s}}' % result
            call = use_params("dev", "fs", "raw", {"line": line.decode("latin-1")})
            _, relayed = await wire.finish(await wire.begin("tools/call", {"name": "use_tool", "arguments": call}))
            assert result in relayed


# -- F3: a server's error text


@pytest.mark.row("F3")
@pytest.mark.parametrize("where", ["error", "exit", "version"])
async def test_f3_an_error_text_of_a_server_is_named_as_its_own_short_and_without_secrets(tmp_path: Path, where: str):
    secret = "canary-4711-0815-value"  # noqa: S105 -- it is looked for where it must not be
    boxes = {"dev": {"fs": rogue("says", env={"TOKEN": "${SECRET}"})}}
    async with serving(write_config(tmp_path, boxes), "--log-level", "debug", env={"SECRET": secret}) as wire:
        for around in (5, 1000, 1_000_000):
            text = "x" * around + f" refused {secret} " + "y" * around
            await wire.use("dev", "fs", "stderr", {"text": "it is well"})
            said = error_of(await wire.use("dev", "fs", where, {"text": text}))
            assert said.startswith(f"Tool '{where}' in server 'fs' (toolbox 'dev') failed: ")
            assert len(said) < 2048 + 300
            assert "canary" not in said
            assert "4711" not in said
        await wire.hang_up()
        assert "canary" not in wire.stderr
        assert len(max(wire.stderr.splitlines(), key=len)) < 4096


@pytest.mark.row("F3")
@pytest.mark.parametrize("where", ["initialize", "tools/list"])
async def test_f3_so_is_the_error_text_of_a_server_that_cannot_be_opened(tmp_path: Path, where: str):
    secret = "canary-4711-0815-value"  # noqa: S105
    entry = rogue("refuses", where, env={"TOKEN": "${SECRET}"})
    config = write_config(tmp_path, {"dev": {"fs": entry, "good": rogue()}})
    async with serving(config, env={"SECRET": secret}) as wire:
        answer = await wire.open("dev")
        [failed] = answer["servers_failed"]
        assert failed["server"] == "fs"
        assert len(failed["error"]) < 2048 + 300
        assert "***" in failed["error"]
        assert "canary" not in json.dumps(answer) + wire.stderr


@pytest.mark.row("F3")
@pytest.mark.parametrize("view", [("--toolbox", "dev"), ("--toolbox", "dev", "--server", "fs")])
async def test_f3_so_is_the_error_that_a_server_answers_with_where_it_is_passed_on_as_such(
    tmp_path: Path, view: tuple[str, ...]
):
    secret = "canary-4711-0815-value"  # noqa: S105
    config = write_config(tmp_path, {"dev": {"fs": rogue("says", env={"TOKEN": "${SECRET}"})}})
    async with serving(config, *view, env={"SECRET": secret}) as wire:
        text = f"refused {secret} " + "y" * 1_000_000
        answer = await wire.request("tools/call", {"name": "error", "arguments": {"text": text}})
        assert answer["error"]["message"].startswith("refused ***")
        assert len(json.dumps(answer)) < 2048 + 300
        assert "canary" not in json.dumps(answer)


# -- F4: a log that can't be written


@pytest.mark.row("F4")
@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-"])
async def test_f4_without_a_log_that_can_be_written_calls_succeed_all_the_same(tmp_path: Path, redirection: str):
    boxes = {"dev": {"loud": rogue("garbage", 10), "crash": rogue("crash"), "flood": rogue("stderrflood")}}
    serve = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(write_config(tmp_path, boxes))]
    shell = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *serve, "--log-level", "debug"]
    wire = await Wire.spawn(shell, env=environment(tmp_path / "home"))
    try:
        await wire.handshake()
        assert heard(await wire.use("dev", "loud", "echo", {"lines": 50}))
        assert heard(await wire.use("dev", "flood", "echo", {"bytes": 1_000_000}))
        assert error_of(await wire.use("dev", "crash", "crash"))
        assert heard(await wire.use("dev", "crash", "echo"))
        assert await wire.hang_up() == 0
        assert wire.stray == []
    finally:
        wire.kill()
        await wire.close()


@pytest.mark.row("F4")
async def test_f4_a_stderr_that_nobody_reads_holds_up_neither_a_call_nor_the_end(tmp_path: Path):
    """A host that pipes stderr and never reads it: the pipe is full before the first line."""
    fifo = tmp_path / "stderr"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(descriptor, b"x" * 4096):
            pass
    config = write_config(tmp_path, {"dev": {"loud": rogue("garbage", 10), "good": rogue()}})
    serve = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), "--log-level", "debug"]
    shell = ["/bin/sh", "-c", f'exec "$@" 2<> {fifo}', "sh", *serve]
    wire = await Wire.spawn(shell, env=environment(tmp_path / "home"))
    try:
        await wire.handshake()
        assert heard(await wire.use("dev", "loud", "echo", {"lines": 50}))
        assert heard(await wire.use("dev", "good", "echo"))
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 128 + signal.SIGTERM
    finally:
        wire.kill()
        await wire.close()
        os.close(descriptor)


# -- noise is sampled and counted, not copied


@pytest.mark.row("F1", "A9")
@pytest.mark.parametrize("level", ["info", "debug"])
async def test_f1_noise_on_stdout_is_one_sample_and_a_number_in_the_log(tmp_path: Path, level: str):
    async with serving(write_config(tmp_path, {"dev": {"loud": rogue("garbage", 100)}}), "--log-level", level) as wire:
        for _ in range(3):
            assert heard(await wire.use("dev", "loud", "echo", {"lines": 500}))
        await wire.hang_up()
        words = BANNER.partition("== ")[2].partition(" ==")[0]
        assert len(re.findall(f"{words}.*", wire.stderr)) == 1
        [count] = re.findall(r"\bcount=(\d+)", wire.stderr)
        assert int(count) == 100 + 3 * 500
        assert len(wire.stderr) < 4096
        check_lines(wire.stderr)


@pytest.mark.row("F1", "A12")
async def test_f1_a_flood_on_stderr_is_fifty_lines_a_second_in_the_log_and_a_number(tmp_path: Path):
    """At level debug; else none of it."""
    lines = 50_000
    loop = asyncio.get_running_loop()
    since = loop.time()
    with watched(tmp_path / "log") as log:
        async with workbench(tmp_path, {"dev": {"loud": rogue("stderrflood")}}) as wb:
            await wb.use(tool("loud", "echo"), {"bytes": lines * 100})
    told = len(re.findall("e{90,}", log.text))
    assert 50 <= told <= 50 * (loop.time() - since + 1)
    assert told + sum(map(int, re.findall(r"lines_left_out=(\d+)", log.text))) == lines
    log.check()
