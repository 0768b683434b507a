import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report

GATEWAY = Path(report.__file__).with_name("gateway.py")
QUICKER = f"""
import sys
sys.path.insert(0, {str(GATEWAY.parent)!r})
import gateway
gateway.QUICK = gateway.Plan(rounds=1, starts=1, load_seconds=0.1, warm_up_seconds=0.05)
gateway.main()
"""


def row(**medians):
    return report.Row(version="1", medians=medians, failures=0, problems=[], samples=[medians])


def results(**rows):
    return report.Results(labels=list(rows), rows=rows)


def verdicts(measured):
    return {entry["title"] + entry["unit"]: entry["verdict"] for entry in report.document(measured, {})["targets"]}


def test_the_floor_is_measured_and_written(tmp_path):
    written = tmp_path / "results" / "gateway.json"
    command = [sys.executable, "-c", QUICKER, "--quick", "--only", "direct", "--json", str(written)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    floor = json.loads(written.read_text())["rows"]["direct"]
    assert set(floor["medians"]) >= {metric.key for metric in report.METRICS}
    assert floor["failures"] == 0
    assert floor["problems"] == []


def test_a_program_that_can_not_be_measured_stands_in_the_table_with_its_reason():
    measured = report.Results(labels=["direct", "sdk"], rows={"direct": row()}, unavailable={"sdk": "no index"})
    shown = report.text(measured)
    assert "absent" in shown
    assert "sdk: no index" in shown


@pytest.mark.parametrize(("ours", "verdict"), [(300.0, "PASS"), (299.0, "MISS")])
def test_a_target_for_speed_is_a_least_ratio(ours, verdict):
    measured = results(workbench=row(per_s_64=ours), **{"lazy-mcp": row(per_s_64=200.0)})
    assert verdicts(measured)["calls/s at 64x lazy-mcp"] == verdict


@pytest.mark.parametrize(("ours", "verdict"), [(0.15, "PASS"), (0.16, "MISS")])
def test_a_target_for_time_is_a_greatest_ratio(ours, verdict):
    measured = results(workbench=row(first_response_s=ours), fastmcp=row(first_response_s=1.0))
    assert verdicts(measured)["first responsex fastmcp"] == verdict


def test_what_was_not_measured_is_neither_met_nor_missed():
    assert set(verdicts(results(direct=row())).values()) == {"----"}


def test_ten_servers_are_held_against_the_slowest_of_them():
    opened = {"slowest": row(open_s=1.0), "ten": row(open_s=1.6)}
    measured = report.Results(labels=["workbench"], rows={"workbench": row()}, toolboxes=opened)
    assert measured.ten_to_slowest() == pytest.approx(1.6)
    assert verdicts(measured)["ten servers openx the slowest one"] == "MISS"


def test_a_target_shows_how_far_the_rounds_are_apart():
    ours = report.Row("1", {"own_mb": 30.0}, 0, [], [{"own_mb": 25.0}, {"own_mb": 40.0}])
    assert "rounds 25.00 to 40.00" in report.text(results(workbench=ours))


def test_a_picture_shows_each_program_that_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(report.__file__).parent))
    gateway = __import__("gateway")
    figures = {"per_s_64": 12000, "p50_ms_1": 0.125, "own_mb": 31}
    drawn = gateway.picture(results(workbench=row(**figures), fastmcp=row(per_s_64=70, p50_ms_1=24, own_mb=94)))
    assert drawn.count("<rect") == 1 + 6
    assert all(f">{figure}<" in drawn for figure in ("12,000", "0.12", "31", "70", "24", "94"))
    assert drawn.count(">fastmcp<") == 3
