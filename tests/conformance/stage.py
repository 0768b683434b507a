"""What stands on the stage: a fixture server, and a workbench in front of it with a forwarder before that."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from tests.conformance.fixtures import OWN, Fixture
from tests.conformance.forwarder import forwarding
from tests.support.wire import environment

TOOLBOX, SERVER = "conformance", "everything"
START_SECONDS = 60.0
END_SECONDS = 10.0
POLL_SECONDS = 0.05

Entry = dict[str, Any]


class StageBroken(Exception):
    """A program that is needed did not start."""


def stdio_entry(fixture: Fixture = OWN) -> Entry:
    program, *arguments = fixture.command
    return {"command": program, "args": arguments}


@contextlib.asynccontextmanager
async def over_http(folder: Path, fixture: Fixture = OWN, *options: str) -> AsyncGenerator[str]:
    """A fixture server over HTTP; its address."""
    log = folder / "server.log"
    async with running([*fixture.command, "--http", "0", *options], log) as process:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        if not line:
            raise StageBroken(f"the server {fixture.name} did not start: {_last_words(log)}")
        yield line.decode().strip()


@contextlib.asynccontextmanager
async def workbench(folder: Path, entry: Entry) -> AsyncGenerator[str]:
    """`serve --http` in front of a server, with a token that the forwarder adds; the address of its `/mcp`."""
    port, token = free_port(), secrets.token_urlsafe()
    command = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(configured(folder, entry))]
    env = environment(folder / "home") | {"WORKBENCH_TOKEN": token}
    log = folder / "workbench.log"
    async with running([*command, "--http", f"127.0.0.1:{port}"], log, env) as process:
        await healthy(process, port, log)
        async with forwarding(port, token) as before:
            yield f"http://localhost:{before}/mcp"


def configured(folder: Path, entry: Entry, server: str = SERVER) -> Path:
    """A configuration with one toolbox of one server."""
    folder.mkdir(parents=True, exist_ok=True)
    toolbox = {"description": "What the conformance suite calls", "mcpServers": {server: entry}}
    file = folder / "workbench-config.json"
    file.write_text(json.dumps({"toolboxes": {TOOLBOX: toolbox}}), encoding="utf-8")
    return file


@contextlib.asynccontextmanager
async def running(
    command: list[str], log: Path, env: dict[str, str] | None = None
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A program, ended at the end; what it says on stderr is in the log."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=errors, env=env
        )
        try:
            yield process
        finally:
            await ended(process)


async def ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


async def healthy(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    """Returns when the workbench listens."""
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await asyncio.to_thread(_is_healthy, port):
                if process.returncode is not None:
                    break
                await asyncio.sleep(POLL_SECONDS)
            else:
                return
    except TimeoutError:
        pass
    raise StageBroken(f"the workbench did not start: {_last_words(log)}")


def _last_words(log: Path) -> str:
    return " ".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-2:])


def _is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
