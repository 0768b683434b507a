"""`mcp-workbench search`: tools by what they do, ranked as for an agent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import Workbench, load_config
from mcp_workbench.wire.caller import LIBRARY
from tests.peers import odd_server
from tests.support.catalogs import configured, desk, listed
from tests.support.configs import Server, rogue, starts
from tests.support.screens import COLOUR, at_terminal, piped, seen
from tests.support.wire import CLIENT_INFO, HANDSHAKE_VERSION


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
        "file": env["WORKBENCH_CONFIG"],
        "query": "echo",
        "weak": False,
        "tools": [{"toolbox": "ops", "server": "one", "tool": "echo", "description": "The tool echo.", "alsoIn": []}],
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


def spoken(folder: Path) -> Server:
    """A server whose one tool says nothing; its instructions, prompts and resources do."""
    answers = folder / "answers.json"
    tools = [{"name": "run", "inputSchema": {"type": "object"}}]
    answers.write_text(
        json.dumps(
            {
                "instructions": "Steers the telescope on the roof.",
                "tools/list": {"tools": tools},
                "prompts/list": {"prompts": [{"name": "plan_stargazing"}]},
                "resources/list": {"resources": [{"name": "Moon phases", "uri": "moon://phases"}]},
            }
        )
    )
    return {"command": sys.executable, "args": ["-SE", str(odd_server.__file__), "handshake", str(answers)]}


@pytest.mark.parametrize("query", ["telescope", "stargazing", "phases of the moon"])
def test_a_servers_instructions_prompts_and_resources_are_searched_by_people_and_agents(tmp_path: Path, query: str):
    env = listed(tmp_path, {"dev": {"one": rogue(), "sky": spoken(tmp_path)}})
    answer = json.loads(piped("search", query, "--json", env=env).stdout)
    assert [(tool["server"], tool["tool"]) for tool in answer["tools"]] == [("sky", "run")]
    call = {"name": "open_toolbox", "arguments": {"toolbox": "*", "query": query}}
    served = subprocess.run(
        [sys.executable, "-m", "mcp_workbench", "serve"], input=requests_of(call), capture_output=True, env=env,
        check=True, timeout=30,
    )  # fmt: skip
    text = json.loads(served.stdout.splitlines()[-1])["result"]["content"][0]["text"]
    assert [tool["source_server"] for tool in json.loads(text)["tools"]] == ["sky"]


def requests_of(call: dict[str, Any]) -> bytes:
    hello = {"protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": CLIENT_INFO}
    sent = [("initialize", hello), ("tools/call", call)]
    return b"".join(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        for number, (method, params) in enumerate(sent)
    )


def test_equal_tools_are_shown_once_with_where_else_they_are(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue()}, "ops": {"one": rogue()}})
    first, *_ = json.loads(piped("search", "echo", "--json", env=env).stdout)["tools"]
    assert (first["toolbox"], first["alsoIn"]) == ("dev", [{"toolbox": "ops", "server": "one"}])
    assert "(also in ops/one)" in piped("search", "echo", env=env).stdout
