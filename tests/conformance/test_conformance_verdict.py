import json

import pytest

from tests.conformance import verdict
from tests.conformance.suite import Run, Scenario, SuiteBroken, read_results

OLD, NEW = "2025-11-25", "2026-07-28"


@pytest.fixture(autouse=True)
def small_floor(monkeypatch):
    floor = {(OLD, "s", "direct"): (1, 4), (NEW, "s", "direct"): (1, 4), (NEW, "s", "client"): (1, 0)}
    monkeypatch.setattr(verdict, "FLOOR", floor)


def run(required=("ping",), **scenarios):
    named = {name.replace("_", "-"): Scenario(*counts) for name, counts in scenarios.items()}
    return Run(named, list(required))


def held(leg, ours, direct=None, revision=OLD):
    places = {("s", "direct"): direct or run(ping=(2,), tools=(2,)), ("s", leg): ours}
    return verdict.shortfalls({revision: places})


@pytest.mark.parametrize("leg", verdict.HELD)
def test_as_many_checks_as_directly_are_no_shortfall(leg):
    assert held(leg, run(ping=(2,), tools=(2,))) == []


@pytest.mark.parametrize("leg", verdict.HELD)
def test_a_check_less_in_one_scenario_is_a_shortfall_even_where_another_has_more(leg):
    found = held(leg, run(ping=(2,), tools=(1, 1, 0, ["tools: no image"]), other=(9,)))
    assert found == [f"{OLD} s {leg} tools: 1 of 2 checks (tools: no image)"]


def test_a_scenario_that_did_not_run_is_a_shortfall():
    assert held("http", run(ping=(2,))) == [f"{OLD} s http tools: 0 of 2 checks (it did not run)"]


def test_a_required_scenario_that_fails_is_a_shortfall_though_as_many_of_its_checks_pass():
    assert f"{OLD} s http ping: a required scenario that passes directly" in held("http", run(ping=(2, 1), tools=(2,)))


def test_a_required_scenario_without_a_passed_check_is_not_passed():
    assert run(ping=(0,)).required_passed() == []


def test_legs_are_compared_with_the_same_server_only():
    places = {("s", "direct"): run(ping=(2,), tools=(2,)), ("other", "http"): run(ping=(1,))}
    assert verdict.shortfalls({OLD: places}) == []


@pytest.mark.parametrize("leg", ["stdio", "toolbox-stdio", "toolbox-http"])
def test_an_exception_is_for_one_check_of_one_scenario(leg):
    direct = run(ping=(2,), server_sse_polling=(3,))
    assert held(leg, run(ping=(2,), server_sse_polling=(2,)), direct) == []
    assert held(leg, run(ping=(2,), server_sse_polling=(1,)), direct) != []
    assert held(leg, run(ping=(1,), server_sse_polling=(3,)), direct) != []


def test_there_are_at_most_three_exceptions_each_with_its_reason():
    assert len(verdict.ALLOWED) <= 3
    assert all(one.reason for one in verdict.ALLOWED)


@pytest.mark.parametrize("leg", ["http", "handshake"])
def test_on_the_transparent_endpoint_over_http_there_is_no_exception(leg: str):
    direct = run(ping=(2,), server_sse_polling=(3,))
    assert held(leg, run(ping=(2,), server_sse_polling=(2,)), direct) != []


def test_a_baseline_below_the_floor_is_a_shortfall():
    found = verdict.shortfalls({NEW: {("s", "direct"): run(ping=(3,))}})
    assert found == [f"{NEW} s direct: 1 required, 3 checks; expected 1 and 4"]


def test_a_client_that_passes_fewer_required_scenarios_than_it_did_is_a_shortfall():
    assert verdict.shortfalls({NEW: {("s", "client"): run(ping=(1,))}}) == []
    assert verdict.shortfalls({NEW: {("s", "client"): run(ping=(1, 1))}}) != []


def test_what_differs_is_shown_with_its_complaints():
    behind = run(ping=(1, 1, 0, ["ping: no pong"]))
    shown = verdict.text({OLD: {("s", "direct"): run(ping=(2,)), ("s", "http"): behind}})
    assert "s ping: direct 2+0, http 1+1" in shown
    assert "http: ping: no pong" in shown


def test_the_servers_stand_below_each_other_and_their_legs_side_by_side():
    places = {("s", "direct"): run(ping=(2,)), ("s", "stdio"): run(ping=(1, 1)), ("t", "direct"): run(ping=(3,))}
    lines = verdict.text({OLD: places}).splitlines()
    (heading,) = (line for line in lines if "toolbox-stdio" in line and "direct" in line)
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(("  s ", "  t "))}
    assert heading.split() == list(verdict.COLUMNS)
    assert rows == {"s": ["2/2", "1/1", "-", "1/2", "0/1", "-", "-"], "t": ["3/3", "1/1", "-", "-", "-", "-"]}


def test_scenarios_that_a_server_is_not_asked_do_not_count():
    asked = run(("ping", "tools"), ping=(2,), tools=(0, 1)).limited_to(lambda name: name == "ping")
    assert (asked.passed, asked.failed, asked.required) == (2, 0, ["ping"])


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
