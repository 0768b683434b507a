"""`mcp-workbench search`: tools by what they do, ranked as for an agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from mcp_workbench import Workbench, load_config
from mcp_workbench.wire.caller import LIBRARY
from tests.support.catalogs import configured, desk, listed
from tests.support.configs import rogue, starts
from tests.support.screens import COLOUR, at_terminal, piped, seen


def test_what_fits_is_listed_best_first_in_every_toolbox(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue()}, "ops": {"desk": desk()}})
    done = piped("search", "media", "things", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    head, first, *others = done.stdout.splitlines()
    assert head.split() == ["toolbox", "server", "tool"]
    assert first == "ops      desk    media  Shows media things."
    assert all(line.startswith("ops      desk") for line in others)


def test_the_order_is_that_of_an_agents_query(tmp_path: Path, monkeypatch):
    env = listed(tmp_path, {"dev": {"one": rogue()}, "ops": {"desk": desk()}})
    monkeypatch.setenv("WORKBENCH_CATALOG", env["WORKBENCH_CATALOG"])

    async def asked() -> list[str]:
        async with Workbench(load_config(env["WORKBENCH_CONFIG"])) as workbench:
            matches = await workbench.at(LIBRARY).search_all("media form")
            return [identifier.tool for identifier, _ in matches.found]

    answer = json.loads(piped("search", "media form", "--json", env=env).stdout)
    assert [tool["tool"] for tool in answer["tools"]] == asyncio.run(asked())
    assert len(answer["tools"]) > 1


def test_one_toolbox_can_be_named(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue()}, "ops": {"one": rogue("ok", "echo")}})
    answer = json.loads(piped("search", "echo", "--toolbox", "ops", "--json", env=env).stdout)
    assert answer == {
        "ok": True,
        "query": "echo",
        "tools": [{"toolbox": "ops", "server": "one", "tool": "echo", "description": "The tool echo."}],
        "neverListed": [],
    }
    assert piped("search", "echo", "--toolbox", "op", env=env).returncode == 2


def test_servers_that_never_listed_are_told_and_not_started(tmp_path: Path):
    log = tmp_path / "log"
    env = configured(tmp_path, {"dev": {"one": rogue(log=log)}})
    done = piped("search", "echo", env=env)
    assert (done.returncode, done.stdout) == (0, "No tool fits.\n")
    assert "dev/one" in done.stderr
    answer = json.loads(piped("search", "echo", "--json", env=env).stdout)
    assert answer["neverListed"] == [{"toolbox": "dev", "server": "one"}]
    assert starts(log) == []


def test_without_a_query_nothing_is_searched(tmp_path: Path):
    done = piped("search", env=configured(tmp_path, {"dev": {"one": rogue()}}))
    assert done.returncode == 2
    assert "hint: " in done.stderr


def test_at_a_terminal_it_fits_and_is_plain_where_colours_are_not_wanted(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"desk": desk()}})
    with at_terminal("search", "media", env=env, columns=32) as screen:
        assert screen.finish() == 0
    assert "\x1b[1m" in screen.text
    lines = seen(screen.text)
    assert max(map(len, lines)) <= 32
    assert lines[:2] == ["dev desk media", "  Shows media things."], "beside the names a sentence has no room"
    with at_terminal("search", "media", env=env | {"NO_COLOR": "1"}) as screen:
        assert screen.finish() == 0
    assert not COLOUR.search(screen.text)
    assert "\x1b" not in screen.text
