"""What a configuration file may hold: any bytes, and good files with anything wrong in them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config.keys import ROOT, SERVER, URL_KEYS, Key
from tests.fuzz import configuration
from tests.fuzz.corpus import Case, as_expected, kept, noted, trying, unpack
from tests.fuzz.shapes import BROKEN, ODD_NUMBERS, ODD_TEXTS, broken, dump, scratched, spoiled

canaries = (f"canary{number}" for number in itertools.count(1000))
MAKE: dict[str, Callable[[], Any]] = {
    "text": lambda: next(canaries),
    "boolean": lambda: False,
    "number": lambda: 5,
    "whole": lambda: 100_000,
    "strings": lambda: [next(canaries), "--flag", "${TOKEN}", "a ${TOKEN:-x} $${"],
    "names": lambda: [next(canaries), f"!{next(canaries)}"],
    "map": lambda: {"X-A": next(canaries), "B": "${TOKEN}"},
    "any": lambda: [{"id": "x"}],
}


BOUNDED = {"maxConcurrent": 4, "callbackPort": 8400, "maxMemory": 2**30}
"""Whole numbers that may not be as large, or as small, as others."""


def good_value(key: Key) -> Any:
    if key.choices:
        return key.choices[0]
    if key.inside:
        return good_entry(key.inside, ())
    return BOUNDED.get(key.name) or MAKE[key.kind]()


def good_entry(keys: Iterable[Key], without: tuple[str, ...]) -> dict[str, Any]:
    return {key.name: good_value(key) for key in keys if key.name not in without}


LOCAL = good_entry(SERVER, (*URL_KEYS, "headers", "enabled", "inheritEnv"))
REMOTE = {"url": f"https://a.example/{next(canaries)}", "headers": {"Authorization": "Bearer ${TOKEN}"}, "type": "http"}
SETTINGS = good_entry(ROOT, ("toolboxes", "mcpServers"))
GOOD: list[dict[str, Any]] = [
    {**SETTINGS, "toolboxes": {"dev": {"description": "The first", "mcpServers": {"fs": LOCAL, "far": REMOTE}}}},
    {"mcpServers": {"fs": LOCAL, "far": REMOTE}, "theme": "dark"},
    {"toolboxes": {}},
]
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+|\s+')
ODD_TOKENS = (
    *BROKEN, "{", "}", "[", "]", ":", ",", "//", "/*", "*/", "/* c */", "\n", "\r\n", "\r", "\ufeff", "\u2028", "null",
    '"${TOKEN}"', '"${"', '"${MISSING}"', '"${TOKEN:-${B}}"', '"\\ud800"', '"\\u0000"', '"~"', '"~root/x"', '"*"',
    "'x'", '"canary1"',
    *(dump(number) for number in ODD_NUMBERS), *(dump(text) for text in ODD_TEXTS if len(text) < 400),
)  # fmt: skip


@st.composite
def mixed_up(draw: st.DrawFn) -> str:
    """A good file with tokens swapped, left out, doubled or replaced."""
    tokens: list[str] = TOKEN.findall(dump(draw(st.sampled_from(GOOD))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(tokens) - 1))
        match draw(st.sampled_from(["swap", "drop", "double", "put", "replace"])):
            case "swap":
                other = draw(st.integers(0, len(tokens) - 1))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case "drop" if len(tokens) > 1:
                del tokens[at]
            case "double":
                tokens[at:at] = tokens[at : at + draw(st.integers(1, 9))]
            case "put":
                tokens.insert(at, draw(st.sampled_from(ODD_TOKENS)))
            case _:
                tokens[at] = draw(st.sampled_from(ODD_TOKENS))
    return draw(st.sampled_from(["", " ", "\n", "\r\n"])).join(tokens)


@st.composite
def misnumbered(draw: st.DrawFn) -> str:
    """A good file with other numbers in its numeric keys."""
    odd = st.sampled_from(ODD_NUMBERS) | st.integers(-10, 10**10) | st.floats(allow_nan=False, allow_infinity=False)
    numeric = {key.name: draw(odd) for key in ROOT if key.kind in ("number", "whole") and draw(st.booleans())}
    own = {key.name: draw(odd) for key in SERVER if key.kind in ("number", "whole") and draw(st.booleans())}
    return dump({**numeric, "mcpServers": {"fs": {"command": next(canaries), **own}}})


texts = (
    mixed_up()
    | misnumbered()
    | st.sampled_from(GOOD).flatmap(spoiled).map(dump)
    | st.sampled_from(GOOD).flatmap(broken).map(dump)
    | st.sampled_from(GOOD).map(dump)
)
ENCODINGS = ("utf-8",) * 6 + ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-7")
contents = (
    st.tuples(texts, st.sampled_from(ENCODINGS)).map(lambda one: one[0].encode(one[1], "surrogatepass"))
    | texts.map(lambda text: text.encode("utf-8", "surrogatepass")).flatmap(scratched)
    | st.binary(max_size=200)
    | st.tuples(st.binary(min_size=1, max_size=3), st.integers(1, 60_000)).map(lambda one: one[0] * one[1])
)
odd_values = st.sampled_from([*ODD_TEXTS, "canary2000", "~/canary2001", "${TOKEN} canary2002", "https://canary2003/"])
environs = st.dictionaries(
    st.sampled_from(["TOKEN", "MISSING", "B", "HOME", ""]), odd_values | st.text(max_size=5), max_size=3
)


@trying(200)
@given(
    st.builds(Case, file=contents.map(unpack), environ=environs, strict=st.sampled_from([None, True, False])),
)
def test_a_configuration_of_any_bytes_loads_or_fails_with_one_error_that_helps(case: Case):
    with noted("config", case):
        configuration.check(case)


def test_the_files_that_are_spoiled_are_good():
    for good in GOOD:
        assert configuration.check({"file": dump(good), "environ": {"TOKEN": "canary3000"}}) == {"loads": True}


@pytest.mark.parametrize("case", kept("config"))
def test_a_configuration_that_once_was_trouble_is_none(case: Case):
    as_expected(case, configuration.check(case))
