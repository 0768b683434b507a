"""Opens and closes servers again and again, and says what that left in this process.

    python -m tests.faults.cycles FOLDER OPENS

A cycle is a workbench, a client of it that opens a toolbox of ten servers and calls one, and the end of both. After a
hundred opens to warm up it prints one JSON object: descriptors, tasks and children before and after, and the memory
after each cycle. The servers are shell scripts, which start in two milliseconds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from mcp_workbench.surfaces.server_info import EVERYTHING
from tests.support.library import workbench
from tests.support.near import near

SERVERS = 10
WARM_UP = 100
SCRIPT = """
while read -r line; do
  case $line in *'"id":'*) id=${line#*'"id":'}; id=${id%%[,\\}]*};; *) continue;; esac
  case $line in
    *'"method":"initialize"'*) what='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}';;
    *'"method":"tools/list"'*) what='"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}';;
    *'"method":"tools/call"'*) what='"result":{"content":[{"type":"text","text":"here"}]}';;
    *) what='"error":{"code":-32601,"message":"Method not found"}';;
  esac
  printf '{"jsonrpc":"2.0","id":%s,%s}\\n' "$id" "$what"
done
"""


async def cycle(folder: Path, boxes: dict[str, Any]) -> None:
    async with workbench(folder, boxes) as wb, near(wb, EVERYTHING, "handshake", {}) as wire:
        assert (await wire.open("dev"))["servers_connected"] == SERVERS
        assert not (await wire.use("dev", "s0", "echo")).get("isError")


def state() -> dict[str, Any]:
    gc.collect()
    descriptors = list(Path("/proc/self/fd").iterdir())
    return {"descriptors": len(descriptors), "tasks": len(asyncio.all_tasks()), "children": children()}


def children() -> int:
    """How many there are, zombies too; -1 stands for some."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return -1


def memory_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 -- read again and again
        return int(file.read().split()[1]) * resource.getpagesize()


async def run(folder: Path, opens: int) -> dict[str, Any]:
    script = folder / "server.sh"
    script.write_text(SCRIPT, encoding="ascii")
    boxes = {"dev": {f"s{number}": {"command": "/bin/sh", "args": [str(script)]} for number in range(SERVERS)}}
    for _ in range(WARM_UP // SERVERS):
        await cycle(folder, boxes)
    before, memory = state(), [memory_bytes()]
    for _ in range(opens // SERVERS):
        await cycle(folder, boxes)
        memory.append(memory_bytes())
    return {"before": before, "after": state(), "memory": memory, "opens_per_cycle": SERVERS}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))))
