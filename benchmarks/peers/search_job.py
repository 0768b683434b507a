"""What every searching program does with a job: index its tools, answer its queries, and tell how long that took.

A job is a JSON file: `tools` (`server`, `about` and the MCP tool as `definition`), `queries`, and `most`. The answer,
on stdout, has the ranked tools of each query as [server, tool, score], the seconds of each, and what the index took.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Search = Callable[[str, int], list[tuple[str, str, float | None]]]

WARM_UP = 5
STATUS = Path("/proc/self/statm")


def resident_mb() -> float:
    """Memory of this process now; where the system does not tell, the most that it had."""
    if STATUS.exists():
        return int(STATUS.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def run(build: Callable[[list[dict[str, Any]]], Search]) -> None:
    """Do the job that the command line names. `build` makes an index of tools and returns how it is searched."""
    job = json.loads(Path(sys.argv[1]).read_text())
    gc.collect()
    before = resident_mb()
    started = time.perf_counter()
    search = build(job["tools"])
    # An index that is made by its first query belongs to the build.
    search(job["queries"][0], job["most"])
    build_s = time.perf_counter() - started
    gc.collect()
    memory_mb = resident_mb() - before
    for query in job["queries"][:WARM_UP]:
        search(query, job["most"])
    ranked, seconds = [], []
    for query in job["queries"]:
        started = time.perf_counter()
        ranked.append(search(query, job["most"]))
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"build_s": build_s, "memory_mb": memory_mb, "ranked": ranked, "seconds": seconds}))
