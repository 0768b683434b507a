"""Run the official conformance suite against servers, and against the workbench in front of each of them.

    python -m tests.conformance.run [--server NAME,...] [--only LEG,...] [--revision DATE] [--json FILE] [--keep FOLDER]

The legs of every server: `direct`, the server itself; `http` and `stdio`, the workbench's transparent endpoint in front
of it; `toolbox-http` and `toolbox-stdio`, the endpoint of a toolbox with this one server. Once: `handshake`, in front
of a server without the modern era; `meta`, the protocol scenarios on `/mcp`; `client`, the workbench as the suite's
client. See README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from tests.conformance import stage, verdict
from tests.conformance.fixtures import FIXTURES, OWN, PROTOCOL_SCENARIOS, Fixture
from tests.conformance.suite import REVISIONS, Suite

LEGS = ("direct", "http", "stdio", "toolbox-http", "toolbox-stdio")
"""What every server goes through."""
ONCE = ("handshake", "meta", "client")
CONTROL = "dead"
"""The workbench in front of nothing: what passes then proves nothing. Only when it is asked for."""
RESULTS = Path(".cache") / "conformance" / "results.json"
CLIENT = Path(__file__).with_name("client.py")
HANDSHAKE_REVISIONS = ("2025-11-25",)
AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
"""Legs that run at the same time: each has programs of its own, and the suite waits more than it works."""


class Runner:
    def __init__(self, folder: Path, revisions: Sequence[str]) -> None:
        self._folder = folder
        self._revisions = revisions
        self._suite = Suite()
        self._room = asyncio.Semaphore(AT_ONCE)
        self.runs: verdict.Runs = {revision: {} for revision in revisions}

    async def leg(self, fixture: Fixture, name: str) -> None:
        async with self._room:
            began = time.monotonic()
            folder = self._folder / fixture.name / name
            folder.mkdir(parents=True, exist_ok=True)
            if name == "client":
                await self._client(fixture, folder)
            else:
                async with standing(fixture, name, folder) as url:
                    await self._server(fixture, name, url, folder)
            print(f"{fixture.name} {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    async def _server(self, fixture: Fixture, leg: str, url: str, folder: Path) -> None:
        revisions = HANDSHAKE_REVISIONS if leg == "handshake" else REVISIONS
        for revision in (one for one in self._revisions if one in revisions):
            only = PROTOCOL_SCENARIOS[revision] if leg == "meta" else None
            run = await self._suite.server(url, revision, folder / revision, only)
            asked = run.limited_to(lambda name, revision=revision: fixture.is_asked(name, revision))
            self.runs[revision][fixture.name, leg] = asked

    async def _client(self, fixture: Fixture, folder: Path) -> None:
        command = shlex.join([sys.executable, str(CLIENT), "--slots", str(folder)])
        for revision in self._revisions:
            run = await self._suite.client(command, revision, folder / revision)
            self.runs[revision][fixture.name, "client"] = run


@contextlib.asynccontextmanager
async def standing(fixture: Fixture, leg: str, folder: Path) -> AsyncGenerator[str]:
    """All programs of a leg; the address for the suite."""
    surface = {"toolbox-http": stage.TOOLBOX, "toolbox-stdio": stage.TOOLBOX, "meta": ""}
    path = surface.get(leg, f"{stage.TOOLBOX}/{stage.SERVER}")
    async with contextlib.AsyncExitStack() as stack:
        entry = stage.stdio_entry(fixture)
        if leg in ("direct", "http", "toolbox-http", "handshake"):
            options = ["--handshake-only"] if leg == "handshake" else []
            entry = {"url": await stack.enter_async_context(stage.over_http(folder, fixture, *options))}
        elif leg == CONTROL:
            entry = {"command": str(folder / "missing")}
        if leg == "direct":
            yield entry["url"].replace("127.0.0.1", "localhost")
        else:
            front = await stack.enter_async_context(stage.workbench(folder, entry))
            yield f"{front}/{path}".rstrip("/")


async def run(wanted: Sequence[tuple[Fixture, str]], revisions: Sequence[str], folder: Path) -> verdict.Runs:
    runner = Runner(folder, revisions)
    async with asyncio.TaskGroup() as group:
        for fixture, leg in wanted:
            group.create_task(runner.leg(fixture, leg))
    return runner.runs


def read_arguments() -> argparse.Namespace:
    names = [fixture.name for fixture in FIXTURES]
    every = [*LEGS, *ONCE, CONTROL]
    parser = argparse.ArgumentParser(description="The official conformance suite, directly and through the workbench.")
    parser.add_argument("--server", metavar="NAME,...", default=",".join(names), help=f"of {', '.join(names)}")
    parser.add_argument("--only", metavar="LEG,...", default=",".join([*LEGS, *ONCE]), help=f"of {', '.join(every)}")
    parser.add_argument("--revision", choices=REVISIONS, help="one revision instead of both")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the counts are written")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what the suite and the programs wrote")
    arguments = parser.parse_args()
    for option, given, known in (("server", arguments.server, names), ("only", arguments.only, every)):
        if unknown := set(given.split(",")) - set(known):
            parser.error(f"--{option}: unknown: {', '.join(sorted(unknown))}")
    return arguments


def chosen(arguments: argparse.Namespace) -> list[tuple[Fixture, str]]:
    """Servers and their legs; the longest first, so that nothing has to wait for it at the end."""
    legs = arguments.only.split(",")
    servers = [fixture for fixture in FIXTURES if fixture.name in arguments.server.split(",")]
    once = [(OWN, leg) for leg in ("client", "handshake", "meta", CONTROL) if leg in legs and OWN in servers]
    return [*once, *((fixture, leg) for fixture in servers for leg in LEGS if leg in legs)]


def main() -> int:
    arguments = read_arguments()
    revisions = [arguments.revision] if arguments.revision else REVISIONS
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        runs = asyncio.run(run(chosen(arguments), revisions, arguments.keep or Path(temporary)))
    print(verdict.text(runs))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(verdict.document(runs), indent=2) + "\n", encoding="utf-8")
    missing = verdict.shortfalls(runs)
    print("\n".join(["", *(f"FEWER {words}" for words in missing), f"written to {arguments.json}"]))
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
