"""`mcp-workbench`, and peers, as processes that start at once: most are forked (`nursery.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

from tests.support.nursery import PROGRAM, fork, forks, told_number

# -- for tests that wait


class Forked:
    """What `subprocess.Popen` is, of one that was forked."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._line = line

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                self.returncode = told_number(self._line)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(PROGRAM, timeout or 0) from None
            self._line.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_at_terminal(command: Sequence[str], env: Mapping[str, str], cwd: Path | None, device: int) -> Forked:
    """The program, with a terminal that is its own."""
    return Forked(*fork(command, env, cwd, [device] * 3, at_terminal=True))


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: str = "",
    timeout: float = 30.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with pipes."""
    if not forks(command, env):
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout, env=env, cwd=cwd
        )
    with contextlib.ExitStack() as opened:
        pipes, theirs = _pipes(opened)
        with theirs:
            process = Forked(*fork(command, env, cwd, pipes.theirs))
        try:
            out, err = _exchange(pipes, stdin.encode(), timeout)
            return subprocess.CompletedProcess(list(command), process.wait(timeout), out.decode(), err.decode())
        except BaseException:
            process.kill()
            process.wait()
            raise


class Pipes(NamedTuple):
    """Both ends of stdin, stdout and stderr."""

    ours: list[IO[bytes]]
    theirs: list[int]


def _pipes(opened: contextlib.ExitStack) -> tuple[Pipes, contextlib.ExitStack]:
    """Pipes, of which the second closes the program's ends."""
    ends = [os.pipe() for _ in range(3)]
    modes = ((1, "wb"), (0, "rb"), (0, "rb"))
    ours = [open(end[side], mode, 0) for end, (side, mode) in zip(ends, modes, strict=True)]  # noqa: PTH123, SIM115
    theirs = [end[1 - side] for end, (side, _) in zip(ends, modes, strict=True)]
    closing = contextlib.ExitStack()
    for mine, other in zip(ours, theirs, strict=True):
        opened.callback(mine.close)
        closing.callback(os.close, other)
    return Pipes(ours, theirs), closing


class Running:
    """A command that runs, and what it says."""

    def __init__(self, process: Forked | subprocess.Popen[bytes], out: int, err: int) -> None:
        self._process = process
        self.stdout = open(out, encoding="utf-8")  # noqa: SIM115
        self.stderr = open(err, encoding="utf-8")  # noqa: SIM115
        self.send_signal, self.kill = process.send_signal, process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def communicate(self, timeout: float = 30.0) -> tuple[str, str]:
        """All that it still says, once it has ended; little enough for a pipe."""
        self._process.wait(timeout)
        return self.stdout.read(), self.stderr.read()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        self.stdout.close()
        self.stderr.close()


@contextlib.contextmanager
def running(command: Sequence[str], *, env: Mapping[str, str], stdin: int | None = None) -> Iterator[Running]:
    """A command, with a descriptor to read from or nothing; it is killed at the end, if it still runs."""
    (out, theirs_out), (err, theirs_err) = os.pipe(), os.pipe()
    with open(os.devnull) as nothing:  # noqa: PTH123
        streams = [nothing.fileno() if stdin is None else stdin, theirs_out, theirs_err]
        if forks(command, env):
            process = Forked(*fork(command, env, None, streams))
        else:
            process = subprocess.Popen(command, env=env, stdin=streams[0], stdout=streams[1], stderr=streams[2])
    os.close(theirs_out)
    os.close(theirs_err)
    with contextlib.closing(Running(process, out, err)) as started:
        yield started


def _exchange(pipes: Pipes, given: bytes, timeout: float) -> tuple[bytes, bytes]:
    """Give all that is to be read, and read both others to their ends."""
    written, out, err = pipes.ours
    said = {out: bytearray(), err: bytearray()}
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        waiting.register(out, selectors.EVENT_READ)
        waiting.register(err, selectors.EVENT_READ)
        waiting.register(written, selectors.EVENT_WRITE)
        while waiting.get_map():
            if not (ready := waiting.select(deadline - time.monotonic())):
                raise subprocess.TimeoutExpired(PROGRAM, timeout, bytes(said[out]), bytes(said[err]))
            for key, _ in ready:
                stream = cast("IO[bytes]", key.fileobj)
                if stream is written:
                    given = _give(stream, given)
                    over = not given
                else:
                    over = not (piece := stream.read(65_536))
                    said[stream] += piece
                if over:
                    waiting.unregister(stream)
                    stream.close()
    return bytes(said[out]), bytes(said[err])


def _give(stream: IO[bytes], given: bytes) -> bytes:
    """What is left to give: nothing, where nobody reads it."""
    with contextlib.suppress(BrokenPipeError):
        return given[stream.write(given[: select.PIPE_BUF]) :]
    return b""


# -- for tests with a loop


class Process:
    """What `asyncio.subprocess.Process` is, of one that was forked."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._transport = Transports()
        self._end = asyncio.create_task(_end_of(line))

    @property
    def returncode(self) -> int | None:
        return self._end.result() if self._end.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Transports:
    """The pipes, by the program's number for them."""

    def __init__(self) -> None:
        self._open: dict[int, asyncio.BaseTransport] = {}

    def add(self, number: int, transport: asyncio.BaseTransport) -> None:
        self._open[number] = transport

    def get_pipe_transport(self, number: int) -> asyncio.BaseTransport:
        return self._open[number]

    def close(self) -> None:
        for transport in self._open.values():
            transport.close()


async def _end_of(line: socket.socket) -> int:
    with line:
        line.setblocking(False)  # noqa: FBT003
        return int(await asyncio.get_running_loop().sock_recv(line, 64))


async def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit: int = 65_536,
    stdin: int = subprocess.PIPE,
) -> asyncio.subprocess.Process:
    """Start a command, with pipes; or nothing to read on stdin (`DEVNULL`)."""
    if not forks(command, env):
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, stdin=stdin, stdout=pipe, stderr=pipe, env=env, cwd=cwd, limit=limit
        )
    with contextlib.ExitStack() as opened:
        pipes, theirs = _pipes(opened)
        with theirs:
            process = Process(*fork(command, env, cwd, pipes.theirs))
        opened.pop_all()
    await _connect(process, pipes.ours, limit)
    if stdin == subprocess.DEVNULL:
        process._transport.get_pipe_transport(0).close()
    return cast("asyncio.subprocess.Process", process)


async def _connect(process: Process, ours: list[IO[bytes]], limit: int) -> None:
    """Give it the streams that a process has."""
    loop = asyncio.get_running_loop()
    writing, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, ours[0])
    process.stdin = asyncio.StreamWriter(writing, flow, None, loop)
    process._transport.add(0, writing)
    readers = [asyncio.StreamReader(limit) for _ in range(2)]
    for number, (reader, pipe) in enumerate(zip(readers, ours[1:], strict=True), start=1):
        reading, _ = await loop.connect_read_pipe(lambda reader=reader: asyncio.StreamReaderProtocol(reader), pipe)
        process._transport.add(number, reading)
    process.stdout, process.stderr = readers
