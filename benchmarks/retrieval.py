"""Measure how well and how fast tools are found, beside other programs.

    retrieval.py [--quick] [--only LABEL,...] [--largest TOOLS] [--data FOLDER] [--json FILE] [--pictures FOLDER]

The questions are those of public benchmarks, which are not in the repository. Each program runs in a process of its
own, gets the same tools and questions, and times itself; what is printed are medians over the rounds, in which the
programs take turns. See docs/search.md for how to read it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import programs
import report
import retrieval_data
import retrieval_report
from programs import Unavailable
from retrieval_data import NoData, Question, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_DATA = programs.ROOT.parent / "shared" / "bench" / "retrieval"
DEFAULT_RESULTS = programs.HERE / "results" / "retrieval.json"
SIZES = ("livemcpbench", "stabletoolbench", None)
"""Whose tools are searched for the time that it takes: about 500, 2,500, and the most, of all catalogs and copies."""
LARGEST = 17_500
FOREIGN = {
    "livemcpbench": "mcpproxy_golden",
    "stabletoolbench": "livemcpbench",
    "mcpproxy_golden": "stabletoolbench",
}
"""The set whose tools do not answer the questions of a folder."""
MOST = 10
PEERS = programs.HERE / "peers"


@dataclass(frozen=True)
class Plan:
    """How often, and how many questions are asked where every one of them takes long."""

    rounds: int = 3
    timed: int = 100
    questions: int | None = None
    largest: int = LARGEST


QUICK = Plan(rounds=1, timed=20, questions=40)


@dataclass(frozen=True)
class Searcher:
    """A program that finds tools."""

    label: str
    version: str
    command: tuple[str, ...]

    def run(self, entries: list[dict[str, Any]], questions: list[str]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            job = Path(folder) / "job.json"
            job.write_text(json.dumps({"tools": entries, "queries": questions, "most": MOST}))
            command = (*self.command[:2], str(job), *self.command[2:])
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise Unavailable(said[-1] if said else f"exit status {done.returncode}")
        return json.loads(done.stdout)


def workbench() -> Searcher:
    return Searcher("workbench", _own_version(), (programs.workbench_python(), str(PEERS / "search_workbench.py")))


def with_meaning() -> Searcher:
    python = programs.workbench_python()
    version = programs.version_of(python, "wordllama")
    return Searcher("semantic", version, (python, str(PEERS / "search_workbench.py"), "semantic"))


def fastmcp() -> Searcher:
    python = programs.install("fastmcp", "fastmcp>=4,<5")
    return Searcher("fastmcp", programs.version_of(python, "fastmcp"), (python, str(PEERS / "search_fastmcp.py")))


def fts5() -> Searcher:
    import sqlite3  # noqa: PLC0415 -- only for its version

    return Searcher("fts5", sqlite3.sqlite_version, (sys.executable, str(PEERS / "search_fts5.py")))


SEARCHERS: Mapping[str, Callable[[], Searcher]] = {
    "workbench": workbench,
    "semantic": with_meaning,
    "fastmcp": fastmcp,
    "fts5": fts5,
}


def _own_version() -> str:
    return programs.version_of(programs.workbench_python(), "mcp-workbench")


def prepare(labels: list[str]) -> tuple[dict[str, Searcher], dict[str, str]]:
    """The programs that can be measured, and why the others can't."""
    found: dict[str, Searcher] = {}
    absent: dict[str, str] = {}
    entry = {"server": "s", "about": "", "definition": {"name": "t", "description": "read", "inputSchema": {}}}
    for label in labels:
        try:
            searcher = SEARCHERS[label]()
            searcher.run([entry], ["read"])
        except (OSError, Unavailable) as error:
            absent[label] = str(error)
        else:
            found[label] = searcher
    return found, absent


def measure_quality(sets: Mapping[str, Set], searchers: Mapping[str, Searcher], plan: Plan) -> dict[str, Any]:
    """Each set's questions are asked of its own tools, and of those of another catalog, which do not answer them."""
    rows: dict[str, Any] = {}
    for name, one in sets.items():
        foreign = sets[FOREIGN[one.folder]].entries
        asked = one.questions[: plan.questions]
        texts = [question.text for question in asked]
        for label, searcher in searchers.items():
            _announce(f"{name}: {label}")
            answers, others = (searcher.run(entries, texts)["ranked"] for entries in (one.entries, foreign))
            rows.setdefault(name, {})[label] = {
                **retrieval_report.quality(asked, answers),
                "auc": retrieval_report.auc(answers, others),
                "refused": sum(not hits for hits in answers) / len(answers),
                "refused_foreign": sum(not hits for hits in others) / len(others),
                "shown": sum(map(len, answers)) / len(answers),
            }
    return rows


def measure_sizes(sets: Mapping[str, Set], searchers: Mapping[str, Searcher], plan: Plan) -> dict[int, Any]:
    rows: dict[int, Any] = {}
    for name in SIZES:
        entries, questions = _haystack(sets, plan.largest, name)
        asked = random.Random(0).sample(questions, min(plan.timed, len(questions)))  # noqa: S311 -- no secret
        rounds: dict[str, list[dict[str, Any]]] = {label: [] for label in searchers}
        for number in range(plan.rounds):
            for label, searcher in searchers.items():
                _announce(f"{len(entries):,} tools, round {number + 1}: {label}")
                rounds[label].append(searcher.run(entries, [question.text for question in asked]))
        rows[len(entries)] = {
            label: {
                **retrieval_report.times(runs),
                "recall_5": retrieval_report.quality(asked, runs[0]["ranked"])["recall_5"],
            }
            for label, runs in rounds.items()
        }
    return rows


def _haystack(sets: Mapping[str, Set], size: int, name: str | None) -> tuple[list[dict[str, Any]], list[Question]]:
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
    searchers, absent = prepare(arguments.labels)
    quality = measure_quality(sets, searchers, plan)
    sizes = measure_sizes(sets, searchers, plan)
    print(retrieval_report.quality_table(quality), retrieval_report.size_table(sizes), sep="\n\n")
    print("".join(f"\n{label} absent: {reason}" for label, reason in absent.items()))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(document(quality, sizes, searchers, absent), indent=1) + "\n")
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        (arguments.pictures / "search-recall.svg").write_text(retrieval_report.recall_picture(quality))
        (arguments.pictures / "search-time.svg").write_text(retrieval_report.time_picture(sizes))
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
