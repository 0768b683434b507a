"""Every core row of the faults has a test, every other one a test or a reason, and the map of them is current."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.rows import README, ROWS, SECTIONS, carriers, functions, table

FAULTS = Path(__file__).parent


def test_every_core_row_has_a_test_unless_it_is_not_part_of_this_version():
    carried = {held.row for held in carriers()}
    assert [number for number, row in ROWS.items() if row.core and not row.reason and number not in carried] == []


def test_every_other_row_has_a_test_or_a_reason():
    carried = {held.row for held in carriers()}
    missing = [number for number, row in ROWS.items() if not row.core and number not in carried and not row.reason]
    assert missing == []


def test_all_of_the_core_but_pins_and_poisoned_texts_must_have_a_test():
    assert {number for number, row in ROWS.items() if row.core and row.reason} == {"A21", "A22"}


def test_a_row_that_has_a_test_needs_no_reason():
    carried = {held.row for held in carriers()}
    assert [number for number, row in ROWS.items() if row.reason and number in carried] == []


def test_every_row_that_a_test_carries_exists():
    assert [held for held in carriers() if held.row not in ROWS] == []


def test_a_test_that_is_named_after_a_row_carries_it():
    """Those here: elsewhere a name may begin with a letter and a digit by chance."""
    carried = {(held.path, held.test, held.row) for held in carriers()}
    for path, function in functions(FAULTS):
        for number in re.findall(r"^test_([a-f]\d+)_", function.name):
            assert (path, function.name, number.upper()) in carried, f"{path.name}: {function.name}"


def test_rows_are_complete_sentences_in_their_sections():
    assert all(row.fault.endswith(".") and number[0] in SECTIONS for number, row in ROWS.items())


def test_the_map_of_rows_to_tests_is_current():
    assert README.read_text(encoding="utf-8") == table(), "python -m tests.faults.rows > tests/faults/README.md"
