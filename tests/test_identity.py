"""A tool's identity: three strings, and the one joined name where a protocol leaves room for no more."""

from __future__ import annotations

import pickle
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.errors import InvalidToolIdentifier
from mcp_workbench.identity import (
    NameTable,
    PromptIdentifier,
    ToolIdentifier,
    has_joined_form,
    historical_names,
    joined_name,
    native_names,
    tools_once_named,
)

PART = st.text(min_size=1, max_size=12)
TRICKY = st.text(st.sampled_from("ab_"), min_size=1, max_size=6)
IDENTIFIER = st.builds(ToolIdentifier, PART, PART, PART)
TRICKY_IDENTIFIER = st.builds(ToolIdentifier, TRICKY, TRICKY, TRICKY)


# -- identifiers


def test_an_identifier_is_compared_by_its_three_parts_and_can_be_a_key():
    one = ToolIdentifier("dev", "fs", "read")
    assert one == ToolIdentifier("dev", "fs", "read")
    assert one != ToolIdentifier("dev", "fs", "Read")
    assert len({one, ToolIdentifier("dev", "fs", "read"), ToolIdentifier("fs", "dev", "read")}) == 2
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 -- our own bytes


def test_an_identifier_does_not_change():
    with pytest.raises(AttributeError):
        ToolIdentifier("dev", "fs", "read").tool = "write"  # type: ignore[misc]


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize(
    ("value", "problem"), [("", "cannot be empty"), (None, "must be a string"), (5, "must be a string")]
)
def test_a_wrong_part_is_named_with_the_text_of_the_wire(position: int, value: Any, problem: str):
    parts: list[Any] = ["dev", "fs", "read"]
    parts[position] = value
    name = ("toolbox", "server", "tool")[position]
    with pytest.raises(InvalidToolIdentifier, match=f"^Invalid tool identifier: {name} {problem}$"):
        ToolIdentifier(*parts)


def test_the_first_wrong_part_is_named():
    with pytest.raises(InvalidToolIdentifier, match="toolbox"):
        ToolIdentifier("", "", "")


@given(IDENTIFIER)
def test_an_entry_and_params_lead_back_to_the_identifier(identifier: ToolIdentifier):
    entry: Any = {"toolbox_name": identifier.toolbox, "source_server": identifier.server, "name": identifier.tool}
    assert ToolIdentifier.of(entry) == identifier
    assert ToolIdentifier(**identifier.params()) == identifier


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "toolbox is missing"),
        ({"toolbox_name": "dev", "name": "t"}, "server is missing"),
        ({"toolbox_name": "dev", "source_server": None, "name": "t"}, "server must be a string"),
        ({"toolbox_name": "dev", "source_server": "fs", "name": ""}, "tool cannot be empty"),
    ],
)
def test_an_entry_without_its_parts_is_refused(entry: Any, problem: str):
    with pytest.raises(InvalidToolIdentifier, match=problem):
        ToolIdentifier.of(entry)


# -- joined names


def test_a_plain_name_is_the_three_parts_with_double_underscores():
    assert joined_name(ToolIdentifier("dev", "filesystem", "read_file")) == "dev__filesystem__read_file"
    assert joined_name(ToolIdentifier("dev", "fs", "my__special__tool")) == "dev__fs__my__special__tool"
    assert joined_name(ToolIdentifier("a_b", "c_d", "_e_")) == "a_b__c_d___e_"


@given(IDENTIFIER | TRICKY_IDENTIFIER)
def test_every_name_is_one_that_the_protocol_allows_and_the_same_every_time(identifier: ToolIdentifier):
    name = joined_name(identifier)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name)
    assert joined_name(identifier) == name


@given(st.lists(IDENTIFIER | TRICKY_IDENTIFIER, max_size=30, unique=True))
def test_no_two_tools_have_one_name_and_the_table_finds_each(identifiers: list[ToolIdentifier]):
    table = NameTable()
    names = [table.register(identifier) for identifier in identifiers]
    assert None not in names
    assert len(set(names)) == len(identifiers)
    assert [table.resolve(name or "") for name in names] == identifiers
    assert len(table) == len(identifiers)


@pytest.mark.parametrize(
    "identifier",
    [
        ToolIdentifier("a__b", "c", "d"),
        ToolIdentifier("a", "b__c", "d"),
        ToolIdentifier("a_", "b", "c"),
        ToolIdentifier("a", "_b", "c"),
        ToolIdentifier("a b", "c", "d"),
        ToolIdentifier("a", "b", "c" * 200),
        ToolIdentifier("a", "b", "c/d"),
    ],
)
def test_a_name_that_could_collide_or_would_be_refused_ends_with_a_hash(identifier: ToolIdentifier):
    assert re.search(r"_[0-9a-f]{8}\Z", joined_name(identifier))


def test_a_tool_cannot_take_the_hashed_name_of_another_one():
    victim = ToolIdentifier("a b", "c", "d")
    forged = ToolIdentifier("a_b", "c", joined_name(victim).removeprefix("a_b__c__"))
    assert joined_name(forged) != joined_name(victim)


def test_the_first_holder_of_a_name_keeps_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mcp_workbench.identity.joined_name", lambda _identifier: "same")
    table = NameTable()
    first = ToolIdentifier("a", "b", "c")
    assert table.register(first) == "same"
    assert table.register(first) == "same"
    assert table.register(ToolIdentifier("x", "y", "z")) is None
    assert table.resolve("same") == first


@given(st.text())
def test_an_unregistered_name_resolves_to_nothing(name: str):
    table = NameTable()
    table.register(ToolIdentifier("a", "b", "c"))
    assert table.resolve(name) == (ToolIdentifier("a", "b", "c") if name == "a__b__c" else None)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a__b__c", True),
        ("a__b__c__d", True),
        ("a\n__b__c", True),
        ("a__b", False),
        ("a_b_c", False),
        ("____", False),
        ("", False),
    ],
)
def test_the_form_of_a_name_is_a_yes_or_a_no(name: str, *, form: bool):
    assert has_joined_form(name) is form


# -- names of the past


@given(IDENTIFIER)
def test_a_tool_is_found_by_each_of_its_three_historical_names(identifier: ToolIdentifier):
    others = [ToolIdentifier("x", "y", "z-other")]
    for name in historical_names(identifier):
        assert identifier in tools_once_named(name, [*others, identifier])


def test_all_tools_that_had_a_name_are_found_in_order():
    known = [ToolIdentifier("t", "a", "b_c"), ToolIdentifier("t", "a_b", "c"), ToolIdentifier("u", "a", "b_c")]
    assert tools_once_named("a_b_c", known) == known
    assert tools_once_named("t__a_b_c", known) == known[:2]
    assert tools_once_named("t__a__b_c", known) == known[:1]
    assert tools_once_named("nothing", known) == []


def test_an_identifier_on_the_wire_has_no_other_members():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"toolbox":"a","server":"b","tool":"c","x":1}', type=ToolIdentifier)


# -- native names


FEW = st.builds(ToolIdentifier, st.just("t"), st.sampled_from("abc"), st.sampled_from(["x", "y", "t__a__x", "t__b__x"]))
POSING = st.builds(
    lambda victim, server: ToolIdentifier("t", server, joined_name(victim)),
    FEW | TRICKY_IDENTIFIER,
    st.sampled_from("abc"),
)


@given(st.lists(FEW | POSING | TRICKY_IDENTIFIER | IDENTIFIER, max_size=12, unique=True))
def test_each_has_exactly_one_native_name_and_its_own_unless_that_is_shared_or_posing(tools: list[ToolIdentifier]):
    named = native_names(tools)
    assert sorted(named.values()) == sorted(tools)
    names = {tool: name for name, tool in named.items()}
    joined = {joined_name(tool) for tool in tools}
    for tool in tools:
        shared = sum(other.tool == tool.tool for other in tools) > 1
        assert names[tool] == (joined_name(tool) if shared or tool.tool in joined else tool.tool)


@given(st.lists(FEW | TRICKY_IDENTIFIER, max_size=8, unique=True))
def test_native_names_keep_the_order(tools: list[ToolIdentifier]):
    assert list(native_names(tools).values()) == tools


def test_prompts_have_native_names_by_the_same_rule():
    prompts = [PromptIdentifier("t", "a", "x"), PromptIdentifier("t", "b", "x"), PromptIdentifier("t", "b", "y")]
    assert list(native_names(prompts)) == ["t__a__x", "t__b__x", "y"]


def test_one_that_poses_as_another_does_not_get_its_name():
    victim, other, poser = (ToolIdentifier("t", *parts) for parts in (("a", "x"), ("b", "x"), ("c", "t__a__x")))
    named = native_names([poser, victim, other])
    assert named["t__a__x"] == victim
    assert named[joined_name(poser)] == poser


def test_one_is_moved_aside_though_its_joined_name_is_not_in_use():
    """Its name must not change when another server begins to share that of the victim."""
    victim, poser = ToolIdentifier("t", "a", "x"), ToolIdentifier("t", "c", "t__a__x")
    assert native_names([victim, poser]) == {"x": victim, joined_name(poser): poser}
