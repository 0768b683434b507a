"""What a server may list: any JSON, in any pages, under any names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import catalogs
from tests.fuzz.corpus import Case, as_expected, kept, noted, trying, unpack
from tests.fuzz.shapes import ODD_TEXTS, anything, deep, encoded, spoiled

TOOL: dict[str, Any] = {
    "name": "t",
    "title": "T",
    "description": "d",
    "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"$ref": "#"}}},
    "outputSchema": {"$ref": "http://127.0.0.1:9/schema"},
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "title": "A"},
    "icons": [{"src": "data:,"}],
    "_meta": {"k": 1},
}
NAMES = (
    *ODD_TEXTS, "t", "u", "a__b", "_", "__", "t_0123abcd", "open_toolbox", "use_tool", "dev__a__t", "x" * 128, "a/b",
    "a.b", "a:b", "b__t", "\u200b", "\u00e9", "e\u0301", "\u0430",
)  # fmt: skip
names = st.sampled_from([one for one in NAMES if one.isprintable() or len(one) < 20]) | st.text(max_size=8)
plain_tools = names.map(lambda name: {"name": name, "inputSchema": {}})
EVIL = {"toolbox_name": "evil", "source_server": "evil", "_meta": {"original_name": "evil"}}
posing = names.map(lambda name: {"name": name, **EVIL})
hinted = st.builds(
    lambda name, hints: {"name": name, "annotations": hints},
    names,
    st.dictionaries(
        st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]),
        st.sampled_from([True, False, None, 1, "true"]),
    ),
)
large = st.sampled_from(
    [
        {"name": "t", "inputSchema": deep(65)},
        {"name": "t", "inputSchema": deep(60)},
        {"inputSchema": deep(10_000), "name": "t"},
        {"name": "t", "inputSchema": {"description": "x" * 9000}},
        {"name": "u", "inputSchema": {"anyOf": [{}] * 300}},
    ]
)
tools = plain_tools | posing | hinted | large | spoiled(TOOL, least=0) | anything
filters = st.lists(
    st.sampled_from(["t", "!t", "*", "!*", "?", "[", "a[", "[!a]*"])
    | st.sampled_from(["@readOnly", "!@destructive", "@idempotent", "@openWorld"])
    | names.map(lambda name: name or "x"),
    max_size=3,
)
cursors = st.sampled_from(["1", "2", "", None, 7, {}])
pages = st.fixed_dictionaries({"tools": st.lists(tools, max_size=6)}, optional={"nextCursor": cursors})
results = pages | pages.flatmap(spoiled) | anything


@trying(120)
@given(st.builds(Case, results=st.lists(results.map(encoded).map(unpack), min_size=1, max_size=4), filters=filters))
def test_any_list_of_any_shape_is_a_fault_or_accounts_for_every_tool(case: Case):
    with noted("catalog_results", case):
        catalogs.check_results(case)


SERVER_NAMES = ("a", "b", "a__b", "b__c", "_", "a_", "é", "x.y", "dev")
servers = st.builds(
    lambda toolbox, server, pages, cursors, filters: {
        "toolbox": toolbox,
        "server": server,
        "pages": pages,
        "cursors": cursors[: len(pages) - 1],
        "filters": filters,
    },
    st.sampled_from(SERVER_NAMES),
    st.sampled_from(SERVER_NAMES),
    st.lists(st.lists(tools.map(encoded).map(unpack), max_size=4), min_size=1, max_size=3),
    st.lists(st.sampled_from(['"1"', '"2"', '"3"', '""', "null", "7", '"\\ud800"']), min_size=3, max_size=3),
    filters,
)


@trying(50)
@given(
    st.builds(
        Case,
        kind=st.just("whole"),
        servers=st.lists(servers, min_size=1, max_size=3, unique_by=lambda one: one["server"]),
    )
)
def test_what_is_offered_of_any_catalog_can_be_called_and_reaches_its_own_tool(case: Case):
    with noted("catalog", case):
        catalogs.check_catalog(case)


@pytest.mark.parametrize("case", kept("catalog"))
def test_a_catalog_that_once_was_trouble_is_none(case: Case):
    as_expected(case, catalogs.check_results(case) if "results" in case else catalogs.check_catalog(case))
