"""One field of a server's form, as a person is asked for it."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_workbench.cli.parameters import Parameters
from mcp_workbench.cli.terminal_client import prompt


def asked(schema: dict[str, Any], *, required: bool = True) -> str:
    return prompt(Parameters({"properties": {"x": schema}, "required": ["x"] if required else []}), "x")


def test_a_question_says_what_it_takes():
    """As the protocol has forms: texts, numbers, one of several values, several of several."""
    assert asked({"type": "string", "title": "Your \x1bname"}) == "  x (string) Your \\x1bname: "
    assert asked({"type": "boolean", "default": False}, required=False) == (
        "  x (true or false, optional, default false): "
    )
    tags = {"type": "array", "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}}
    assert asked(tags) == '  x (a or b, several as ["...", "..."]): '


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Gr\x1been"}]},
        {"enum": ["r", "g"], "enumNames": ["Red", "Gr\x1been"]},
        {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Gr\x1been"}]}},
    ],
)
def test_values_are_told_with_what_they_are_called(schema: dict[str, Any]):
    assert asked({"title": "Color", **schema}).startswith("  x (r: Red or g: Gr\\x1been")


@pytest.mark.parametrize(
    "schema",
    [
        {"title": "Color", "oneOf": [{"const": "red"}, {"const": "green"}]},
        {"title": "Color", "oneOf": [{"const": "red"}, {"const": "green", "title": "Green"}]},
        {"oneOf": [{"const": "red", "title": "Red"}, {"const": "green", "title": 5}]},
        {"enum": ["red", "green"], "enumNames": "Red"},
        {"enum": ["red", "green"], "enumNames": [None]},
    ],
)
def test_a_name_that_says_nothing_is_left_out(schema: dict[str, Any]):
    assert asked(schema).startswith("  x (red or green)")


def test_the_form_that_a_value_must_have_is_told():
    assert asked({"type": "string", "format": "date"}) == "  x (string, format date): "
    assert asked({"type": "integer", "minimum": 1, "maximum": 9}) == "  x (integer, 1..9): "


def test_a_long_list_of_values_and_a_long_description_are_whole():
    values = [f"value-{number}" for number in range(100)]
    text = asked({"enum": values, "description": "word " * 100 + "end"})
    assert "value-99)" in text
    assert text.endswith("word end: ")
