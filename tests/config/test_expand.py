"""${VAR} and ${VAR:-default}: once, from left to right, never twice."""
# ruff: noqa: PT017 -- a property says what holds for the error, where there is one

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config.environment import MalformedReferenceError, expand

ENVIRON = {"A": "alpha", "EMPTY": "", "NESTED": "${A}", "_x9": "under"}


@pytest.mark.parametrize("value", ["$A", "${A}"])
def test_a_variable_that_a_host_had_no_value_for_is_not_set(value: str):
    assert expand("x${A}", {"A": value}).missing == ("A",)
    assert expand("${A:-other}", {"A": value}).text == "other"
    assert expand("${A}", {"A": f" {value}", "B": value}).missing == ()
    assert expand("${B}", {"B": value}).text == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("${A}", "alpha"),
        ("-${A}-${_x9}-", "-alpha-under-"),
        ("${A:-other}", "alpha"),
        ("${NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b c}", "a:-b c"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", ""),
        ("${NESTED}", "${A}"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A $ {A} $(A) {A}", "$A $ {A} $(A) {A}"),
        ("a}b", "a}b"),
        ("$", "$"),
        ("", ""),
    ],
)
def test_references_are_replaced(value, text):
    expansion = expand(value, ENVIRON)
    assert expansion.text == text
    assert expansion.missing == ()


@pytest.mark.row("C4")
def test_c4_a_missing_variable_is_named():
    assert expand("${NONE}/${A}/${OTHER}", ENVIRON).missing == ("NONE", "OTHER")


def test_what_the_environment_brought_in_is_known_and_defaults_are_not():
    assert expand("${A} ${NONE:-default} $${A}", ENVIRON).used == {"A": "alpha"}


@pytest.mark.row("C4")
@pytest.mark.parametrize(
    ("value", "problem", "hint"),
    [
        ("${}", "${} names no variable", "Write ${NAME}."),
        ("${1x}", "names no variable", "letters, digits and _"),
        ("${A", "not closed by }", "Write ${NAME}."),
        ("${", "not closed by }", "Write ${NAME}."),
        ("${A-b}", "names no variable", "${NAME:-default}"),
        ("${A:b}", "names no variable", "${NAME:-default}"),
        ("${A:=b}", "names no variable", "${NAME:-default}"),
        ("${ A }", "names no variable", "letters, digits and _"),
        ("${ä}", "names no variable", "letters, digits and _"),
        ("${env:TOKEN}", "is not supported", "Write ${TOKEN}."),
        ("${input:token}", "does not prompt for values", "write ${NAME}"),
        ("${A:-${B}}", "a default cannot hold another ${", "plain text"),
    ],
)
def test_c4_a_malformed_reference_is_an_error_with_a_hint(value, problem, hint):
    with pytest.raises(MalformedReferenceError) as caught:
        expand(value, ENVIRON)
    assert problem in str(caught.value)
    assert hint.rstrip(".") in caught.value.hint
    assert "$${ stands for the characters ${." in caught.value.hint


def test_a_malformed_reference_is_not_repeated():
    with pytest.raises(MalformedReferenceError) as caught:
        expand("${hunter2!}", ENVIRON)
    assert "hunter2" not in str(caught.value) + caught.value.hint


@pytest.mark.row("C4")
@given(st.text(alphabet="${}AB:-x", max_size=20))
def test_c4_expanded_text_is_never_expanded_again(brought):
    assert expand("<${VAR}>", {"VAR": brought, "A": "never", "B": "never", "AB": "never"}).text == f"<{brought}>"


@given(st.text(alphabet="${}AB:- ", max_size=30))
def test_any_value_expands_or_is_malformed(value):
    try:
        expansion = expand(value, {"A": "SECRET"})
    except MalformedReferenceError as error:
        assert "SECRET" not in str(error) + error.hint
    else:
        assert "SECRET" not in repr(expansion)


@given(st.text(alphabet="${}Ab", max_size=20))
def test_any_text_can_be_written_literally(text):
    assert expand(text.replace("${", "$${"), {"A": "x", "b": "y"}).text == text


def test_a_default_can_hold_the_escape_for_a_literal_reference():
    assert expand("${NONE:-$${B}", {}).text == "${B"
