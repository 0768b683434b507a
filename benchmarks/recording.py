"""Measure what the record of calls costs a call: `mcp-workbench serve` with the record and without, in turns.

    recording.py [--rounds N] [--json FILE]

Both programs run at the same time, and take turns of a few hundredths of a second. A figure is CPU time for a call as
the kernel counts it: of the thread that serves, that of the tenth part of its turns that were disturbed least; and of
the threads beside it, of which one writes the record, all that they took. Each round has new processes, since no two
are equally fast, and the median of the rounds counts. See README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles

import programs
from gateway import Subject
from programs import Place
from raw_client import RawClient, Request, RequestFailed

LEVELS = (1, 64)
TARGET = 1.05
ROUNDS = 15
"""No two processes are equally fast: with fewer the median itself moves by two hundredths."""
PAIRS = 40
"""Of turns, in a round, for each number of calls in flight."""
TURN_SECONDS = 0.03
"""So short that what else the machine does falls on both."""
WARM_UP_SECONDS = 0.5
WRITTEN_SECONDS = 1.5
"""After the last turn: the record is written a second after what it tells of."""


@dataclass
class Side:
    """One of the two programs, and what its turns took."""

    client: RawClient
    call: Request
    calls: int = 0
    beside: int = 0
    costs: list[float] = field(default_factory=list[float])

    def turn(self, level: int, seconds: float = TURN_SECONDS) -> None:
        before = nanoseconds(self.client.pid)[0]
        load = self.client.load(self.call, in_flight=level, seconds=seconds)
        if load.failures:
            raise RequestFailed(f"{load.failures} calls failed")
        self.calls += len(load.latencies)
        self.costs.append((nanoseconds(self.client.pid)[0] - before) / len(load.latencies) / 1000)


@dataclass(frozen=True)
class Cost:
    """Of a call in one round: microseconds without the record, and how many times as much it is with it."""

    without: float
    ratio: float
    beside: float
    """The part of the ratio that other threads took."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if sys.platform != "linux":
        sys.exit("recording.py reads the CPU time of other processes, which it can do on Linux alone")
    costs = measured(options.rounds)
    for level, rounds in costs.items():
        print(line(level, rounds))
    if options.json:
        rows = {level: [asdict(one) for one in rounds] for level, rounds in costs.items()}
        options.json.write_text(json.dumps({"target": TARGET, "rounds": rows}), encoding="utf-8")


def line(level: int, rounds: list[Cost]) -> str:
    ratios = sorted(cost.ratio for cost in rounds)
    ratio, without, beside = (median(getattr(cost, name) for cost in rounds) for name in ("ratio", "without", "beside"))
    return (
        f"{level:3} in flight: {ratio:.3f} x with the record ({ratios[0]:.3f} to {ratios[-1]:.3f} in the rounds, "
        f"{beside:.3f} of it in other threads) of {without:.0f} us of CPU a call without it; "
        f"target: under {TARGET}: {'PASS' if ratio < TARGET else 'MISS'}"
    )


def measured(rounds: int, records: tuple[str, str] = ("off", "calls")) -> dict[int, list[Cost]]:
    """What the second costs more than the first, by the number of calls in flight."""
    costs: dict[int, list[Cost]] = {level: [] for level in LEVELS}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        subjects = [Subject(programs.recording(Place(Path(folder)), record)) for record in records]
        for number in range(rounds):
            print(f"round {number + 1}", file=sys.stderr, flush=True)
            with ExitStack() as stack:
                started = [subjects[(number + at) % 2] for at in range(2)]
                clients = {id(subject): stack.enter_context(subject.running()) for subject in started}
                sides = [(clients[id(subject)], subject.program.call) for subject in subjects]
                for client, call in sides:
                    client.initialize()
                    client.load(call, in_flight=LEVELS[-1], seconds=WARM_UP_SECONDS)
                time.sleep(WRITTEN_SECONDS)
                for level in LEVELS:
                    costs[level].append(compared(level, *(Side(client, call) for client, call in sides)))
    return costs


def compared(level: int, without: Side, with_it: Side) -> Cost:
    sides = (without, with_it)
    before = [nanoseconds(side.client.pid)[1] for side in sides]
    for number in range(PAIRS):
        for side in sides if number % 2 else sides[::-1]:
            side.turn(level)
    time.sleep(WRITTEN_SECONDS)
    beside = [
        (nanoseconds(side.client.pid)[1] - known) / side.calls / 1000 for side, known in zip(sides, before, strict=True)
    ]
    own = [quantiles(side.costs, n=10)[0] for side in sides]
    share = (beside[1] - beside[0]) / own[0]
    return Cost(own[0], own[1] / own[0] + share, share)


def nanoseconds(pid: int) -> tuple[int, int]:
    """CPU time of a process: of its first thread, and of all others."""
    own = other = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent = int((task / "schedstat").read_text().split()[0])
        if task.name == str(pid):
            own = spent
        else:
            other += spent
    return own, other


if __name__ == "__main__":
    main()
