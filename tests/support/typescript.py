"""The official clients, played by the drivers of tests/e2e/clients, and how what they got is compared."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeGuard

import pytest

from tests.support.reference import COMPILED, client_driver
from tests.support.wire import SRC

Json = dict[str, Any]
Mode = Literal["legacy", "auto", "modern"]

RUN_SECONDS = 100.0
PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What both the clients and the workbench give to the programs that they start."""


@dataclass(frozen=True)
class Player:
    """A client in one of its modes."""

    driver: Literal["ts1", "ts2", "py", "fastmcp4"]
    mode: Mode = "legacy"

    def __str__(self) -> str:
        return self.driver if self.driver == "ts1" else f"{self.driver}-{self.mode}"


@dataclass(frozen=True)
class Play:
    """What came of a script."""

    labels: tuple[str, ...]
    report: Json

    def __getitem__(self, label: str) -> Json:
        """The outcome of a step."""
        return self.report["steps"][self.labels.index(label)]

    def result(self, label: str) -> Json:
        """The result of a step that must not have failed."""
        outcome = self[label]
        if "result" not in outcome:
            pytest.fail(f"{label}: {outcome.get('error')}")
        return outcome["result"]

    def notified(self, method: str) -> list[Json]:
        """The params of all notifications of a kind."""
        return [one.get("params", {}) for one in self.report["notifications"] if one["method"] == method]

    def asked(self, method: str) -> list[Json]:
        """The params of all questions of a kind."""
        return [one.get("params", {}) for one in self.report["questions"] if one["method"] == method]


@dataclass(frozen=True)
class Scene:
    """Labelled steps that a client plays against a server; `script` has its capabilities and answers."""

    player: Player
    command: Sequence[str]
    steps: Mapping[str, Json]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    script: Json = field(default_factory=dict[str, Any])
    """What else the driver is told: capabilities and answers; or an address, in place of a command."""

    def written(self) -> Json:
        steps = list(self.steps.values())
        return {"mode": self.player.mode, "server": list(self.command), "env": dict(self.env), "steps": steps} | (
            self.script
        )


def play(scene: Scene, folder: Path) -> Play:
    """Let a client play a scene; the test fails where it cannot."""
    (played,) = play_all([scene], folder)
    return play_of(played)


def play_of(played: Play | str) -> Play:
    return pytest.fail(played) if isinstance(played, str) else played


def play_all(scenes: Sequence[Scene], folder: Path, seconds: float = RUN_SECONDS) -> list[Play | str]:
    """Let one process of a client play scenes, one after the other; what came of each, or why nothing came of it."""
    (driver,) = {scene.player.driver for scene in scenes}
    file = folder / f"{driver}.json"
    file.write_text(json.dumps([scene.written() for scene in scenes]), encoding="utf-8")
    own = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | COMPILED
    command = [*client_driver(driver), str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=own, check=False)
    except subprocess.TimeoutExpired as late:
        return [f"{driver} did not end within {seconds} s: {(late.stderr or b'')[-3000:]!r}"] * len(scenes)
    reports: list[Json] = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(reports) != len(scenes):
        return [f"{driver} ended with {done.returncode}: {done.stderr[-3000:]}"] * len(scenes)
    return [
        f"{scene.player} failed: {report['fatal']}\n{done.stderr[-3000:]}"
        if "fatal" in report
        else Play(tuple(scene.steps), report)
        for scene, report in zip(scenes, reports, strict=True)
    ]


def workbench_environment(folder: Path) -> dict[str, str]:
    """The sources under test, and user folders of its own."""
    names = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
    return {"PYTHONPATH": str(SRC)} | {name: str(folder / "home" / name) for name in names}


# -- comparing


CLOCK = re.compile(r"created at \d{1,2}:\d\d:\d\d [AP]M")
MARK = re.compile(r',\n  "(?:MCP_WORKBENCH_RUN|XDG_[A-Z]+_HOME|LC_CTYPE)": "[^"]*"')
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def masked(value: Any) -> Any:
    """Without what differs between two runs of the same server.

    Its dynamic resources say at what second they were made, in text and inside a blob; the id of a page that is asked
    for by an error is drawn at random; and what it says of its environment has the mark of its workbench, the user
    folders of the test, and the locale that Python sets for its children.
    """
    if is_json(value):
        return {name: masked(readable(part) if name == "blob" else part) for name, part in value.items()}
    if is_list(value):
        return [masked(part) for part in value]
    if not isinstance(value, str):
        return value
    return UUID.sub("<id>", CLOCK.sub("created at <clock>", MARK.sub("", value)))


def readable(blob: str) -> str:
    """A blob that is text as its text, so that the clock in it can be masked."""
    try:
        return base64.b64decode(blob, validate=True).decode("utf-8")
    except ValueError:
        return blob


MODERN_FIELDS = {"resultType", "ttlMs", "cacheScope"}
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


def handshake_part(answer: Any) -> Any:
    """An answer without the fields that only the modern era has."""
    if not is_json(answer):
        return answer
    kept = {name: part for name, part in answer.items() if name not in MODERN_FIELDS}
    meta = {name: part for name, part in kept.pop("_meta", {}).items() if name != SERVER_INFO}
    return kept | ({"_meta": meta} if meta else {})


def without_execution(result: Any) -> Any:
    """The second client drops this field of a tool in the modern era, which does not have it: it is on the wire."""
    if not is_json(result) or "tools" not in result:
        return result
    return result | {"tools": [{k: v for k, v in tool.items() if k != "execution"} for tool in result["tools"]]}


def is_json(value: Any) -> TypeGuard[Json]:
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
