"""The nine servers, the limits that they are run with, and how long each kind of request may take."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from mcp_workbench.config import keys
from mcp_workbench.limits import Limits
from tests.nemesis.history import AnyEvent, History, Setting
from tests.support.configs import Toolboxes, write_config
from tests.support.procs import Process, census, new_marker

SERVER = Path(__file__).parent / "server.py"

MEMORY_BYTES = 256 * 1024 * 1024
"""A workbench holds less than this, its code and libraries included."""
BUDGET = {"maxMemory": MEMORY_BYTES}
SETTINGS: dict[str, Any] = {
    "openTimeout": 4,
    "startupTimeout": 5,
    "callTimeout": 2,
    "maxCallTime": 5,
    "maxConcurrent": 8,
    "maxMessageSize": 1024 * 1024,
    **(BUDGET if "maxMemory" in {key.name for key in keys.ROOT} else {}),
}
"""What users can set, small."""
BOUNDS = {
    "open_timeout_seconds": 4,
    "startup_timeout_seconds": 5,
    "call_idle_timeout_seconds": 2,
    "call_hard_timeout_seconds": 5,
    "in_flight": 8,
}
SERVED = Limits(**BOUNDS)
"""The limits of `mcp-workbench serve` with these settings."""
INDOORS = Limits(
    **BOUNDS,
    list_page_timeout_seconds=3,
    list_total_timeout_seconds=6,
    queue_wait_seconds=3,
    backoff_first_seconds=0.2,
    backoff_most_seconds=2,
    rest_seconds=1,
    rest_most_seconds=4,
    alive_seconds=1,
)
"""The limits of the workbench in the driver's own process."""

TOOLBOXES: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "left": {
        "plain": ({}, {}),
        "modern": ({"modern": True}, {}),
        "flappy": ({"flap": 0.3}, {}),
        "guarded": ({"twins": True}, {"toolFilters": ["!forbidden"]}),
    },
    "right": {
        "lazy": ({}, {"idleTimeout": 0.3}),
        "leisurely": ({"delay": 0.4}, {}),
        "noisy": ({"noisy": True}, {}),
        "stubborn": ({"stubborn": True}, {}),
        "hostile": ({"references": 1500}, {}),
    },
}
"""The servers of each toolbox: options of `server.py`, and fields of the configuration."""
TOOLBOX_OF = {server: toolbox for toolbox, servers in TOOLBOXES.items() for server in servers}
SERVERS = tuple(TOOLBOX_OF)
WITHHELD = (("guarded", "forbidden"), ("guarded", "twin"))

QUICK_SECONDS = 3.0
"""For an answer that needs no server; for the start of the program too."""
END_SECONDS = 5.0
"""How long the end of a server may take."""


def longest(what: str, limits: Limits) -> float:
    """When a request must have had its outcome: the sum of everything that it may have to wait for."""
    if what == "open":
        return limits.open_timeout_seconds
    if what not in ("use", "heal"):
        return QUICK_SECONDS
    tries = 2 * (limits.backoff_patience_seconds + limits.startup_timeout_seconds)  # with and without the probe
    start = END_SECONDS + tries  # the process before it comes to its end first
    waits = limits.list_page_timeout_seconds + limits.queue_wait_seconds
    turn = call = limits.call_hard_timeout_seconds
    return 2 * start + waits + turn + call


def now() -> float:
    return time.monotonic()


class Scene(NamedTuple):
    """Where a run takes place, and what is written down of it."""

    folder: Path
    seed: int
    history: History
    markers: list[dict[str, str]]
    """Of all servers, ever."""
    entries: dict[str, Counter[str]]
    """How often each server's entry was changed in a configuration."""

    @property
    def log(self) -> Path:
        """What servers write."""
        return self.folder / "servers.jsonl"

    @property
    def calm(self) -> Path:
        """Once it is there, no server fails by itself."""
        return self.folder / "calm"

    def note(self, event: AnyEvent) -> None:
        self.history.append(event)

    def mark(self) -> dict[str, str]:
        """A new mark, for the servers of one workbench."""
        self.markers.append(new_marker())
        return self.markers[-1]

    def carriers(self) -> list[Process]:
        """Every process that carries a mark of this run."""
        return [process for marker in self.markers for process in census(marker)]

    def people(self, marker: dict[str, str]) -> Counter[str]:
        """How many processes there are of each server of one workbench, and how many that servers started."""
        found: Counter[str] = Counter()
        for process in census(marker):
            words = process.command.split()
            found[words[3] if str(SERVER) in words else words[0]] += 1
        return found

    def begin(self, clients: tuple[str, ...]) -> None:
        hard = SERVED.call_hard_timeout_seconds
        self.note(
            Setting(
                at=now(),
                clients=clients,
                servers=SERVERS,
                withheld=WITHHELD,
                hard_seconds=hard,
                memory_bytes=MEMORY_BYTES,
            )
        )

    def config(self, name: str, marker: dict[str, str]) -> Path:
        """The configuration for one workbench, whose servers carry the marker."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        changed = self.entries.setdefault(name, Counter())
        toolboxes: Toolboxes = {
            toolbox: {
                server: {
                    "command": sys.executable,
                    "args": ["-SE", str(SERVER), server, json.dumps(self._options(server) | options)],
                    "env": marker | {"CHANGED": str(changed[server])},
                    **fields,
                }
                for server, (options, fields) in servers.items()
            }
            for toolbox, servers in TOOLBOXES.items()
        }
        return write_config(folder, toolboxes, **SETTINGS)

    def change(self, name: str, marker: dict[str, str], server: str) -> Path:
        """The same, with another entry for one server."""
        self.entries.setdefault(name, Counter())[server] += 1
        return self.config(name, marker)

    def _options(self, server: str) -> dict[str, Any]:
        starts = str(self.folder / f"{server}.starts")
        return {"log": str(self.log), "calm": str(self.calm), "starts": starts, "seed": self.seed}
