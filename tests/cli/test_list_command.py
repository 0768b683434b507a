"""`mcp-workbench list`: what there is and how it is, without starting anything."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.support.catalogs import configured, desk, listed
from tests.support.configs import rogue, starts
from tests.support.screens import COLOUR, at_terminal, piped, seen
from tests.support.wire import serving

AGO = re.compile(r"listed (just now|\d+ \w+ ago)")


def told(text: str) -> list[str]:
    return [AGO.sub("listed AGO", line) for line in text.splitlines()]


def test_toolboxes_are_listed_with_their_servers_and_how_these_are(tmp_path: Path):
    remote = {"url": "https://example.com/mcp", "oauth": {"clientId": "me"}}
    env = listed(tmp_path, {"dev": {"one": rogue()}})
    env |= configured(
        tmp_path,
        {
            "dev": {
                "one": rogue(),
                "new": rogue("never"),
                "needy": rogue(env={"A": "${NOT_SET_A}"}),
                "far": remote,
                "off": rogue(disabled=True),
            },
            "ops": {"two": rogue("ok", "x")},
        },
    )
    done = piped("list", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert told(done.stdout) == [
        "dev: The toolbox dev",
        "  one    2 tools, listed AGO",
        "  new    never listed",
        "  needy  ${NOT_SET_A} not set",
        "  far    needs a login: mcp-workbench auth",
        "  off    disabled",
        "",
        "ops: The toolbox ops",
        "  two  never listed",
    ]
    (dev, _) = json.loads(piped("list", "--json", env=env).stdout)["toolboxes"]
    states = [server["state"] for server in dev["servers"]]
    assert states == ["remembered", "never_listed", "variable_missing", "needs_login", "disabled"]
    assert dev["servers"][2]["missing"] == ["NOT_SET_A"]


def test_the_tools_of_a_toolbox_or_of_a_server_are_told_with_their_first_sentence(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue(), "desk": desk()}})
    assert told(piped("list", "dev", env=env).stdout)[1:] == [
        "  one  2 tools, listed AGO",
        "    echo   The tool echo.",
        "    nonce  The tool nonce.",
        "  desk  5 tools, listed AGO",
        "    typed  Shows typed things.",
        "    form   Shows form things.",
        "    media  Shows media things.",
        "    fail   Shows fail things.",
        "    say    Shows say things.",
    ]
    assert told(piped("list", "dev", "one", env=env).stdout)[-1] == "    nonce  The tool nonce."
    (box,) = json.loads(piped("list", "dev", "one", "--json", env=env).stdout)["toolboxes"]
    (server,) = box["servers"]
    assert server.pop("listedAt").endswith("Z")
    assert server == {
        "server": "one",
        "state": "remembered",
        "toolCount": 2,
        "withheldCount": 0,
        "tools": [
            {"name": "echo", "description": "The tool echo."},
            {"name": "nonce", "description": "The tool nonce."},
        ],
        "withheld": [],
    }


def test_nothing_is_started(tmp_path: Path):
    log = tmp_path / "log"
    env = configured(tmp_path, {"dev": {"one": rogue(log=log)}})
    for arguments in ((), ("dev",), ("dev", "one"), ("--json",)):
        assert piped("list", *arguments, env=env).returncode == 0
    assert starts(log) == []


def test_filters_count_and_what_is_withheld_is_told_with_the_reason(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue(toolFilters=["echo"]), "two": rogue("duptools")}})
    lines = told(piped("list", "dev", env=env).stdout)
    assert "  one  1 tool, listed AGO" in lines
    assert "  two  2 tools (1 withheld), listed AGO" in lines
    assert "    twice  withheld: its server lists this name more than once" in lines


async def test_what_a_host_saw_is_listed_too(tmp_path: Path):
    """It declares more than a command does, and so its lists are remembered apart."""
    env = configured(tmp_path, {"dev": {"one": rogue()}})
    async with serving(Path(env["WORKBENCH_CONFIG"]), greet=False, env=env) as wire:
        await wire.handshake(capabilities={"roots": {}})
        await wire.open("dev")
    done = await asyncio.to_thread(piped, "list", env=env)
    assert "  one  2 tools, listed AGO" in told(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("de",), "Toolbox 'de' not found"),
        (("dev", "on"), "Server 'on' not found in toolbox 'dev'"),
        (("dev", "off"), "Server 'off' not found in toolbox 'dev'"),
    ],
)
def test_an_unknown_name_is_two_lines_and_exits_with_2(tmp_path: Path, arguments: tuple[str, ...], problem: str):
    env = configured(tmp_path, {"dev": {"one": rogue(), "off": rogue(disabled=True)}})
    done = piped("list", *arguments, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error == f"error: {problem}"
    assert hint.startswith("hint: ")
    answer = piped("list", *arguments, "--json", env=env)
    assert answer.returncode == 2
    assert json.loads(answer.stdout) | {"hint": ""} == {
        "ok": False,
        "error": problem,
        "code": "toolbox_not_found" if "Toolbox" in problem else "server_not_found",
        "hint": "",
    }


def test_a_program_gets_the_hint_that_a_person_gets(tmp_path: Path):
    (wrong := tmp_path / "wrong.json").write_text('{"toolboxes": 1e999}', encoding="utf-8")
    env = configured(tmp_path, {})
    for command in ("list", "check"):
        _, hint = piped(command, "--config", str(wrong), env=env).stderr.splitlines()
        answer = json.loads(piped(command, "--config", str(wrong), "--json", env=env).stdout)
        assert hint == f"hint: {answer['hint']}"
        assert "config_invalid" in hint


def test_a_configuration_without_toolboxes_is_told(tmp_path: Path):
    env = configured(tmp_path, {})
    Path(env["WORKBENCH_CONFIG"]).write_text('{"mcpServers": {}}', encoding="utf-8")
    done = piped("list", env=env)
    assert (done.returncode, done.stdout) == (0, f"There are no toolboxes in {env['WORKBENCH_CONFIG']}.\n")


def test_at_a_terminal_it_is_coloured_and_fits(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue(), "desk": desk()}})
    with at_terminal("list", "dev", env=env, columns=30) as screen:
        assert screen.finish() == 0
    assert COLOUR.search(screen.text)
    lines = seen(screen.text)
    assert max(map(len, lines)) <= 30
    assert "    typed  Shows typed things." in lines
    with at_terminal("list", "dev", env=env | {"NO_COLOR": "1"}) as screen:
        assert screen.finish() == 0
    assert "\x1b" not in screen.text


def test_in_a_pipe_and_as_json_there_is_no_control_sequence(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"names": rogue("names")}})
    assert "\\x1b[31mred" in piped("list", "dev", env=env).stdout
    assert "\x1b" not in piped("list", "dev", env=env).stdout
    with at_terminal("list", "dev", env=env) as screen:
        screen.finish()
    assert "\\x1b[31mred" in screen.text
    assert "\x1b[31mred" not in screen.text
    with at_terminal("list", "dev", "--json", env=env) as screen:
        screen.finish()
    assert "\x1b" not in screen.text
    assert json.loads(screen.text)["ok"] is True
