"""Measure MCP gateways in one run, over the same raw server and with the same raw client.

    gateway.py [--quick] [--only LABEL,...] [--delay-ms MS] [--json FILE]

Every program is measured in every round, because on a shared machine only figures of the same
minutes compare; what is printed are medians over the rounds. See README.md for how to read them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pictures
import programs
import report
from arguments import read_arguments
from processes import end_survivors, memory_mb, tree
from programs import Place, Program, Unavailable
from raw_client import RawClient, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from report import Sample

LEVELS = (1, 16, 64)
ANSWER_SECONDS = 30.0
STOP_SECONDS = 10.0
SURVIVAL_SECONDS = 2.0
DEFAULT_RESULTS = programs.HERE / "results" / "gateway.json"


@dataclass(frozen=True)
class Plan:
    """How long and how often. `starts` are launches per round, for the time to the first response alone."""

    rounds: int = 3
    starts: int = 5
    load_seconds: float = 2.0
    warm_up_seconds: float = 0.5


QUICK = Plan(rounds=1, starts=3, load_seconds=0.5, warm_up_seconds=0.2)


@dataclass
class Subject:
    """One program, and what was measured of it so far."""

    program: Program
    samples: list[Sample] = field(default_factory=list["Sample"])
    problems: list[str] = field(default_factory=list[str])
    failures: int = 0

    def try_round(self, measure: Callable[[], Sample]) -> None:
        try:
            self.samples.append(measure())
        except (OSError, RequestFailed) as error:
            self.problems.append(str(error))
            self.failures += 1

    def row(self) -> report.Row:
        keys = self.samples[0] if self.samples else {}
        medians = {key: median(sample[key] for sample in self.samples) for key in keys}
        return report.Row(self.program.version, medians, self.failures, self.problems, self.samples)

    @contextmanager
    def running(self, sample: Sample | None = None) -> Generator[RawClient]:
        """The program with a home of its own, so that nothing it remembers helps the next start."""
        with tempfile.TemporaryDirectory(prefix="bench-") as home, (Path(home) / "stderr").open("w+b") as stderr:
            client = RawClient(
                self.program.command,
                env=environment(home),
                cwd=Path(home),
                stderr=stderr,
                timeout_seconds=ANSWER_SECONDS,
            )
            try:
                yield client
            except RequestFailed as error:
                raise RequestFailed(f"{error} {last_line(stderr.name)}".rstrip()) from error
            finally:
                stopped = self._stop(client)
            if sample is not None:
                sample["stop_s"] = stopped

    def _stop(self, client: RawClient) -> float:
        family = tree(client.pid)[1:]
        seconds = client.stop(STOP_SECONDS)
        if seconds is None:
            self._complain(f"had to be killed {STOP_SECONDS:g} s after the end of its input")
        if left := end_survivors(family, SURVIVAL_SECONDS):
            self._complain(f"left {left} of its processes running")
        return STOP_SECONDS if seconds is None else seconds

    def _complain(self, problem: str) -> None:
        self.problems.append(problem)
        self.failures += 1


def measure_round(subject: Subject, plan: Plan, starts: list[float]) -> Sample:
    if len(starts) < plan.starts:
        raise RequestFailed(f"{plan.starts - len(starts)} of {plan.starts} starts failed")
    return {"first_response_s": median(starts), **measure_gateway(subject, plan)}


def measure_gateway(subject: Subject, plan: Plan) -> Sample:
    """All figures of one program in one round, but for its starts."""
    sample: Sample = {}
    with subject.running(sample) as client:
        client.initialize()
        sample["open_s"], _ = client.timed(subject.program.open)
        client.request(subject.program.call)
        processes = tree(client.pid)
        sample["own_mb"] = memory_mb(processes[:1])
        sample["tree_mb"] = sample["own_mb"] + memory_mb(processes[1:], without=programs.RAW_SERVER.name)
        client.load(subject.program.call, in_flight=LEVELS[-1], seconds=plan.warm_up_seconds)
        for level in LEVELS:
            _measure_load(subject, client, level, plan, sample)
        sample["own_after_mb"] = memory_mb(tree(client.pid)[:1])
    return sample


def _measure_load(subject: Subject, client: RawClient, level: int, plan: Plan, sample: Sample) -> None:
    load = client.load(subject.program.call, in_flight=level, seconds=plan.load_seconds)
    subject.failures += load.failures
    sample[f"per_s_{level}"] = load.per_second
    sample[f"p50_ms_{level}"] = load.percentile(0.5) * 1000
    sample[f"p99_ms_{level}"] = load.percentile(0.99) * 1000


def measure_starts(subjects: Mapping[str, Subject], count: int) -> dict[str, list[float]]:
    """Seconds to the first response. The programs take turns: a start is short, and the machine's moods are too."""
    seconds: dict[str, list[float]] = {label: [] for label in subjects}
    for _ in range(count):
        for label, subject in subjects.items():
            with suppress(OSError, RequestFailed), subject.running() as client:
                seconds[label].append(client.initialize())
    return seconds


def measure_open(subject: Subject) -> Sample:
    """The time to open a toolbox in a program that has just started."""
    with subject.running() as client:
        client.initialize()
        seconds, result = client.timed(subject.program.open)
        if "servers_failed" in json.loads(result["content"][0]["text"]):
            raise RequestFailed("the toolbox did not open whole")
        return {"open_s": seconds}


def environment(home: str) -> dict[str, str]:
    """Ours with an empty home, and without the settings of Python that make a start slower than it is."""
    kept = {name: value for name, value in os.environ.items() if name == "PYTHONPATH" or not name.startswith("PYTHON")}
    folders = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
    return {**kept, **dict.fromkeys(folders, home)}


def last_line(file: str) -> str:
    lines = Path(file).read_text(errors="replace").strip().splitlines()
    return f"({lines[-1]})" if lines else ""


def prepare(labels: list[str], place: Place) -> tuple[dict[str, Subject], dict[str, str]]:
    """The programs that can be measured, and why the others can't."""
    subjects: dict[str, Subject] = {}
    unavailable: dict[str, str] = {}
    for label in labels:
        try:
            subject = Subject(programs.PROGRAMS[label](place))
            _rehearse(subject)
        except (OSError, RequestFailed, Unavailable) as error:
            unavailable[label] = str(error)
        else:
            subjects[label] = subject
    return subjects, unavailable


def _rehearse(subject: Subject) -> None:
    """One unmeasured start: it fills the caches of files and compiled modules, and shows that calls work."""
    with subject.running() as client:
        client.initialize()
        client.request(subject.program.open)
        client.request(subject.program.call)


def run_rounds(subjects: Mapping[str, Subject], toolboxes: Mapping[str, Subject], plan: Plan) -> None:
    """Each program once per round; another one goes first each time."""
    for number in range(plan.rounds):
        announce(number, "starts")
        starts = measure_starts(subjects, plan.starts)
        labels = list(subjects)
        start = number % max(1, len(labels))
        for label in labels[start:] + labels[:start]:
            announce(number, label)
            subjects[label].try_round(partial(measure_round, subjects[label], plan, starts[label]))
        for label, subject in toolboxes.items():
            announce(number, f"workbench, {label}")
            subject.try_round(partial(measure_open, subject))


def announce(number: int, label: str) -> None:
    print(f"round {number + 1}: {label}", file=sys.stderr, flush=True)


def measure(labels: list[str], plan: Plan, call_delay_ms: float) -> report.Results:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Place(Path(folder), call_delay_ms)
        subjects, unavailable = prepare(labels, place)
        toolboxes: dict[str, Subject] = {}
        if "workbench" in subjects:
            toolboxes = {
                "slowest": Subject(programs.slowest_alone(place)),
                "ten": Subject(programs.ten_servers(place)),
            }
        run_rounds(subjects, toolboxes, plan)
        return report.Results(
            labels=labels,
            rows={label: subject.row() for label, subject in subjects.items()},
            unavailable=unavailable,
            toolboxes={label: subject.row() for label, subject in toolboxes.items()},
        )


def picture(results: report.Results) -> str:
    """The figures that a reader asks for first, of every program that was measured."""
    shown = {"per_s_64": "calls/s at 64 in flight", "p50_ms_1": "latency of a call, ms (p50)", "own_mb": "memory, MB"}
    groups = {
        title: {label: row.medians[key] for label, row in results.rows.items() if key in row.medians}
        for key, title in shown.items()
    }
    date = datetime.now(UTC).date().isoformat()
    return pictures.bars(
        f"One server on stdio behind each program, {os.cpu_count()} cores, {date}", groups, report.OURS
    )


def main() -> None:
    arguments = read_arguments(
        "Measure MCP gateways over the same downstream server.", programs.PROGRAMS, DEFAULT_RESULTS
    )
    plan = QUICK if arguments.quick else Plan()
    results = measure(arguments.labels, plan, arguments.delay_ms)
    print(report.text(results))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    settings = {**asdict(plan), "call_delay_ms": arguments.delay_ms}
    arguments.json.write_text(json.dumps(report.document(results, settings), indent=2) + "\n")
    if arguments.plot is not None:
        arguments.plot.parent.mkdir(parents=True, exist_ok=True)
        arguments.plot.write_text(picture(results))
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
