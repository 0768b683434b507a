"""The tables of the record: what is added is found, and what is too much, too old or of the dead is not kept."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.activity import process_identity
from mcp_workbench.activity.batch import Batch, Call, Flight, Line, Opening, Run, ServerState
from mcp_workbench.activity.process_identity import birth
from mcp_workbench.activity.reading import RecordReader, ToolUse
from mcp_workbench.activity.tables import RECORD_AGE_SECONDS, RecordTables
from mcp_workbench.command_errors import RecordFailed
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from tests.support.procs import needs_proc

NOW = 1_000_000_000.0
TOOL = ToolIdentifier("dev", "fs", "read")


def batch(at: float = NOW, **parts: object) -> Batch:
    empty = {"calls": [], "counts": {}, "lines": [], "openings": [], "servers": [], "flights": [], "lost": 0}
    return Batch(at, **{**empty, **parts})  # type: ignore[arg-type]


def call(at: float = NOW, milliseconds: float = 1.0, outcome: str = "", tool: ToolIdentifier = TOOL) -> Call:
    return (tool, at, milliseconds, outcome, None, None, "")


def own_run(began: float = NOW) -> Run:
    return Run(os.getpid(), birth(os.getpid()), "1", "/c.json", "stdio", began)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "record.sqlite"
    path.touch(0o600)
    return path


@pytest.fixture
def tables(path: Path) -> Iterator[RecordTables]:
    opened = RecordTables(str(path), DEFAULTS)
    yield opened
    opened.close()


def count(tables: RecordTables, table: str) -> int:
    return (tables.file.row(f"SELECT count(*) FROM record_{table}") or (0,))[0]  # noqa: S608


def test_what_is_written_is_read_back(path: Path, tables: RecordTables):
    run = tables.begin(own_run())
    state = ServerState("dev", "fs", "ready", NOW, 2, 7, "call_timeout", "no answer", NOW - 5)
    flight = Flight(NOW - 3, "dev", "fs", "slow")
    calls = [call(milliseconds=float(number)) for number in range(1, 101)] + [call(NOW + 1, 500.0, "tool_error")]
    lines = [Line(NOW, "warning", "dev", "fs/1", "12:00:00 warning it is ü")]
    openings = [Opening("dev", 4000, 400), Opening("dev", 0, 100)]
    counts = {TOOL: (8, 1), ToolIdentifier("dev", "fs", "write"): (1, 0)}
    parts = {"servers": [state], "flights": [flight], "calls": calls, "lines": lines, "openings": openings}
    assert tables.write(run, batch(counts=counts, lost=3, **parts), prunes=False)
    [status] = RecordReader(str(path), DEFAULTS).statuses()
    assert status.is_running
    assert status.servers == (state,)
    assert status.flights == (flight,)
    assert [use[:5] for use in status.tools] == [("dev", "fs", "read", 110, 2), ("dev", "fs", "write", 1, 0)]
    assert [(it.at, it.tool, it.outcome) for it in status.errors] == [(NOW + 1, "read", "tool_error")]
    assert tuple(status.tokens) == (2, 4000, 500)
    assert status.run.lost == 3
    [line] = RecordReader(str(path), DEFAULTS).lines()
    assert line[2:] == (os.getpid(), *lines[0])


def test_numbers_add_up_over_several_writes(path: Path, tables: RecordTables):
    run = tables.begin(own_run())
    for _ in range(3):
        tables.write(
            run, batch(calls=[call(), call(outcome="call_timeout")], openings=[Opening("dev", 8, 4)]), prunes=False
        )
    [status] = RecordReader(str(path), DEFAULTS).statuses()
    assert [(use.calls, use.errors) for use in status.tools] == [(6, 3)]
    assert tuple(status.tokens) == (3, 24, 12)


def test_calls_under_way_are_those_of_the_last_write(path: Path, tables: RecordTables):
    run = tables.begin(own_run())
    tables.write(run, batch(flights=[Flight(NOW, "dev", "fs", "a"), Flight(NOW, "dev", "fs", "b")]), prunes=False)
    tables.write(run, batch(flights=[Flight(NOW, "dev", "fs", "b")]), prunes=False)
    [status] = RecordReader(str(path), DEFAULTS).statuses()
    assert [flight.tool for flight in status.flights] == ["b"]


@pytest.mark.parametrize(
    ("times", "half", "most"),
    [((), None, None), ((5.0,), 5.0, 5.0), (tuple(map(float, range(1, 101))), 50.0, 95.0)],
)
def test_percentiles_are_of_the_times(times: tuple[float, ...], half: float | None, most: float | None):
    use = ToolUse("dev", "fs", "read", len(times), 0, times)
    assert (use.within(50), use.within(95)) == (half, most)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from([50, 95]))
def test_a_percentile_is_the_shortest_time_within_which_so_many_calls_were_over(times: list[float], percent: int):
    found = ToolUse("dev", "fs", "read", len(times), 0, tuple(sorted(times))).within(percent)
    enough = [time for time in times if sum(other <= time for other in times) * 100 >= percent * len(times)]
    assert found == min(enough)


# -- bounds


def test_only_the_newest_calls_and_lines_are_kept(path: Path):
    limits = Limits(record_calls=50, record_lines=20)
    tables = RecordTables(str(path), limits)
    run = tables.begin(own_run())
    for number in range(10):
        calls = [call(NOW + number, float(number)) for _ in range(40)]
        lines = [Line(NOW + number, "info", "", "", f"line {number}") for _ in range(40)]
        tables.write(run, batch(calls=calls, lines=lines), prunes=True)
        assert count(tables, "calls") <= 50
        assert count(tables, "lines") <= 20
    [status] = RecordReader(str(path), limits).statuses()
    assert status.tools[0].calls == 400
    assert set(status.tools[0].times) == {8.0, 9.0}
    assert {line.text for line in RecordReader(str(path), limits).lines()} == {"line 9"}
    tables.close()


def test_what_takes_too_much_room_is_removed_the_oldest_first(path: Path):
    limits = Limits(record_calls_bytes=1000, record_lines_bytes=500)
    tables = RecordTables(str(path), limits)
    run = tables.begin(own_run())
    calls: list[Call] = [(TOOL, NOW, float(number), "", "x" * 100, "y" * 100, "") for number in range(20)]
    lines = [Line(NOW, "info", "", "", f"{number:100}") for number in range(20)]
    tables.write(run, batch(calls=calls, lines=lines), prunes=True)
    assert tables.file.run("SELECT milliseconds FROM record_calls").fetchall() == [(float(n),) for n in range(15, 20)]
    assert [line.text.strip() for line in RecordReader(str(path), limits).lines()] == ["15", "16", "17", "18", "19"]
    tables.close()


def test_texts_are_bounded_also_where_most_calls_have_none(path: Path):
    limits = Limits(record_calls_bytes=1000)
    tables = RecordTables(str(path), limits)
    run = tables.begin(own_run())
    for number in range(20):
        failed: Call = (TOOL, NOW, float(number), "tool_error", None, None, "e" * 200)
        tables.write(run, batch(calls=[call(), failed]), prunes=False)
    kept = tables.file.run("SELECT milliseconds FROM record_calls WHERE size > 0").fetchall()
    assert kept == [(float(number),) for number in range(15, 20)]
    tables.close()


def test_the_bounds_hold_however_many_processes_write(path: Path):
    limits = Limits(
        record_calls=500, record_lines=50, record_calls_bytes=20_000, record_lines_bytes=2000, record_tools=9
    )
    writers = [RecordTables(str(path), limits) for _ in range(20)]
    runs = [tables.begin(own_run()) for tables in writers]
    for number in range(60):
        tables, run = writers[number % 20], runs[number % 20]
        calls = [call(tool=ToolIdentifier("dev", "fs", f"tool {one % 12}")) for one in range(200)]
        calls += [(TOOL, NOW, 1.0, "", "x" * 500, None, "")] * 5
        lines = [Line(NOW, "info", "", "", "y" * 50) for _ in range(45)]
        tables.write(run, batch(calls=calls, lines=lines), prunes=False)
        held = [count(tables, "calls"), count(tables, "lines"), count(tables, "tools")]
        assert all(map(operator.le, held, (500, 50, 20 * 9)))
        for table, most in (("calls", 20_000), ("lines", 2000)):
            assert (tables.file.row(f"SELECT sum(size) FROM record_{table}") or (0,))[0] <= most  # noqa: S608
    for tables in writers:
        tables.close()


def test_the_file_stops_growing(path: Path):
    limits = Limits(record_calls=500, record_lines=500)
    tables = RecordTables(str(path), limits)
    run = tables.begin(own_run())
    sizes: list[int] = []
    for _ in range(30):
        lines = [Line(NOW, "info", "", "", "x" * 200) for _ in range(250)]
        tables.write(run, batch(calls=[call() for _ in range(250)], lines=lines), prunes=True)
        sizes.append(path.stat().st_size)
    assert sizes[-1] == sizes[10] < 1_000_000
    tables.close()


def test_what_is_old_is_removed(path: Path, tables: RecordTables):
    run = tables.begin(own_run())
    tables.write(run, batch(calls=[call(NOW)], lines=[Line(NOW, "info", "", "", "old")]), prunes=False)
    later = NOW + RECORD_AGE_SECONDS + 1
    tables.write(run, batch(later, calls=[call(later)], lines=[Line(later, "info", "", "", "new")]), prunes=True)
    assert count(tables, "calls") == 1
    assert [line.text for line in RecordReader(str(path), DEFAULTS).lines()] == ["new"]


def test_few_runs_that_ended_are_known_and_nothing_is_left_of_the_others(path: Path):
    limits = Limits(record_runs=2)
    tables = RecordTables(str(path), limits)
    for number in range(5):
        run = tables.begin(own_run(NOW + number))
        tables.write(
            run, batch(NOW + number, calls=[call()], lines=[Line(NOW, "info", "", "", "x")], is_last=True), prunes=True
        )
    assert [status.run.began for status in RecordReader(str(path), limits).statuses(everything=True)] == [
        NOW + 3,
        NOW + 4,
    ]
    for table in ("calls", "tools", "lines"):
        assert count(tables, table) == 2
    tables.close()


def test_runs_of_a_clock_that_was_ahead_do_not_crowd_out_those_of_now(path: Path):
    limits = Limits(record_runs=2)
    tables = RecordTables(str(path), limits)
    for began in (NOW + 9e8, NOW + 9e8 + 1, NOW, NOW + 1):
        run = tables.begin(own_run(began))
        tables.write(run, batch(began, is_last=True), prunes=True)
    assert [status.run.began for status in RecordReader(str(path), limits).statuses(everything=True)] == [NOW, NOW + 1]
    tables.close()


def test_an_agent_that_calls_anything_fills_no_table(path: Path):
    limits = Limits(record_tools=5)
    tables = RecordTables(str(path), limits)
    run = tables.begin(own_run())
    calls = [call(tool=ToolIdentifier("dev", "fs", f"{number:03}")) for number in range(100)]
    tables.write(run, batch(calls=[*calls, call(), call()]), prunes=True)
    [status] = RecordReader(str(path), limits).statuses()
    assert len(status.tools) == 5
    assert status.tools[0].tool == "read"
    assert count(tables, "calls") == 6
    tables.close()


# -- processes


@needs_proc
def test_a_process_of_the_same_number_is_not_taken_for_the_one_that_ended(path: Path, tables: RecordTables):
    run = tables.begin(own_run()._replace(birth="the boot before:123"))
    assert RecordReader(str(path), DEFAULTS).statuses() == []
    [dead] = RecordReader(str(path), DEFAULTS).statuses(everything=True)
    assert not dead.is_running
    tables.begin(own_run())
    assert tables.file.row("SELECT was_killed FROM record_runs WHERE id = ?", (run,)) == (1,)


@needs_proc
def test_a_run_that_was_taken_for_dead_comes_back_with_its_next_write(path: Path, tables: RecordTables):
    run = tables.begin(own_run())
    tables.file.run("UPDATE record_runs SET ended = 1, was_killed = 1")
    tables.write(run, batch(), prunes=False)
    [status] = RecordReader(str(path), DEFAULTS).statuses()
    assert status.is_running


def test_a_run_that_is_not_known_any_more_is_not_written(tables: RecordTables):
    run = tables.begin(own_run())
    tables.file.run("DELETE FROM record_runs")
    assert not tables.write(run, batch(calls=[call()]), prunes=False)
    assert count(tables, "calls") == 0


@needs_proc
def test_a_process_is_told_by_the_boot_and_the_tick_in_which_it_was_born():
    """Beside its number, which another one may get."""
    tick = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    assert birth(os.getpid()) == f"{boot}:{tick}"
    assert birth(os.getppid()) != birth(os.getpid())


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="platform: there is no ps")
def test_without_proc_the_system_is_asked_when_a_process_was_born(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process_identity, "sys", SimpleNamespace(platform="darwin"))
    born = birth(os.getpid())
    assert str(time.localtime().tm_year) in born
    assert born == birth(os.getpid())
    assert birth(2**22 + 7) == ""


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="platform: there is no ps")
def test_a_process_is_the_same_one_in_another_time_zone(monkeypatch: pytest.MonkeyPatch):
    """As after a flight, or when the clocks change."""
    monkeypatch.setattr(process_identity, "sys", SimpleNamespace(platform="darwin"))
    born = birth(os.getpid())
    monkeypatch.setenv("TZ", "XYZ-9")
    assert birth(os.getpid()) == born


def test_there_is_nothing_to_tell_of_a_process_that_ended():
    assert birth(os.getpid()) == birth(os.getpid()) != ""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert birth(child.pid) not in ("", birth(os.getpid())) or sys.platform != "linux"
    finally:
        child.communicate(b"\n")
    assert birth(child.pid) == ""


# -- reading


def test_there_is_nothing_to_read_where_no_file_is(tmp_path: Path):
    reader = RecordReader(str(tmp_path / "no" / "record.sqlite"), DEFAULTS)
    assert reader.statuses(everything=True) == []
    assert reader.lines(everything=True) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"no database at all", b"SQLite format 3\0" + b"x" * 4000])
def test_a_file_that_is_no_record_is_told_and_left_alone(path: Path, content: bytes):
    path.write_bytes(content)
    with pytest.raises(RecordFailed, match=r"record\.sqlite") as told:
        RecordReader(str(path), DEFAULTS).statuses()
    assert told.value.hint
    assert path.read_bytes() == content


@pytest.mark.parametrize("change", ["seen = 1e300", "began = -1e300", "seen = 9e999", "began = 'soon'", "pid = -1"])
def test_a_record_with_what_nobody_wrote_is_told_as_damaged(path: Path, tables: RecordTables, change: str):
    tables.begin(own_run())
    tables.file.run(f"UPDATE record_runs SET {change}")  # noqa: S608
    with pytest.raises(RecordFailed, match="it is damaged"):
        RecordReader(str(path), DEFAULTS).statuses(everything=True)


def test_text_that_is_no_utf_8_is_kept_as_well_as_it_can_be(path: Path, tables: RecordTables):
    run = tables.begin(own_run()._replace(config="/home/\udcff.json"))
    tables.write(run, batch(calls=[call(tool=ToolIdentifier("dev", "fs", "\udcff"))]), prunes=False)
    [status] = RecordReader(str(path), DEFAULTS).statuses()
    assert status.run.config == "/home/\\udcff.json"
    assert status.tools[0].tool == "\\udcff"


def test_a_reader_waits_for_one_who_writes(path: Path, tables: RecordTables):
    tables.begin(own_run())
    code = (
        "import sqlite3, sys, time\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); time.sleep(0.6)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    began = time.monotonic()
    assert len(RecordReader(str(path), DEFAULTS).statuses()) == 1
    assert time.monotonic() - began > 0.1
    writer.communicate()
