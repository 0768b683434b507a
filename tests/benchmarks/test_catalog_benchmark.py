"""The benchmark of opens, on the smallest shape."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import catalog  # noqa: PLC0415 -- a script beside its parts

    yield catalog
    sys.modules.pop("catalog", None)


def test_a_warm_open_starts_nothing_and_a_cold_one_every_server(catalog):
    row = catalog.measure(2, 3, catalog.RAW, 1)
    assert (row.cold.processes, row.warm.processes, row.warm_at_once.processes) == (2, 0, 0)
    assert row.warm.answer_bytes == row.cold.answer_bytes + len(',"stored":true')
    assert "| 2 x 3 |" in catalog.table([row])


def test_a_picture_has_a_line_for_each_series(catalog):
    series = {"cold & slow": [(1, 50.0), (50, 1000.0)], "warm": [(1, 5.0), (50, 20.0)]}
    picture = ET.fromstring(catalog.pictures.lines("Opens", "servers", "ms", series))  # noqa: S314 -- our own
    assert len(picture.findall("{http://www.w3.org/2000/svg}polyline")) == 2
    assert "cold & slow" in [text.text for text in picture.findall("{http://www.w3.org/2000/svg}text")]
