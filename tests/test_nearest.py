"""The one line of help after "not found"."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.nearest import nearest, nearest_or_known


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("read_fil", ["write_file", "read_file"], "read_file"),
        ("READ_FILE", ["read_file"], "read_file"),
        ("Straße", ["STRASSE"], "STRASSE"),
        ("xyz", ["read_file"], None),
        ("", ["a"], None),
        ("a", [], None),
    ],
)
def test_the_name_that_was_probably_meant(name: str, known: list[str], expected: str | None):
    assert nearest(name, known) == expected


def test_without_a_near_name_at_most_twenty_are_listed():
    known = [f"name_{number:02}" for number in range(25)]
    hint = nearest_or_known("zzz", known, "tools")
    assert hint.startswith("Available tools: 'name_00', 'name_01'")
    assert hint.endswith("'name_19' and 5 more")
    assert nearest_or_known("zzz", known[:20], "tools").endswith("'name_19'")


def test_no_names_is_said():
    assert nearest_or_known("x", [], "servers") == "There are no servers."


@given(st.text(), st.lists(st.text(), max_size=5))
def test_the_help_is_one_printable_line_for_any_names(name: str, known: list[str]):
    hint = nearest_or_known(name, known, "tools")
    assert hint.splitlines() == [hint]
    assert "\x1b" not in hint
    assert (near := nearest(name, known)) is None or near in known


def test_a_hostile_name_costs_little_time():
    since = time.process_time()
    nearest("a" * 1_000_000, [f"tool_{number}" for number in range(200)])
    nearest("tool_x", ["b" * 10_000] * 50)
    assert time.process_time() - since < 2


@pytest.mark.parametrize("length", [30, 60, 200])
def test_the_nearest_among_very_many_long_names_costs_little_time_and_is_still_found(length: int):
    stem = ("list_repository_items_" * 20)[: length - 6]
    known = [f"{stem}_{number:05}" for number in range(5000)]
    since = time.process_time()
    assert nearest_or_known(f"{stem}_zzzzz", known, "tools")
    assert nearest_or_known(f"{stem.upper()}_01234", known, "tools") == f"Did you mean '{known[1234]}'?"
    assert time.process_time() - since < 0.5


def test_the_right_name_among_very_many_is_still_found():
    known = [f"{verb}_{noun}_{number}" for verb in ("get", "set", "put") for noun in "abcde" for number in range(300)]
    assert nearest("create_isue", [*known, "create_issue"]) == "create_issue"
