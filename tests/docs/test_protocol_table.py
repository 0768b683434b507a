"""docs/protocol.md says of every feature and pair of eras what a test shows, and of nothing else."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import pytest

from tests.docs.markdown import ROOT, rows, sections
from tests.e2e.test_protocol import COVERED, Covered
from tests.support.pairs import PAIRS, SURFACES, Case, Pair

TEXT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
MARK = re.compile(r"\[\^(\w+)\]")
HEADER = ["feature", "surfaces", *(f"{client} client, {server} server" for client, server in PAIRS)]


class Row(NamedTuple):
    name: str
    surfaces: tuple[str, ...]
    cells: dict[Pair, str]


def table() -> list[Row]:
    [section] = [one for one in sections(TEXT) if one.headings[-1:] == ("Features",)]
    found: list[Row] = []
    for name, surfaces, *cells in rows(section.text):
        shown = tuple(SURFACES) if surfaces == "all" else tuple(surfaces.split(", "))
        found.append(Row(name.replace("`", ""), shown, dict(zip(PAIRS, cells, strict=True))))
    return found


ROWS = table()


def test_the_table_has_a_column_for_each_pair():
    header = next(line for line in TEXT.splitlines() if line.startswith("| feature"))
    assert [cell.strip() for cell in header.strip("|").split("|")] == HEADER


def test_the_rows_are_the_features_that_are_tested():
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names)) > 0
    assert set(names) == {row.replace("`", "") for row in COVERED}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_cell_says_what_its_tests_show(row: Row):
    covered = next(shown for name, shown in COVERED.items() if name.replace("`", "") == row.name)
    assert {one.case.surface for one in covered} == set(row.surfaces)
    for pair, cell in row.cells.items():
        works = cell == "yes"
        assert works or MARK.fullmatch(cell), cell
        expected = {Covered(Case(*pair, surface), works) for surface in SURFACES if surface in row.surfaces}
        assert {one for one in covered if one.case.pair == pair} == expected


def test_every_note_is_explained_once_and_used():
    explained = Counter(re.findall(r"^\[\^(\w+)\]: \S", TEXT, re.MULTILINE))
    used = {mark for row in ROWS for cell in row.cells.values() for mark in MARK.findall(cell)}
    assert set(explained) == used
    assert set(explained.values()) == {1}
