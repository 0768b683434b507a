"""Measure how well and how fast tools are found, by the running workbench and by other programs.

    retrieval.py [--quick] [--only LABEL,...] [--largest TOOLS] [--data FOLDER] [--json FILE] [--pictures FOLDER]

The questions are those of public benchmarks, which are not in the repository. The workbench is `serve` over stdio with
one toolbox for each category of servers; every question is an `open_toolbox` call with `"toolbox": "*"`. With
BENCH_BASE=FOLDER the workbench of another worktree is measured in the same run. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import programs
import report
import retrieval_data
import retrieval_report
import searchers
from programs import Unavailable
from retrieval_data import Entry, NoData, Question, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from searchers import Run, Searcher

DEFAULT_DATA = programs.ROOT.parent / "shared" / "bench" / "retrieval"
DEFAULT_RESULTS = programs.HERE / "results" / "retrieval.json"
SIZES = ("livemcpbench", "stabletoolbench", None)
"""Whose tools are searched for the time that it takes: about 500, 2,500, and the most, of all catalogs and copies."""
LARGEST = 17_500
COPIES = 8
FOREIGN = {
    "livemcpbench": "mcpproxy_golden",
    "stabletoolbench": "livemcpbench",
    "mcpproxy_golden": "stabletoolbench",
}
"""The set whose tools do not answer the questions of a folder."""


@dataclass(frozen=True)
class Plan:
    """How often, and how many questions are asked where every one of them takes long."""

    rounds: int = 3
    timed: int = 100
    questions: int | None = None
    largest: int = LARGEST


QUICK = Plan(rounds=1, timed=20, questions=40)

SEARCHERS: Mapping[str, Callable[[], Searcher]] = {
    "workbench": searchers.workbench,
    **({"base": searchers.base} if os.environ.get(programs.BASE_VARIABLE) else {}),
    "fastmcp": searchers.fastmcp,
    "fts5": searchers.fts5,
}


def prepare(labels: list[str]) -> tuple[dict[str, Searcher], dict[str, str]]:
    """The programs that can be measured, and why the others can't."""
    found: dict[str, Searcher] = {}
    absent: dict[str, str] = {}
    definition = {"name": "t", "description": "read", "inputSchema": {"type": "object"}}
    for label in labels:
        try:
            searcher = SEARCHERS[label]()
            searcher.run([{"toolbox": "b", "server": "s", "definition": definition}], ["read"])
        except (OSError, Unavailable) as error:
            absent[label] = str(error)
        else:
            found[label] = searcher
    return found, absent


def measure_quality(sets: Mapping[str, Set], programs: Mapping[str, Searcher], plan: Plan) -> dict[str, Any]:
    """Each set's questions, asked of its own tools, of eight copies of them, and of tools that do not answer them."""
    rows: dict[str, Any] = {}
    for name, one in sets.items():
        asked = one.questions[: plan.questions]
        runs: dict[str, Run] = {}
        for label, searcher in programs.items():
            _announce(f"{name}: {label}")
            texts = [question.text for question in asked]
            own = runs[label] = searcher.run(one.entries, texts)
            others = searcher.run(sets[FOREIGN[one.folder]].entries, texts)
            copies = searcher.run(retrieval_data.copied(one.entries, COPIES), texts)
            rows.setdefault(name, {})[label] = {
                **retrieval_report.quality(asked, own),
                "copies": retrieval_report.recalls(asked, copies, 5),
                "refused_foreign": sum(others.weak) / len(others.weak),
            }
        for label in runs.keys() - {"workbench"} if "workbench" in runs else ():
            rows[name][label]["difference"] = retrieval_report.difference(asked, runs["workbench"], runs[label])
    return rows


def measure_sizes(sets: Mapping[str, Set], programs: Mapping[str, Searcher], plan: Plan) -> dict[int, Any]:
    rows: dict[int, Any] = {}
    for name in SIZES:
        entries, questions = _haystack(sets, plan.largest, name)
        asked = random.Random(0).sample(questions, min(plan.timed, len(questions)))  # noqa: S311 -- no secret
        rounds: dict[str, list[Run]] = {label: [] for label in programs}
        for number in range(plan.rounds):
            for label, searcher in programs.items():
                _announce(f"{len(entries):,} tools, round {number + 1}: {label}")
                rounds[label].append(searcher.run(entries, [question.text for question in asked]))
        rows[len(entries)] = {label: retrieval_report.times(asked, runs) for label, runs in rounds.items()}
    return rows


def _haystack(sets: Mapping[str, Set], size: int, name: str | None) -> tuple[list[Entry], list[Question]]:
    if name is not None:
        return sets[name].entries, sets[name].questions
    folders = {one.folder: one.entries for one in sets.values()}
    entries = [entry for entries in folders.values() for entry in entries]
    questions = [question for one in sets.values() for question in one.questions]
    return retrieval_data.enlarged(entries, size), questions


def _announce(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def document(quality: Any, sizes: Any, searchers: Mapping[str, Searcher], absent: Mapping[str, str]) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": report._machine(),  # noqa: SLF001 -- of this folder
        "versions": {label: searcher.version for label, searcher in searchers.items()},
        "unavailable": dict(absent),
        "quality": quality,
        "sizes": sizes,
    }


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how well and how fast tools are found.")
    parser.add_argument("--quick", action="store_true", help="few questions, one round: a look, not a figure to quote")
    parser.add_argument("--only", metavar="LABEL,...", help=f"of {', '.join(SEARCHERS)}")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="TOOLS", help="how many are searched at most")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="FOLDER", help="where the questions are")
    parser.add_argument("--json", type=Path, default=DEFAULT_RESULTS, metavar="FILE", help="where figures are written")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where pictures of them are written (SVG)")
    arguments = parser.parse_args()
    arguments.labels = arguments.only.split(",") if arguments.only else list(SEARCHERS)
    if unknown := set(arguments.labels) - set(SEARCHERS):
        parser.error(f"--only: no such program: {', '.join(sorted(unknown))}")
    return arguments


def main() -> None:
    arguments = read_arguments()
    try:
        sets = retrieval_data.load(arguments.data)
    except NoData as error:
        sys.exit(str(error))
    plan = replace(QUICK if arguments.quick else Plan(), largest=arguments.largest)
    found, absent = prepare(arguments.labels)
    quality = measure_quality(sets, found, plan)
    sizes = measure_sizes(sets, found, plan)
    print(retrieval_report.quality_table(quality), retrieval_report.size_table(sizes), sep="\n\n")
    print("".join(f"\n{label} absent: {reason}" for label, reason in absent.items()))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(document(quality, sizes, found, absent), indent=1) + "\n")
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        (arguments.pictures / "search-recall.svg").write_text(retrieval_report.recall_picture(quality))
        (arguments.pictures / "search-time.svg").write_text(retrieval_report.time_picture(sizes))
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
