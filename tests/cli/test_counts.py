"""`check`, `doctor`, `list` and `refresh` count the same tools and servers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.support.catalogs import configured
from tests.support.configs import rogue
from tests.support.screens import piped
from tests.support.wire import serving

COUNTS = {"asked": (3, 0), "filtered": (1, 0), "plain": (2, 0), "twice": (2, 1)}
"""The tools that each server offers and that are withheld, for a client that can be asked."""


def counted(env: dict[str, str], command: str) -> dict[str, tuple[int, int]]:
    told = json.loads(piped(command, "--json", env=env).stdout)
    return {name: numbers(one) for name, one in sorted(servers(command, told))}


def servers(command: str, told: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if command == "check":
        return list(told["toolboxes"]["dev"]["servers"].items())
    listed = told["toolboxes"][0]["servers"] if command == "list" else told["servers"]
    return [(one["server"], one) for one in listed if one.get("state") != "disabled"]


def numbers(one: dict[str, Any]) -> tuple[int, int]:
    return one.get("toolCount", one.get("tools")), one.get("withheldCount", one.get("withheld"))


async def test_four_commands_count_the_same_tools(tmp_path: Path):
    boxes = {
        "dev": {
            "plain": rogue(),
            "filtered": rogue(toolFilters=["echo"], env={"A": "1"}),
            "twice": rogue("duptools"),
            "asked": rogue("by_capability"),
            "off": rogue(disabled=True),
        }
    }
    env = configured(tmp_path, boxes)
    async with serving(Path(env["WORKBENCH_CONFIG"]), greet=False, env=env) as wire:
        await wire.handshake(capabilities={"elicitation": {}})
        await wire.open("dev")
    for command in ("doctor", "refresh", "list", "check", "doctor"):
        assert counted(env, command) == COUNTS, command
    for command in ("doctor", "refresh", "list", "check"):
        told = piped(command, env=env).stdout
        assert sorted(re.findall(r"\d+ tools?\b(?: \(\d+ withheld\))?", told)) == [
            "1 tool",
            "2 tools",
            "2 tools (1 withheld)",
            "3 tools",
        ], told
    assert "4 servers (1 disabled)" in piped("check", env=env).stdout
    assert "4 servers (1 disabled): 4 ok" in piped("doctor", env=env).stdout
