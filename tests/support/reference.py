"""What tests/e2e/install.py put under `.cache/e2e/`: reference servers, as entries of a configuration, and clients."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "e2e"
CLIENTS = Path(__file__).parents[1] / "e2e" / "clients"
NPM = CACHE / "npm" / "node_modules" / "@modelcontextprotocol"
MISSING = "is not installed: run `python tests/e2e/install.py`"

Entry = dict[str, Any]


COMPILED = {"NODE_COMPILE_CACHE": str(CACHE / "compiled")}
"""Node keeps what it compiled, from version 22 on: its programs are started hundreds of times."""


def node_program() -> str:
    """The newer Node where one was needed, or the machine's; the test is skipped where there is none."""
    newer = next((CACHE / "npm-node" / "node_modules").glob("node-*/bin/node"), None)
    return str(newer or shutil.which("node") or pytest.skip("Node is not installed"))


def npm_server(name: str, *arguments: str, env: dict[str, str] | None = None) -> Entry:
    node = node_program()
    script = NPM / name / "dist" / "index.js"
    if not script.is_file():
        pytest.skip(f"{name} {MISSING}")
    return {"command": node, "args": [str(script), *arguments], "env": COMPILED | (env or {})}


def client_driver(name: str) -> list[str]:
    """The command of a driver in tests/e2e/clients."""
    if name == "py":
        return [sys.executable, str(CLIENTS / "py.py")]
    if name == "fastmcp4":
        python = CACHE / "fastmcp-slim" / "bin" / "python"
        return [str(python), str(CLIENTS / "fastmcp4.py")] if python.is_file() else pytest.skip(f"FastMCP {MISSING}")
    node = node_program()
    if not (CACHE / "npm-clients" / ".stamp").is_file():
        pytest.skip(f"The client of {name} {MISSING}")
    return [node, str(CLIENTS / f"{name}.mjs")]


def inspector() -> list[str]:
    """The command line of the MCP Inspector."""
    return [node_program(), str(inspector_client("launcher")), "--cli"]


def inspector_driver() -> list[str]:
    """The command of the same, many times in one process."""
    return [node_program(), str(CLIENTS / "inspector.mjs"), str(inspector_client("cli"))]


def inspector_client(name: str) -> Path:
    clients = CACHE / "npm-inspector" / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients"
    if not clients.is_dir():
        pytest.skip(f"The Inspector {MISSING}")
    return clients / name / "build" / "index.js"


def mcp_remote() -> list[str]:
    """The bridge from stdio to HTTP that hosts use."""
    node = node_program()
    script = CACHE / "npm-remote" / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
    if not script.is_file():
        pytest.skip(f"mcp-remote {MISSING}")
    return [node, str(script)]


def npm_program(folder: str, package: str, script: str) -> Path:
    """A script of a package that only one target installs."""
    found = CACHE / folder / "node_modules" / package / script
    return found if found.is_file() else pytest.skip(f"{package} {MISSING} firsthour")


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
