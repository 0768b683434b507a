"""The configuration of the demo: three toolboxes with the five servers of this package."""

from __future__ import annotations

import os
import sys
from typing import Any

PACKAGE = "mcp_workbench.demo.servers"

_TOOLBOXES = {
    "writing": ("Notes and text: keep notes, count words, compare and search texts", ("notes", "text")),
    "data": ("Numbers and tables: arithmetic, statistics, units, SQL", ("calculator", "database")),
    "planning": ("Dates, weekdays and time zones", ("calendar",)),
}


def configuration() -> dict[str, Any]:
    """What a person would write into a configuration file, with this interpreter as the command."""
    return {
        "toolboxes": {
            name: {"description": description, "mcpServers": {server: _entry(server) for server in servers}}
            for name, (description, servers) in _TOOLBOXES.items()
        }
    }


def python_environment() -> dict[str, str]:
    """What a child process needs to find this package where PYTHONPATH leads to it."""
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": path} if path else {}


def _entry(server: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", f"{PACKAGE}.{server}"], "env": python_environment()}
