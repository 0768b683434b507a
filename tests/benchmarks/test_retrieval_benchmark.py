"""The benchmark of search: its figures, what it says where its data is absent, and one small run of it."""

import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks import report

BENCHMARKS = Path(report.__file__).parent
sys.path.insert(0, str(BENCHMARKS))

import retrieval_data  # noqa: E402 -- the benchmarks are scripts, which import one another by their names
import retrieval_report  # noqa: E402
from searchers import Run  # noqa: E402

A, B, C, D = ("s", "a"), ("s", "b"), ("s", "c"), ("s", "d")


def run_of(*ranked, **fields):
    return Run([[{tool} for tool in tools] for tools in ranked], [not tools for tools in ranked], **fields)


def question(*groups):
    return retrieval_data.Question("?", [set(group) for group in groups])


def run(*options):
    command = [sys.executable, str(BENCHMARKS / "retrieval.py"), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def data(tmp_path):
    """Three catalogs of five tools, with a question about each."""
    for folder, topic in (("livemcpbench", "mail"), ("stabletoolbench", "weather"), ("mcpproxy_golden", "file")):
        (tmp_path / folder).mkdir()
        names = [f"{verb}_{topic}" for verb in ("read", "write", "list", "delete", "count")]
        tools = [
            {"server": topic, "category": topic, "tool": name, "description": name, "inputSchema": {}} for name in names
        ]
        asked = [{"query": name.replace("_", " the "), "gold_groups": [[[topic, name]]]} for name in names]
        (tmp_path / folder / "catalog.jsonl").write_text("\n".join(map(json.dumps, tools)))
        for file in ("queries", "agent_queries", "step_queries"):
            (tmp_path / folder / f"{file}.jsonl").write_text("\n".join(map(json.dumps, asked)))
    return tmp_path


def test_a_small_run_prints_tables_writes_figures_and_draws_them(data, tmp_path):
    written, drawn = tmp_path / "results" / "retrieval.json", tmp_path / "pictures"
    options = ("--quick", "--largest", 40, "--only", "workbench,fts5", "--data", data)
    done = run(*options, "--json", written, "--pictures", drawn)
    assert done.returncode == 0, done.stderr
    assert "| mcpproxy_golden | workbench | 1.000 |" in done.stdout
    figures = json.loads(written.read_text())
    assert set(figures["quality"]) == set(retrieval_data.SETS)
    found = figures["quality"]["stabletoolbench"]["workbench"]
    assert (found["refused"], found["copies"]) == (0.0, 1.0)
    assert found["tokens"] > 50
    assert figures["quality"]["stabletoolbench"]["fts5"]["difference"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert list(figures["sizes"]) == ["5", "40"]
    assert set(figures["sizes"]["40"]) == {"workbench", "fts5"}
    for picture in ("search-recall.svg", "search-time.svg"):
        assert ET.fromstring((drawn / picture).read_text()).tag.endswith("svg")  # noqa: S314 -- our own


def test_it_says_so_where_its_data_is_absent(tmp_path):
    done = run("--data", tmp_path / "nowhere")
    assert done.returncode != 0
    assert "There is no retrieval data in" in done.stderr
    assert "--data" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_says_so_where_its_data_is_not_whole(data):
    (data / "stabletoolbench" / "catalog.jsonl").write_text('{"tool": 5}\n')
    done = run("--data", data)
    assert "can't be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_recall_counts_groups_of_which_one_tool_was_found():
    assert retrieval_report.recall([{A, B}, {C}], [{B}, {D}]) == 0.5
    assert retrieval_report.recall([{A, B}, {C}], [{A}, {B}]) == 0.5
    assert retrieval_report.recall([{A}, {C}], [{C, A}]) == 1.0
    assert retrieval_report.recall([{A}], []) == 0.0


def test_the_reciprocal_rank_is_that_of_the_first_tool_that_answers():
    assert retrieval_report.reciprocal_rank([{A}, {C}], [{D}, {C}, {A}]) == 0.5
    assert retrieval_report.reciprocal_rank([{A}], [{D}]) == 0.0


def test_gain_is_one_for_the_best_order_and_less_for_others():
    assert retrieval_report.gain([{A}, {C}], [{A}, {C}, {D}]) == pytest.approx(1.0)
    assert retrieval_report.gain([{A}], [{D}, {A}]) == pytest.approx(1 / math.log2(3))
    assert retrieval_report.gain([{A, B}], [{A}, {B}]) == pytest.approx(1.0)
    assert retrieval_report.gain([{tool} for tool in (A, B, C, D)], [{A}, {B}, {C}, {D}]) == pytest.approx(1.0)


def test_quality_is_the_mean_over_the_questions():
    figures = retrieval_report.quality([question([A]), question([B])], run_of([A], [C, B], tokens=[10, 30]))
    assert (figures["recall_1"], figures["recall_5"], figures["mrr"]) == (0.5, 1.0, 0.75)
    assert (figures["tokens"], figures["refused"]) == (20, 0.0)
    assert retrieval_report.quality([question([A])], run_of([]))["refused"] == 1.0


def test_the_interval_of_a_difference_compares_the_same_questions():
    asked = [question([A])] * 40
    ours, theirs = run_of(*[[A]] * 40), run_of(*[[A]] * 20, *[[B]] * 20)
    assert retrieval_report.difference(asked, ours, ours) == {"mean": 0.0, "low": 0.0, "high": 0.0}
    figures = retrieval_report.difference(asked, ours, theirs)
    assert figures["mean"] == 0.5
    assert 0.3 < figures["low"] < 0.5 < figures["high"] < 0.7


def test_copies_are_the_same_servers_in_other_toolboxes(data):
    entries = retrieval_data.load(data)["livemcpbench"].entries
    copies = retrieval_data.copied(entries, 3)
    assert copies[: len(entries)] == entries
    assert [entry["definition"] for entry in copies] == [entry["definition"] for entry in entries] * 3
    assert {entry["toolbox"] for entry in copies} == {"mail", "mail 2", "mail 3"}


def test_a_catalog_is_enlarged_with_other_tools_and_in_every_run_the_same(data):
    entries = retrieval_data.load(data)["livemcpbench"].entries
    large = retrieval_data.enlarged(entries, 23)
    assert len(large) == 23
    assert large[: len(entries)] == entries
    assert large == retrieval_data.enlarged(entries, 23)
    assert len({(entry["server"], entry["definition"]["name"]) for entry in large}) == 23


def test_times_are_medians_over_the_rounds():
    rounds = [run_of(*[[A]] * 20, build_s=n, memory_mb=n, seconds=[n / 1000] * 20) for n in (1.0, 5.0, 2.0)]
    figures = retrieval_report.times([question([A])] * 20, rounds)
    assert (figures["build_s"], figures["query_ms"], figures["p95_ms"]) == (2.0, pytest.approx(2.0), pytest.approx(2.0))
