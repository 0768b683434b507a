"""Listings as immutable values, and the walk by field that routes a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.snapshot import Catalog, ServerTools, take_listing
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import Limits

LIMITS = Limits(schema_bytes=1000, schema_depth=8)


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def listing(*tools: Any, filters: tuple[str, ...] = ()) -> ServerTools:
    return take_listing([raw({"name": one}) if isinstance(one, str) else raw(one) for one in tools], filters, LIMITS)


def withheld(taken: ServerTools) -> list[str]:
    return [tool.name for tool in taken.withheld]


def test_tools_keep_the_order_of_their_server():
    assert list(listing("z", "a", "m").tools) == ["z", "a", "m"]


def test_a_name_that_occurs_twice_is_withheld_wholly_and_told_once():
    taken = listing("first", "twice", "last", "twice", "twice")
    assert list(taken.tools) == ["first", "last"]
    assert withheld(taken) == ["twice"]


def test_names_are_compared_byte_for_byte():
    assert list(listing("café", "cafe\u0301", "CAFÉ", "café ").tools) == ["café", "cafe\u0301", "CAFÉ", "café "]


@pytest.mark.parametrize("big", [{"name": "big", "x": "y" * 1000}, {"name": "big", "x": [[[[[[[[[]]]]]]]]]}])
def test_an_oversized_tool_is_withheld_by_name_and_the_others_are_offered(big: dict[str, Any]):
    taken = listing("good", big, "better")
    assert list(taken.tools) == ["good", "better"]
    assert withheld(taken) == ["big"]


@pytest.mark.parametrize("nameless", [{}, None, 5, [], {"name": ""}, {"name": 5}])
def test_what_has_no_name_is_withheld_and_the_others_are_offered(nameless: Any):
    taken = take_listing([raw({"name": "good"}), raw(nameless)], (), LIMITS)
    assert list(taken.tools) == ["good"]
    assert withheld(taken) == [""]


def test_a_filtered_tool_is_not_offered_and_not_told():
    taken = listing("read", "write", "write", filters=("read",))
    assert list(taken.tools) == ["read"]
    assert taken.withheld == ()


def test_filters_come_first_so_a_tool_that_is_filtered_out_is_not_reported_as_too_large():
    taken = listing("read", {"name": "big", "x": "y" * 1000}, filters=("read",))
    assert taken.withheld == ()


def test_a_filter_that_names_an_oversized_tool_is_not_reported_as_matching_nothing():
    taken = listing("read", {"name": "big", "x": "y" * 1000}, filters=("read", "big"))
    assert taken.unmatched_filters == ()
    assert withheld(taken) == ["big"]


def test_filters_that_match_nothing_are_told():
    assert listing("read", filters=("read", "typo")).unmatched_filters == ("typo",)


@pytest.mark.parametrize("number", ["1e308", "9" * 308, "1e-4000"])
def test_a_filter_by_annotation_reads_definitions_with_any_number(number: str):
    raw_tool = Raw(
        f'{{"name":"t","inputSchema":{{"maximum":{number}}},"annotations":{{"readOnlyHint":true}}}}'.encode()
    )
    assert list(take_listing([raw_tool], ("@readOnly",), Limits()).tools) == ["t"]


# -- the catalog


def catalog() -> Catalog:
    return Catalog({"dev": ["fs", "db"], "ops": ["fs"]})


def test_a_tool_is_found_by_toolbox_server_and_name():
    known = catalog()
    known.snapshot("dev", "fs").put(listing("read"))
    known.snapshot("ops", "fs").put(listing("read", "my__tool"))
    assert known.tool(ToolIdentifier("dev", "fs", "read")) is not None
    assert known.tool(ToolIdentifier("dev", "fs", "my__tool")) is None
    assert known.tool(ToolIdentifier("dev", "db", "read")) is None
    assert known.tool(ToolIdentifier("ops", "fs", "my__tool")) is not None
    assert known.listing("dev", "db") is None


def test_known_tools_are_in_the_order_of_the_configuration_not_of_the_listings():
    known = catalog()
    known.snapshot("ops", "fs").put(listing("z"))
    known.snapshot("dev", "db").put(listing("y"))
    known.snapshot("dev", "fs").put(listing("x", "a"))
    assert [identifier.parts() for identifier in known.known()] == [
        ("dev", "fs", "x"),
        ("dev", "fs", "a"),
        ("dev", "db", "y"),
        ("ops", "fs", "z"),
    ]


def test_a_new_listing_replaces_the_old_one_and_says_whether_it_differs():
    known = catalog()
    assert known.snapshot("dev", "fs").put(listing("a"))
    assert not known.snapshot("dev", "fs").put(listing("a"))
    assert known.snapshot("dev", "fs").put(listing({"name": "a", "description": "new"}))
    assert known.snapshot("dev", "fs").put(listing("b"))
    assert known.tool(ToolIdentifier("dev", "fs", "a")) is None
