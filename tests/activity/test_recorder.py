"""What is noted on the event loop: every call with what came of it, without waiting for anything."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.activity.batch import Batch, Run
from mcp_workbench.activity.reading import RecordReader
from mcp_workbench.activity.recorder import ConnectionState, Recorder, recorder_of
from mcp_workbench.activity.writer import RecordWriter
from mcp_workbench.config.model import Config
from mcp_workbench.errors import CallFailed, CallTimeout, ConnectFailed, ServerExited, SpawnFailed, ToolNotFound
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.wire.caller import RECORD_NAME_LENGTH
from mcp_workbench.wire.jsonrpc import fields
from tests.support.procs import wait_until

TOOL = ToolIdentifier("dev", "fs", "read")
SERVER = ServerIdentifier("dev", "fs")
SOON = Limits(record_flush_seconds=0.01)
OK = Raw(b'{"content":[]}')


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> logger.Log:
    log = logger.Log(os.open(os.devnull, os.O_WRONLY), "debug")
    monkeypatch.setattr(logger, "log", log)
    return log


class Notes:
    """Takes batches as the thread does, at once or never."""

    def __init__(self, *, is_stuck: bool = False) -> None:
        self.batches: list[Batch] = []
        self._is_stuck = is_stuck

    def put(self, batch: Batch, done: Callable[[], None]) -> None:
        self.batches.append(batch)
        if not self._is_stuck:
            done()

    def all(self, part: str) -> list[Any]:
        return [one for batch in self.batches for one in getattr(batch, part)]


@asynccontextmanager
async def recording(
    limits: Limits = SOON, *, is_stuck: bool = False, found: tuple[ConnectionState, ...] = (), is_full: bool = False
) -> AsyncIterator[tuple[Recorder, Notes]]:
    notes = Notes(is_stuck=is_stuck)
    recorder = Recorder(notes, limits, is_full=is_full)  # type: ignore[arg-type]
    recorder.begin(lambda _server: found)
    yield recorder, notes
    await recorder.close()


async def call(recorder: Recorder, tool: ToolIdentifier, arguments: Raw, work: Awaitable[Raw]) -> Raw:
    """A call, as a place makes it."""
    noted = recorder.began(tool)
    try:
        result = await work
    except BaseException as error:
        recorder.failed(noted, arguments, error)
        raise
    recorder.ended(noted, arguments, result, fields(result))
    return result


async def gives(result: Raw) -> Raw:
    return result


async def raises(error: BaseException) -> Raw:
    raise error


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (b'{"content":[]}', ""),
        (b'{"content":[],"isError":false}', ""),
        (b'{"content":[],"isError":true}', "tool_error"),
        (b'{"isError" :\n true}', "tool_error"),
        (b'{"content":[], "isError": false}', ""),
        (b'{"structuredContent":{"isError":true}}', ""),
        (b'{"structuredContent":{"isError":false},"isError":true}', "tool_error"),
        (b'{"isError":true,"content":["%s"]}' % (b"x" * 200_000), "tool_error"),
        (b'{"content":["%s"],"isError": true}' % (b"x" * 200_000), "tool_error"),
        (b'{"structuredContent":{"isError":true},"isError":false}', ""),
        (b'{"content":[{"type":"text","text":"\\"isError\\":true"}]}', ""),
    ],
)
async def test_a_tool_that_says_that_it_failed_is_told_from_one_that_did_not(result: bytes, outcome: str):
    async with recording() as (recorder, notes):
        assert await call(recorder, TOOL, OK, gives(Raw(result))) == Raw(result)
    assert [call[3] for call in notes.all("calls")] == [outcome]


@pytest.mark.parametrize(
    ("error", "outcomes"),
    [
        (CallFailed(TOOL, CallTimeout("it is late")), ["call_timeout"]),
        (ConnectFailed("dev", "fs", SpawnFailed("no such file")), ["spawn_failed"]),
        (ServerExited("gone"), ["server_exited"]),
        (ToolNotFound(TOOL), []),
        (asyncio.CancelledError(), ["cancelled"]),
        (ZeroDivisionError(), ["unexpected"]),
    ],
)
async def test_what_came_of_a_call_is_noted_and_raised_as_it_was(error: BaseException, outcomes: list[str]):
    async with recording() as (recorder, notes):
        with pytest.raises(type(error)) as raised:
            await call(recorder, TOOL, OK, raises(error))
        assert raised.value is error
        await wait_until(lambda: notes.batches)
        assert notes.batches[-1].flights == []
    assert [call[3] for call in notes.all("calls")] == outcomes


async def test_a_call_is_noted_with_its_time_and_when_it_began():
    async with recording() as (recorder, notes):
        before = time.time()
        await call(recorder, TOOL, OK, asyncio.sleep(0.05, OK))
    [(tool, at, milliseconds, *_)] = notes.all("calls")
    assert tool == TOOL
    assert before - 0.01 <= notes.batches[-1].epoch + at <= time.time() - 0.04
    assert 45 <= milliseconds < 5000


async def test_calls_beyond_those_that_have_a_row_are_counted():
    limits = Limits(record_flush_seconds=60.0, record_batch_calls=3)
    async with recording(limits) as (recorder, notes):
        for _ in range(10):
            await call(recorder, TOOL, OK, gives(OK))
        await call(recorder, TOOL, OK, gives(Raw(b'{"isError":true}')))
    assert len(notes.all("calls")) == 3
    assert dict(notes.batches[-1].counts) == {TOOL: [7, 1]}
    assert notes.batches[-1].lost == 0


async def test_a_name_of_any_length_takes_little_room():
    limits = Limits(record_flush_seconds=60.0, record_batch_calls=1)
    async with recording(limits) as (recorder, notes):
        for letter in "abb":
            await call(recorder, ToolIdentifier("dev", "fs", letter * 100_000), OK, gives(OK))
        hanging = asyncio.create_task(call(recorder, ToolIdentifier("dev", "fs", "c" * 100_000), OK, asyncio.sleep(60)))
        await asyncio.sleep(0)
    hanging.cancel()
    length = RECORD_NAME_LENGTH
    assert notes.batches[0].calls[0][0].tool == "a" * length
    assert dict(notes.batches[0].counts) == {ToolIdentifier("dev", "fs", "b" * length): [2, 0]}
    assert [flight.tool for flight in notes.batches[0].flights] == ["c" * length]


async def test_nothing_runs_while_nothing_happens():
    async with recording() as (recorder, notes):
        await wait_until(lambda: len(notes.batches) == 1)
        await asyncio.sleep(0.2)
        assert len(notes.batches) == 1
        await call(recorder, TOOL, OK, gives(OK))
        await wait_until(lambda: len(notes.batches) == 2)


async def test_a_writer_that_is_stuck_gets_nothing_more_and_holds_up_neither_calls_nor_the_end():
    limits = Limits(record_flush_seconds=0.01, record_end_seconds=0.2, record_batch_calls=5, record_pending=5)
    async with recording(limits, is_stuck=True) as (recorder, notes):
        for number in range(50):
            await call(recorder, TOOL, OK, gives(OK))
            logger.info("line", number=number)
            await asyncio.sleep(0.002)
        assert len(notes.batches) == 1
        began = time.monotonic()
    assert time.monotonic() - began < 5


async def test_what_a_server_is_doing_is_looked_at_when_it_changed():
    found = (ConnectionState("failing", None), ConnectionState("ready", 7), ConnectionState("ready", 7))
    async with recording(found=found) as (recorder, notes):
        recorder.changed(SERVER, ServerExited("it said \x1b[31m"))
        await wait_until(lambda: notes.all("servers"))
    [state, *_] = notes.all("servers")
    assert (state.state, state.connections, state.tools) == ("ready", 2, 7)
    assert (state.code, state.error) == ("server_exited", "it said \\x1b[31m")
    assert state.since == pytest.approx(time.time(), abs=30)


async def test_the_last_words_of_a_server_are_on_the_line_of_its_error():
    async with recording() as (recorder, notes):
        recorder.changed(SERVER, ServerExited("it exited with status 3; its last words:\nboom\nbang"))
    assert notes.all("servers")[-1].error == "it exited with status 3; its last words: boom bang"


async def test_a_secret_of_several_lines_is_not_in_the_error_of_a_server(log: logger.Log):
    log.redact.hide(["one-line\nof-two"])
    async with recording() as (recorder, notes):
        recorder.changed(SERVER, ServerExited("its last words:\nkey one-line\nof-two"))
    assert notes.all("servers")[-1].error == "its last words: key ***"


async def test_a_list_is_counted_once_for_each_client():
    async with recording() as (recorder, notes):
        for audience in ("a", "a", "b"):
            recorder.opened(audience, "dev", (100, 50), 30)
        recorder.opened("a", "ops", (7,), 3)
    assert [tuple(one) for one in notes.all("openings")] == [
        ("dev", 150, 30),
        ("dev", 0, 30),
        ("dev", 150, 30),
        ("ops", 7, 3),
    ]


async def test_lines_from_before_and_from_other_threads_are_noted(log: logger.Log):
    log.event("warning", "early", {"server": ServerIdentifier("dev", "fs")})
    async with recording() as (_, notes):
        thread = threading.Thread(target=logger.info, args=("from a thread",))
        thread.start()
        thread.join()
        await wait_until(lambda: len(notes.all("lines")) == 2)
    assert [(line.level, line.toolbox, line.server, line.text[9:]) for line in notes.all("lines")] == [
        ("warning", "dev", "fs", "warning early toolbox=dev server=fs"),
        ("info", "", "", "info from a thread"),
    ]


async def test_lines_below_the_level_are_not_noted(log: logger.Log):
    log.set_level("warning")
    async with recording() as (_, notes):
        logger.info("too low")
    assert notes.all("lines") == []


async def test_arguments_and_results_are_noted_only_where_that_is_wanted(log: logger.Log):
    log.redact.hide(["hunter2-and-more"])
    arguments, result = Raw(b'{"password":"hunter2-and-more","a":1}'), Raw(b'{"content":["hunter2-and-more"]}')
    for is_full, expected in (
        (False, (None, None)),
        (True, ('{"password":"***","a":1}', '{"content":["***"]}')),
    ):
        async with recording(is_full=is_full) as (recorder, notes):
            await call(recorder, TOOL, arguments, gives(result))
        assert notes.all("calls")[0][4:6] == expected


# -- with the thread and a file


def writer(path: Path, limits: Limits) -> RecordWriter:
    return RecordWriter(str(path), Run(os.getpid(), "", "1", "/c.json", "stdio", time.time()), limits)


async def test_all_calls_of_many_at_once_are_in_the_file_at_the_end(tmp_path: Path):
    path = tmp_path / "state" / "record.sqlite"
    recorder = Recorder(writer(path, SOON), SOON)
    recorder.begin(lambda _server: ())
    await asyncio.gather(*(call(recorder, TOOL, OK, asyncio.sleep(0.001 * number, OK)) for number in range(300)))
    await recorder.close()
    [status] = RecordReader(str(path), DEFAULTS).statuses(everything=True)
    assert [(use.calls, use.errors) for use in status.tools] == [(300, 0)]
    assert status.run.ended is not None


async def test_a_server_that_is_not_configured_any_more_is_not_told_of(tmp_path: Path):
    path = tmp_path / "state" / "record.sqlite"
    recorder = Recorder(writer(path, SOON), SOON)
    recorder.begin(lambda _server: (ConnectionState("ready", 3),))
    reader = RecordReader(str(path), DEFAULTS)

    def known() -> list[str]:
        return [server.server for status in reader.statuses(everything=True) for server in status.servers]

    recorder.changed(SERVER)
    recorder.changed(ServerIdentifier("dev", "other"))
    await wait_until(lambda: path.exists() and sorted(known()) == ["fs", "other"], what="both servers")
    recorder.changed(SERVER)
    recorder.configured(added=[], removed=[SERVER])
    await wait_until(lambda: known() == ["other"], what="one server")
    recorder.changed(SERVER)  # it drains
    recorder.changed(ServerIdentifier("dev", "third"))
    await wait_until(lambda: sorted(known()) == ["other", "third"], what="another one")
    recorder.configured(added=[], removed=[ServerIdentifier("dev", "third")])
    recorder.configured(added=[SERVER, ServerIdentifier("dev", "third")], removed=[])
    recorder.changed(SERVER)
    recorder.changed(ServerIdentifier("dev", "third"))
    await wait_until(lambda: sorted(known()) == ["fs", "other", "third"], what="all that are there again")
    await recorder.close()


async def test_what_was_wrong_with_a_server_is_not_told_of_once_its_entry_is_otherwise():
    async with recording(found=(ConnectionState("ready", 3),)) as (recorder, notes):
        recorder.changed(SERVER, ServerExited("it exited with status 3"))
        await wait_until(lambda: notes.all("servers"), what="its error")
        before = notes.all("servers")[-1]
        recorder.configured(changed=[SERVER])
    after = notes.all("servers")[-1]
    assert (before.error, after.error, after.error_at) == ("it exited with status 3", "", None)
    assert after.since > before.since, "it is another one"


async def test_a_file_that_is_not_used_is_told_of_until_one_is(tmp_path: Path):
    path = tmp_path / "state" / "record.sqlite"
    recorder = Recorder(writer(path, SOON), SOON)
    recorder.begin(lambda _server: ())
    reader = RecordReader(str(path), DEFAULTS)

    def problems() -> list[str]:
        return [status.run.problem for status in reader.statuses(everything=True)]

    recorder.refused("c.json:7:11: unknown key\x1b[2J 'arg'")
    await wait_until(lambda: path.exists() and problems() == ["c.json:7:11: unknown key\\x1b[2J 'arg'"], what="why")
    recorder.configured(added=[], removed=[])
    await wait_until(lambda: problems() == [""], what="that it is right again")
    await recorder.close()


async def test_a_server_that_nobody_needed_yet_is_told_of():
    async with recording() as (recorder, notes):
        recorder.configured(added=[SERVER], removed=[])
    assert [(server.server, server.state) for server in notes.all("servers")] == [("fs", "idle")]


async def test_a_full_disk_is_one_warning(tmp_path: Path, log: logger.Log, monkeypatch: pytest.MonkeyPatch):
    from mcp_workbench.activity.tables import RecordTables  # noqa: PLC0415 -- as the thread does

    real = RecordTables.begin

    def begin(self: RecordTables, run: Run) -> int:
        self.file.row("PRAGMA max_page_count = 1")
        return real(self, run)

    monkeypatch.setattr(RecordTables, "begin", begin)
    heard: list[str] = []
    log.set_listener(lambda event: heard.append(event.line))
    limits = Limits(record_flush_seconds=0.01)
    monkeypatch.setattr("mcp_workbench.activity.writer.RECORD_REST_SECONDS", 0.0)
    recorder = Recorder(writer(tmp_path / "state" / "record.sqlite", limits), limits, is_full=True)
    monkeypatch.setattr(log, "set_listener", lambda _listener: None)
    recorder.begin(lambda _server: ())
    large = Raw(b'{"content":["' + b"x" * 16_000 + b'"]}')
    for _ in range(5):
        assert await call(recorder, TOOL, OK, gives(large)) == large
        await asyncio.sleep(0.03)
    await recorder.close()
    told = [line for line in heard if "is not recorded" in line]
    assert len(told) == 1
    assert "full" in told[0]


def test_another_program_s_file_is_left_alone(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"what somebody wrote")
    done = threading.Event()
    one = writer(path, DEFAULTS)
    one.put(Batch(1.0, [], {}, [], [], [], [], 0, is_last=True), done.set)
    assert done.wait(20)
    assert path.read_bytes() == b"what somebody wrote"


@pytest.mark.parametrize(("record", "variable"), [("off", ""), ("calls", "none"), ("full", "none")])
def test_there_is_no_recorder_where_nothing_is_to_be_recorded(record: Any, variable: str):
    config = Config(file="/c.json", toolboxes={}, record=record)
    assert recorder_of(config, "stdio", environ={"WORKBENCH_RECORD": variable, "HOME": "/home/me"}) is None
