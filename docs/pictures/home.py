"""The home folder of the person in the pictures: the commands, a configuration, and the files of two hosts."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STAND_IN = "/home/me"
"""What the pictures show instead of the folder, which is as long."""
_MODULE = "mcp_workbench.demo.servers"
_TRIES = 100

TOOLBOXES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "writing": ("Notes and text: keep notes, count words, compare and search texts", ("notes", "text")),
    "data": ("Numbers and tables: arithmetic, statistics, units, SQL", ("calculator", "database")),
    "planning": ("Dates, weekdays and time zones", ("calendar",)),
}

CURSOR = """{
  "mcpServers": {
    // The team's issues
    "linear": {
      "url": "https://mcp.linear.example/mcp",
      "headers": { "Authorization": "Bearer not-a-real-token" }
    },
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github@2025.4.8"],
      "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "not-a-real-token" }
    }
  }
}
"""
CLAUDE_CODE = """{
  "numStartups": 41,
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github@2025.4.8"],
      "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "not-a-real-token" }
    },
    "files": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "/home/me/projects"]
    },
    "memory": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-memory@2026.8.31"]
    }
  }
}
"""


def server(name: str, **more: Any) -> dict[str, Any]:
    """The entry of a server that comes with the package."""
    return {"command": "python3", "args": ["-m", f"{_MODULE}.{name}"], **more}


def toolboxes() -> dict[str, Any]:
    """The toolboxes of `mcp-workbench demo`."""
    return {
        name: {"description": description, "mcpServers": {one: server(one) for one in servers}}
        for name, (description, servers) in TOOLBOXES.items()
    }


class Home:
    """A home folder, with the commands in `~/.local/bin`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = f"#!{sys.executable}\nfrom mcp_workbench.__main__ import main\n\nmain()\n"
        self.write(".local/bin/mcp-workbench", program).chmod(0o755)
        self.write(".local/bin/python3", f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n").chmod(0o755)
        self.write(".inputrc", "set enable-bracketed-paste off\nset bell-style none\n")

    @property
    def environ(self) -> dict[str, str]:
        """Nothing of the environment in which the pictures are made."""
        return {
            "HOME": str(self.folder),
            "PATH": f"{self.folder}/.local/bin:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
        }

    def write(self, path: str, text: str) -> Path:
        """Write a file."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def configure(self, toolboxes: dict[str, Any]) -> None:
        """Write the person's configuration."""
        path = ".config/mcp-workbench/workbench-config.json"
        self.write(path, json.dumps({"toolboxes": toolboxes}, indent=2) + "\n").chmod(0o600)


@contextmanager
def home() -> Generator[Home]:
    """A new home folder, whose path is as long as what the pictures show instead of it."""
    folder = _new_folder()
    try:
        yield Home(folder)
    finally:
        shutil.rmtree(folder)


def _new_folder() -> Path:
    for _ in range(_TRIES):
        folder = Path("/tmp") / secrets.token_hex(2)[:3]  # noqa: S108 -- made by us alone, or another one is taken
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError("no short name in /tmp is free")
