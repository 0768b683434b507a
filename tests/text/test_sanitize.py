"""Foreign text, shown: one line, nothing invisible, ordinary text left alone."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcp_workbench
from mcp_workbench.text.sanitize import count, escape, slashed

ANY_TEXT = st.text(st.characters())  # surrogates, private use and unassigned characters included
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(ANY_TEXT)
def test_nothing_invisible_remains_of_any_text(text: str):
    result = escape(text)
    assert not {unicodedata.category(character) for character in result} & INVISIBLE
    assert len(result.splitlines()) <= 1
    result.encode()


@given(st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs")), max_size=200))
def test_ordinary_text_of_any_script_is_left_alone(text: str):
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b", "a\\x00b"),
        ("right\u202eleft", "right\\u202eleft"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half\ud800", "half\\ud800"),
        ("line\u2028end", "line\\u2028end"),
        ("c1\x9bcsi", "c1\\x9bcsi"),
        ("soft\xadhyphen", "soft\\xadhyphen"),
        ("naïve 日本語 🙂 'x'", "naïve 日本語 🙂 'x'"),
    ],
)
def test_hidden_characters_appear_as_escapes(text: str, expected: str):
    assert escape(text) == expected


@pytest.mark.parametrize("text", ["line\nbreak", "tab\tcr\r"])
def test_line_breaks_and_tabs_appear_as_escapes(text: str):
    assert escape(text).isprintable()


def test_a_long_text_is_cut_and_says_so():
    assert escape("x" * 10, 10) == "x" * 10
    assert escape("x" * 11, 10) == "x" * 10 + "…"
    assert len(escape("n" * 10_000)) == 201


@given(st.data())
def test_different_names_never_look_the_same(data: st.DataObject):
    """The same pieces, each time with other slashes between names, and the others inside one."""
    pieces = data.draw(st.lists(st.text(st.sampled_from("a\\u200b\u200b"), max_size=7), min_size=2, max_size=4))
    some, others = (data.draw(grouped(pieces)) for _ in range(2))
    assert (slashed(*some) == slashed(*others)) is (some == others)


@st.composite
def grouped(draw: st.DrawFn, pieces: list[str]) -> list[str]:
    names = pieces[:1]
    for piece in pieces[1:]:
        if draw(st.booleans()):
            names.append(piece)
        else:
            names[-1] += draw(st.sampled_from(["/", "\\/", "\u200b"])) + piece
    return names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("dev", "fs", "read_file"), "dev/fs/read_file"),
        (("a", "b/c"), r"a/b\/c"),
        (("a/b", "c"), r"a\/b/c"),
        (("a\\", "b"), r"a\\/b"),
        (("/" * 128, "b"), r"\/" * 128 + "/b"),
        (("a", "b", "c" * 300), "a/b/" + "c" * 200 + "…"),
    ],
)
def test_names_are_slashed(names: tuple[str, ...], expected: str):
    assert slashed(*names) == expected


def test_a_number_has_its_noun_in_the_right_form():
    assert [count(number, "tool") for number in (0, 1, 2, 1234)] == ["0 tools", "1 tool", "2 tools", "1,234 tools"]
    assert [count(number, "try", "tries") for number in (1, 3)] == ["1 try", "3 tries"]


def test_no_other_code_makes_a_plural():
    root = Path(mcp_workbench.__file__).parent
    wrong = re.compile(r"""\w\(e?s\)["' ,.:]|else ["']e?s["']|["']["'] if .*== 1 else""")
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in root.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if wrong.search(line) and path.name != "sanitize.py"
    ]
    assert found == []
