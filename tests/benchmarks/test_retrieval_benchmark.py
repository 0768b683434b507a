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

A, B, C, D = ("s", "a"), ("s", "b"), ("s", "c"), ("s", "d")


def hits(*tools, score=1.0):
    return [[*tool, score] for tool in tools]


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
            {"server": topic, "server_description": "", "tool": name, "description": name, "inputSchema": {}}
            for name in names
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
    assert "| mcpproxy_golden | workbench | 1.00 |" in done.stdout
    figures = json.loads(written.read_text())
    assert set(figures["quality"]) == set(retrieval_data.SETS)
    assert figures["quality"]["stabletoolbench"]["workbench"]["auc"] == 1.0
    assert figures["quality"]["stabletoolbench"]["workbench"]["refused"] == 0.0
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
    assert retrieval_report.recall([{A, B}, {C}], [B, D]) == 0.5
    assert retrieval_report.recall([{A, B}, {C}], [A, B]) == 0.5
    assert retrieval_report.recall([{A}, {C}], [C, A]) == 1.0
    assert retrieval_report.recall([{A}], []) == 0.0


def test_the_reciprocal_rank_is_that_of_the_first_tool_that_answers():
    assert retrieval_report.reciprocal_rank([{A}, {C}], [D, C, A]) == 0.5
    assert retrieval_report.reciprocal_rank([{A}], [D]) == 0.0


def test_gain_is_one_for_the_best_order_and_less_for_others():
    assert retrieval_report.gain([{A}, {C}], [A, C, D]) == pytest.approx(1.0)
    assert retrieval_report.gain([{A}], [D, A]) == pytest.approx(1 / math.log2(3))
    assert retrieval_report.gain([{A, B}], [A, B]) == pytest.approx(1.0)
    assert retrieval_report.gain([{tool} for tool in (A, B, C, D)], [A, B, C, D]) == pytest.approx(1.0)


def test_quality_is_the_mean_over_the_questions():
    figures = retrieval_report.quality([question([A]), question([B])], [hits(A), hits(C, B)])
    assert (figures["recall_1"], figures["recall_5"], figures["mrr"]) == (0.5, 1.0, 0.75)


def test_auc_compares_best_scores_and_nothing_found_is_the_least():
    strong, weak = hits(A, score=2.0), hits(A, score=1.0)
    assert retrieval_report.auc([strong, strong], [weak, []]) == 1.0
    assert retrieval_report.auc([weak], [strong, weak]) == 0.25
    assert retrieval_report.auc([[]], [[]]) == 0.5
    assert retrieval_report.auc([hits(A, score=None)], [weak]) is None


def test_a_catalog_is_enlarged_with_other_tools_and_in_every_run_the_same(data):
    entries = retrieval_data.load(data)["livemcpbench"].entries
    large = retrieval_data.enlarged(entries, 23)
    assert len(large) == 23
    assert large[: len(entries)] == entries
    assert large == retrieval_data.enlarged(entries, 23)
    assert len({(entry["server"], entry["definition"]["name"]) for entry in large}) == 23


def test_times_are_medians_over_the_rounds():
    rounds = [{"build_s": n, "memory_mb": n, "seconds": [n / 1000] * 20} for n in (1.0, 5.0, 2.0)]
    figures = retrieval_report.times(rounds)
    assert (figures["build_s"], figures["query_ms"], figures["p95_ms"]) == (2.0, pytest.approx(2.0), pytest.approx(2.0))
