"""Command lines that are read without the toolkit are read as it would read them."""

from __future__ import annotations

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_workbench.cli import app, fast_parser
from mcp_workbench.cli.commands import COMMANDS, Command
from mcp_workbench.cli.options import Given, NotPlain
from tests.support.screens import piped

WORDS = ("x", "a=b", "", "-", "--", "-x", "--help", "--unknown", "--config", "--config=f", "--json", "--json=1",
         "--toolbox", "--http", "--http=h", "--log-level", "debug", "--strict", "--debug", "é 🙂")  # fmt: skip


def by_toolkit(command: Command, words: list[str]) -> Given:
    toolkit = app.ToolkitCommand(command)
    return toolkit.invoke(toolkit.make_context(command.name, list(words))).given


@settings(max_examples=500)
@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(WORDS), max_size=6))
def test_what_is_read_is_what_the_toolkit_reads(command: Command, words: list[str]):
    try:
        read = fast_parser.read(words, command)
    except NotPlain:
        return
    toolkit = by_toolkit(command, words)
    assert (read, read.words) == (toolkit, toolkit.words)


@pytest.mark.parametrize(
    ("line", "single", "words"),
    [
        (["list"], {}, ()),
        (["list", "dev", "--json"], {"toolbox": "dev", "json": "true"}, ()),
        (["list", "--config", "f", "dev", "fs"], {"config": "f", "toolbox": "dev", "server": "fs"}, ()),
        (["call", "a", "b", "c", "k=v", "--json", "-"],
         {"toolbox": "a", "server": "b", "tool": "c", "json": "true"}, ("k=v", "-")),
        (["call", "a", "b", "c", "--", "--k=v", "--"], {"toolbox": "a", "server": "b", "tool": "c"}, ("--k=v", "--")),
        (["search", "read", "a", "file"], {}, ("read", "a", "file")),
    ],
)  # fmt: skip
def test_usual_command_lines_are_plain(line: list[str], single: dict[str, str], words: tuple[str, ...]):
    command = fast_parser.find(line[0])
    assert command is not None
    read = fast_parser.read(line[1:], command)
    assert (read, read.words) == (single, words)


@pytest.mark.parametrize(
    "line",
    [
        ["list", "--help"], ["list", "-h"], ["list", "a", "b", "c"], ["list", "--config"], ["list", ""],
        ["list", "--json=1"], ["list", "--debug"], ["show", "a", "b"], ["call", "a", "b"],
        ["serve", "--log-level", "x"],
    ],
)  # fmt: skip
def test_what_has_to_be_explained_is_for_the_toolkit(line: list[str]):
    command = fast_parser.find(line[0])
    assert command is not None
    with pytest.raises(NotPlain):
        fast_parser.read(line[1:], command)


def test_the_toolkit_explains_it():
    assert "Usage: mcp-workbench call [OPTIONS] TOOLBOX SERVER TOOL" in piped("call", "--help").stdout
    with pytest.raises(click.UsageError):
        by_toolkit(COMMANDS[1], ["--unknown"])


def test_a_line_without_a_command_that_is_known_is_for_the_toolkit():
    assert fast_parser.read_line([]) is None
    assert fast_parser.read_line(["lst"]) is None
    assert fast_parser.read_line(["list", "--help"]) is None
    call = fast_parser.read_line(["list", "dev"])
    assert call is not None
    assert (call.command.name, call.given) == ("list", {"toolbox": "dev"})
