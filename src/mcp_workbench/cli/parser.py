"""Parses command lines as `commands.py` declares them. Any other line raises `RequestError`, which says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_workbench.cli.commands import COMMANDS, PROGRAM, Command, find
from mcp_workbench.cli.options import GENERAL, HELP, VERSION, Given, Option
from mcp_workbench.errors import RequestError

END_OF_OPTIONS = "--"
_SHORT_HELP = "-h"


class Call(NamedTuple):
    """A command and its input."""

    command: Command
    given: Given

    def run(self) -> int:
        """Run the command; return the exit status."""
        return self.command.run(self.given)


class OptionUse(NamedTuple):
    """One option on a command line."""

    name: str
    option: Option | None
    """None: the command has no such option."""
    value: str | None = None

    @property
    def is_incomplete(self) -> bool:
        """Whether the line ends before the option's value."""
        return self.option is not None and bool(self.option.metavar) and self.value is None


class Split(NamedTuple):
    """The words of a command line: options with their values, and positional arguments."""

    options: list[OptionUse]
    arguments: list[str]

    def given(self, command: Command) -> Given:
        """The input of the command, without unknown and incomplete options."""
        single: dict[str, str] = {}
        repeated: dict[str, list[str]] = {}
        for use in self.options:
            if use.option is None or use.is_incomplete:
                continue
            if use.option.repeated:
                repeated.setdefault(use.option.key, []).append(use.value or "")
            else:
                single[use.option.key] = use.value or "true"
        for argument, value in zip(command.arguments, self.arguments, strict=False):
            single[argument.key] = value
        return Given(single, words=self.arguments[len(command.arguments) :], repeated=repeated)


def parse(line: Sequence[str]) -> Call:
    """Parse a command line. A request for help is a call of `PROGRAM`. Raises `RequestError`."""
    start = next((at for at, word in enumerate(line) if not _is_option(word)), len(line))
    general = parse_words(line[:start], PROGRAM)
    if start == len(line) or HELP.key in general or VERSION.key in general:
        return Call(PROGRAM, general)
    name = line[start]
    command = find(name)
    if command is None:
        raise _no_command(name)
    given = parse_words(line[start + 1 :], command)
    return Call(PROGRAM, Given({"command": name})) if HELP.key in given else Call(command, given)


def parse_words(words: Sequence[str], command: Command) -> Given:
    """Parse the words behind the name of a command. Raises `RequestError`."""
    split = split_words(words, command.options)
    for use in split.options:
        if problem := _problem(use):
            raise _usage_error(problem, command)
        if use.option is None:
            raise _no_option(use.name, command)
    given = split.given(command)
    if HELP.key not in given:
        _check_arguments(split.arguments, command)
    return given


def split_words(words: Sequence[str], options: Sequence[Option]) -> Split:
    """Separate options, with their values, from positional arguments. It never fails: completion reads half a line."""
    known = {option.name: option for option in (*options, HELP)} | {_SHORT_HELP: HELP}
    split = Split([], [])
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == END_OF_OPTIONS:
            split.arguments.extend(reversed(rest))
            break
        if _is_option(word):
            split.options.append(_take_option(word, rest, known))
        else:
            split.arguments.append(word)
    return split


def _take_option(word: str, rest: list[str], known: Mapping[str, Option]) -> OptionUse:
    """Read an option, and take its value off the rest of the line (reversed) if it is the next word."""
    name, equals, value = word.partition("=")
    name = name if name.startswith("--") else name[:2]
    option = known.get(name)
    if equals or option is None or not option.metavar:
        return OptionUse(name, option, value if equals else None)
    if option.default and (not rest or rest[-1].startswith("-")):
        return OptionUse(name, option, option.default)
    return OptionUse(name, option, rest.pop() if rest else None)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


# -- usage errors


def _problem(use: OptionUse) -> str:
    """The problem with a known option; empty if it is valid."""
    name, option, value = use
    if option is None:
        return ""
    if not option.metavar:
        return f"Option '{name}' does not take a value" if value is not None else ""
    if value is None:
        return f"Option '{name}' requires an argument"
    if option.choices and value not in option.choices:
        return f"Invalid value for '{name}': '{value}' is not one of {', '.join(map(repr, option.choices))}"
    return "" if value else "an option or argument is empty"


def _check_arguments(words: Sequence[str], command: Command) -> None:
    missing = next((one for one in command.arguments[len(words) :] if one.required), None)
    extra = words[len(command.arguments) :]
    if missing is not None:
        raise _usage_error(f"Missing argument '{missing.metavar}'", command)
    if extra and not command.words:
        noun = "argument" if len(extra) == 1 else "arguments"
        raise _usage_error(f"Got unexpected extra {noun} ({' '.join(extra)})", command)
    if "" in words[: len(command.arguments)]:
        raise _usage_error("an option or argument is empty", command)


def _usage_error(problem: str, command: Command, more: str = "") -> RequestError:
    return RequestError(problem, hint=f"Usage: {command.usage} (more: {command.line} --help){more}")


def _no_option(name: str, command: Command) -> RequestError:
    problem = f"There is no option '{name}'"
    if name in [option.name for option in GENERAL]:
        return RequestError(problem, hint=f"It stands before the command: {PROGRAM.line} {name} {command.name}")
    if near := _nearest(name.lstrip("-"), [option.name.lstrip("-") for option in (*command.options, HELP)], "--"):
        return RequestError(problem, hint=near)
    takes_names = command.arguments or (command.words and command is not PROGRAM)
    dashes = f". Before a name that begins with '-', write '{END_OF_OPTIONS}'."
    return _usage_error(problem, command, dashes if takes_names else "")


def _no_command(name: str) -> RequestError:
    near = _nearest(name, [command.name for command in COMMANDS])
    return RequestError(f"There is no command '{name}'", hint=near or f"{PROGRAM.line} --help lists the commands.")


def _nearest(name: str, known: Sequence[str], prefix: str = "") -> str:
    from mcp_workbench.text.suggest import nearest  # noqa: PLC0415 -- only a wrong line needs it

    near = nearest(name, known)
    return f"Did you mean '{prefix}{near}'?" if near else ""
