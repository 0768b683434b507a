"""A tool as its server defined it: its name, its bytes, and what is too much for any reader."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition, compact, name_of, oversize
from mcp_workbench.catalog.official_models import Unrepairable
from mcp_workbench.limits import Limits

LIMITS = Limits(schema_bytes=2000, schema_depth=8)


def nested(depth: int, opening: str = '{"a":', closing: str = "}") -> Raw:
    return Raw((opening * (depth - 1) + "{}" + closing * (depth - 1)).encode())


def test_a_definition_is_kept_compact_with_its_own_digits_and_its_own_order():
    raw = b'{ "z": 1.00,\n "name": "t",\t"n": 1e400, "u": "a\\u2028b c", "inputSchema": {"type": "object"} }'
    read = Definition.read(compact(Raw(raw)))
    assert read.name == "t"
    assert bytes(read.raw) == b'{"z":1.00,"name":"t","n":1e400,"u":"a\\u2028b c","inputSchema":{"type":"object"}}'


@pytest.mark.parametrize("raw", [b"{}", b"null", b"5", b"[]", b'"t"', b'{"name":null}', b'{"name":5}', b'{"name":""}'])
def test_what_has_no_usable_name_is_no_definition(raw: bytes):
    with pytest.raises(Unrepairable, match="it has no name"):
        Definition.read(Raw(raw))


@pytest.mark.parametrize("annotations", [None, [], "x", 5])
def test_annotations_that_are_no_object_are_none(annotations: object):
    read = Definition.read(Raw(json.dumps({"name": "t", "annotations": annotations}).encode()))
    assert read.annotations() == {}


@pytest.mark.parametrize("number", ["1e400", "9" * 5000])
def test_annotations_are_read_whatever_numbers_stand_elsewhere(number: str):
    """A definition is raw JSON with the server's own digits: Python need not be able to hold them."""
    raw = f'{{"name":"t","inputSchema":{{"maximum":{number}}},"annotations":{{"readOnlyHint":true}}}}'
    read = Definition.read(Raw(raw.encode()))
    assert read.annotations() == {"readOnlyHint": True}


def test_a_definition_is_too_large_above_the_limit_and_not_at_it():
    fits = Raw(b'{"name":"' + b"x" * (2000 - 11) + b'"}')
    assert len(bytes(fits)) == 2000
    assert oversize(fits, LIMITS) is None
    assert "2001 bytes" in (oversize(Raw(bytes(fits).replace(b"x", b"xx", 1)), LIMITS) or "")


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")])
def test_a_definition_is_too_deep_above_the_limit_and_not_at_it(opening: str, closing: str):
    per_level = opening.count("[") + opening.count("{")
    levels = 7 // per_level
    at = Raw(
        (opening * levels + "[" * (8 - levels * per_level) + "]" * (8 - levels * per_level) + closing * levels).encode()
    )
    over = Raw(
        (opening * levels + "[" * (9 - levels * per_level) + "]" * (9 - levels * per_level) + closing * levels).encode()
    )
    json.loads(bytes(at))
    assert oversize(at, LIMITS) is None
    assert "deeper than 8" in (oversize(over, LIMITS) or "")


def test_brackets_in_strings_and_beside_each_other_are_no_depth():
    text = json.dumps({"name": "t", "description": '[[[[[[[[[[[[{{{{"\\' * 5, "wide": [{}] * 50})
    assert oversize(Raw(text.encode()), LIMITS) is None


@pytest.mark.parametrize("number", ["1e400", "-1E+0309", "9" * 400, "9" * 400 + ".5", "0.1e310"])
def test_a_number_that_readers_take_for_infinity_is_too_large(number: str):
    reason = "a number in its definition is too large"
    assert oversize(Raw(f'{{"name":"t","inputSchema":{{"maximum":{number}}}}}'.encode()), LIMITS) == reason


@pytest.mark.parametrize("number", ["1e308", "1e-999", '"1e400"', '"\\"1e400"', "0." + "0" * 400])
def test_a_number_that_readers_can_read_is_not_too_large(number: str):
    assert oversize(Raw(f'{{"name":"t","n":{number}}}'.encode()), LIMITS) is None


def test_the_depth_of_a_hostile_definition_is_found_without_recursion():
    assert oversize(nested(100_000), Limits(schema_bytes=10**7)) is not None


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b'{"name":"big","inputSchema":{', "big"),
        (b'{ "name" : "b\\"ig\\u0041" ,', 'b"igA'),
        (b'{"description":"say \\"name\\": \\"evil\\"","name":"good"', "good"),
        (b'{"inputSchema":' + b" " * 5000 + b'{},"name":"late"}', ""),
        (b'{"name":5}', ""),
        (b'{"name":"cut', ""),
        (b"", ""),
    ],
)
def test_the_name_of_what_cannot_be_read_whole_is_found_near_its_start(raw: bytes, name: str):
    assert name_of(Raw(raw)) == name
