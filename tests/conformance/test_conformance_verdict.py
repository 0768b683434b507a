import json

import pytest

from tests.conformance import verdict
from tests.conformance.suite import Run, Scenario, SuiteBroken, read_results

OLD, NEW = "2025-11-25", "2026-07-28"


@pytest.fixture(autouse=True)
def small_floor(monkeypatch):
    monkeypatch.setattr(verdict, "FLOOR", {(OLD, "direct"): (1, 4), (NEW, "direct"): (1, 4), (NEW, "client"): (1, 0)})


def run(required=("ping",), **scenarios):
    named = {name.replace("_", "-"): Scenario(*counts) for name, counts in scenarios.items()}
    return Run(named, list(required))


def held(leg, ours, direct=None, revision=OLD):
    return verdict.shortfalls({revision: {"direct": direct or run(ping=(2,), tools=(2,)), leg: ours}})


@pytest.mark.parametrize("leg", verdict.HELD)
def test_as_many_checks_as_directly_are_no_shortfall(leg):
    assert held(leg, run(ping=(2,), tools=(2,))) == []


@pytest.mark.parametrize("leg", verdict.HELD)
def test_a_check_less_in_one_scenario_is_a_shortfall_even_where_another_has_more(leg):
    found = held(leg, run(ping=(2,), tools=(1, 1, 0, ["tools: no image"]), other=(9,)))
    assert found == [f"{OLD} {leg} tools: 1 of 2 checks (tools: no image)"]


def test_a_scenario_that_did_not_run_is_a_shortfall():
    assert held("http", run(ping=(2,))) == [f"{OLD} http tools: 0 of 2 checks (it did not run)"]


def test_a_required_scenario_that_fails_is_a_shortfall_though_as_many_of_its_checks_pass():
    assert f"{OLD} http ping: a required scenario that passes directly" in held("http", run(ping=(2, 1), tools=(2,)))


def test_a_required_scenario_without_a_passed_check_is_not_passed():
    assert run(ping=(0,)).required_passed() == []


def test_the_exception_is_for_one_check_of_one_scenario_on_stdio():
    direct = run(ping=(2,), server_sse_polling=(3,))
    assert held("stdio", run(ping=(2,), server_sse_polling=(2,)), direct) == []
    assert held("stdio", run(ping=(2,), server_sse_polling=(1,)), direct) != []
    assert held("stdio", run(ping=(1,), server_sse_polling=(3,)), direct) != []


@pytest.mark.parametrize("leg", ["http", "handshake"])
def test_over_http_there_is_no_exception(leg: str):
    direct = run(ping=(2,), server_sse_polling=(3,))
    assert held(leg, run(ping=(2,), server_sse_polling=(2,)), direct) != []


def test_a_baseline_below_the_floor_is_a_shortfall():
    found = verdict.shortfalls({NEW: {"direct": run(ping=(3,))}})
    assert found == [f"{NEW} direct: 1 required, 3 checks; expected 1 and 4"]


def test_a_client_that_passes_fewer_required_scenarios_than_it_did_is_a_shortfall():
    assert verdict.shortfalls({NEW: {"client": run(ping=(1,))}}) == []
    assert verdict.shortfalls({NEW: {"client": run(ping=(1, 1))}}) != []


def test_what_differs_is_shown_with_its_complaints():
    shown = verdict.text({OLD: {"direct": run(ping=(2,)), "http": run(ping=(1, 1, 0, ["ping: no pong"]))}})
    assert "ping: direct 2+0, http 1+1" in shown
    assert "http: ping: no pong" in shown


def write_checks(folder, *statuses):
    folder.mkdir(parents=True)
    checks = [{"id": f"c{n}", "status": status, "description": "d"} for n, status in enumerate(statuses)]
    (folder / "checks.json").write_text(json.dumps(checks))


def test_results_are_read_by_the_names_of_their_folders(tmp_path):
    write_checks(tmp_path / "server-tools-list-2026-11-16T11-12-35-180Z", "SUCCESS", "INFO", "FAILURE", "SKIPPED")
    write_checks(tmp_path / "auth" / "scope-step-up-2026-11-16T11-12-35-180Z", "SUCCESS", "WARNING")
    results = read_results(tmp_path)
    assert results == {
        "tools-list": Scenario(1, 1, 0, ["c2: d"]),
        "auth/scope-step-up": Scenario(1, 0, 1, ["c1: d"]),
    }


def test_a_suite_that_leaves_no_results_is_broken(tmp_path):
    with pytest.raises(SuiteBroken):
        read_results(tmp_path)
