"""A short run with a fixed seed: whatever servers, clients and the nemesis do, every promise is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nemesis.checker import check
from tests.nemesis.history import Cancelled, Delivered, Ended, Heard, Struck, of, write
from tests.nemesis.plan import DEEDS, HOW, TOOLS, plan
from tests.nemesis.run import CLIENTS, run
from tests.nemesis.summary import summary
from tests.support.procs import needs_proc

SEED = 1225
SECONDS = 20


def test_the_same_seed_gives_the_same_plan_and_another_one_another():
    assert plan(SEED, SECONDS, CLIENTS) == plan(SEED, SECONDS, CLIENTS)
    assert plan(SEED, SECONDS, CLIENTS) != plan(SEED + 1, SECONDS, CLIENTS)


def test_the_plan_of_the_short_run_has_everything_in_it():
    steps = plan(SEED, SECONDS, CLIENTS)
    assert {step.do for step in steps} == set(DEEDS)
    assert {step.client for step in steps} == set(CLIENTS)
    leaving = [step for step in steps if step.do == "leave"]
    assert {step.client for step in leaving} == set(CLIENTS)
    assert {step.how for step in leaving if step.client in ("ada", "bob")} == set(HOW)
    called = {step.tool for step in steps if step.do in ("use", "cancel")}
    assert called >= set(TOOLS) - {"late", "huge", "withheld"}
    assert {"forbidden", "twin"} <= called


@needs_proc
@pytest.mark.timeout(120)
async def test_every_promise_is_kept_while_servers_die_and_clients_misbehave(tmp_path: Path):
    history = await run(SEED, SECONDS, tmp_path)
    print(summary(history))
    if violations := check(history):
        write(tmp_path / "history.jsonl", history)
        shown = "\n\n".join(str(violation) for violation in violations[:10])
        again = f"make nemesis SECONDS={SECONDS} SEED={SEED}"
        pytest.fail(f"{len(violations)} violations, history in {tmp_path}; again: {again}\n\n{shown}", pytrace=False)

    faults = [event.fault for event in of(history, Struck)]
    assert faults.count("kill") >= 5
    assert faults.count("stop") >= 3
    assert faults.count("reload") >= 2
    assert len(of(history, Delivered)) >= 200
    assert len(of(history, Heard)) >= 10
    assert of(history, Cancelled)
    assert {"ok", "server_exited", "call_timeout", "tool_not_found"} <= {event.code for event in of(history, Ended)}
