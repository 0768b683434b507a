"""The journeys of docs/architecture.md are those that a running workbench makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.journeys import JOURNEYS
from tests.docs.markdown import ROOT, code_words, rows, sections

PAGE, CHAPTER = ROOT / "docs" / "architecture.md", "Five journeys"


def journeys() -> dict[str, list[str]]:
    """By heading, the functions of each journey in the order of the table, as a trace names them."""
    found = [one for one in sections(PAGE.read_text(encoding="utf-8")) if one.headings[-2:-1] == (CHAPTER,)]
    return {
        one.headings[-1]: [f"{code_words(row[1])[0]}:{name}" for row in rows(one.text) for name in code_words(row[2])]
        for one in found
    }


def test_each_journey_is_documented():
    assert list(journeys()) == list(JOURNEYS)


@pytest.mark.parametrize("name", JOURNEYS)
async def test_the_documented_hops_are_made_in_their_order(name: str, tmp_path: Path):
    trace = await JOURNEYS[name](tmp_path)
    documented = journeys()[name]
    assert [hop for hop in trace if hop in documented] == documented
