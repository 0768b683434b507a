"""A command line read without the toolkit, where there is nothing to explain: most are, and it takes long to load.

What it reads, it reads as the toolkit would. Help texts, and errors of any kind, are for the toolkit (`NotPlain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcp_workbench.cli.commands import COMMANDS, Command
from mcp_workbench.cli.options import Given, NotPlain, Option, read_plain

END_OF_OPTIONS = "--"


class Call(NamedTuple):
    """A command and what it was given."""

    command: Command
    given: Given

    def run(self) -> int:
        """The exit status."""
        return self.command.run(self.given)


class Split(NamedTuple):
    """The words of a command line by what they are."""

    options: list[str]
    others: list[str]
    awaited: Option | None = None
    """The option whose value would come next."""


def find(name: str) -> Command | None:
    """The command of this name."""
    return next((command for command in COMMANDS if command.name == name), None)


def read_line(words: Sequence[str]) -> Call | None:
    """What a command line calls, if it can be read here."""
    if not words or (command := find(words[0])) is None:
        return None
    try:
        return Call(command, read(words[1:], command))
    except NotPlain:
        return None


def read(words: Sequence[str], command: Command) -> Given:
    """What a command was given. Raises `NotPlain`."""
    if any(option.repeated for option in command.options):
        raise NotPlain("an option may be there several times")
    split = split_words(words, command.options)
    given = read_plain(split.options, command.options)
    count = len(command.arguments)
    required = sum(argument.required for argument in command.arguments)
    if len(split.others) < required or "" in split.others[:count] or (len(split.others) > count and not command.words):
        raise NotPlain("arguments")
    named = {argument.key: value for argument, value in zip(command.arguments, split.others, strict=False)}
    return Given(given | named, words=split.others[count:])


def split_words(words: Sequence[str], options: Sequence[Option]) -> Split:
    """Tell options, with their values, from everything else."""
    with_value = {option.name: option for option in options if option.metavar}
    split = Split([], [])
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == END_OF_OPTIONS:
            split.others.extend(reversed(rest))
            break
        if not word.startswith("-") or word == "-":
            split.others.append(word)
            continue
        split.options.append(word)
        option = with_value.get(word)
        if option is None or (option.otherwise and (not rest or rest[-1].startswith("-"))):
            continue
        if not rest:
            return split._replace(awaited=option)
        split.options.append(rest.pop())
    return split
