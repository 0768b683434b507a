"""How a healthy server, the neighbour, fares while another one misbehaves: at a real workbench, in CPU time.

A call's latency is its time without what the machine kept from the processes that take part. `cpu_seconds` is what the
workbench's event loop computed while a call or a ping was under way: the longest stretch that it waited for is no
longer. A busy machine changes neither much.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.procs import queued_seconds
from tests.support.wire import Wire, text_of

CALLS = 60
PACE_SECONDS = 0.004
QUIET_SECONDS = 0.005
"""The middle of the neighbour's latencies is looked at only above this."""
WORST_SECONDS = 0.25
STRETCH_SECONDS = 0.1
END_SECONDS = 5.0


class Sample(NamedTuple):
    """One call of the neighbour, or one ping."""

    seconds: float
    cpu_seconds: float


def loop_seconds(process: int) -> float:
    """CPU time of the thread that the event loop of a process runs in."""
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def process_seconds(process: int) -> float:
    """CPU time of all threads of a process, those that have ended too."""
    return time.clock_gettime(~process << 3 | 2)  # what clock_getcpuclockid(3) returns on Linux


class Neighbour:
    """The server `good` of the toolbox `dev`, called over and over by one client."""

    def __init__(self, wire: Wire, process: int) -> None:
        self._wire = wire
        self._processes: tuple[int | str, ...] = (wire.process.pid, process, "self")
        self.quiet: list[Sample] = []
        self.beside: list[Sample] = []
        self.pings: list[Sample] = []

    @classmethod
    async def start(cls, wire: Wire) -> Neighbour:
        """Call it while all is quiet."""
        echo = await wire.use("dev", "good", "echo")
        neighbour = cls(wire, json.loads(text_of(echo))["pid"])
        neighbour.quiet = [await neighbour.call() for _ in range(CALLS)]
        return neighbour

    async def observe(self) -> None:
        """Call it, and the workbench itself, while another server misbehaves."""
        for _ in range(CALLS):
            self.beside.append(await self.call())
            self.pings.append(await self._sample(self._wire.request("ping")))

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept."""
        usual, p50 = (statistics.median(one.seconds for one in some) for some in (self.quiet, self.beside))
        worst_usual, p99 = (sorted(one.seconds for one in some)[-2] for some in (self.quiet, self.beside))
        stretch = max(one.cpu_seconds for one in (*self.beside, *self.pings))
        found: list[str] = []
        if p50 >= max(QUIET_SECONDS, 2 * usual):
            found.append(f"p50 of the neighbour's calls is {p50:.4f} s, and {usual:.4f} s when all is quiet")
        if p99 >= max(WORST_SECONDS, 2 * worst_usual):
            found.append(f"p99 of the neighbour's calls is {p99:.3f} s, and {worst_usual:.3f} s when all is quiet")
        if stretch >= STRETCH_SECONDS:
            found.append(f"the event loop computed for {stretch:.3f} s while a call waited")
        return found

    async def call(self) -> Sample:
        sample = await self._sample(self._wire.use("dev", "good", "nonce", {"nonce": "n"}))
        await asyncio.sleep(PACE_SECONDS)
        return sample

    async def _sample(self, work: Awaitable[dict[str, Any]]) -> Sample:
        began, queued, computed = time.monotonic(), self._queued(), loop_seconds(self._wire.process.pid)
        answer = await work
        assert "error" not in answer
        assert not answer.get("isError"), answer
        seconds = time.monotonic() - began - (self._queued() - queued)
        return Sample(max(0.0, seconds), loop_seconds(self._wire.process.pid) - computed)

    def _queued(self) -> float:
        return sum(queued_seconds(process) for process in self._processes)
