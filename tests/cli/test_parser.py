"""Command lines are parsed from their declarations; `test_usage_errors.py` has the lines that are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_workbench.cli.commands import COMMANDS, PROGRAM, Command
from mcp_workbench.cli.options import AT_TERMINAL, SERVE, Option
from mcp_workbench.cli.parser import parse, split_words
from mcp_workbench.errors import RequestError
from tests.support.commands import invoke

ADD = ["add", "dev", "fs"]


@pytest.mark.parametrize(
    ("line", "single", "words"),
    [
        (["serve"], {}, ()),
        (["serve", "--config", "x.json"], {"config": "x.json"}, ()),
        (["serve", "--config=x.json", "--strict"], {"config": "x.json", "strict": "true"}, ()),
        (["serve", "--config=a=b"], {"config": "a=b"}, ()),
        (["serve", "--log-level", "debug"], {"log_level": "debug"}, ()),
        (["serve", "--config", "a", "--config", "b"], {"config": "b"}, ()),
        (["serve", "--config", "a b\n🙂"], {"config": "a b\n🙂"}, ()),
        (["serve", "--http"], {"http": "127.0.0.1:8300"}, ()),
        (["serve", "--http", "--strict"], {"http": "127.0.0.1:8300", "strict": "true"}, ()),
        (["serve", "--http", ":9000", "--strict"], {"http": ":9000", "strict": "true"}, ()),
        (["serve", "--http=:9000", "--token-file", "t"], {"http": ":9000", "token_file": "t"}, ()),
        (["list", "dev", "--json"], {"toolbox": "dev", "json": "true"}, ()),
        (["list", "--config", "f", "dev", "fs"], {"config": "f", "toolbox": "dev", "server": "fs"}, ()),
        (["list", "--config", "--json"], {"config": "--json"}, ()),
        (["--debug", "list", "dev"], {"toolbox": "dev"}, ()),
        (["call", "a", "b", "c", "k=v", "--json", "-"],
         {"toolbox": "a", "server": "b", "tool": "c", "json": "true"}, ("k=v", "-")),
        (["call", "a", "b", "c", "--", "--k=v", "--"], {"toolbox": "a", "server": "b", "tool": "c"}, ("--k=v", "--")),
        (["search", "read", "a", "file"], {}, ("read", "a", "file")),
        ([*ADD, "--", "npx", "-y", ""], {"toolbox": "dev", "server": "fs"}, ("npx", "-y", "")),
    ],
)  # fmt: skip
def test_options_and_arguments_are_read_in_any_order(line: list[str], single: dict[str, str], words: tuple[str, ...]):
    command, read = parse(line)
    assert (command.name, read, read.words) == (line[line[0] == "--debug"], single, words)


def test_an_option_may_be_repeated_where_that_is_declared():
    read = parse([*ADD, "--env", "A=1", "--json", "--env=B=2"]).given
    assert (read.all("env"), read.all("header")) == (("A=1", "B=2"), ())
    assert "env" not in read


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ([], {}),
        (["--debug"], {"debug": "true"}),
        (["--help", "lst"], {"help": "true"}),
        (["--version"], {"version": "true"}),
        (["call", "--help"], {"command": "call"}),
        (["list", "a", "b", "c", "-h"], {"command": "list"}),
    ],
)
def test_help_and_the_version_are_calls_of_the_program_itself(line: list[str], read: dict[str, str]):
    assert parse(line) == (PROGRAM, read)


@pytest.mark.parametrize(
    "line",
    [
        ["-c", "x"], ["--conf", "x"], ["--config"], ["--config="], ["--config", ""], ["--http="], ["--http", ""],
        ["--http", "a", "b"], ["--strict=yes"], ["--strict", "x"], ["--log-level", "loud"], ["x.json"], [""],
        ["--", "--strict"],
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_is_refused(line: list[str]):
    with pytest.raises(RequestError):
        parse(["serve", *line])


WORDS = ("x", "a=b", "", "-", "--", "-x", "--help", "--unknown", "--config", "--config=f", "--json", "--json=1",
         "--toolbox", "--http", "--http=h", "--log-level", "debug", "--strict", "--debug", "é 🙂")  # fmt: skip


@settings(max_examples=300)
@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(WORDS), max_size=6))
def test_any_line_is_a_call_or_an_error(command: Command, words: list[str]):
    try:
        called, read = parse([command.name, *words])
    except RequestError:
        return
    assert called in (command, PROGRAM)
    keys = {option.key for option in command.options} | {argument.key for argument in command.arguments}
    assert set(read) <= keys or called == PROGRAM
    assert "" not in read.values()


def test_an_unfinished_line_can_be_split():
    split = split_words(["dev", "--unknown", "--json", "--config"], AT_TERMINAL)
    assert split.arguments == ["dev"]
    assert [(use.name, use.is_incomplete) for use in split.options] == [
        ("--unknown", False), ("--json", False), ("--config", True)
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("command", [PROGRAM, *COMMANDS], ids=lambda command: command.name or "-")
def test_help_has_every_option_and_argument_with_its_text(
    command: Command, columns: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = invoke(*filter(None, [command.name]), "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    words = " ".join(result.stdout.split())
    assert words.startswith(f"Usage: {command.usage} ")
    assert all(f" {option.name}" in words and option.help in words for option in command.options)
    assert "-h, --help Show this help." in words
    copied = set(command.load().HELP.splitlines())
    choices = [option for option in command.options if len(" ".join(option.choices)) > columns / 2]
    wide = [line for line in result.stdout.splitlines() if len(line) > columns and line[2:] not in copied]
    assert len(wide) <= len(choices), wide


def test_the_synopsis_names_every_option_of_every_command():
    document = (Path(__file__).parents[2] / "docs" / "command.md").read_text(encoding="utf-8")
    lines = document.partition("```text\n")[2].partition("```")[0].splitlines()
    for command in COMMANDS:
        shown = " ".join(line for line in lines if line.startswith(f"mcp-workbench {command.name}"))
        assert set(re.findall(r"--[a-z-]+", shown)) == {option.name for option in command.options}, command.name
        assert all(argument.metavar.strip("[]") in shown for argument in command.arguments), command.name


def test_keys_are_python_names():
    options: list[Option] = [option for command in COMMANDS for option in command.options]
    assert all(option.key.isidentifier() for option in options)
    assert "token_file" in {option.key for option in SERVE}
