"""Row D6 of the faults: opening and closing leaves no process, no descriptor, no task and no memory behind."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.procs import census, needs_proc, new_marker
from tests.support.wire import environment

OPENS = int(os.environ.get("LEAK_OPENS", "100"))
"""How many are measured, after a hundred to warm up; a thousand take half a minute."""
SLOPE_BYTES = 20_000
ROOT = Path(__file__).parents[2]


@pytest.mark.row("D6")
@pytest.mark.timeout(60 + OPENS // 2)
@needs_proc
def test_d6_opening_and_closing_leaves_nothing_behind(tmp_path: Path):
    marker = new_marker()
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.cycles", str(tmp_path), str(OPENS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment(tmp_path) | marker,
    )
    left = json.loads(done.stdout)
    assert done.stderr == ""
    assert left["after"] == left["before"]
    assert left["after"]["tasks"] == 1  # the one that counts them
    assert left["after"]["children"] == 0
    assert census(marker) == []
    opens = range(0, OPENS + 1, left["opens_per_cycle"])
    assert statistics.linear_regression(opens, left["memory"]).slope < SLOPE_BYTES
