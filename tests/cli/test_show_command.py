"""`mcp-workbench show`: one tool, with all that its server says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.peers import rogue_stdio
from tests.support.catalogs import configured, desk, listed
from tests.support.configs import rogue, starts
from tests.support.screens import SEQUENCE, at_terminal, piped, seen


def test_a_tool_is_shown_with_signature_description_effects_and_schema(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"desk": desk()}})
    done = piped("show", "dev", "desk", "typed", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("typed(path: string /* Which file. */, limit?: integer /* >= 1 */")
    assert lines[1] == "of server 'desk' in toolbox 'dev'"
    assert lines[3:6] == ["Shows typed things. And more of it.", "", "See also: nothing."]
    assert "Its server says: read-only, not destructive" in lines
    schema = done.stdout.partition("Input schema:\n")[2]
    assert json.loads(schema)["properties"]["limit"] == {"type": "integer", "minimum": 1}


def test_for_programs_it_is_the_definition_as_the_server_sent_it(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue("unknown_fields")}})
    done = piped("show", "dev", "one", "rich", "--json", env=env)
    assert done.returncode == 0
    assert json.loads(done.stdout) == rogue_stdio.RICH_TOOL
    assert list(json.loads(done.stdout)) == list(rogue_stdio.RICH_TOOL)


def test_a_server_that_listed_before_is_not_started(tmp_path: Path):
    log = tmp_path / "log"
    env = listed(tmp_path, {"dev": {"one": rogue(log=log)}})
    before = len(starts(log))
    assert piped("show", "dev", "one", "echo", env=env).returncode == 0
    assert len(starts(log)) == before


def test_a_server_that_never_listed_is_started_once_and_that_is_said(tmp_path: Path):
    log = tmp_path / "log"
    env = configured(tmp_path, {"dev": {"one": rogue(log=log)}})
    done = piped("show", "dev", "one", "echo", env=env)
    assert done.returncode == 0
    assert done.stderr == "'one' has never listed its tools: starting it\n"
    assert done.stdout.startswith("echo(nonce?: string)\n")
    again = piped("show", "dev", "one", "echo", env=env)
    assert (again.stderr, len(starts(log))) == ("", 1)


def test_a_server_that_cannot_be_started_is_told_and_exits_with_1(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"ill": rogue("exit_at_start")}})
    done = piped("show", "dev", "ill", "echo", env=env)
    assert done.returncode == 1
    assert "disk is on fire" in done.stderr
    assert "Traceback" not in done.stderr
    answer = piped("show", "dev", "ill", "echo", "--json", env=env)
    assert answer.returncode == 1
    assert json.loads(answer.stdout)["code"] == "server_exited"


@pytest.mark.parametrize(
    ("tool", "hint"),
    [
        ("firts", "Did you mean 'first'?"),
        ("twice", "Its server lists it, but its server lists this name more than once."),
    ],
)
def test_a_tool_that_is_not_there_is_told_with_what_to_do(tmp_path: Path, tool: str, hint: str):
    env = listed(tmp_path, {"dev": {"one": rogue("duptools")}})
    done = piped("show", "dev", "one", tool, env=env)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: Tool '{tool}' not found in server 'one' (toolbox 'dev')",
        f"hint: {hint}",
    ]


def test_what_a_server_says_can_not_move_the_cursor_and_fits(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"names": rogue("names"), "desk": desk()}})
    with at_terminal("show", "dev", "names", "\x1b[31mred", env=env) as screen:
        assert screen.finish() == 0
    assert "\x1b[31m" not in screen.text
    assert "\\x1b[31mred" in screen.text
    with at_terminal("show", "dev", "desk", "typed", env=env, columns=40) as screen:
        assert screen.finish() == 0
    prose, _, _ = screen.text.partition("Input schema:")
    assert max(map(len, seen(prose))) <= 40


def test_a_schema_can_be_copied_from_a_narrow_terminal_and_from_a_pipe(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"one": rogue("schemas", "prose")}})
    with at_terminal("show", "dev", "one", "prose", env=env, columns=40) as screen:
        assert screen.finish() == 0
    for told in (SEQUENCE.sub("", screen.text), piped("show", "dev", "one", "prose", env=env).stdout):
        schema = told.partition("Input schema:")[2]
        assert json.loads(schema) == rogue_stdio.PROSE
        assert all(character.isprintable() or character in "\r\n" for character in schema)
        assert "ü 日本 end" in schema
