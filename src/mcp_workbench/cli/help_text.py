"""Help texts, built from the declarations in `commands.py`, no wider than the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence

from mcp_workbench import __version__
from mcp_workbench.cli.commands import COMMANDS, PROGRAM, Command, find
from mcp_workbench.cli.display import SENTENCE_COLUMNS, wrap
from mcp_workbench.cli.options import HELP as HELP_OPTION
from mcp_workbench.cli.options import VERSION, Option
from mcp_workbench.cli.terminal import say

HELP = "One MCP server in front of many: servers grouped into toolboxes, started when they are needed."

_START = (
    "New here? See it: mcp-workbench demo. Move in: mcp-workbench import, then doctor, then install --all "
    "--remove-imported. Read: mcp-workbench docs."
)
_MAX_COLUMNS = 80
_LABEL_COLUMNS = 24
"""A longer label gets its own line."""
_VERBATIM = "\b\n"
"""Marks a paragraph of a help text whose lines stay as they are."""


def run(given: Mapping[str, str]) -> int:
    """Show the version, or the help of the program or of one command."""
    if VERSION.key in given:
        say(f"{PROGRAM.line} {__version__}")
        return 0
    width = min(shutil.get_terminal_size().columns, _MAX_COLUMNS)
    say("\n".join(_lines(find(given.get("command", "")) or PROGRAM, width)))
    return 0


def _lines(command: Command, width: int) -> Iterator[str]:
    yield from _hanging("Usage: ", command.usage, width)
    for paragraph in command.load().HELP.split("\n\n"):
        yield ""
        yield from _paragraph(paragraph, width)
    yield from ("", "Options:")
    yield from _definitions([(_label(option), option.help) for option in (*command.options, HELP_OPTION)], width)
    if command is PROGRAM:
        yield from ("", "Commands:")
        yield from _definitions([(one.name, one.summary) for one in COMMANDS], width)
    yield ""
    yield from _paragraph(_START if command is PROGRAM else f"More: {PROGRAM.line} docs commands/{command.name}", width)


def _paragraph(text: str, width: int) -> Iterator[str]:
    if text.startswith(_VERBATIM):
        return (f"  {line}" for line in text.removeprefix(_VERBATIM).splitlines())
    return _hanging("  ", " ".join(text.split()), width)


def _label(option: Option) -> str:
    if option is HELP_OPTION:
        return f"-h, {option.name}"
    value = f"[{'|'.join(option.choices)}]" if option.choices else option.metavar
    return f"{option.name} {value}".rstrip()


def _definitions(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Labels with a text next to each; in a narrow terminal, below each."""
    column = 4 + max(len(label) for label, _ in rows if len(label) <= _LABEL_COLUMNS)
    column = column if width - column >= SENTENCE_COLUMNS else 6
    for label, text in rows:
        start = f"  {label}  "
        if len(start) > column:
            yield start.rstrip()
            start = ""
        yield from _hanging(start.ljust(column), text, width)


def _hanging(start: str, text: str, width: int) -> Iterator[str]:
    """The text folded behind its beginning."""
    for piece in wrap(text, width - len(start)):
        yield f"{start}{piece}"
        start = " " * len(start)
