"""The estimate of tokens, against counts of a tokenizer (o200k) that were recorded in `token_counts.jsonl`."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.catalog.rendering.budget import estimate

RECORDED: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("token_counts.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("case", RECORDED, ids=[case["kind"] for case in RECORDED])
def test_a_tool_of_any_language_is_estimated_at_no_less_than_85_and_no_more_than_150_hundredths(case: dict[str, Any]):
    assert 0.85 <= estimate(case["text"].encode()) / case["tokens"] <= 1.5


@pytest.mark.parametrize("detail", ["full", "signature", "brief"])
def test_a_list_of_all_kinds_of_tools_is_never_estimated_too_low_and_not_far_too_high(detail: str):
    listed = [case for case in RECORDED if case["kind"].endswith(detail)]
    tokens = sum(case["tokens"] for case in listed)
    estimated = estimate(("[" + ",".join(case["text"] for case in listed) + "]").encode())
    assert tokens <= estimated <= 1.15 * tokens


def test_every_kind_of_character_costs_something():
    for character in "aA0 .\\éжبक—漢한🙂":
        assert estimate(character.encode() * 1000) >= (20 if character == " " else 100)


def test_nothing_costs_nothing():
    assert estimate(b"") == 0


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_more_text_never_costs_less_whatever_the_bytes(text: bytes, more: bytes):
    assert estimate(text) <= estimate(text + more) <= estimate(text) + estimate(more) + 2


def test_a_megabyte_is_estimated_in_a_moment():
    text = b'{"name":"read_file","description":"Reads 3 files \xe2\x80\x94 or none"},' * 16_000
    begin = time.process_time()
    estimate(text)
    assert time.process_time() - begin < 0.25


def test_what_a_hostile_text_is_cut_into_is_not_kept():
    tracemalloc.start()
    try:
        for number in range(100):
            estimate(b"%d" % number + b"a" * 100_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
