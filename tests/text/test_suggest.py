"""The one line of help after "not found"."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.text.suggest import nearest, nearest_and_known, nearest_or_known, nearest_tools


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


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("delete_file", ["edit_file", "read_file", "create_file"]),
        ("remove_file", ["move_file"]),
        ("move_file", ["remove_file"]),
        ("drop_table", ["describe_table"]),
        ("run_pod", ["rollout_pod"]),
        ("enable_user", ["disable_user"]),
        ("disable_user", ["enable_user"]),
        ("unlock_door", ["lock_door"]),
        ("unpublish_page", ["publish_page"]),
        ("deleteFile", ["editFile"]),
        ("file_delete", ["file_edit"]),
        ("start", ["restart"]),
        ("stop_job", ["start_job"]),
        ("push_branch", ["pull_branch"]),
        ("zoom_in", ["zoom_out"]),
        ("login", ["logout"]),
        ("delte_file", ["edit_file"]),
        ("remov_file", ["move_file"]),
        ("deletefile", ["editfile"]),
        ("detonate_it", ["resonate_it"]),
    ],
)
def test_a_name_whose_verb_differs_is_never_proposed(name: str, known: list[str]):
    assert nearest_tools(name, known) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("raed_file", "read_file"),
        ("delte_file", "delete_file"),
        ("lsit_files", "list_files"),
        ("serach_nodes", "search_nodes"),
        ("creat_isue", "create_issue"),
        ("udpate_page", "update_page"),
        ("git_comit", "git_commit"),
        ("deleteFil", "delete_file"),
        ("read_files", "read_file"),
        ("xdev", "dev"),
        ("filesytem", "filesystem"),
        ("github_search_code", "search_code"),
    ],
)
def test_a_misspelt_verb_still_finds_its_name(name: str, meant: str):
    assert nearest_tools(name, ["edit_page", "move_file", meant, "drop_nodes"])[0] == meant


def test_what_exists_is_listed_next_to_the_nearest():
    assert (
        nearest_and_known("raed", ["read", "write"], "tools") == "Did you mean 'read'? Available tools: 'read', 'write'"
    )
    assert nearest_and_known("zzz", ["read"], "tools") == "Available tools: 'read'"


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


def test_comparing_many_names_of_few_different_letters_costs_little_time():
    """They are the slowest to compare, and a server chooses the names of its tools."""
    known = ["a" * 193 + f"{number:06}" for number in range(5000)]
    since = time.process_time()
    assert nearest("a" * 198 + "b", known)
    assert time.process_time() - since < 0.1


def test_the_right_name_among_very_many_is_still_found():
    known = [f"{verb}_{noun}_{number}" for verb in ("get", "set", "put") for noun in "abcde" for number in range(300)]
    assert nearest("create_isue", [*known, "create_issue"]) == "create_issue"
