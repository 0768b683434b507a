"""The checker, on small histories: a good one has no violation, and each promise has histories that break it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.nemesis.checker import check
from tests.nemesis.history import (
    AnyEvent,
    Begun,
    Calmed,
    Cancelled,
    Counted,
    CutOff,
    Delivered,
    Ended,
    Heard,
    History,
    Lagged,
    Left,
    Paused,
    Peopled,
    Setting,
    Started,
    Stopped,
    Struck,
    Swept,
    Unforeseen,
    Weighed,
    nonces_in,
    of,
    read,
    write,
)
from tests.nemesis.summary import summary

MINE, OTHER, WRONG, HEAL = "n_ada_1_", "n_bob_1_", "n_ada_2_", "n_ada_3_"
CALL = Begun(at=10, op="ada.1.1", client="ada", what="use", server="plain", tool="echo", nonce=MINE, seconds=20)
ARRIVAL = Delivered(at=10.5, server="plain", pid=7, tool="echo", nonce=MINE)
PROGRESS = Heard(at=10.6, client="ada", method="notifications/progress", op="ada.1.1", nonces=(MINE,))
ANSWER = Ended(at=11, op="ada.1.1", client="ada", code="ok", nonces=(MINE,))
MISTAKE = Begun(at=3, op="ada.1.2", client="ada", what="wrong", nonce=WRONG, seconds=1, wrong=True)
REFUSAL = Ended(at=3.1, op="ada.1.2", client="ada", code="invalid_parameters")
CHECKUP = Begun(at=31, op="ada.1.3", client="ada", what="heal", server="plain", tool="echo", nonce=HEAL, seconds=20)
CHECKED = Delivered(at=31.1, server="plain", pid=8, tool="echo", nonce=HEAL)
HEALED = Ended(at=32, op="ada.1.3", client="ada", code="ok", nonces=(HEAL,))
PEOPLE = Peopled(at=35, workbench="ada", server="plain", count=1, most=1)
HANG_UP = Left(at=40, client="ada", how="eof", final=True)
SWEPT = Swept(at=41, client="ada", how="eof", status=0, seconds=1)
BEFORE = Counted(at=1, when="before", processes=("pytest",), descriptors=("a", "b"), tasks=())
AFTER = Counted(at=42, when="after", processes=(), descriptors=("a", "b"), tasks=())

GOOD: History = [
    Setting(
        at=0,
        clients=("ada",),
        servers=("plain",),
        withheld=(("plain", "forbidden"),),
        hard_seconds=5,
        memory_bytes=1000,
    ),
    BEFORE,
    MISTAKE,
    REFUSAL,
    CALL,
    Started(at=10.2, server="plain", pid=7),
    ARRIVAL,
    PROGRESS,
    ANSWER,
    Struck(at=20, fault="kill", server="plain", client="ada", pid=7),
    Calmed(at=30),
    CHECKUP,
    CHECKED,
    HEALED,
    PEOPLE,
    HANG_UP,
    Stopped(at=40.5, server="plain", pid=8),
    SWEPT,
    AFTER,
]


def rules(*added: AnyEvent, without: tuple[AnyEvent, ...] = ()) -> set[str]:
    """The rules that the good history breaks with some events more and others fewer."""
    history = [*(event for event in GOOD if event not in without), *added]
    return {violation.rule for violation in check(sorted(history, key=lambda event: event.at))}


def changed(event: AnyEvent, **fields: object) -> set[str]:
    """The rules that the good history breaks with one event changed."""
    return rules(msgspec.structs.replace(event, **fields), without=(event,))


def test_a_good_history_has_no_violation():
    assert check(GOOD) == []


# -- one outcome


def test_a_request_without_an_answer_is_a_violation():
    assert rules(without=(ANSWER,)) == {"one outcome"}


def test_a_request_with_two_answers_is_a_violation():
    assert rules(msgspec.structs.replace(ANSWER, at=12)) == {"one outcome"}


def test_a_second_answer_counts_also_where_the_request_was_cancelled():
    again = msgspec.structs.replace(ANSWER, at=11.2)
    assert rules(Cancelled(at=10.9, op=CALL.op), again) == {"one outcome"}


def test_an_answer_to_nothing_is_a_violation():
    assert rules(Ended(at=12, op="ada.1.9", client="ada", code="server_exited")) == {"one outcome"}


def test_a_cancelled_request_needs_no_answer():
    assert rules(Cancelled(at=10.7, op=CALL.op), without=(ANSWER,)) == set()


def test_an_answer_that_crossed_its_cancellation_is_fine():
    assert rules(Cancelled(at=10.9, op=CALL.op)) == set()


def test_an_answer_long_after_its_cancellation_is_a_violation():
    late = msgspec.structs.replace(ANSWER, at=13.5)
    assert rules(Cancelled(at=10.9, op=CALL.op), late, without=(ANSWER,)) == {"one outcome"}


def test_who_hung_up_gets_no_answer():
    left = (Left(at=10.8, client="ada", how="eof"), msgspec.structs.replace(SWEPT, at=11))
    assert rules(*left, without=(ANSWER,)) == set()


def test_another_client_that_hung_up_is_no_excuse():
    left = (Left(at=10.8, client="bob", how="eof"), msgspec.structs.replace(SWEPT, at=11, client="bob"))
    assert rules(*left, without=(ANSWER,)) == {"one outcome"}


def test_hanging_up_after_the_deadline_is_no_excuse():
    left = (Left(at=31.5, client="ada", how="eof"), msgspec.structs.replace(SWEPT, at=32))
    assert rules(*left, without=(ANSWER,)) == {"one outcome"}


def test_the_end_of_the_run_is_no_excuse():
    end = msgspec.structs.replace(HANG_UP, at=15)
    assert rules(end, without=(ANSWER, HANG_UP)) == {"one outcome"}


# -- in time


def test_an_answer_after_the_deadline_of_its_request_is_a_violation():
    assert "in time" in changed(ANSWER, at=31.1)


def test_an_answer_too_long_after_its_server_had_the_call_is_a_violation():
    assert changed(ANSWER, at=16.4) == set()
    assert changed(ANSWER, at=16.6) == {"in time"}


def test_a_failure_that_comes_too_late_is_a_violation_too():
    assert changed(ANSWER, at=16.6, code="call_timeout", nonces=()) == {"in time"}


def test_time_that_the_machine_took_is_not_held_against_anybody():
    late = msgspec.structs.replace(ANSWER, at=17.5)
    assert rules(Lagged(at=12, seconds=0.6), Lagged(at=14, seconds=0.6), late, without=(ANSWER,)) == set()
    assert rules(Lagged(at=12, seconds=0.6), Lagged(at=30, seconds=0.6), late, without=(ANSWER,)) == {"in time"}


# -- nonces


def test_a_success_with_another_nonce_is_a_violation():
    assert changed(ANSWER, nonces=(HEAL,)) == {"own nonce"}


def test_a_success_without_a_nonce_is_a_violation():
    assert changed(ANSWER, nonces=()) == {"own nonce"}


def test_a_success_with_a_further_nonce_is_a_violation():
    assert changed(ANSWER, nonces=(MINE, OTHER)) == {"own nonce"}


def test_a_tool_s_own_error_with_another_nonce_is_a_violation():
    assert changed(ANSWER, code="tool_error", nonces=(HEAL,)) == {"own nonce"}


def test_a_failure_that_tells_of_another_client_is_a_violation():
    assert changed(ANSWER, code="server_exited", nonces=(OTHER,)) == {"own nonce"}


def test_a_notification_that_tells_of_another_client_is_a_violation():
    assert changed(PROGRESS, op="", nonces=(OTHER,)) == {"own nonce"}


def test_progress_of_another_call_is_a_violation():
    assert changed(PROGRESS, nonces=(HEAL,)) == {"own nonce"}


def test_progress_of_nothing_is_a_violation():
    assert changed(PROGRESS, op="ada.1.9") == {"own nonce"}


# -- deliveries


def test_a_call_that_was_delivered_twice_is_a_violation():
    assert rules(msgspec.structs.replace(ARRIVAL, at=10.8, pid=9)) == {"delivered once"}


def test_a_failed_call_that_was_delivered_twice_is_a_violation():
    failed = msgspec.structs.replace(ANSWER, code="server_exited", nonces=())
    again = msgspec.structs.replace(ARRIVAL, at=10.8, pid=9)
    assert rules(failed, again, without=(ANSWER,)) == {"delivered once"}


@pytest.mark.parametrize("fields", [{"server": "modern"}, {"tool": "crash"}])
def test_a_call_that_went_elsewhere_is_a_violation(fields: dict[str, str]):
    assert changed(ARRIVAL, **fields) == {"delivered once"}


@pytest.mark.parametrize("nonce", ["", "n_ada_99_"])
def test_a_call_that_nobody_made_is_a_violation(nonce: str):
    assert rules(msgspec.structs.replace(ARRIVAL, nonce=nonce)) == {"delivered once"}


def test_a_success_that_no_server_had_is_a_violation():
    assert rules(without=(ARRIVAL,)) == {"delivered once"}


def test_a_failure_that_no_server_had_is_fine():
    failed = msgspec.structs.replace(ANSWER, code="server_resting", nonces=())
    assert rules(failed, without=(ANSWER, ARRIVAL)) == set()


# -- withheld tools and wrong requests


def test_a_withheld_tool_that_reached_its_server_is_a_violation():
    call = msgspec.structs.replace(CALL, tool="forbidden")
    arrival = msgspec.structs.replace(ARRIVAL, tool="forbidden")
    refused = msgspec.structs.replace(ANSWER, code="tool_not_found", nonces=())
    assert rules(call, refused, without=(CALL, ANSWER, ARRIVAL)) == set()
    assert rules(call, arrival, refused, without=(CALL, ANSWER, ARRIVAL)) == {"withheld"}


def test_a_withheld_tool_that_answered_is_a_violation():
    call = msgspec.structs.replace(CALL, tool="forbidden")
    assert "withheld" in rules(call, without=(CALL, ARRIVAL))


def test_a_wrong_request_that_reached_a_server_is_a_violation():
    assert "wrong requests" in rules(msgspec.structs.replace(ARRIVAL, nonce=WRONG))


def test_a_wrong_request_that_succeeded_is_a_violation():
    assert "wrong requests" in changed(REFUSAL, code="ok")


def test_a_server_that_starts_before_it_is_needed_is_a_violation():
    assert rules(Started(at=3.2, server="plain", pid=6)) == {"wrong requests"}


# -- healing


def test_a_server_that_does_not_answer_again_is_a_violation():
    assert changed(HEALED, code="server_resting", nonces=()) == {"healed"}


def test_a_server_that_answers_again_too_late_is_a_violation():
    late = {"at": 91, "op": "ada.1.4", "nonce": "n_ada_4_"}
    retry = [
        msgspec.structs.replace(CHECKUP, **late),
        Delivered(at=91, server="plain", pid=8, tool="echo", nonce="n_ada_4_"),
        Ended(at=91.5, op="ada.1.4", client="ada", code="ok", nonces=("n_ada_4_",)),
    ]
    failed = msgspec.structs.replace(HEALED, code="server_resting", nonces=())
    assert rules(failed, *retry, without=(HEALED,)) == {"healed"}


def test_every_client_must_be_answered_by_every_server():
    setting = of(GOOD, Setting)[0]
    assert changed(setting, servers=("plain", "modern")) == {"healed"}
    assert changed(setting, clients=("ada", "bob")) == {"healed"}


def test_faults_that_never_stop_are_a_violation():
    assert rules(without=tuple(of(GOOD, Calmed))) == {"healed"}


# -- what is left


def test_what_a_client_leaves_behind_is_a_violation():
    assert changed(SWEPT, left=("sleep 600",)) == {"swept"}


def test_a_client_that_takes_long_to_end_is_a_violation():
    assert changed(SWEPT, seconds=6.5) == {"swept"}


@pytest.mark.parametrize(("how", "status"), [("eof", 1), ("eof", -9), ("term", 0), ("term", -15), ("kill", 0)])
def test_a_workbench_that_ends_otherwise_than_it_should_is_a_violation(how: str, status: int):
    assert changed(SWEPT, how=how, status=status) == {"swept"}


def test_a_workbench_that_had_not_begun_may_end_by_the_signal():
    assert changed(SWEPT, how="term", status=-15, fresh=True) == set()
    assert changed(SWEPT, how="eof", status=-15, fresh=True) == {"swept"}


def test_a_client_that_never_ends_is_a_violation():
    assert rules(without=(SWEPT,)) == {"swept"}


def test_a_client_that_reads_nothing_for_a_while_gets_its_answers_later_and_no_other_client_does():
    late = msgspec.structs.replace(ANSWER, at=19)
    assert rules(late, Paused(at=12, client="ada", seconds=5), without=(ANSWER,)) == set()
    assert rules(late, Paused(at=12, client="bob", seconds=5), without=(ANSWER,)) == {"in time"}
    assert rules(late, Paused(at=3, client="ada", seconds=5), without=(ANSWER,)) == {"in time"}


@pytest.mark.parametrize(("size", "broken"), [(1000, set()), (1001, {"memory"})])
def test_more_memory_than_is_allowed_is_a_violation(size: int, broken: set[str]):
    assert rules(Weighed(at=20, client="ada", size_bytes=size)) == broken


def test_more_processes_of_a_server_than_clients_are_a_violation():
    assert changed(PEOPLE, count=2) == {"no crowd"}


def test_processes_that_were_not_counted_are_a_violation():
    assert rules(without=(PEOPLE,)) == {"no crowd"}


@pytest.mark.parametrize("left", [{"processes": ("x",)}, {"descriptors": ("a", "b", "c")}, {"tasks": ("t",)}])
def test_what_is_left_at_the_end_is_a_violation(left: dict[str, tuple[str, ...]]):
    assert changed(AFTER, **left) == {"nothing left"}


@pytest.mark.parametrize("missing", [BEFORE, AFTER])
def test_a_run_that_was_not_counted_is_a_violation(missing: AnyEvent):
    assert rules(without=(missing,)) == {"nothing left"}


# -- defects


def test_something_unforeseen_is_a_violation():
    assert rules(Unforeseen(at=12, client="ada", text="Traceback")) == {"unforeseen"}


def test_half_a_line_is_a_violation_unless_its_client_stopped_reading():
    cut = CutOff(at=HANG_UP.at + 1, client="ada")
    assert rules(cut) == {"cut off"}
    assert rules(cut, Paused(at=HANG_UP.at - 5, client="ada", seconds=0.5)) == {"cut off"}
    assert rules(cut, Paused(at=HANG_UP.at - 5, client="bob", seconds=3)) == {"cut off"}
    assert rules(cut, Paused(at=HANG_UP.at - 5, client="ada", seconds=3)) == set()


@pytest.mark.parametrize("code", ["internal", "rpc:-32603", "spawn_failed", "input_required"])
def test_an_internal_error_is_a_violation(code: str):
    assert changed(ANSWER, code=code, nonces=()) == {"unforeseen"}


def test_a_workbench_that_ends_before_its_client_does_is_a_violation():
    left = (Left(at=10.8, client="ada", how="eof"), msgspec.structs.replace(SWEPT, at=11))
    ending = msgspec.structs.replace(ANSWER, code="shutting_down", nonces=())
    assert changed(ANSWER, code="shutting_down", nonces=()) == {"unforeseen"}
    assert rules(*left, ending, without=(ANSWER,)) == set()


# -- the history itself


def test_a_history_that_was_written_is_read_as_it_was(tmp_path: Path):
    write(tmp_path / "history.jsonl", GOOD)
    assert read(tmp_path / "history.jsonl") == GOOD


def test_a_violation_shows_the_events_that_it_is_about():
    [violation] = check([event for event in GOOD if event is not ANSWER])
    assert '"kind":"begun"' in str(violation)
    assert '"kind":"delivered"' in str(violation)


def test_nonces_are_found_in_any_text():
    assert nonces_in(f'{{"a": "{MINE}{MINE} and {OTHER}", "b": "n_ada_"}}') == (MINE, OTHER)


def test_the_summary_tells_requests_faults_and_healing():
    text = summary(GOOD)
    for part in ("use echo", "ok 1", "kill 1", "1.00 s", "healed 1 of 1, the last after 2.0 s"):
        assert part in text
