"""The reference servers that tests/e2e/install.py put under `.cache/e2e/`, as entries of a configuration."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "e2e"
NPM = CACHE / "npm" / "node_modules" / "@modelcontextprotocol"
MISSING = "is not installed: run `python tests/e2e/install.py`"

Entry = dict[str, Any]


def npm_server(name: str, *arguments: str, env: dict[str, str] | None = None) -> Entry:
    node = shutil.which("node")
    script = NPM / name / "dist" / "index.js"
    if node is None:
        pytest.skip("Node is not installed")
    if not script.is_file():
        pytest.skip(f"{name} {MISSING}")
    return {"command": node, "args": [str(script), *arguments], "env": env or {}}


def pypi_server(name: str, *arguments: str) -> Entry:
    program = CACHE / name / "bin" / name
    if not program.is_file():
        pytest.skip(f"{name} {MISSING}")
    return {"command": str(program), "args": list(arguments)}


def everything() -> Entry:
    return npm_server("server-everything", "stdio")


def memory(folder: Path) -> Entry:
    return npm_server("server-memory", env={"MEMORY_FILE_PATH": str(folder / "memory.json")})


def filesystem(folder: Path) -> Entry:
    return npm_server("server-filesystem", str(folder))


def git(repository: Path) -> Entry:
    return pypi_server("mcp-server-git", "--repository", str(repository))


def clock() -> Entry:
    return pypi_server("mcp-server-time", "--local-timezone", "UTC")
