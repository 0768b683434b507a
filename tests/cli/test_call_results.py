"""Results as text: what a tool says, and a line for what is no text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.cli import results


def told(**result: Any) -> list[str]:
    return list(results.as_text(Raw(json.dumps(result).encode())))


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "text", "text": "a\nb"}, "a\nb"),
        ({"type": "image", "mimeType": "image/png", "data": "AAAA" * 500}, "[image: image/png, 1.5 KB]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": "AA=="}, "[audio: audio/wav, 1 byte]"),
        ({"type": "image"}, "[image: ]"),
        ({"type": "resource_link", "name": "n", "uri": "u://x", "size": 2500000}, "[link: n u://x 2.5 MB]"),
        ({"type": "resource_link", "uri": "u://x", "size": 5e12}, "[link: u://x 5,000.0 GB]"),
        ({"type": "resource_link", "uri": "u://x", "size": "big"}, "[link: u://x]"),
        ({"type": "resource_link", "uri": "u://x", "size": 10**400}, "[link: u://x]"),
        ({"type": "resource", "resource": {"uri": "u://x", "text": "inside"}}, "inside"),
        ({"type": "resource", "resource": {"uri": "u://x", "blob": "AAAA"}}, "[resource: u://x 3 bytes]"),
        ({"type": "video\x1b[2J"}, "[video\\x1b[2J]"),
        ({}, "[something without a type]"),
    ],
)
def test_each_block_is_a_text_or_a_line_about_it(block: dict[str, Any], text: str):
    assert told(content=[block]) == [text]


def test_structured_content_is_told_where_there_is_nothing_else():
    assert told(content=[], structuredContent={"a": 1}) == ['{\n  "a": 1\n}']
    assert told(content=[{"type": "text", "text": "x"}], structuredContent={"a": 1}) == ["x"]
    assert told() == []


def test_structured_content_is_told_in_its_own_script_with_its_own_digits():
    written = r'{"\u65e5\ud83d\ude42": [1.10, "\u00e9\\u00e9\"\u001b\u202e\n"]}'
    [text] = results.as_text(Raw(f'{{"structuredContent": {written}}}'.encode()))
    assert text == '{\n  "日🙂": [\n    1.10,\n    "é\\\\u00e9\\"\\u001b\\u202e\\n"\n  ]\n}'
    assert json.loads(text) == json.loads(written)


def test_a_failure_without_a_word_is_told():
    assert told(content=[], isError=True) == ["The tool reports that it failed, but not why."]
    assert told(content=[], isError=True, structuredContent={"a": 1}) == ['{\n  "a": 1\n}']


def test_content_that_is_none_is_no_text():
    assert told(content={"type": "text"}) == []
    assert told(content=[1, "x"]) == ["[something without a type]"] * 2


@pytest.mark.parametrize(("flag", "failed"), [(True, True), (False, False), ("yes", False), (None, False)])
def test_only_what_says_so_is_an_error(flag: Any, failed: Any):
    assert results.is_error(Raw(json.dumps({"isError": flag}).encode())) is failed
