"""Measure what it costs to open a toolbox: the first time, and when what is in it is remembered.

    catalog.py [--quick] [--json FILE] [--plot FILE]

Each shape (servers x tools) is opened by a workbench of its own, cold with an empty store and warm with what the
cold one left; both are new processes, driven over stdio. Printed are medians over the rounds. See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pictures
import programs
from processes import tree
from raw_client import RawClient, Request

RAW = (sys.executable, "-SE", str(programs.HERE / "raw_server.py"))
"""A server that starts in 20 ms, as none in use does."""
SDK = (sys.executable, str(programs.HERE / "peers" / "sdk_server.py"))
"""A server on the official SDK."""
SHAPES = ((1, 20, RAW), (10, 20, RAW), (50, 20, RAW), (50, 1, RAW), (50, 100, RAW), (50, 20, SDK))
"""Servers, tools of each, and what they are."""
ANSWER_SECONDS = 200.0
SETTLE_SECONDS = 0.5
"""A client's model thinks longer than this before its first call; the workbench loads what that needs meanwhile."""
COLUMNS = (
    "servers x tools", "cold, ms", "processes", "warm, ms", "processes", "warm at once, ms", "again, ms", "warm / cold",
    "first response, s", "answer, bytes",
)  # fmt: skip
DEFAULT_RESULTS = programs.HERE / "results" / "catalog.json"


@dataclass(frozen=True)
class Opening:
    """One open of a new workbench."""

    first_response_s: float
    open_s: float
    again_s: float
    processes: int
    answer_bytes: int


@dataclass(frozen=True)
class Row:
    """Medians for one shape."""

    servers: int
    tools: int
    kind: str
    cold: Opening
    warm: Opening
    warm_at_once: Opening
    """As warm, but the open follows the greeting without a pause."""

    @property
    def ratio(self) -> float:
        return self.warm.open_s / self.cold.open_s


def main() -> int:
    options = _options()
    rounds = 1 if options.quick else 3
    rows = [measure(*shape, rounds if shape[2] is RAW else 1) for shape in SHAPES]
    print(table(rows))
    print(verdicts(rows))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    content = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "rows": [asdict(row) for row in rows]}
    options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        lines = {
            "cold": [(row.servers, row.cold.open_s * 1000) for row in rows if row.tools == 20 and not row.kind],
            "warm": [(row.servers, row.warm.open_s * 1000) for row in rows if row.tools == 20 and not row.kind],
        }
        picture = pictures.lines("Opening a toolbox of N servers, 20 tools each", "servers", "ms", lines)
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        options.plot.write_text(picture, encoding="utf-8")
    return 0


def _options() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--json", type=Path, default=DEFAULT_RESULTS, help="where the figures are written")
    parser.add_argument("--plot", type=Path, help="where a picture of them is written (SVG)")
    return parser.parse_args()


def measure(servers: int, tools: int, program: Sequence[str], rounds: int) -> Row:
    cold, warm, at_once = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="bench-") as home:
            config = write_config(Path(home), servers, tools, program)
            cold.append(opening(config, SETTLE_SECONDS))
            warm.append(opening(config, SETTLE_SECONDS))
            at_once.append(opening(config, 0.0))
    kind = "" if program is RAW else " on the SDK"
    return Row(servers, tools, kind, middle(cold), middle(warm), middle(at_once))


def write_config(home: Path, servers: int, tools: int, program: Sequence[str]) -> Path:
    command, *args = program
    entries = {
        # Each is another configuration, with an entry of its own.
        f"server{number}": {"command": command, "args": [*args, str(tools)], "env": {"NUMBER": str(number)}}
        for number in range(servers)
    }
    toolboxes = {"box": {"description": "Everything", "mcpServers": entries}}
    path = home / "workbench-config.json"
    patience = {"openTimeout": ANSWER_SECONDS, "startupTimeout": ANSWER_SECONDS}
    path.write_text(json.dumps({"toolboxes": toolboxes, **patience}))
    return path


def opening(config: Path, pause_seconds: float) -> Opening:
    """Start a workbench and open the toolbox, twice."""
    env = os.environ | {"XDG_CACHE_HOME": str(config.parent / "cache")}
    env.pop("WORKBENCH_CATALOG", None)
    command = [programs.workbench_python(), "-m", "mcp_workbench", "serve", "--config", str(config)]
    with (config.parent / "stderr").open("w+b") as stderr:
        client = RawClient(command, env=env, cwd=config.parent, stderr=stderr, timeout_seconds=ANSWER_SECONDS)
        first = client.initialize()
        time.sleep(pause_seconds)
        request = Request.tool("open_toolbox", {"toolbox": "box"})
        seconds, result = client.timed(request)
        again, _ = client.timed(request)
        started = sum("_server.py" in process.command for process in tree(client.pid))
        client.stop(ANSWER_SECONDS)
    return Opening(first, seconds, again, started, len(result["content"][0]["text"]))


def middle(openings: list[Opening]) -> Opening:
    fields = [asdict(one) for one in openings]
    return Opening(**{name: median(one[name] for one in fields) for name in fields[0]})


def table(rows: list[Row]) -> str:
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ]
    for row in rows:
        cells = (
            f"{row.servers} x {row.tools}{row.kind}",
            f"{row.cold.open_s * 1000:.0f}",
            f"{row.cold.processes:.0f}",
            f"{row.warm.open_s * 1000:.1f}",
            f"{row.warm.processes:.0f}",
            f"{row.warm_at_once.open_s * 1000:.1f}",
            f"{row.warm.again_s * 1000:.1f}",
            f"{row.ratio:.4f}",
            f"{row.warm.first_response_s:.3f}",
            f"{row.warm.answer_bytes:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def verdicts(rows: list[Row]) -> str:
    by_shape = {(row.servers, row.tools, row.kind): row for row in rows}
    large, small, usual = by_shape[50, 20, ""], by_shape[1, 20, ""], by_shape[50, 20, " on the SDK"]
    growth = large.warm.first_response_s / small.warm.first_response_s
    told = [
        ("warm open of 50 x 20 starts nothing", large.warm.processes, 0),
        ("warm open of 50 x 20, s", large.warm.open_s, 0.05),
        ("warm / cold, servers on the SDK", usual.ratio, 0.01),
        ("warm / cold, servers that start in 20 ms", large.ratio, 0.01),
        ("first response, 50 servers / 1", growth, 1.2),
    ]
    return "\n".join(
        f"{'PASS' if value <= most else 'MISS'}  {what}: {value:.4g} (at most {most})" for what, value, most in told
    )


if __name__ == "__main__":
    sys.exit(main())
