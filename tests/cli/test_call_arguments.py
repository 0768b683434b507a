"""Arguments as people type them: typed by the schema, and checked before anything is sent."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.cli.arguments import TypedArguments, read_arguments
from mcp_workbench.cli.parameters import Parameters
from mcp_workbench.errors import InvalidParameters

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "n": {"type": "number"},
        "b": {"type": "boolean"},
        "a": {"type": "array", "items": {"type": "integer"}},
        "names": {"type": "array", "items": {"type": "string", "enum": ["x", "y z"]}},
        "o": {"type": "object"},
        "maybe": {"type": ["integer", "null"]},
        "text_or_none": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "color": {"$ref": "#/$defs/Color"},
        "level": {"enum": [1, 2, None, "high"]},
        "only": {"const": "this"},
        "any": {},
        "with-dash.and dot": {"type": "integer"},
        "part": {"allOf": [{"$ref": "#/$defs/Count"}], "default": 1},
        "nested": {"anyOf": [{"$ref": "#/$defs/Either"}, {"type": "null"}]},
        "bounded": {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 0}]},
        "one_or_many": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "rows": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    },
    "$defs": {
        "Color": {"type": "string", "enum": ["red", "light green"]},
        "Count": {"type": "integer"},
        "Either": {"oneOf": [{"type": "boolean"}, {"$ref": "#/$defs/Count"}]},
    },
}


def read(*words: str, schema: Any = SCHEMA) -> Any:
    return json.loads(bytes(read_arguments(TypedArguments.read(words), Parameters(schema))))


def stdin(content: bytes, encoding: str = "utf-8") -> io.TextIOWrapper:
    """As Python opens it: in some locales whatever is no text is let in."""
    return io.TextIOWrapper(io.BytesIO(content), encoding, "surrogateescape")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("s=5", "5"),
        ("s=", ""),
        ("s=a=b:c", "a=b:c"),
        ("s={}", "{}"),
        ("s=null", "null"),
        ("i=5", 5),
        ("i=-0", 0),
        ("n=5", 5),
        ("n=-2.5e3", -2500.0),
        ("b=true", True),
        ("b=false", False),
        ("a=5", [5]),
        ("a=[5, 6]", [5, 6]),
        ("names=y z", ["y z"]),
        ('o={"k": [1]}', {"k": [1]}),
        ("maybe=null", None),
        ("maybe=7", 7),
        ("text_or_none=null", None),
        ("text_or_none=5", "5"),
        ("color=light green", "light green"),
        ("level=2", 2),
        ("level=null", None),
        ("level=high", "high"),
        ("only=this", "this"),
        ("any=5", "5"),
        ("any:=5", 5),
        ('s:="a"', "a"),
        ("with-dash.and dot=3", 3),
        ("part=3", 3),
        ("nested=3", 3),
        ("nested=true", True),
        ("nested=null", None),
        ("bounded=7", 7),
        ("one_or_many=a", "a"),
        ('one_or_many=["a"]', ["a"]),
        ("rows=[1,2]", [[1, 2]]),
        ("rows=[[1],[2]]", [[1], [2]]),
        ("rows=[]", []),
    ],
)
def test_a_value_has_the_type_that_the_schema_says(word: str, value: Any):
    (read_value,) = read(word).values()
    assert (read_value, type(read_value)) == (value, type(value))


@pytest.mark.parametrize(
    ("word", "problem", "hint"),
    [
        ("i=5.5", "'i' must be an integer, not '5.5'", "(s?: string"),
        ("i=05", "'i' must be an integer, not '05'", ""),
        ("i=", "'i' must be an integer, not ''", ""),
        ("n=many", "'n' must be a number, not 'many'", ""),
        ("n=NaN", "'n' must be a number, not 'NaN'", ""),
        ("b=yes", "'b' must be true or false, not 'yes'", ""),
        ("a=x", "'a' must be an array, not 'x'", ""),
        ("o=[1]", "'o' must be an object, not '[1]'", ""),
        ("o={", "'o' must be an object, not '{'", ""),
        ("maybe=x", "'maybe' must be an integer or null, not 'x'", ""),
        ("color=rde", "'color' must be 'red' or 'light green', not 'rde'", "Did you mean 'red'?"),
        ("only=that", "'only' must be 'this', not 'that'", ""),
        ("i:=x", "'i' is not JSON: 'x'", ""),
        ("colour=red", "there is no parameter 'colour'", "Did you mean 'color'?"),
        ("qqqqq=1", "there is no parameter 'qqqqq'", "Available parameters: 's', 'i'"),
        ("word", "'word' is not key=value", "Write key=value"),
        ("=5", "'=5' is not key=value", ""),
        ("a=1,2", "'a' must be an array, not '1,2'", "a=... a=..., or as JSON: a='[...]'"),
        ("o={'k': 1}", "'o' must be an object, not '{'k': 1}'", """as JSON: o='{"key": ...}'"""),
        ("part=x", "'part' must be an integer, not 'x'", ""),
        ("nested=x", "'nested' must be null or true or false or an integer, not 'x'", ""),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(word: str, problem: str, hint: str):
    with pytest.raises(InvalidParameters) as caught:
        read(word)
    assert str(caught.value) == f"Invalid parameters: {problem}"
    assert hint in caught.value.hint


def test_a_list_can_be_given_element_by_element_and_nothing_else_twice():
    assert read("a=1", "s=x", "a=2", "a=[3,4]") == {"a": [1, 2, 3, 4], "s": "x"}
    assert read("a=[]", "a=1") == {"a": [1]}
    assert read("rows=[1]", "rows=[2]") == {"rows": [[1], [2]]}
    assert read("one_or_many=a", "one_or_many=b") == {"one_or_many": ["a", "b"]}
    with pytest.raises(InvalidParameters, match="'s' is given twice") as caught:
        read("s=a", "s=b")
    assert caught.value.hint


def test_what_is_missing_is_told_with_the_signature():
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "to": {}}, "required": ["path", "to"]}
    with pytest.raises(InvalidParameters, match="'to' is missing") as caught:
        read("path=x", schema=schema)
    assert "(path: string, to)" in caught.value.hint
    with pytest.raises(InvalidParameters, match="'path', 'to' are missing"):
        read(schema=schema)
    with pytest.raises(InvalidParameters, match="'to' is missing"):
        read('{"path": 1}', schema=schema)


def test_numbers_keep_their_digits():
    digits = "9" * 400
    assert (
        bytes(read_arguments(TypedArguments((f"i={digits}", "n=1.10")), Parameters(SCHEMA)))
        == f'{{"i":{digits},"n":1.10}}'.encode()
    )


def test_values_that_are_hard_to_write_are_read_all_the_same():
    schema = {"properties": {"a": {"enum": [10**30, "\ud800", "x"]}}}
    assert read(f"a={10**30}", schema=schema) == {"a": 10**30}
    with pytest.raises(InvalidParameters, match="must be '1000"):
        read("a=y", schema=schema)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InvalidParameters, match="is not UTF-8") as caught:
        read("s=\udcff")
    assert caught.value.hint


@pytest.mark.parametrize("schema", [{"type": "object"}, {}, None, True, {"properties": {}}])
def test_a_tool_that_names_no_parameters_takes_any(schema: Any):
    assert read("a=1", "b:=1", schema=schema) == {"a": "1", "b": 1}


def test_other_names_are_taken_where_the_schema_says_so():
    named = {"type": "object", "properties": {"a": {}}}
    assert read("b=1", schema={**named, "additionalProperties": True}) == {"b": "1"}
    assert read("b=1", schema={**named, "anyOf": [{"required": ["a"]}, {"properties": {"b": {}}}]}) == {"b": "1"}
    assert read('{"b": 1}', schema=named) == {"b": 1}
    with pytest.raises(InvalidParameters, match="no parameter 'b'"):
        read("b=1", schema=named)
    with pytest.raises(InvalidParameters, match="no parameter 'b'"):
        read('{"b": 1}', schema={**named, "additionalProperties": False})


def test_other_names_have_the_type_that_the_schema_gives_to_them():
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
    assert read("b=1", schema=schema) == {"b": 1}
    with pytest.raises(InvalidParameters, match="'b' must be an integer"):
        read("b=x", schema=schema)


def test_parameters_of_several_parts_are_known():
    schema = {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}, "required": ["b"]}]}
    assert read("a=1", "b=x", schema=schema) == {"a": 1, "b": "x"}


def test_references_that_go_in_circles_or_nowhere_are_any_value():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/nowhere"}},
        "$defs": {"A": {"$ref": "#/$defs/A"}},
    }
    assert read("a=1", "b=2", schema=schema) == {"a": "1", "b": "2"}


def test_what_stands_beside_a_reference_is_kept():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A", "description": "Which.", "default": 3}},
        "$defs": {"A": {"type": "integer", "description": "Any."}},
    }
    parameters = Parameters(schema)
    assert (parameters.about("a"), parameters.schema("a")["default"]) == ("Which.", 3)
    assert read("a=1", schema=schema) == {"a": 1}


def test_schemas_that_lead_back_to_themselves_or_far_away_end():
    both = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]
    circle = {"A": {"anyOf": both}, "B": {"anyOf": [*both, {"type": "integer"}], "allOf": both}}
    chain = {f"C{number}": {"$ref": f"#/$defs/C{number + 1}"} for number in range(3000)}
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}, "c": {"$ref": "#/$defs/C0"}}, "$defs": circle | chain}
    assert read("a=1", "c=1", schema=schema) == {"a": 1, "c": "1"}


def test_all_can_be_given_as_json_in_a_word_or_on_stdin(monkeypatch: pytest.MonkeyPatch):
    assert read('{"i": 1.0, "s": "x"}') == {"i": 1.0, "s": "x"}
    monkeypatch.setattr("sys.stdin", stdin(b' {"i": 2}\n'))
    assert read("-") == {"i": 2}
    assert read('\n  {"i": 3}') == {"i": 3}


def test_stdin_that_is_closed_or_no_text_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidParameters, match="stdin is closed"):
        read("-")
    monkeypatch.setattr("sys.stdin", stdin(b" \n"))
    with pytest.raises(InvalidParameters, match="stdin is empty"):
        read("-")
    monkeypatch.setattr("sys.stdin", stdin(b"\xff{}"))
    with pytest.raises(InvalidParameters, match="stdin is not UTF-8"):
        read("-")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_stdin_is_utf_8_whatever_the_terminal_speaks(encoding: str, monkeypatch: pytest.MonkeyPatch):
    """A text that came from elsewhere, perhaps with the mark that some editors put before it."""
    monkeypatch.setattr("sys.stdin", stdin(b'\xef\xbb\xbf{"s": "\xc3\xa9"}', encoding))
    assert read("-") == {"s": "é"}


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"i": 1', "Input data was truncated"), ('{"i" 1}', "expected ':' (byte 5)"), ("{} {}", "trailing characters")],
)
def test_it_is_told_what_is_wrong_with_json(text: str, why: str):
    with pytest.raises(InvalidParameters, match=f"not a JSON object: .*{re.escape(why)}"):
        read(text)


@pytest.mark.parametrize("words", [("{",), ('{"a": }',), ('{"i": 1}', "s=x"), ("-", "s=x")])
def test_json_that_is_none_or_not_alone_is_refused(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", stdin(b"{}"))
    with pytest.raises(InvalidParameters):
        read(*words)


@pytest.mark.parametrize("text", [b"[]", b"5", b"{} {}"])
def test_stdin_must_be_one_object(text: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", stdin(text))
    with pytest.raises(InvalidParameters, match="not a JSON object"):
        read("-")


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=50))
def test_any_text_is_itself_where_text_is_asked_for(text: str):
    assert read(f"s={text}") == {"s": text}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_whatever_a_schema_is_words_are_read_or_refused(schema: Any):
    for outer in (schema, {"type": "object", "properties": {"a": schema}}, {"properties": schema}):
        try:
            read("a=1", schema=outer)
        except InvalidParameters:
            continue


def test_choices_are_those_of_the_schema_also_in_a_list():
    parameters = Parameters(SCHEMA)
    assert parameters.choices("color") == ["red", "light green"]
    assert parameters.choices("b") == ["true", "false"]
    assert parameters.choices("names") == ["x", "y z"]
    assert parameters.choices("level") == ["1", "2", "null", "high"]
    assert parameters.choices("s") == []
