"""What tests of faults read from a result, from a connection and from the system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import Workbench
from tests.support.library import handle_of, text_of

MIB = 1024 * 1024


def told(result: dict[str, Any]) -> dict[str, Any]:
    """What a program reads of a failed call: its code, its place, when to try again."""
    if not result.get("isError"):
        pytest.fail(f"expected an error, got {json.dumps(result)[:1000]}")
    return result["_meta"]["mcp-workbench/error"]


def code_of(result: dict[str, Any]) -> str:
    return told(result)["code"]


def echoed(result: dict[str, Any]) -> dict[str, Any]:
    """What the rogue server's echo heard, where the workbench is a library."""
    return json.loads(text_of(result))


def peer_of(running: Workbench, server: str, toolbox: str = "dev") -> Any:
    """The JSON-RPC peer of the connection that is there now."""
    current = handle_of(running, toolbox, server).supervisor.current
    assert current is not None
    return current.channel.peer


def peak_memory(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(pid)
