"""What servers say about their own use: bounded, visible, and cut where a reader would cut it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.rendering.budget import INSTRUCTIONS_LENGTH, estimate, fitted, read_instructions, shortened


def read(instructions: Any) -> str:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "instructions": instructions}
    return read_instructions(Raw(json.dumps(hello).encode()))


@pytest.mark.parametrize("hello", [b"{}", b"[]", b"null", b'{"instructions":null}', b'{"instructions":{"a":1}}'])
def test_a_value_of_another_type_reads_as_missing(hello: bytes):
    assert read_instructions(Raw(hello)) == ""


def test_lines_stay_lines_and_nothing_invisible_passes():
    assert read("\n# Use\r\n\tRead first.  \n\n- then\u202ewrite\u200b\x1b[31m\n") == (
        "# Use\n    Read first.\n\n- then\\u202ewrite\\u200b\\x1b[31m"
    )


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("Read first. Then write.", 23, "Read first. Then write."),
        ("Read first. Then write.", 22, "Read first. …"),
        ("Read first and then write.", 12, "Read first…"),
        ("Read first\nthen write it all", 15, "Read first …"),
        ("See example.com for more", 13, "See…"),
        ("Read first. Then", 11, "Read first. …"),
        ("読む。書く。消す。", 7, "読む。書く。 …"),
        ("x" * 30, 10, "x" * 10 + "…"),
    ],
)
def test_a_long_text_is_cut_after_a_sentence_or_a_word(text: str, length: int, expected: str):
    assert shortened(text, length) == expected


@given(st.text(), st.integers(1, 60))
def test_what_is_kept_is_the_beginning(text: str, length: int):
    kept = shortened(text, length)
    assert kept == text or (kept.endswith("…") and text.startswith(kept[:-1].rstrip()) and len(kept) <= length + 2)


def test_a_server_can_not_send_a_book():
    kept = read("All of it matters. " * 100_000)
    assert len(kept) <= INSTRUCTIONS_LENGTH + 2
    assert kept.endswith("matters. …")


@given(
    st.dictionaries(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=900), max_size=30),
    st.integers(-5, 3000),
)
def test_together_they_cost_no_more_than_they_may_and_every_server_is_counted(texts: dict[str, str], tokens: int):
    members = fitted(texts, tokens)
    shown = members.get("instructions", {})
    assert len(shown) + members.get("instructions_left_out", 0) == len(texts)
    assert list(shown) == list(texts)[: len(shown)]
    if shown:
        assert estimate(json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()) <= tokens
