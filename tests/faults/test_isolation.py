"""With any one server in any fault its neighbour answers as always, and the event loop is never blocked.

Every mode of the rogue server is a case here by itself; what it needs to show its fault stands in `CASES` and `SAYING`.
Several faults run at once, against one workbench. Where that is too much, each is tried alone: what is promised, is
promised for one faulty server, and so it is seen which one it was.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import Raw

from mcp_workbench import Workbench
from mcp_workbench.errors import WorkbenchError
from tests.peers.rogue_stdio import CHATTER, CURSORS, FLOODS, LEAKS, MODES, SCHEMAS, SLOPPY
from tests.support.configs import rogue
from tests.support.lag import LagProbe, elapsed
from tests.support.library import handle_of, tool, workbench
from tests.support.procs import queued_seconds

NO_FAULT = {"ok", "modern", "unknown_fields", "dump_env", "is_error", "digits", "shelf"}
"""Modes of a server that does what it should."""

CASES: dict[str, list[tuple[object, ...]]] = {
    "needs": [("/no/such/file",)],
    "hang_init": [("stubborn", "daemon")],
    "slow_start": [(0.3,)],
    "sloppy_probe": [(kind,) for kind in SLOPPY],
    "pages": [(1000, 50), (5001, 1000)],
    "cursor": [(kind,) for kind in CURSORS],
    "schemas": [(kind,) for kind in SCHEMAS],
    "changed_list": [("lists",), ("hangs",), ("fails",)],
    "large_tools": [(60, 255 * 1024)],
    "progress": [(1000,)],
    "garbage": [(0,), (10_000,)],
    "quotes": [("[debug]",)],
    "request_flood": [(20_000,)],
    "chatter": [(kind,) for kind in CHATTER],
    "flood": [(kind,) for kind in FLOODS],
    "costly": [(kind, 20) for kind in ("references", "output_cycle")],
    "leak": [(kind,) for kind in ("version", *LEAKS)],
    "slow_eof": [(0.3,)],
    "lock": [("lock", 0.3)],
    "modern_asks": [(), ("exits",)],
    "no_read": [(), ("daemon",)],
    "refuses": [("initialize",), ("tools/list",)],
    "impostor": [("good",)],
    "modern_impostor": [("good",)],
    "names_of": [("names.json",)],
}
"""The arguments of a mode, where it needs any: each a case of its own."""

SAYING: dict[str, dict[str, Any]] = {
    "bigline": {"bytes": 100_000_000},
    "stderrflood": {"bytes": 20_000_000},
    "garbage": {"lines": 10_000},
    "progress": {"gap": 0.0005},
    "drip": {"bytes": 60_000},
    "storm": {"count": 500},
    "says": {"text": "\x1b[31mred\n" * 1000},
    "spill": {"text": "\x1b[31mred\n" * 1000},
}
"""The arguments of its calls, where they need any."""

FAULTY: dict[str, float] = {"startupTimeout": 0.5, "callTimeout": 0.3, "maxCallTime": 0.5}
"""What a faulty server's configuration says, so that a case takes no longer than it must."""
LIMITS = {
    "open_timeout_seconds": 1.0,
    "probe_patience_seconds": 0.1,
    "list_page_timeout_seconds": 0.3,
    "alive_seconds": 0.2,
    "backoff_first_seconds": 0.05,
    "relist_interval_seconds": 0.1,
    "stdin_eof_seconds": 0.1,
    "terminate_seconds": 0.1,
    "drain_seconds": 0.0,
}
LEAKED = "first-line-of-a-token\nsecond-line-of-a-token"
QUIET_CALLS = 60
PACE_SECONDS = 0.004
FAULTY_SECONDS = 0.5
FAULTY_CALLS = 120
"""For at least as long, and as often, the neighbour is called beside the faults."""
NOISE_SECONDS = 0.005
"""The middle of the neighbour's times is looked at only above this: below, it is the machine's."""


class Case(NamedTuple):
    mode: str
    arguments: tuple[object, ...] = ()

    @property
    def name(self) -> str:
        return "-".join((self.mode, *(str(one).rpartition("/")[2] for one in self.arguments)))


def all_cases() -> list[Case]:
    modes = [mode for mode in MODES if mode not in NO_FAULT]
    return [Case(mode, arguments) for mode in modes for arguments in CASES.get(mode, [()])]


class Figures(NamedTuple):
    """What the neighbour and the event loop had of it, in seconds."""

    quiet: list[float]
    beside: list[float]
    computed: float
    failures: list[str]

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept. What the machine is too busy for when all is quiet, nobody can promise."""
        (usual, worst_usual), (p50, p99) = times(self.quiet), times(self.beside)
        found = list(self.failures)
        if p99 >= max(0.25, 2 * worst_usual):
            found.append(f"p99 of the neighbour's calls is {p99:.3f} s, beside {worst_usual:.3f} s when all is quiet")
        if p50 >= max(2 * usual, NOISE_SECONDS):
            found.append(f"p50 of the neighbour's calls is {p50:.4f} s, beside {usual:.4f} s when all is quiet")
        if self.computed >= 0.1:
            found.append(f"the event loop computed for {self.computed:.3f} s at a stretch")
        return found


def times(seconds: list[float]) -> tuple[float, float]:
    """The middle and all but the worst hundredth."""
    return statistics.median(seconds), sorted(seconds)[-1 - len(seconds) // 100]


class Neighbour:
    """A healthy server that is called all the time. What the machine kept from it and from us is no time of a call."""

    def __init__(self, wb: Workbench, process: int) -> None:
        self._wb = wb
        self._process = process
        self.seconds: list[float] = []
        self.failures: list[str] = []

    async def call(self) -> None:
        since, queued = time.monotonic(), self._queued()
        try:
            await self._wb.relay(tool("good", "nonce"), Raw(b'{"nonce":"n"}'))
        except WorkbenchError as error:
            self.failures.append(f"a call of the neighbour failed: {error}")
        self.seconds.append(max(0.0, elapsed(since) - (self._queued() - queued)))
        await asyncio.sleep(PACE_SECONDS)

    def _queued(self) -> float:
        return queued_seconds() + queued_seconds(self._process)

    async def call_until(self, faults: asyncio.Future[Any]) -> None:
        since = time.monotonic()
        while not faults.done() or elapsed(since) < FAULTY_SECONDS or len(self.seconds) < FAULTY_CALLS:
            await self.call()


async def measure(folder: Path, cases: tuple[Case, ...]) -> Figures:
    """The neighbour's times beside these faults, and before and after when nothing happens."""
    (folder / "names.json").write_text(json.dumps(["", "\n", *(f"{number}\u202e" for number in range(3000))]))
    defects: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(f"a defect of ours: {context}"))
    settings = {"env": {"TOKEN": LEAKED}, "cwd": str(folder), **FAULTY}
    faulty = {case.name: rogue(case.mode, *case.arguments, **settings) for case in cases}
    async with workbench(folder, {"dev": {"good": rogue(), **faulty}}, **LIMITS) as wb:
        started = await wb.use(tool("good", "echo"))
        process = json.loads(started["content"][0]["text"])["pid"]
        quiet, beside = Neighbour(wb, process), Neighbour(wb, process)
        for _ in range(QUIET_CALLS):
            await quiet.call()
        async with LagProbe() as lag:
            faults = asyncio.ensure_future(misbehave(wb, cases))
            await beside.call_until(faults)
        await faults
        await asyncio.gather(*(handle_of(wb, "dev", case.name).close() for case in cases))
        for _ in range(QUIET_CALLS):
            await quiet.call()
        failures = [*quiet.failures, *beside.failures, *defects]
        return Figures(quiet.seconds, beside.seconds, lag.worst_cpu_seconds, failures)


async def misbehave(wb: Workbench, cases: tuple[Case, ...]) -> None:
    """Open the toolbox, then call all that its faulty servers offer, twice over, at once."""
    opened = await wb.open("dev")
    outcomes: list[object] = list(opened.failed)
    calls: list[Awaitable[object]] = []
    for case in cases:
        names = [one.tool for one, _ in opened.found if one.server == case.name] or ["echo"]
        arguments = Raw(json.dumps(SAYING.get(case.mode, {})).encode())
        calls += [wb.relay(tool(case.name, name), arguments) for name in names[:25] * 2]
    outcomes += await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            assert isinstance(outcome, WorkbenchError), outcome
            assert not lacks_something(str(outcome)), f"the mode needs an entry in CASES or SAYING: {outcome}"


def lacks_something(text: str) -> bool:
    """Whether the rogue server fell over its own arguments."""
    return "rogue_stdio.py" in text and any(one in text for one in ("IndexError", "KeyError", "ValueError"))


def batches(size: int) -> list[tuple[Case, ...]]:
    """Faults of different kinds together: those of one mode are far from each other."""
    cases = all_cases()
    count = -(-len(cases) // size)
    return [tuple(cases[first::count]) for first in range(count)]


@pytest.mark.row("A1", "A10", "D11")
@pytest.mark.parametrize("cases", batches(5), ids=lambda cases: "+".join(case.name for case in cases))
async def test_with_a_server_in_any_fault_its_neighbour_answers_as_always(tmp_path: Path, cases: tuple[Case, ...]):
    together = await measure(tmp_path, cases)
    if together.broken:
        print("together:", together.broken)
        guilty = {case.name: broken for case in cases if (broken := await broken_alone(tmp_path, case))}
        assert guilty == {}


async def broken_alone(folder: Path, case: Case) -> list[str]:
    """What one fault breaks, and breaks again: the machine may have been busy with something else."""
    first = (await measure(folder, (case,))).broken
    return first and (await measure(folder, (case,))).broken


def test_every_mode_that_is_named_here_exists():
    assert NO_FAULT | CASES.keys() | SAYING.keys() <= MODES.keys()
