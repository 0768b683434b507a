"""Every command as people and programs meet it: the same lines at a real terminal and in a pipe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from pyte import Screen as Emulator
from pyte import Stream

from mcp_workbench.cli.commands import COMMANDS
from tests.support.catalogs import home
from tests.support.configs import rogue
from tests.support.screens import at_terminal, piped

END_OF_INPUT = "\x04"
WAITS = "Waiting for an MCP host"
COLUMNS, LINES = 500, 1000
"""So wide that nothing is folded, so high that nothing is gone."""

AGES = {"second", "seconds", "ago", "just", "now"}


class Line(NamedTuple):
    """A command line, and how it ends."""

    words: tuple[str, ...]
    status: int = 0


def lines(folder: Path) -> list[Line]:
    """What a person does one after the other; `folder` has a file of a project."""
    server = rogue()
    return [
        Line(("demo",)),
        Line(("schema",)),
        Line(("completion", "bash")),
        Line(("docs", "--no-pager")),
        Line(("list",), 2),
        Line(("import",)),
        Line(("add", "far", "away", "--url", "http://127.0.0.1:1/mcp", "--description", "Far away")),
        Line(("add", "main", "more", "--", server["command"], *server["args"])),
        Line(("check",)),
        Line(("refresh",), 1),
        Line(("list",)),
        Line(("list", "main", "one")),
        Line(("show", "main", "one", "echo")),
        Line(("search", "echo")),
        Line(("call", "main", "one", "echo", "nonce=7")),
        Line(("call", "main", "one", "no-such-tool"), 2),
        Line(("doctor",), 1),
        Line(("doctor", "main"), 0),
        Line(("tokens",)),
        Line(("install", "claude-code", "--remove-imported")),
        Line(("uninstall", "claude-code")),
        Line(("move", "more", "--to", "far")),
        Line(("describe", "far", "Call a server far away")),
        Line(("remove", "far", "more")),
        Line(("auth", "far", "away", "--logout")),
        Line(("trust", "--yes", str(folder / "workbench-config.json"))),
        Line(("trust", "--list")),
        Line(("serve",)),
        Line(("status", "--all")),
        Line(("logs", "--all")),
    ]


def person(folder: Path) -> dict[str, str]:
    """The environment of somebody who has a server in Claude Code."""
    own = folder / "home"
    own.mkdir(parents=True)
    (own / ".claude.json").write_text(json.dumps({"mcpServers": {"one": rogue()}}), encoding="utf-8")
    env = home(folder) | {"HOME": str(own), "WORKBENCH_RECORD": str(folder / "record.sqlite")}
    return {name: value for name, value in env.items() if name not in ("NO_COLOR", "CLAUDE_CONFIG_DIR")}


def words(text: str) -> set[str]:
    """The words of a text, without what differs from run to run."""
    return set(re.findall(r"[a-z_]{3,}", text.lower())) - AGES


def shown(text: str) -> str:
    """What stands on a terminal in the end."""
    screen = Emulator(COLUMNS, LINES)
    Stream(screen).feed(text)
    return "\n".join(line.rstrip() for line in screen.display).rstrip()


def at_a_terminal(line: Line, env: dict[str, str]) -> str:
    with at_terminal(*line.words, env=env, columns=COLUMNS) as screen:
        if line.words == ("serve",):
            screen.wait_for(WAITS)
            screen.type(END_OF_INPUT)
        assert screen.finish() == line.status, f"{line.words}: {screen.text}"
        return screen.text


def test_the_lines_have_every_command():
    assert {line.words[0] for line in lines(Path())} == {command.name for command in COMMANDS}


@pytest.mark.timeout(300)
def test_every_command_says_the_same_at_a_terminal_and_in_a_pipe(tmp_path: Path):
    (tmp_path / "workbench-config.json").write_text('{"mcpServers": {"x": {"command": "x"}}}', encoding="utf-8")
    in_pipe, in_person = (person(tmp_path / name) for name in ("a", "b"))
    for line in lines(tmp_path):
        done = piped(*line.words, env=in_pipe)
        assert done.returncode == line.status, f"{line.words}: {done.stdout}{done.stderr}"
        assert "\x1b" not in done.stdout + done.stderr, line.words
        assert "Traceback" not in done.stderr, line.words
        told = shown(at_a_terminal(line, in_person))
        assert words(done.stdout + done.stderr) - words(told) == set(), f"{line.words}:\n{told}"
