"""What a host's file has for the variables of our configuration."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config.environment import expand
from mcp_workbench.hosts.secrets import Variables, without_secrets
from mcp_workbench.hosts.variables import inputs_in, texts_of, values_of


@pytest.mark.parametrize(
    ("written", "found", "values"),
    [
        ("${A}", "secret", {"A": "secret"}),
        ("Bearer ${A}", "Bearer secret", {"A": "secret"}),
        ("--a=${A} --b=${B} --a=${A}", "--a=1 --b=2 --a=1", {"A": "1", "B": "2"}),
        ("x $${ ${A}", "x $${ se$${cret", {"A": "se${cret"}),
        ("${A}", "se$$${{cret", {"A": "se$${{cret"}),
        ("${A}\n", "one\ntwo\n", {"A": "one\ntwo"}),
        ("plain", "plain", {}),
        ("${A}", "${A}", {}),
        ("${A}", "x-${env}", {}),
        ("${A:-1}", "secret", {}),
        ("--a=${A}", "--b=secret", {}),
        ("${A}${B}", "secret", {}),
        ("${A}:${B}", "a:b:c", {}),
        ("${A} ${A}", "one two", {}),
        ("${A}", "", {}),
    ],
)
def test_a_value_is_what_stands_where_the_variable_does(written: str, found: str, values: dict[str, str]):
    assert values_of({"args": ["x", written]}, {"args": ["x", found]}) == values


def test_many_variables_in_a_long_text_take_no_time():
    written = " ".join(f"a=${{V{number}}}" for number in range(9))
    began = time.process_time()
    assert values_of({"args": [f"{written} ${{Z:-1}}"]}, {"args": ["a=1 " * 9999 + "!"]}) == {}
    assert values_of({"args": [written]}, {"args": ["a=1 " * 9999]}) == {}
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("written", "raw", "values"),
    [
        ("${A}", "${A:-secret}", {"A": "${A:-secret}"}),
        ("Bearer ${A}", "Bearer pre-${B}", {"A": "pre-${B}"}),
        ("${A}", "pa$word1", {"A": "pa$word1"}),
        ("${A}", "a$${b}", {"A": "a$${b}"}),
        ("${A}", "${input:a}", {"A": "${input:a}"}),
        ("${A}", "${A}", {}),
        ("${A}", "$A", {}),
        ("${A}", "${env:A}", {}),
    ],
)
def test_what_a_host_looks_up_is_kept_in_its_words(written: str, raw: str, values: dict[str, str]):
    assert texts_of({"env": {"X": written}}, {"env": {"X": raw}}) == values


def test_a_variable_with_two_values_has_none():
    assert values_of({"env": {"X": "${A}", "Y": "${A}", "Z": "${B}"}}, {"env": {"X": "1", "Y": "2", "Z": "3"}}) == {
        "B": "3"
    }


def test_places_that_only_one_of_them_has_are_passed_over():
    assert values_of({"env": {"X": "${A}"}, "args": ["${B}"], "url": "${C}"}, {"env": [], "args": []}) == {}


def test_what_an_editor_asks_for_is_known_by_the_variable_that_stands_for_it():
    raw = {"env": {"KEY": "${input:my-key}"}, "args": ["--x=${input:other}", "${env:HOME}", 7]}
    assert inputs_in(raw) == {"MY_KEY": "${input:my-key}", "OTHER": "${input:other}"}


SECRET = st.from_regex(r"\A[A-Za-z0-9/+_!.\-]{12,40}\Z")
NAMES = st.sampled_from(["API_TOKEN", "DB_PASSWORD", "X_SECRET", "KEY_FILE", "LEVEL"])


@given(st.dictionaries(NAMES, SECRET), st.lists(SECRET, max_size=3), st.dictionaries(NAMES, SECRET, max_size=2))
def test_with_the_values_the_entry_is_what_the_host_has(
    env: dict[str, str], secrets: list[str], headers: dict[str, str]
):
    found: dict[str, Any] = {
        "command": "x",
        "env": env,
        "headers": {name: f"Bearer {one}" for name, one in headers.items()},
    }
    found["args"] = [word for number, one in enumerate(secrets) for word in (f"--token-{number}", one)]
    written = without_secrets(found, "mine", Variables())
    values = values_of(written, found)
    for kind, entries in (("env", env), ("headers", headers)):
        for name in entries:
            expansion = expand(written[kind][name], values)
            assert (expansion.text, expansion.missing) == (found[kind][name], ())
    assert [expand(one, values).text for one in written["args"]] == found["args"]
