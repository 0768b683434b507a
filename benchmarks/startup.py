"""Measure how long a person waits for `mcp-workbench list`, relative to the import of `rich.console`.

    startup.py [--rounds N] [--json FILE]

CPU time of whole processes, medians of alternating runs. The unit is `python -c "import rich.console"`, the least that
a program with a terminal toolkit imports. Each command lists the cached tools of 10 servers. See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import programs

SERVERS = 10
ROUNDS = 15
MEASURE = (sys.executable, "-c", "import rich.console")
OURS = (sys.executable, "-m", "mcp_workbench")
RAW = (sys.executable, "-SE", str(programs.HERE / "raw_server.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        medians = measured(environment(Path(folder)), options.rounds)
    base = medians["import rich.console"]
    for name, seconds in medians.items():
        print(f"{seconds * 1000:7.0f} ms  {seconds / base:5.2f} x  {name}")
    if options.json:
        ratios = {name: seconds / base for name, seconds in medians.items()}
        options.json.write_text(json.dumps({"cpu_seconds": medians, "ratios": ratios}), encoding="utf-8")


def environment(folder: Path) -> dict[str, str]:
    """That of a person whose servers have listed their tools."""
    servers = {f"s{number}": {"command": RAW[0], "args": [*RAW[1:], str(number)]} for number in range(SERVERS)}
    config = folder / "workbench-config.json"
    config.write_text(json.dumps({"toolboxes": {"dev": {"description": "d", "mcpServers": servers}}}), encoding="utf-8")
    env = {**os.environ, "WORKBENCH_CONFIG": str(config), "WORKBENCH_CATALOG": str(folder / "catalog.sqlite")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, too
    subprocess.run([*OURS, "refresh"], env=env, check=True, stdout=subprocess.DEVNULL)
    return env


def measured(env: dict[str, str], rounds: int = ROUNDS) -> dict[str, float]:
    """CPU seconds of each, by what it is."""
    cases: dict[str, tuple[tuple[str, ...], bool]] = {
        "import rich.console": (MEASURE, False),
        "list": ((*OURS, "list"), False),
        "list at a terminal": ((*OURS, "list"), True),
        "completion of a tool": ((*OURS, "completion", "zsh", "--", "call", "dev", "s1", ""), False),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(1 + rounds):
        for name, (command, is_terminal) in cases.items():
            times[name].append(cpu_seconds(command, env, is_terminal=is_terminal))
    return {name: median(one[1:]) for name, one in times.items()}  # the first compiled what had changed


def cpu_seconds(command: tuple[str, ...], env: dict[str, str], *, is_terminal: bool) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    person, device = pty.openpty()
    out: Any = device if is_terminal else subprocess.DEVNULL
    subprocess.run(command, env=env, check=True, stdin=subprocess.DEVNULL, stdout=out)
    os.close(device)
    os.close(person)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
