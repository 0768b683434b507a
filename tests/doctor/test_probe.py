"""How long a server is examined: its own limit counts, however often it is started in it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from mcp_workbench import Workbench, load_config
from mcp_workbench.doctor import probe
from mcp_workbench.doctor.probe import probe_server
from mcp_workbench.limits import Limits
from tests.support.configs import rogue, write_config

FIRST_ENDS = """
import os, time
if os.path.exists({first!r}):
    time.sleep(60)
open({first!r}, "w").close()
time.sleep(1.8)
"""
LIMITS = Limits(startup_timeout_seconds=2.0)


async def test_a_server_that_hangs_on_its_second_try_has_no_second_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It ends on the probe shortly before its limit, and says nothing when it is started again."""
    monkeypatch.setattr(probe, "EXAMINED_GRACE_SECONDS", 0.2)
    script = tmp_path / "second.py"
    script.write_text(FIRST_ENDS.format(first=str(tmp_path / "first")), encoding="utf-8")
    config = load_config(write_config(tmp_path, {"dev": {"one": {"command": sys.executable, "args": [str(script)]}}}))
    async with Workbench(config, limits=LIMITS) as workbench:
        began = time.monotonic()
        [server] = config.servers()
        visited = await probe_server(workbench, server)
        seconds = time.monotonic() - began
    assert [finding.code for finding in visited.findings] == ["startup_timeout"]
    assert seconds < 3.2, "two limits would be 3.8 s"


async def test_a_server_is_ended_when_it_was_visited(tmp_path: Path):
    config = load_config(write_config(tmp_path, {"dev": {"one": rogue()}}))
    async with Workbench(config, limits=LIMITS) as workbench:
        [server] = config.servers()
        visited = await probe_server(workbench, server)
        router = next(iter(workbench.routers("")))
        [identifier] = router.servers_of(["dev"])
        assert (visited.state, router.pool.handle(identifier).supervisor.state) == ("ok", "idle")


async def test_the_advice_for_a_program_that_is_missing_wins_over_that_of_the_fault(tmp_path: Path):
    config = load_config(write_config(tmp_path, {"dev": {"one": {"command": "no-such-program"}}}))
    async with Workbench(config, limits=LIMITS) as workbench:
        [server] = config.servers()
        visited = await probe_server(workbench, server, advice="Do this.")
    assert [(finding.code, finding.advice) for finding in visited.findings] == [("spawn_failed", "Do this.")]
