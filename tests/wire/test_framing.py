"""Lines on pipes: cut, bounded, batched, and what happens when the other end is slow or gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.errors import Fault, MessageTooLarge
from mcp_workbench.limits import Limits
from mcp_workbench.wire import framing
from mcp_workbench.wire.fairness import TURN_SECONDS, FairShare
from mcp_workbench.wire.framing import LineBuffer, LineReader, LineWriter, read_lines, write_lines
from mcp_workbench.wire.jsonrpc import Envelope
from tests.support.procs import wait_until

CAP = 64
WAIT_SECONDS = 5.0


def lines_of(chunks: list[bytes], cap: int = CAP) -> tuple[list[bytes], bool]:
    buffer = LineBuffer(cap)
    lines = [line for chunk in chunks for line in buffer.feed(chunk)]
    return lines, buffer.overflowed


class Heard:
    """What a reader handed over, and an event for its end."""

    def __init__(self, cap: int = 1024) -> None:
        self.lines: list[bytes] = []
        self.ends: list[Fault | None] = []
        self.over = asyncio.Event()
        self.reader = LineReader(self.lines.append, self._ended, cap)

    def _ended(self, fault: Fault | None) -> None:
        self.ends.append(fault)
        self.over.set()

    async def read(self, descriptor: int) -> None:
        await read_lines(descriptor, self.reader)
        await asyncio.wait_for(self.over.wait(), WAIT_SECONDS)


# -- cutting


@pytest.mark.parametrize("position", range(len(b"first\n\nsecond \xe2\x80\xa8 line\r\nthird\n") + 1))
def test_a_line_is_the_same_wherever_the_chunk_boundary_falls(position: int):
    data = b"first\n\nsecond \xe2\x80\xa8 line\r\nthird\n"
    assert lines_of([data[:position], data[position:]]) == (
        [b"first", b"", b"second \xe2\x80\xa8 line\r", b"third"],
        False,
    )


@given(st.lists(st.binary(max_size=CAP).filter(lambda line: b"\n" not in line)), st.data())
def test_any_lines_survive_any_split_into_chunks(lines: list[bytes], data: st.DataObject):
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert lines_of(chunks) == (lines, False)


@given(st.lists(st.binary(max_size=3 * CAP), max_size=20))
def test_no_line_over_the_cap_ever_comes_out_and_no_more_than_the_cap_is_held(chunks: list[bytes]):
    buffer = LineBuffer(CAP)
    for chunk in chunks:
        assert all(len(line) <= CAP for line in buffer.feed(chunk))
        assert len(buffer.rest()) <= CAP


def test_a_line_of_exactly_the_cap_passes():
    assert lines_of([b"x" * CAP + b"\n"]) == ([b"x" * CAP], False)
    assert lines_of([b"x" * CAP, b"\n"]) == ([b"x" * CAP], False)


@pytest.mark.parametrize("chunks", [[b"x" * (CAP + 1) + b"\n"], [b"x" * (CAP + 1)], [b"x" * CAP, b"x"]])
def test_one_byte_over_the_cap_overflows_with_or_without_its_line_break(chunks: list[bytes]):
    assert lines_of(chunks) == ([], True)


def test_lines_before_an_overflow_are_delivered_and_none_after_it():
    assert lines_of([b"good\n" + b"x" * (CAP + 1) + b"\nlate\n", b"later\n"]) == ([b"good"], True)


def test_a_long_line_in_small_chunks_takes_linear_time():
    def cost(chunks: int) -> float:
        best = float("inf")
        for _ in range(3):
            buffer = LineBuffer(1 << 30)
            since = time.process_time()
            for _ in range(chunks):
                buffer.feed(b"x" * 512)
            assert len(buffer.feed(b"\n")[0]) == chunks * 512
            best = min(best, time.process_time() - since)
        return best

    # Eight times the line: 8 x the time if linear, 64 x if every chunk copied what came before.
    assert cost(32_000) < 30 * max(cost(4_000), 0.001)


def test_a_long_line_in_tiny_chunks_takes_memory_in_proportion_to_its_length():
    buffer = LineBuffer(1 << 30)
    tracemalloc.start()
    try:
        for _ in range(200_000):
            buffer.feed(b"xy")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * 400_000
    assert buffer.feed(b"\n") == [b"xy" * 200_000]


# -- reading from descriptors


async def test_lines_are_read_from_a_pipe_and_its_end_is_told_once():
    source, sink = os.pipe()
    os.write(sink, b"one\n\n  \t\r\ntwo\nunfinished")
    os.close(sink)
    heard = Heard()
    await heard.read(source)
    assert heard.lines == [b"one", b"two"]
    heard.reader.connection_lost(None)
    assert heard.ends == [None]


async def test_lines_are_read_from_a_regular_file(tmp_path: Path):
    file = tmp_path / "requests"
    lines = [b"%d " % number + b"x" * 1000 for number in range(1000)]  # several chunks
    file.write_bytes(b"\n".join(lines) + b"\n")
    heard = Heard(2000)
    await heard.read(os.open(file, os.O_RDONLY))
    assert heard.lines == lines
    assert heard.ends == [None]


async def test_the_null_device_is_an_input_that_ends_at_once():
    heard = Heard()
    await heard.read(os.open(os.devnull, os.O_RDONLY))
    assert heard.lines == []
    assert heard.ends == [None]


async def test_a_line_over_the_cap_ends_the_reading_with_a_fault():
    source, sink = os.pipe()
    os.write(sink, b"good\n" + b"x" * 2000)
    heard = Heard(1000)
    await heard.read(source)
    assert heard.lines == [b"good"]
    assert [type(end) for end in heard.ends] == [MessageTooLarge]
    await asyncio.sleep(0)
    with pytest.raises(BrokenPipeError):  # the descriptor is closed, so the writer is not left waiting
        os.write(sink, b"x")
    os.close(sink)


async def test_a_line_that_closes_the_reader_is_the_last_one():
    source, sink = os.pipe()
    seen: list[bytes] = []
    closed = asyncio.Event()

    def take(line: bytes) -> None:
        seen.append(line)
        reader.close()
        closed.set()

    reader = LineReader(take, lambda _: pytest.fail("on_end after close"), 100)
    await read_lines(source, reader)
    os.write(sink, b"one\ntwo\nthree\n")
    await asyncio.wait_for(closed.wait(), WAIT_SECONDS)
    os.close(sink)
    await asyncio.sleep(0)
    assert seen == [b"one"]


async def test_a_paused_reader_reads_nothing_until_it_is_resumed():
    source, sink = os.pipe()
    heard = Heard()
    await read_lines(source, heard.reader)
    heard.reader.pause()
    os.write(sink, b"one\n")
    for _ in range(5):
        await asyncio.sleep(0)
    assert heard.lines == []
    heard.reader.resume()
    os.close(sink)
    await asyncio.wait_for(heard.over.wait(), WAIT_SECONDS)
    assert heard.lines == [b"one"]


class Resting(FairShare):
    """The share of a peer that has to rest for so long."""

    is_charged = True

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.rest_seconds = seconds  # type: ignore[method-assign]


@pytest.mark.parametrize("rest_seconds", [0.0, 0.001])
async def test_lines_that_take_long_are_handled_over_many_turns_and_none_is_lost(rest_seconds: float):
    turns: list[int] = []
    over = asyncio.Event()
    turn = 0

    def take(_: bytes) -> None:
        until = time.monotonic() + TURN_SECONDS / 2
        while time.monotonic() < until:
            pass
        turns.append(turn)

    share = Resting(lambda: rest_seconds if len(turns) < 19 else 0.0)
    reader = LineReader(take, lambda _: over.set(), 1024, last_line=True, share=share)
    source, sink = os.pipe()
    os.write(sink, b"line\n" * 19 + b"last")
    os.close(sink)
    await read_lines(source, reader)
    while not over.is_set():
        turn += 1
        await asyncio.sleep(0)
    assert len(turns) == 20
    assert max(turns.count(number) for number in turns) <= 3


async def test_a_reader_reads_no_more_while_lines_wait():
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    handled: list[bytes] = []
    reader = LineReader(handled.append, lambda _: None, 1024, share=Resting(lambda: 60.0))
    await read_lines(source, reader)
    os.write(sink, b"one\n")
    await wait_until(lambda: handled)
    with contextlib.suppress(BlockingIOError):  # the pipe is full
        for _ in range(1000):
            os.write(sink, b"x\n" * 2048)
            await asyncio.sleep(0)
        pytest.fail("it reads on")
    reader.close()
    os.close(sink)
    assert handled == [b"one"]


async def test_a_file_is_read_no_faster_than_its_lines_are_handled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(framing, "READ_CHUNK_BYTES", 1000)
    path = tmp_path / "requests.jsonl"
    path.write_bytes(b"line\n" * 100_000)
    source = os.open(path, os.O_RDONLY)
    handled: list[bytes] = []
    reader = LineReader(handled.append, lambda _: None, 1024, share=Resting(lambda: 60.0))
    await read_lines(source, reader)
    await wait_until(lambda: handled)
    for _ in range(20):
        await asyncio.to_thread(time.monotonic)
    assert os.lseek(source, 0, os.SEEK_CUR) == 1000
    reader.close()


# -- writing


async def test_notices_are_dropped_while_many_are_unread_and_answers_are_not():
    source, sink = os.pipe()
    writer = LineWriter(lambda: None, Limits(unread_notice_bytes=10_000))
    await write_lines(sink, writer)
    for _ in range(1000):
        writer.write(Envelope(encoded=b"n" * 1000, may_drop=True))
    writer.write(Envelope(encoded=b"answer"))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", buffering=0)
    )
    unread = await asyncio.wait_for(reader.readuntil(b"answer\n"), WAIT_SECONDS)
    assert len(unread) < 100_000
    writer.write(Envelope(encoded=b"again", may_drop=True))
    assert await asyncio.wait_for(reader.readline(), WAIT_SECONDS) == b"again\n"
    writer.close()


class CountingTransport(asyncio.WriteTransport):
    """Takes everything and counts how often."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    abort = close


async def test_the_first_line_of_a_turn_leaves_at_once_and_the_others_in_order_in_one_write():
    writer = LineWriter(lambda: None)
    transport = CountingTransport()
    writer.connection_made(transport)
    for number in range(100):
        writer.write(Envelope(encoded=b"%d" % number))
    assert transport.writes == [b"0\n"]
    await asyncio.sleep(0)
    rest = b"".join(b"%d\n" % number for number in range(1, 100))
    assert transport.writes == [b"0\n", rest]
    writer.write(Envelope(encoded=b"next turn"))
    assert transport.writes == [b"0\n", rest, b"next turn\n"]
    await asyncio.sleep(0)
    assert len(transport.writes) == 3


async def test_lines_that_are_written_before_there_is_a_transport_are_not_lost():
    writer = LineWriter(lambda: None)
    writer.write(Envelope(encoded=b"early"))
    transport = CountingTransport()
    writer.connection_made(transport)
    await asyncio.sleep(0)
    assert transport.writes == [b"early\n"]


async def test_finishing_gives_a_slow_peer_time_to_read_everything():
    states: list[bool] = []
    writer, source = await congested_writer(states)
    finished = asyncio.ensure_future(writer.finish(WAIT_SECONDS))
    await asyncio.sleep(0)
    heard = Heard(300_000)
    await heard.read(source)
    await asyncio.wait_for(finished, WAIT_SECONDS)
    assert heard.lines == [b"x" * 200_000]


async def test_finishing_does_not_wait_longer_than_it_may_for_a_peer_that_does_not_read():
    writer, source = await congested_writer([])
    await asyncio.wait_for(writer.finish(0.05), WAIT_SECONDS)
    writer.abort()
    os.close(source)


async def test_closing_writes_what_is_waiting_and_nothing_afterwards():
    writer = LineWriter(lambda: None)
    transport = CountingTransport()
    writer.connection_made(transport)
    writer.write(Envelope(encoded=b"last words"))
    writer.close()
    writer.write(Envelope(encoded=b"too late"))
    await asyncio.sleep(0)
    assert transport.writes == [b"last words\n"]
    assert transport.closed


async def test_lines_reach_a_regular_file_as_they_are_written(tmp_path: Path):
    file = tmp_path / "answers"
    writer = LineWriter(lambda: None)
    await write_lines(os.open(file, os.O_WRONLY | os.O_CREAT), writer)
    writer.write(Envelope(encoded=b"one"))
    writer.write(Envelope(encoded=b"two"))
    await asyncio.sleep(0)
    assert file.read_bytes() == b"one\ntwo\n"
    writer.close()


async def test_the_null_device_takes_everything():
    writer = LineWriter(lambda: pytest.fail("lost"))
    await write_lines(os.open(os.devnull, os.O_WRONLY), writer)
    writer.write(Envelope(encoded=b"x" * 1_000_000))
    await asyncio.sleep(0)
    assert not writer.congested
    writer.close()
    await asyncio.sleep(0)


async def congested_writer(states: list[bool], lost: list[None] | None = None) -> tuple[LineWriter, int]:
    """A writer whose peer does not read, and the reading end."""
    source, sink = os.pipe()
    limits = Limits(write_buffer_bytes=1000)
    writer = LineWriter(lambda: (lost if lost is not None else []).append(None), limits, on_congestion=states.append)
    await write_lines(sink, writer)
    writer.write(Envelope(encoded=b"x" * 200_000))
    writer.flush()
    return writer, source


async def test_a_peer_that_does_not_read_makes_the_writer_congested_until_it_does():
    states: list[bool] = []
    writer, source = await congested_writer(states)
    assert writer.congested
    assert states == [True]
    drained = asyncio.ensure_future(writer.drained())
    await asyncio.sleep(0)
    assert not drained.done()
    heard = Heard(300_000)
    await read_lines(source, heard.reader)
    await asyncio.wait_for(drained, WAIT_SECONDS)
    assert states == [True, False]
    assert not writer.congested
    await asyncio.wait_for(writer.drained(), WAIT_SECONDS)  # nothing to wait for
    writer.close()
    await asyncio.wait_for(heard.over.wait(), WAIT_SECONDS)
    assert heard.lines == [b"x" * 200_000]


async def test_aborting_with_unread_data_releases_who_waits_and_closes_at_once():
    lost: list[None] = []
    writer, source = await congested_writer([], lost)
    drained = asyncio.ensure_future(writer.drained())
    await asyncio.sleep(0)
    writer.abort()
    await asyncio.wait_for(drained, WAIT_SECONDS)
    heard = Heard(300_000)
    await heard.read(source)
    assert heard.lines == []  # the line never became whole
    assert lost == []  # it was our own decision


async def test_a_peer_that_goes_away_is_told_once_and_releases_who_waits():
    lost: list[None] = []
    writer, source = await congested_writer([], lost)
    drained = asyncio.ensure_future(writer.drained())
    await asyncio.sleep(0)
    os.close(source)
    await asyncio.wait_for(drained, WAIT_SECONDS)
    assert lost == [None]
    writer.write(Envelope(encoded=b"more"))
    writer.flush()
    writer.close()
    await asyncio.sleep(0)
    assert lost == [None]


async def test_writing_to_a_pipe_that_is_broken_already_raises_nothing():
    source, sink = os.pipe()
    lost = asyncio.Event()
    writer = LineWriter(lost.set)
    await write_lines(sink, writer)
    os.close(source)
    writer.write(Envelope(encoded=b"hello?"))
    await asyncio.wait_for(lost.wait(), WAIT_SECONDS)


async def test_a_peer_that_did_not_read_and_is_gone_is_closed_without_a_word():
    """The transport has lost its pipe by then, and would raise."""
    lost = asyncio.Event()
    source, sink = os.pipe()
    writer = LineWriter(lost.set, Limits(write_buffer_bytes=1000))
    await write_lines(sink, writer)
    writer.write(Envelope(encoded=b"x" * 200_000))
    writer.flush()
    assert writer.congested
    os.close(source)
    await asyncio.wait_for(lost.wait(), WAIT_SECONDS)
    assert not writer.congested
    assert writer.is_closed
    writer.abort()
    writer.close()
    await asyncio.wait_for(writer.finish(WAIT_SECONDS), WAIT_SECONDS)
