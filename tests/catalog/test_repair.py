"""Definitions that official clients refuse: what is repaired, what is withheld, and what stays as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.definition import ServerItems, take_items
from mcp_workbench.catalog.repair import REPAIRED_ITEMS
from mcp_workbench.catalog.snapshot import ServerTools, take_listing
from mcp_workbench.limits import DEFAULTS

Json = dict[str, Any]
PLAIN: Json = {"type": "object"}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def take(definition: Json, *, handshake: bool = True) -> ServerTools:
    return take_listing(
        [raw({"name": "good", "inputSchema": PLAIN}), raw(definition)], (), DEFAULTS, handshake=handshake
    )


def repaired(definition: Json, *, handshake: bool = True) -> Json:
    """A tool that must be offered, without its name."""
    tool = json.loads(bytes(take({"name": "t", **definition}, handshake=handshake).tools["t"].raw))
    assert tool.pop("name") == "t"
    return tool


def reasons(taken: ServerTools | ServerItems) -> list[tuple[str, str]]:
    return [(one.name, one.reason) for one in taken.withheld]


@pytest.mark.parametrize("given", [None, {}, [], True])
def test_an_input_schema_that_says_nothing_is_one_of_an_object(given: Any):
    assert repaired({"inputSchema": given}) == {"inputSchema": PLAIN}


def test_a_missing_input_schema_is_one_of_an_object():
    assert repaired({"description": "d"}) == {"description": "d", "inputSchema": PLAIN}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"oneOf": [{"required": ["a"]}]}, {"type": "object", "oneOf": [{"required": ["a"]}]}),
        ({"type": ["object", "null"]}, PLAIN),
        ({"type": None}, PLAIN),
        ({**PLAIN, "properties": []}, {**PLAIN, "properties": {}}),
        ({**PLAIN, "properties": None}, {**PLAIN, "properties": {}}),
        ({**PLAIN, "required": None}, PLAIN),
        ({**PLAIN, "$schema": 7}, PLAIN),
        (
            {**PLAIN, "properties": {"a": True, "b": False, "c": None}},
            {**PLAIN, "properties": {"a": {}, "b": {"not": {}}, "c": {}}},
        ),
    ],
)
def test_an_input_schema_whose_meaning_is_plain_is_repaired(given: Json, expected: Json):
    assert repaired({"inputSchema": given}) == {"inputSchema": expected}


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("x", "inputSchema"),
        ([1], "inputSchema"),
        (False, "inputSchema"),
        ({"type": "string"}, "inputSchema.type"),
        ({"type": ["string"]}, "inputSchema.type"),
        ({**PLAIN, "properties": "x"}, "inputSchema.properties"),
        ({**PLAIN, "properties": {"a": "string"}}, "inputSchema.properties[...]"),
        ({**PLAIN, "required": "a"}, "inputSchema.required"),
        ({**PLAIN, "required": [5]}, "inputSchema.required[0]"),
    ],
)
def test_how_a_tool_is_called_is_never_guessed(given: Any, place: str):
    for handshake in (True, False):
        taken = take({"name": "t", "inputSchema": given}, handshake=handshake)
        assert list(taken.tools) == ["good"]
        assert reasons(taken) == [("t", f"official clients refuse its {place}")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"title": 5, "description": None, "_meta": [], "outputSchema": None}, {}),
        ({"annotations": {"title": 5, "readOnlyHint": True}}, {"annotations": {"readOnlyHint": True}}),
        ({"annotations": {"readOnlyHint": "yes", "x": 1}}, {"annotations": {"x": 1}}),
        ({"annotations": []}, {}),
        ({"execution": {"taskSupport": "sometimes"}}, {"execution": {}}),
        (
            {"icons": [{"src": "a", "theme": "red"}, {"src": 5}, {"src": "b", "sizes": "48x48"}, None]},
            {"icons": [{"src": "a"}, {"src": "b"}]},
        ),
        ({"icons": [{"src": 5}]}, {}),
        ({"outputSchema": "x"}, {}),
        ({"outputSchema": {**PLAIN, "properties": {"a": {"type": "any"}}}}, {}),
        ({"outputSchema": {**PLAIN, "properties": {"a": {"$ref": "#/$defs/missing"}}}}, {}),
        ({"outputSchema": {**PLAIN, "properties": {"a": {"pattern": "[\\w-.]+"}}}}, {}),
        ({"outputSchema": {"type": "array", "items": {"minimum": "1"}}}, {}),
        ({"outputSchema": {**PLAIN, "properties": {"a": 5}, "additionalProperties": False}}, {}),
    ],
)
def test_of_what_only_describes_a_tool_the_part_that_clients_refuse_is_left_out(given: Json, expected: Json):
    assert repaired({**given, "inputSchema": PLAIN, "x": None}) == {**expected, "inputSchema": PLAIN, "x": None}


def test_what_every_client_accepts_keeps_its_bytes():
    text = b'{"name":"t","inputSchema":{"required":[],"type":"object"},"x":1.50,"annotations":{"y":null},"u":"\\u00e9"}'
    for handshake in (True, False):
        (tool,) = take_listing([Raw(text)], (), DEFAULTS, handshake=handshake).tools.values()
        assert (bytes(tool.raw), tool.wraps_output) == (text, False)


@pytest.mark.parametrize(
    "schemas",
    [
        {"inputSchema": {**PLAIN, "properties": {"a": True}}},
        {"inputSchema": PLAIN, "outputSchema": {"type": "array", "items": {}}},
        {"inputSchema": PLAIN, "outputSchema": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    ],
)
def test_schemas_that_only_modern_clients_accept_are_unchanged_for_them(schemas: Json):
    text = json.dumps({"x": 1, **schemas, "name": "t", "description": "d"}, separators=(",", ":")).encode()
    (tool,) = take_listing([Raw(text)], (), DEFAULTS).tools.values()
    assert bytes(tool.raw) == text
    assert repaired(schemas) != schemas


def test_an_output_schema_that_is_not_of_an_object_is_wrapped_for_handshake_clients_only():
    schema = {"type": "array", "items": {"type": "string"}}
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    definition = {"name": "t", "inputSchema": PLAIN, "outputSchema": schema}
    for handshake, expected in ((True, wrapped), (False, schema)):
        tool = take(definition, handshake=handshake).tools["t"]
        assert json.loads(bytes(tool.raw))["outputSchema"] == expected
        assert tool.wraps_output is handshake


def test_a_tool_that_filters_exclude_is_not_told_to_be_refused():
    taken = take_listing([raw({"name": "t", "inputSchema": "x"})], ("!t",), DEFAULTS)
    assert (taken.tools, taken.withheld) == ({}, ())


@pytest.mark.parametrize(
    ("member", "given", "expected"),
    [
        ("name", {"name": "p", "arguments": None}, {"name": "p"}),
        ("name", {"name": "p", "arguments": {}}, {"name": "p"}),
        (
            "name",
            {"name": "p", "arguments": [{"name": "a", "description": 5, "required": None, "x": 1}]},
            {"name": "p", "arguments": [{"name": "a", "x": 1}]},
        ),
        ("uri", {"uri": "a:b"}, {"uri": "a:b", "name": "a:b"}),
        ("uri", {"uri": "a:b", "name": 5, "size": "5"}, {"uri": "a:b", "name": "a:b"}),
        ("uri", {"uri": "a:b", "name": "b", "size": 1.5, "mimeType": None}, {"uri": "a:b", "name": "b"}),
        (
            "uri",
            {"uri": "a:b", "name": "b", "annotations": {"audience": ["user", "cat"], "priority": 2, "x": 1}},
            {"uri": "a:b", "name": "b", "annotations": {"audience": ["user"], "x": 1}},
        ),
        (
            "uri",
            {"uri": "a:b", "name": "b", "annotations": {"lastModified": "2025-02-30T00:00:00Z"}},
            {"uri": "a:b", "name": "b", "annotations": {}},
        ),
        ("uriTemplate", {"uriTemplate": "a:{b}", "title": []}, {"uriTemplate": "a:{b}", "name": "a:{b}"}),
    ],
)
def test_prompts_resources_and_templates_are_repaired_too(member: str, given: Json, expected: Json):
    (item,) = take_items([raw(given)], member, DEFAULTS).items
    assert json.loads(bytes(item.raw)) == expected


@pytest.mark.parametrize(
    ("member", "given", "told"),
    [
        ("name", {"name": "p", "arguments": "a"}, ("p", "official clients refuse its arguments")),
        ("name", {"name": "p", "arguments": [{"name": 5}]}, ("p", "official clients refuse its arguments[0].name")),
        (
            "name",
            {"name": "p", "arguments": [{"name": "a", "required": "yes"}]},
            ("p", "official clients refuse its arguments[0].required"),
        ),
        ("uri", {"name": "b"}, ("", "it has no uri")),
        ("uriTemplate", 5, ("", "it has no uriTemplate")),
    ],
)
def test_items_without_a_plain_repair_are_withheld_with_a_reason(member: str, given: Any, told: tuple[str, str]):
    good = {"name": "good", "uri": "a:good", "uriTemplate": "a:{good}"}
    taken = take_items([raw(given), raw(good)], member, DEFAULTS)
    assert [item.name for item in taken.items] == [good[member]]
    assert reasons(taken) == [told]


def test_a_long_list_that_is_refused_is_not_repaired():
    many = REPAIRED_ITEMS + 1
    assert repaired({"inputSchema": PLAIN, "icons": [{"src": 5}] * many}) == {"inputSchema": PLAIN}
    prompt = {"name": "p", "arguments": [{"name": "a", "title": 5}] * many}
    assert reasons(take_items([raw(prompt)], "name", DEFAULTS)) == [
        ("p", "official clients refuse its arguments[0].title")
    ]
