"""Output schemas and results of the modern era, as handshake clients get them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import Raw

from mcp_workbench.wire.downgrade import Projection, handshake_result, handshake_tools, wrapped_schema

Json = dict[str, Any]
TEXT = {"type": "text", "text": "hello"}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def wrapped(schema: Json) -> Json:
    found = wrapped_schema(raw(schema))
    assert found is not None
    return json.loads(bytes(found))


def natural(schema: Json) -> Json:
    """The schema inside its wrapper."""
    return wrapped(schema)["properties"]["result"]


def tools_for_handshake(result: Raw) -> Raw:
    return handshake_tools(result, lambda schema: b"refused" not in bytes(schema))


def projected(result: Json, projection: Projection) -> Json | None:
    members = handshake_result({name: raw(value) for name, value in result.items()}, projection)
    return None if members is None else json.loads(json.dumps(members, default=lambda one: json.loads(bytes(one))))


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "string"}, {}, {"oneOf": [{}]}, {"type": ["object"]}])
def test_a_schema_whose_root_is_not_an_object_is_wrapped(schema: Json):
    assert wrapped(schema) == {"type": "object", "properties": {"result": schema}, "required": ["result"]}


def test_a_schema_of_an_object_is_left_alone():
    assert wrapped_schema(raw({"type": "object", "properties": {"a": {"$ref": "#"}}})) is None


def test_the_dialect_stands_at_the_root_of_the_wrapper():
    dialect = "http://json-schema.org/draft-07/schema#"
    assert wrapped({"$schema": dialect, "type": "array"})["$schema"] == dialect


@pytest.mark.parametrize(
    ("reference", "moved"),
    [
        ("#", "#/properties/result"),
        ("#/$defs/a", "#/properties/result/$defs/a"),
        ("#anchor", "#anchor"),
        ("other.json#/a", "other.json#/a"),
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_pointers_to_the_root_follow_the_schema_into_its_wrapper(keyword: str, reference: str, moved: str):
    assert natural({"type": "array", "items": {keyword: reference}})["items"] == {keyword: moved}


def test_a_schema_that_refers_to_itself_accepts_the_same_values_in_its_wrapper():
    schema: Json = {
        "type": "array",
        "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/n"}]},
        "$defs": {"n": {"type": "number"}},
    }
    direct, through = Draft202012Validator(schema), Draft202012Validator(wrapped(schema))
    for value in ([], [1, [2, [3]]], ["a"], [[["a"]]], {}, 5):
        assert through.is_valid({"result": value}) == direct.is_valid(value)


@pytest.mark.parametrize("keyword", ["const", "default"])
def test_values_in_a_schema_are_no_references(keyword: str):
    assert natural({"items": {keyword: {"$ref": "#"}}})["items"] == {keyword: {"$ref": "#"}}


def test_a_property_may_be_called_like_a_keyword():
    schema = {"items": {"properties": {"const": {"$ref": "#"}, "$id": {"$ref": "#"}, "$ref": {"type": "string"}}}}
    properties = natural(schema)["items"]["properties"]
    assert properties["const"] == properties["$id"] == {"$ref": "#/properties/result"}
    assert properties["$ref"] == {"type": "string"}


@pytest.mark.parametrize(("identifier", "is_moved"), [("https://example.org/a", False), ("#a", True)])
def test_a_schema_with_an_address_of_its_own_keeps_its_pointers(identifier: str, *, is_moved: bool):
    schema = {"items": {"$id": identifier, "items": {"$ref": "#/a"}}}
    expected = "#/properties/result/a" if is_moved else "#/a"
    assert natural(schema)["items"]["items"]["$ref"] == expected


def test_the_digits_of_a_wrapped_schema_stay_as_they_were_written():
    schema = Raw(b'{"items":{"$ref":"#"},"maximum":1.50e2,"minimum":1e400}')
    assert b'"maximum":1.50e2,"minimum":1e400' in bytes(wrapped_schema(schema) or b"")


def test_a_list_that_needs_no_projection_keeps_its_bytes():
    result = Raw(b'{ "tools": [{"name":"a","outputSchema":{"type":"object"}}, {"name": 5}, 7, {"outputSchema":"x"}] }')
    assert tools_for_handshake(result) is result


def test_in_a_list_only_schemas_that_handshake_clients_refuse_are_wrapped():
    tools = [{"name": "a", "outputSchema": {"type": "array"}}, {"name": "b", "inputSchema": 5}]
    listed = json.loads(bytes(tools_for_handshake(raw({"tools": tools, "x": 1}))))
    assert listed == {
        "tools": [{"name": "a", "outputSchema": wrapped({"type": "array"})}, {"name": "b", "inputSchema": 5}],
        "x": 1,
    }


@pytest.mark.parametrize("value", [[1, 2], "x", 5, 1.5, True, None, []])
def test_a_value_that_is_not_an_object_is_wrapped_whatever_the_schema(value: Any):
    for projection in ("value", "schema"):
        assert projected({"content": [TEXT], "structuredContent": value, "_meta": {}}, projection) == {
            "content": [TEXT], "structuredContent": {"result": value}, "_meta": {},
        }  # fmt: skip


def test_an_object_is_wrapped_only_where_its_schema_is():
    result = {"content": [TEXT], "structuredContent": {"a": 1}}
    assert projected(result, "value") is None
    assert projected(result, "schema") == {**result, "structuredContent": {"result": {"a": 1}}}


def test_a_value_that_no_text_tells_is_added_as_text():
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    told = projected({"content": [image], "structuredContent": [1, 2]}, "value")
    assert told is not None
    assert told["content"] == [image, {"type": "text", "text": "[1, 2]"}]


@pytest.mark.parametrize("result", [{"content": []}, {"content": [TEXT], "isError": True}])
def test_a_result_without_structured_content_stays_as_it_is(result: Json):
    assert projected(result, "schema") is None


def test_nothing_is_projected_unless_asked_for():
    assert projected({"structuredContent": [1]}, "none") is None


@pytest.mark.parametrize("tools", [{"outputSchema": 1}, "outputSchema", None])
def test_what_is_no_list_of_tools_is_passed_on_as_it_is(tools: Any):
    result = raw({"tools": tools})
    assert tools_for_handshake(result) is result


def test_a_schema_that_is_nested_too_deep_does_not_cost_the_others_their_projection():
    deep = b'{"not":' * 500 + b'{"$ref":"#"}' + b"}" * 500
    listed = Raw(b'{"tools":[{"outputSchema":%s},{"outputSchema":{"type":"array"}}]}' % deep)
    projected = bytes(tools_for_handshake(listed))
    assert deep in projected
    assert projected.endswith(b'"properties":{"result":{"type":"array"}},"required":["result"]}}]}')


def test_a_schema_that_clients_refuse_even_when_it_is_wrapped_is_left_out():
    listed = raw({"tools": [{"name": "a", "outputSchema": {"type": "string", "pattern": "refused"}, "title": "A"}]})
    assert json.loads(bytes(tools_for_handshake(listed))) == {"tools": [{"name": "a", "title": "A"}]}
