"""The arguments of the two meta-tools: each row of the contract's table, in the order of its checks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.errors import InvalidParameters, InvalidToolIdentifier, RequestError
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.surfaces.arguments import OpenArguments, read_open, read_use
from mcp_workbench.wire.jsonrpc import NOTHING

TOOL = {"toolbox": "dev", "server": "fs", "tool": "read"}
SHAPE = "Invalid tool identifier: expected an object with toolbox, server and tool"


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def refusal(given: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        read_use(given if isinstance(given, Raw) else raw(given))
    return caught.value


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in TOOL.items() if name != key}


# -- what is accepted


def test_a_structured_call_is_an_identifier_and_the_bytes_of_its_arguments():
    identifier, given = read_use(
        Raw(b'{"tool":{"tool":"read","server":"fs","toolbox":"dev"},"arguments":{"n": 1.00,"m":1e400}}')
    )
    assert identifier == ToolIdentifier("dev", "fs", "read")
    assert bytes(given) == b'{"n": 1.00,"m":1e400}'


def test_absent_arguments_are_an_empty_object():
    assert bytes(read_use(raw({"tool": TOOL}))[1]) == b"{}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"path": "x"}', b'{"path":"x"}'),
        ('{\n  "path":\r\n\t"x"\n}', b'{"path":"x"}'),
        ('  {"n": 1.00, "m": 1e400}  ', b'{"n":1.00,"m":1e400}'),
        ("{}", b"{}"),
        ('{"a":"line\\nbreak \u2028"}', '{"a":"line\\nbreak \u2028"}'.encode()),
    ],
)
def test_arguments_as_a_json_string_that_holds_an_object_are_taken(text: str, expected: bytes):
    given = bytes(read_use(raw({"tool": TOOL, "arguments": text}))[1])
    assert given == expected
    assert b"\n" not in given
    assert b"\r" not in given


@pytest.mark.parametrize("name", ["a__b", "", " ", "line\nbreak", "\x00", "🙂", "x" * 10_000, "'\"\\"])
def test_any_non_empty_string_is_a_part(name: str):
    if name:
        identifier, _ = read_use(raw({"tool": TOOL | {"tool": name}}))
        assert identifier.tool == name


# -- the shape of `tool`


@pytest.mark.parametrize(
    "given",
    [
        NOTHING,
        {},
        None,
        [],
        "dev__fs__read",
        5,
        {"tool": None},
        {"tool": 5},
        {"tool": []},
        {"tool": [TOOL]},
        {"tool": True},
        {"tool": "dev__fs__read"},
        {"tool": ""},
        {"tool_name": "dev__fs__read"},
        {"toolbox_name": "dev", "tool_name": "fs__read", "arguments": {}},
        {"toolbox_name": "dev"},
        {"arguments": {}},
        TOOL,
        {"tool": None, "extra": 1, "arguments": "x"},
    ],
)
def test_without_an_object_for_the_tool_the_shape_is_told_first(given: Any):
    assert isinstance(refusal(given), InvalidToolIdentifier)
    assert str(refusal(given)) == SHAPE
    assert refusal(given).hint


# -- its parts


@pytest.mark.parametrize("part", TOOL)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("absent", "is missing"),
        (None, "must be a string"),
        (5, "must be a string"),
        ({}, "must be a string"),
        (["dev"], "must be a string"),
        (False, "must be a string"),
        ("", "cannot be empty"),
    ],
)
def test_a_part_that_is_missing_of_the_wrong_type_or_empty_is_named(part: str, value: Any, problem: str):
    tool = without(part) if value == "absent" else TOOL | {part: value}
    error = refusal({"tool": tool})
    assert isinstance(error, InvalidToolIdentifier)
    assert str(error) == f"Invalid tool identifier: {part} {problem}"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ({}, "toolbox is missing"),
        ({"toolbox": "dev"}, "server is missing"),
        ({"toolbox": "dev", "server": "fs"}, "tool is missing"),
        ({"tool": "", "server": 5}, "toolbox is missing"),
        ({"toolbox": "dev", "server": 5, "tool": ""}, "server must be a string"),
        ({"toolbox": "", "server": 5}, "toolbox cannot be empty"),
        ({"toolbox": "dev", "server": "fs", "tool": "", "extra": 1}, "tool cannot be empty"),
    ],
)
def test_parts_are_checked_in_order_and_before_extra_keys(tool: dict[str, Any], text: str):
    assert str(refusal({"tool": tool, "more": 1, "arguments": 5})) == f"Invalid tool identifier: {text}"


# -- extra keys


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"tool": TOOL | {"extra": 1}}, "extra"),
        ({"tool": TOOL, "extra": 1}, "extra"),
        ({"tool": TOOL | {"inner": 1}, "outer": 1}, "inner"),
        ({"tool": TOOL, "tool_name": "x"}, "tool_name"),
        ({"tool": TOOL, "": 1}, ""),
        ({"tool": TOOL, "line\nbreak\x1b": 1}, "line\\nbreak\\x1b"),
        ({"tool": TOOL, "extra": 1, "arguments": "no object"}, "extra"),
    ],
)
def test_an_extra_key_at_either_level_is_refused_before_the_arguments_are_looked_at(given: dict[str, Any], key: str):
    error = refusal(given)
    assert isinstance(error, InvalidParameters)
    assert str(error) == f"Invalid parameters: Unrecognized key '{key}'"


def test_a_misspelt_key_is_told_what_was_probably_meant():
    assert refusal({"tool": TOOL, "argument": {}}).hint == "Did you mean 'arguments'?"


# -- arguments


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        5,
        True,
        "",
        "x",
        "[]",
        "null",
        '"{}"',
        "{",
        '{"a":1} {"b":2}',
        "{'a':1}",
        '{"a":"line\nbreak"}',
        '{"a":NaN}',
        '{"a":' * 5000,
    ],
)
def test_arguments_that_are_no_object_are_refused(value: Any):
    error = refusal({"tool": TOOL, "arguments": value})
    assert isinstance(error, InvalidParameters)
    assert str(error) == "Invalid parameters: arguments must be an object"


# -- open_toolbox


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (NOTHING, "toolbox is missing"),
        (None, "toolbox is missing"),
        ("dev", "toolbox is missing"),
        ({}, "toolbox is missing"),
        ({"toolbox": None}, "toolbox must be a string"),
        ({"toolbox": 5}, "toolbox must be a string"),
        ({"toolbox": ["dev"]}, "toolbox must be a string"),
        ({"toolbox": ""}, "toolbox cannot be empty"),
        ({"toolbox": "dev", "extra": 1}, "Unrecognized key 'extra'"),
        ({"toolbox": "", "extra": 1}, "toolbox cannot be empty"),
    ],
)
def test_a_toolbox_that_cannot_be_opened_is_told_why(given: Any, text: str):
    with pytest.raises(InvalidParameters) as caught:
        read_open(given if isinstance(given, Raw) else raw(given))
    assert str(caught.value) == f"Invalid parameters: {text}"


def test_the_old_parameter_is_told_its_new_name():
    with pytest.raises(InvalidParameters, match="toolbox is missing") as caught:
        read_open(raw({"toolbox_name": "dev"}))
    assert "'toolbox'" in caught.value.hint


def test_a_toolbox_is_any_non_empty_string():
    assert read_open(raw({"toolbox": "a b\n🙂"})) == OpenArguments("a b\n🙂")


# -- properties

LEAF = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
JSON = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PART = st.sampled_from(["dev", "", "a__b"]) | JSON
TOOLS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("toolbox", "server", "tool", "name", "toolbox_name", "x"), PART)
)
GIVEN = (
    st.fixed_dictionaries(
        {},
        optional={
            "tool": TOOLS | JSON | st.just(TOOL),
            "arguments": JSON | JSON.map(json.dumps) | st.just({}),
            "tool_name": JSON,
            "extra": JSON,
        },
    )
    | JSON
)


def expected(given: Any) -> str | None:
    """The contract's table as a function; None: the call is good."""
    if not isinstance(given, dict) or not isinstance(given.get("tool"), dict):
        return SHAPE
    tool = given["tool"]
    for part in TOOL:
        if part not in tool:
            return f"Invalid tool identifier: {part} is missing"
        if not isinstance(tool[part], str):
            return f"Invalid tool identifier: {part} must be a string"
        if not tool[part]:
            return f"Invalid tool identifier: {part} cannot be empty"
    for object_, known in ((tool, tuple(TOOL)), (given, ("tool", "arguments"))):
        if any(key not in known for key in object_):
            return "Invalid parameters: Unrecognized key"
    value = given.get("arguments", {})
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    return None if isinstance(value, dict) else "Invalid parameters: arguments must be an object"


@settings(max_examples=150)
@given(GIVEN)
def test_any_json_is_read_as_the_table_says(given: Any):
    wanted = expected(given)
    try:
        identifier, tool_arguments = read_use(raw(given))
    except (InvalidToolIdentifier, InvalidParameters) as error:
        assert wanted is not None
        assert str(error).startswith(wanted)  # noqa: PT017 -- either outcome is good
    else:
        assert wanted is None
        assert identifier.params() == given["tool"]
        assert isinstance(json.loads(bytes(tool_arguments)), dict)
