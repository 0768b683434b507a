"""The commands that a command comes down to, where programs stand before it that only start another one.

Those are `env` and the like, shells that are given a line, and `cmd /c`. A line is read as words and operators; what a
shell would put in the place of `$...` is not known here. A line whose quotes do not close is left alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

Words: TypeAlias = list[str]

_BEFORE: Final[Mapping[str, str]] = {
    "env": r"-u|--unset|-C|--chdir",
    "nice": r"-n|--adjustment",
    "time": r"-o|--output|-f|--format",
    "exec": r"-a",
    **dict.fromkeys(("nohup", "command", "if", "then", "else", "do", "while", "!", "{"), r"(?!)"),
}
"""What stands before a command, and which options of it have a value."""
_SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_SHELL_VALUES: Final = r"[-+]\w*[oO]|--rcfile|--init-file"
_LINE_FOLLOWS: Final = r"-[A-Za-z]*c[A-Za-z]*"
_ASSIGNMENT: Final = r"(?s:[A-Za-z_]\w*=.*)"
_OPERATORS: Final = "();<>|&\n"


def name_of(program: str) -> str:
    """A program without its folder, and without what Windows adds."""
    return re.sub(r"\.(?:exe|cmd|bat)$", "", re.split(r"[/\\]", program)[-1].lower())


def simple_commands(command: Sequence[str]) -> Iterator[Words]:
    """Each command that is started in the end, in order: its program and its arguments."""
    waiting = [list(command)]
    while waiting:
        words = waiting.pop()
        inner = _inside(words)
        if inner is None:
            yield words
        else:
            waiting.extend(reversed([one for one in inner if one]))


def read_options(words: Sequence[str], with_value: str) -> tuple[list[tuple[str, str]], Words]:
    """The options at the beginning, each with its value, and what follows them."""
    options: list[tuple[str, str]] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        name, equals, value = words[at].partition("=")
        at += 1
        if name == "--":
            break
        if not equals and at < len(words) and re.fullmatch(with_value, name):
            value = words[at]
            at += 1
        options.append((name, value))
    return options, list(words[at:])


def _inside(words: Words) -> Iterable[Words] | None:
    """What a program starts that only starts another one; None where it is no such program."""
    program = name_of(words[0])
    if program in _BEFORE or re.fullmatch(_ASSIGNMENT, words[0]):
        return [_behind(words)]
    if program in _SHELLS:
        options, rest = read_options(words[1:], _SHELL_VALUES)
        has_line = any(re.fullmatch(_LINE_FOLLOWS, name) for name, _ in options)
        return _of_line(rest[0]) if has_line and rest else []
    if program == "cmd":
        return _of_cmd(words[1:])
    return None


def _behind(words: Words) -> Words:
    """What stands behind all that stands before a command."""
    at = 0
    while at < len(words):
        with_value = _BEFORE.get(name_of(words[at]))
        if with_value is not None:
            at = len(words) - len(read_options(words[at + 1 :], with_value)[1])
        elif re.fullmatch(_ASSIGNMENT, words[at]):
            at += 1
        else:
            break
    return words[at:]


def _of_line(line: str) -> list[Words]:
    reader = shlex.shlex(line, posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t\r", True, ""
    commands: list[Words] = [[]]
    try:
        for word in reader:
            if not word or word.strip(_OPERATORS):
                commands[-1].append(word)
            elif "<" in word or ">" in word:
                next(reader, "")  # the file of it
            else:
                commands.append([])
    except ValueError:
        return []
    return commands


def _of_cmd(words: Words) -> list[Words]:
    at = next((at for at, word in enumerate(words) if word.lower() in ("/c", "/k")), len(words))
    line = " ".join(words[at + 1 :])
    return [part.replace('"', "").split() for part in re.split(r"[&|]+", line)]
