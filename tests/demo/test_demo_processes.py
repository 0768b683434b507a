"""Which demo servers are running, as the operating system tells it."""

import sys

import pytest

from mcp_workbench.demo.processes import running_servers, server_name, server_pids
from tests.demo.lines import Pipes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="platform: reads /proc")


def test_a_server_is_seen_while_it_runs_and_no_longer():
    assert running_servers() == []
    with Pipes("text") as text, Pipes("notes") as notes:
        text.ask("ping")
        notes.ask("ping")
        assert running_servers() == ["notes", "text"]
        assert sorted(server_pids()) == sorted([text.process.pid, notes.process.pid])
        assert server_name(text.process.pid) == "text"
    assert running_servers() == []
    assert server_name(text.process.pid) is None
