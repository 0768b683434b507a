"""Identifiers and joined names, for any strings at all."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_workbench.identity import NameTable, ToolIdentifier, joined_name

PART = st.one_of(
    st.text(min_size=1),
    st.text("_", min_size=1, max_size=5),
    st.text("_a", min_size=1, max_size=6),
    st.text("_ab-.0f", min_size=1, max_size=12),
    st.text("é_/", min_size=1, max_size=4),
    st.from_regex(r"\A[ab_]{1,3}_[0-9a-f]{8}\Z"),
    st.text("x_", min_size=120, max_size=140),
)
IDENTIFIER = st.builds(ToolIdentifier, PART, PART, PART)


@st.composite
def near_collisions(draw: st.DrawFn) -> list[ToolIdentifier]:
    """One string with many separators, cut into three parts in several ways."""
    text = draw(st.text("_ab", min_size=7, max_size=16))
    cuts = st.tuples(st.integers(1, len(text) - 4), st.integers(1, len(text) - 4))
    found = []
    for first, gap in draw(st.lists(cuts, min_size=2, max_size=8)):
        second = first + 2 + gap
        parts = (text[:first], text[first + 2 : second], text[second + 2 :])
        if all(parts):
            found.append(ToolIdentifier(*parts))
    return found


@given(PART, PART, PART)
@pytest.mark.requirement("007-FR-008", "007-SC-003", "007-A-004")
def test_any_three_strings_round_trip_as_an_identifier(toolbox: str, server: str, tool: str):
    identifier = ToolIdentifier(toolbox, server, tool)
    assert ToolIdentifier(**identifier.params()) == identifier
    assert identifier.params() == {"toolbox": toolbox, "server": server, "tool": tool}
    info = {"toolbox_name": toolbox, "source_server": server, "name": tool, "inputSchema": {}}
    assert ToolIdentifier.of(info) == identifier  # type: ignore[arg-type]


@given(st.one_of(st.lists(IDENTIFIER, max_size=12), near_collisions()))
@settings(max_examples=100)
@pytest.mark.requirement("002-SC-002", "002-A4", "002-FR-002")
def test_every_registered_name_resolves_to_its_own_tool(identifiers: list[ToolIdentifier]):
    table = NameTable()
    names = {identifier: table.register(identifier) for identifier in identifiers}
    assert len(set(names.values())) == len(names)
    assert all(name is not None and table.resolve(name) == identifier for identifier, name in names.items())


@given(IDENTIFIER)
@pytest.mark.requirement("002-SC-002", "002-FR-001")
def test_every_joined_name_is_one_that_the_protocol_allows(identifier: ToolIdentifier):
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", joined_name(identifier))


@given(IDENTIFIER, st.lists(IDENTIFIER, max_size=5))
@pytest.mark.requirement("002-FR-001")
def test_a_name_depends_on_its_identifier_alone(identifier: ToolIdentifier, others: list[ToolIdentifier]):
    table = NameTable()
    for other in others:
        table.register(other)
    assert table.register(identifier) == joined_name(identifier)
