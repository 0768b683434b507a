"""The official suite: where it is, how it is run, and what it found."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.e2e import install

Leg = Literal["server", "client"]

REVISIONS = ("2025-11-25", "2026-07-28")
RUN_SECONDS = 900.0
FOLDER_OF_A_SCENARIO = re.compile(r"(?:server-)?(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
"""The suite names the folder of a scenario by its name and the time; the name of a client scenario may hold `/`."""


class SuiteBroken(Exception):
    """The suite itself did not run."""


@dataclass
class Scenario:
    """How many checks passed, failed and were warnings, with what was said about all but the first."""

    passed: int = 0
    failed: int = 0
    warned: int = 0
    complaints: list[str] = field(default_factory=list[str])

    @property
    def is_passed(self) -> bool:
        return self.failed == 0


@dataclass
class Run:
    """One run of the suite at one revision."""

    scenarios: dict[str, Scenario]
    required: list[str]

    def limited_to(self, is_asked: Callable[[str], bool]) -> Run:
        """The same run, without the scenarios that the server is not asked."""
        kept = {name: one for name, one in self.scenarios.items() if is_asked(name)}
        return Run(kept, [name for name in self.required if is_asked(name)])

    @property
    def passed(self) -> int:
        return sum(scenario.passed for scenario in self.scenarios.values())

    @property
    def failed(self) -> int:
        return sum(scenario.failed for scenario in self.scenarios.values())

    def required_passed(self) -> list[str]:
        """A scenario without a passed check is not passed, whatever the suite calls it."""
        return [name for name in self.required if (one := self.scenarios.get(name)) and one.is_passed and one.passed]


class Suite:
    """The suite as it was installed."""

    def __init__(self) -> None:
        node, script = install.conformance()
        self._command = [str(node), str(script)]

    async def required(self, revision: str) -> dict[Leg, list[str]]:
        """The scenarios that a revision requires, in the suite's order."""
        listed = await self._ask("list", "--requirements", revision)
        scored = listed.partition("Run and reported, but never scored")[0]
        server, _, client = scored.partition("Client scenarios")
        return {"server": _names(server), "client": _names(client)}

    async def server(self, url: str, revision: str, folder: Path, only: list[str] | None = None) -> Run:
        """The server scenarios against an address: all of them, or some."""
        required = (await self.required(revision))["server"]
        at = ["server", "--url", url, "--output-dir", str(folder)]
        if only is None:
            await self._ask(*at, "--requirements", revision)
            return Run(read_results(folder), required)
        for name in only:
            await self._ask(*at, "--scenario", name, "--spec-version", revision)
        return Run(read_results(folder), [name for name in required if name in only])

    async def client(self, command: str, revision: str, folder: Path) -> Run:
        """The client scenarios, for which the suite starts `command`."""
        options = ["--command", command, "--timeout", str(int(RUN_SECONDS * 1000)), "--output-dir", str(folder)]
        await self._ask("client", *options, "--requirements", revision)
        return Run(read_results(folder), (await self.required(revision))["client"])

    async def _ask(self, *arguments: str) -> str:
        """Whether scenarios pass is told by their results, and not by the exit status; they have to be there."""
        pipe = asyncio.subprocess.PIPE
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        process = await asyncio.create_subprocess_exec(
            *self._command, *arguments, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=environment
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), RUN_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise SuiteBroken(f"conformance {arguments[0]} took longer than {RUN_SECONDS:g} s") from None
        text = said.decode(errors="replace")
        if process.returncode not in (0, 1):
            raise SuiteBroken(f"conformance {arguments[0]} ended with {process.returncode}: {text[-500:]}")
        return text


def read_results(folder: Path) -> dict[str, Scenario]:
    """What each scenario wrote."""
    results: dict[str, Scenario] = {}
    for file in sorted(folder.rglob("checks.json")):
        if named := FOLDER_OF_A_SCENARIO.fullmatch(file.parent.relative_to(folder).as_posix()):
            results[named[1]] = _scenario(json.loads(file.read_text(encoding="utf-8")))
    if not results:
        raise SuiteBroken(f"the suite left no results in {folder}")
    return results


def _scenario(checks: list[dict[str, str]]) -> Scenario:
    scenario = Scenario()
    for check in checks:
        if check["status"] == "SUCCESS":
            scenario.passed += 1
        elif check["status"] in ("FAILURE", "WARNING"):
            scenario.failed += check["status"] == "FAILURE"
            scenario.warned += check["status"] == "WARNING"
            scenario.complaints.append(f"{check['id']}: {check.get('errorMessage') or check['description']}")
    return scenario


def _names(listed: str) -> list[str]:
    return re.findall(r"^  - (\S+)$", listed, re.MULTILINE)
