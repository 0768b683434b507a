"""Run the official conformance suite against the everything server, and against the workbench in front of it.

    python -m tests.conformance.run [--only LEG,...] [--revision DATE] [--json FILE] [--keep FOLDER]

The legs: `direct`, the everything server; `http` and `stdio`, the workbench's transparent endpoint in front of it;
`handshake`, in front of the same server without the modern era; `meta`, the protocol scenarios on `/mcp`; `client`, the
workbench as the suite's client. See README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import stage, verdict
from tests.conformance.suite import REVISIONS, Run, Suite

LEGS = ("direct", "http", "stdio", "handshake", "meta", "client")
CONTROL = "dead"
"""The workbench in front of nothing: what passes then proves nothing. Only when it is asked for."""
RESULTS = Path(".cache") / "conformance" / "results.json"
CLIENT = Path(__file__).with_name("client.py")
HANDSHAKE_REVISIONS = ("2025-11-25",)
PROTOCOL_SCENARIOS = {
    "2025-11-25": [
        "server-initialize",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "server-session-lifecycle",
    ],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "input-required-result-unsupported-methods",
        "http-header-validation",
    ],
}
"""Those that call no tool of a name that the suite chose."""


class Runner:
    def __init__(self, folder: Path, revisions: Sequence[str]) -> None:
        self._folder = folder
        self._revisions = revisions
        self._suite = Suite()
        self.runs: verdict.Runs = {revision: {} for revision in revisions}

    async def leg(self, name: str) -> None:
        print(f"{name} ...", file=sys.stderr, flush=True)
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        match name:
            case "direct":
                async with stage.everything(folder) as url:
                    await self._server(name, url.replace("127.0.0.1", "localhost"))
            case "http":
                async with stage.everything(folder) as url, stage.workbench(folder, {"url": url}) as front:
                    await self._server(name, f"{front}/{stage.TOOLBOX}/{stage.SERVER}")
            case "stdio":
                async with stage.workbench(folder, stage.stdio_entry()) as front:
                    await self._server(name, f"{front}/{stage.TOOLBOX}/{stage.SERVER}")
            case "handshake":
                async with (
                    stage.everything(folder, "--handshake-only") as url,
                    stage.workbench(folder, {"url": url}) as front,
                ):
                    await self._server(name, f"{front}/{stage.TOOLBOX}/{stage.SERVER}", revisions=HANDSHAKE_REVISIONS)
            case "dead":
                async with stage.workbench(folder, {"command": str(folder / "missing")}) as front:
                    await self._server(name, f"{front}/{stage.TOOLBOX}/{stage.SERVER}")
            case "meta":
                async with stage.workbench(folder, stage.stdio_entry()) as front:
                    await self._server(name, front, only=PROTOCOL_SCENARIOS)
            case _:
                await self._client(name)

    async def _server(
        self,
        leg: str,
        url: str,
        *,
        only: dict[str, list[str]] | None = None,
        revisions: Sequence[str] = REVISIONS,
    ) -> None:
        for revision in (one for one in self._revisions if one in revisions):
            folder = self._folder / leg / revision
            chosen = only[revision] if only else None
            self.runs[revision][leg] = await self._suite.server(url, revision, folder, chosen)

    async def _client(self, leg: str) -> None:
        command = shlex.join([sys.executable, str(CLIENT), "--slots", str(self._folder / leg)])
        for revision in self._revisions:
            run: Run = await self._suite.client(command, revision, self._folder / leg / revision)
            self.runs[revision][leg] = run


async def run(legs: Sequence[str], revisions: Sequence[str], folder: Path) -> verdict.Runs:
    runner = Runner(folder, revisions)
    for leg in legs:
        await runner.leg(leg)
    return runner.runs


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The official conformance suite, directly and through the workbench.")
    parser.add_argument("--only", metavar="LEG,...", help=f"of {', '.join([*LEGS, CONTROL])}")
    parser.add_argument("--revision", choices=REVISIONS, help="one revision instead of both")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the counts are written")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what the suite and the programs wrote")
    arguments = parser.parse_args()
    arguments.legs = arguments.only.split(",") if arguments.only else list(LEGS)
    if unknown := set(arguments.legs) - {*LEGS, CONTROL}:
        parser.error(f"--only: no such leg: {', '.join(sorted(unknown))}")
    return arguments


def main() -> int:
    arguments = read_arguments()
    revisions = [arguments.revision] if arguments.revision else REVISIONS
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        runs = asyncio.run(run(arguments.legs, revisions, arguments.keep or Path(temporary)))
    print(verdict.text(runs))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(verdict.document(runs), indent=2) + "\n", encoding="utf-8")
    missing = verdict.shortfalls(runs)
    print("\n".join(["", *(f"FEWER {words}" for words in missing), f"written to {arguments.json}"]))
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
