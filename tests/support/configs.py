"""Configuration files for tests, and what a rogue server wrote into its log."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LAUNCH = Path(__file__).parents[1] / "peers" / "launch.py"

Server = dict[str, Any]
Toolboxes = dict[str, dict[str, Server]]


def rogue(
    mode: str = "ok", *arguments: object, log: Path | None = None, env: dict[str, str] | None = None, **fields: Any
) -> Server:
    """A server entry that starts the rogue server in a mode."""
    environment = dict(env or {}) | ({"ROGUE_LOG": str(log)} if log else {})
    args = ["-SE", str(LAUNCH), "rogue_stdio", mode, *map(str, arguments)]
    return {"command": sys.executable, "args": args, "env": environment, **fields}


def write_config(folder: Path, toolboxes: Toolboxes, **settings: Any) -> Path:
    """A configuration file with these toolboxes, each with a description of its own."""
    content = {
        "toolboxes": {
            name: {"description": f"The toolbox {name}", "mcpServers": servers} for name, servers in toolboxes.items()
        },
        **settings,
    }
    path = folder / "workbench-config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def read_log(log: Path) -> list[dict[str, Any]]:
    """What rogue servers wrote, oldest first."""
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def received(log: Path, method: str) -> list[dict[str, Any]]:
    """The messages with this method that rogue servers got."""
    messages = [entry["message"] for entry in read_log(log) if entry["event"] == "message"]
    return [message for message in messages if message.get("method") == method]


def starts(log: Path) -> list[int]:
    """The pids of the rogue servers that were started."""
    return [entry["pid"] for entry in read_log(log) if entry["event"] == "start"]
