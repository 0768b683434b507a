"""Reading JSON with comments: nothing is lost, every place is known, everything else is refused."""
# ruff: noqa: PT017, PLR0917 -- a property says what holds for the error, where there is one; a row has six parts

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config.jsonc.parser import Array, Node, Object, Scalar, kind_of, parse, plain, tokens
from mcp_workbench.config.jsonc.source import SourceText, extend_path
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import Limits

COMMENTED = """\ufeff// at the top
{
  /* before a key */ "a": [1, 2.5e3, -0,], // after
  "b\\u0020c": {"d": null, "e": true,},
  // at the end
}
"""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(text: str) -> object:
    return plain(parse(SourceText(text)))


def failure(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(SourceText(text, "file"))
    return caught.value


def walk(node: Node):
    yield node
    if isinstance(node, Object):
        for member in node.members:
            yield member.key
            yield from walk(member.value)
    elif isinstance(node, Array):
        for item in node.items:
            yield from walk(item)


def test_comments_and_trailing_commas_are_allowed():
    assert read(COMMENTED) == {"a": [1, 2500.0, 0], "b c": {"d": None, "e": True}}


def test_joined_tokens_are_the_text_and_know_their_offsets():
    pieces = list(tokens(SourceText(COMMENTED)))
    assert "".join(piece.text for piece in pieces) == COMMENTED
    assert all(COMMENTED[piece.start : piece.end] == piece.text for piece in pieces)
    assert {piece.kind for piece in pieces} == {
        "bom", "whitespace", "comment", "string", "number", "word", "punctuation",
    }  # fmt: skip


def test_every_key_and_value_knows_its_span():
    root = parse(SourceText(COMMENTED))
    assert isinstance(root, Object)
    spans = [COMMENTED[node.start : node.end] for node in walk(root)]
    assert spans[1:6] == ['"a"', "[1, 2.5e3, -0,]", "1", "2.5e3", "-0"]
    assert COMMENTED[root.members[1].key.start : root.members[1].value.end] == '"b\\u0020c": {"d": null, "e": true,}'


def test_a_value_can_be_replaced_in_place_without_touching_comments():
    node = parse(SourceText(COMMENTED))
    assert isinstance(node, Object)
    value = node.members[0].value
    edited = COMMENTED[: value.start] + "[7]" + COMMENTED[value.end :]
    assert read(edited) == {"a": [7], "b c": {"d": None, "e": True}}
    assert "/* before a key */" in edited
    assert "// after" in edited


@given(json_values, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_any_json_value_reads_as_the_standard_library_reads_it(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read(text) == json.loads(text)
    assert "".join(token.text for token in tokens(SourceText(text))) == text


@given(st.text(alphabet=" \t\n\r\"'\\/*{}[]:,.0123456789-+eEtrufalsn\ufeffNI😀\x00\u2028", max_size=60))
def test_what_is_read_without_comments_and_commas_is_strict_json(text):
    try:
        value = read(text)
    except ConfigError as error:
        assert error.line is not None
        assert error.column is not None
        return
    assert "".join(token.text for token in tokens(SourceText(text))) == text
    try:
        expected = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} was accepted"))
    except ValueError:
        assert "/" in text or "," in text or text.startswith("\ufeff")  # the three liberties
    else:
        assert value == expected


@given(st.text(max_size=40))
def test_any_text_is_read_or_is_a_config_error(text):
    with suppress(ConfigError):
        read(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "path", "problem", "hint"),
    [
        ("", 1, 1, "", "the file is empty", "copy an example"),
        (" // only a comment\n", 2, 1, "", "the file is empty", "copy an example"),
        ('{"a": 1\n "b": 2}', 2, 2, "", "expected ',' or '}' after the value of 'a'", "comma missing"),
        ("[1 2]", 1, 4, "", "expected ',' or ']' after item 1 of the list", "comma missing"),
        ('{"a" 1}', 1, 6, "", "expected ':' after a key", ""),
        ("{a: 1}", 1, 2, "", "expected a key in double quotes", '"key"'),
        ("{,}", 1, 2, "", "expected a key in double quotes", '"key"'),
        ("[1,,2]", 1, 4, "[1]", "expected a value, found ','", ""),
        ('{"a": }', 1, 7, "a", "expected a value, found '}'", ""),
        ('{"a": {"b": [1, hello]}}', 1, 17, "a.b[1]", "expected a value, found a bare word", "double quotes"),
        ("{'a': 1}", 1, 2, "", "a string must be in double quotes", 'Write "'),
        ('{"a": \'x\'}', 1, 7, "a", "a string must be in double quotes", 'Write "'),
        ('{"a": NaN}', 1, 7, "a", "NaN is not allowed in JSON", "finite"),
        ('{"a": Infinity}', 1, 7, "a", "Infinity is not allowed in JSON", "finite"),
        ('{"a": -Infinity}', 1, 7, "a", "this is not a valid number", "JSON numbers"),
        ('{"a": 01}', 1, 7, "a", "this is not a valid number", "JSON numbers"),
        ('{"a": 1.}', 1, 7, "a", "this is not a valid number", "JSON numbers"),
        ('{"a": .5}', 1, 7, "a", "this is not a valid number", "JSON numbers"),
        ('{"a": +1}', 1, 7, "a", "this is not a valid number", "JSON numbers"),
        ('{"a": 0x10}', 1, 7, "a", "this is not a valid number", "JSON numbers"),
        ('{"a": 1e999}', 1, 7, "a", "this number is too large", ""),
        ('{"a": ' + "9" * 5000 + "}", 1, 7, "a", "this number is too large", ""),
        ('{"a": "x\ty"}', 1, 9, "a", "a control character in a string must be escaped", "\\t"),
        ('{"a": "x\ny"}', 1, 7, "a", "this string is never closed", "same line"),
        ('{"a": "x', 1, 7, "a", "this string is never closed", "same line"),
        ('{"a": "C:\\x"}', 1, 10, "a", "invalid escape in a string", "written as two"),
        ('{"a": "\\u12"}', 1, 8, "a", "invalid escape in a string", "written as two"),
        ('{"a": "\\ud800"}', 1, 7, "a", "half of a surrogate pair in a string", "both"),
        ('{"a": "\\udc00\\ud800"}', 1, 7, "a", "half of a surrogate pair in a string", "both"),
        ("{\n/* never", 2, 1, "", "this comment is never closed", "*/"),
        ('{"a": 1} {', 1, 10, "", "expected nothing more", ""),
        ('{"a": 1,\n', 2, 1, "", "'{' at line 1, column 1 is not closed", ""),
        ("[\n [1", 2, 4, "[0]", "'[' at line 2, column 2 is not closed", ""),
        ('{"a":', 1, 6, "a", "expected a value, but the file ends", ""),
        ('{"a"', 1, 5, "", "expected ':' after a key, but the file ends", ""),
        ('{"a": "😀", é}', 1, 12, "", "unexpected character 'é'", ""),
        ("{\r\n\r\n  x}", 3, 3, "", "expected a key in double quotes", '"key"'),
        ("\ufeff[1 2]", 1, 4, "", "expected ',' or ']'", "comma missing"),
        ("\u00a0{}", 1, 1, "", "unexpected character", ""),
    ],
)  # fmt: skip
def test_a_syntax_error_tells_its_place_and_what_to_do(text, line, column, path, problem, hint):
    error = failure(text)
    assert (error.line, error.column, error.path) == (line, column, path)
    assert problem in error.problem
    assert hint in error.hint
    assert str(error).startswith(f"file:{line}:{column}: ")
    assert "\n" not in str(error)


@pytest.mark.row("C2")
def test_c2_duplicate_keys_are_an_error_with_both_positions():
    error = failure('{"servers": {\n  "a": 1,\n  "b": 2,\n    "a": 3}}')
    assert (error.line, error.column, error.path) == (4, 5, "servers.a")
    assert error.problem == "duplicate key 'a', first defined at line 2, column 3"
    assert error.hint == "Keep one of the two."


@pytest.mark.row("C2")
def test_c2_keys_that_are_equal_after_unescaping_are_duplicates():
    assert "duplicate key" in failure('{"a": 1, "\\u0061": 2}').problem


@pytest.mark.row("C3")
def test_c3_nesting_beyond_the_cap_is_an_error():
    error = failure("[" * 100_000)
    assert (error.line, error.column) == (1, 65)
    assert error.problem == "nested deeper than 64 levels"
    assert parse(SourceText("[[1]]"), Limits(config_depth=2))
    with pytest.raises(ConfigError, match="deeper than 1 levels"):
        parse(SourceText("[[1]]"), Limits(config_depth=1))


def test_a_file_of_countless_values_is_refused_before_it_fills_the_memory():
    assert "more than 50000 values" in failure("[" + "0," * 60_000 + "]").problem


def test_a_node_does_not_show_its_value():
    assert "hunter2" not in repr(parse(SourceText('{"a": ["hunter2"]}')).members[0].value)
    assert "hunter2" not in repr(Scalar(0, 1, "hunter2"))


def test_a_string_where_a_key_should_be_is_not_repeated():
    error = failure('{"env": {"hunter2"}}')
    assert error.path == "env"
    assert "hunter2" not in str(error)


def test_a_node_says_what_it_is():
    root = parse(SourceText('["x", 1, 1.5, true, null, {}, []]'))
    assert [kind_of(item) for item in root.items] == [
        "a string", "a number", "a number", "true or false", "null", "an object", "a list",
    ]  # fmt: skip


@given(st.text(alphabet="a\n\r😀", max_size=30), st.data())
def test_line_and_column_do_not_depend_on_the_order_of_questions(text, data):
    source = SourceText(text)
    for _ in range(4):
        offset = data.draw(st.integers(0, len(text)))
        if text[:offset].endswith("\r") and text[offset:].startswith("\n"):
            continue  # the middle of a line end is no place where a token starts
        before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        assert source.position(offset) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_paths_quote_keys_that_could_be_misread():
    assert extend_path("", "a") == "a"
    assert extend_path("a", "b") == "a.b"
    assert extend_path("a", 0) == "a[0]"
    assert extend_path("a", "b.c") == 'a["b.c"]'
    assert extend_path("a", "") == 'a[""]'
    assert extend_path("a", "x\x01y") == 'a["x\\x01y"]'
