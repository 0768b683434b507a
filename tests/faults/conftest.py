"""The marker that ties a test to its row of the faults."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(number, ...): the rows of tests/faults/rows.py that it holds")
