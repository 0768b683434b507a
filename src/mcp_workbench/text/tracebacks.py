"""Shortens the output of a failed program to the error and the last frames of its own code.

It reads tracebacks of Python, including exception groups, and of Node, also if their beginning is missing. Of a text
without a traceback it keeps the last lines. It adds and rewords nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_MOST_FRAMES: Final = 3
"""The failing frame and its callers."""
_MOST_LINES: Final = 6
"""Lines of an error, and of a text without a traceback."""

_GROUP_PREFIX: Final = r"^\s*(?:\| ?|\+-[-+ \d.]*$|\+ )"
"""The prefix of each line of an exception group."""
_PYTHON_FRAME: Final = r'\s+File "(.+)", line \d+(?:, in .+)?'
_NODE_FRAME: Final = r"\s+at (?:.* )?\(?(.+?)(?::\d+){0,2}\)?(?: \{)?"
_NODE_ERROR: Final = r"(?:Uncaught )?[A-Za-z_$][\w$.]*(?: \[\w+\])?: .*"
_LIBRARY: Final = r"<.*>|node:.*|.*/lib/python[\d.]*/(?!site-packages/).*"
_LAUNCHER: Final = r".*/bin/[^/]+"
_PACKAGE: Final = r".*/(?:site-packages|node_modules)/((?:@[^/]+/)?[^/]+).*"


class _Frame(NamedTuple):
    path: str
    lines: tuple[str, ...]

    @property
    def package(self) -> str:
        match = re.fullmatch(_PACKAGE, self.path)
        return match[1] if match is not None else ""


def useful_lines(text: str) -> list[str]:
    """The lines of `text` that say what went wrong."""
    lines = [line.rstrip() for line in text.splitlines()]
    return _of_python(lines) or _of_node(lines) or [line for line in lines if line][-_MOST_LINES:]


def shorten(failure: str) -> list[str]:
    """Our error, which may end with a program's output: its first line, then the useful lines of the rest."""
    head, _, rest = failure.partition("\n")
    return [head, *useful_lines(rest)]


def on_one_line(failure: str) -> str:
    """Our error on one line, without frames."""
    frame = rf"{_PYTHON_FRAME}|{_NODE_FRAME}"
    lines = shorten(failure)
    is_frame = [re.fullmatch(frame, line) is not None for line in lines]
    is_code = [line.startswith("    ") and before for line, before in zip(lines, [False, *is_frame], strict=False)]
    kept = (line for line, frame, code in zip(lines, is_frame, is_code, strict=True) if not frame and not code)
    return " ".join(line.strip() for line in kept if line.strip())


def _of_python(lines: Sequence[str]) -> list[str]:
    """The own frames of the last traceback, then its exception."""
    if any(re.match(r"\s+[|+] ", line) for line in lines):
        lines = [re.sub(_GROUP_PREFIX, "", line) for line in lines]
    at = [number for number, line in enumerate(lines) if re.fullmatch(_PYTHON_FRAME, line)]
    after = range(at[-1] + 1 if at else len(lines), len(lines))
    end = next((number for number in after if lines[number] and not lines[number][0].isspace()), None)
    if end is None:
        return []
    begin = max((number for number in range(end) if lines[number].startswith("Traceback (")), default=-1)
    starts = [number for number in at if number > begin]
    frames = [
        _Frame(_path(_PYTHON_FRAME, lines[start]), tuple(line for line in lines[start:stop] if line.strip(" ^~")))
        for start, stop in zip(starts, [*starts[1:], end], strict=True)
    ]
    own = [line for frame in _own(frames)[-_MOST_FRAMES:] for line in frame.lines]
    return [*own, *_paragraph(lines[end:])]


def _of_node(lines: Sequence[str]) -> list[str]:
    """The error, then the own frames of the last stack, innermost first."""
    at = [number for number, line in enumerate(lines) if re.fullmatch(_NODE_FRAME, line)]
    if not at:
        return []
    first = next(number for number in reversed(at) if number - 1 not in at)
    begin = first
    while begin > 0 and lines[begin - 1] and not re.fullmatch(_NODE_ERROR, lines[begin]):
        begin -= 1
    stack = [lines[number].removesuffix(" {") for number in at if number >= first]
    frames = [_Frame(_path(_NODE_FRAME, line), (line,)) for line in reversed(stack)]
    own = [line for frame in _own(frames)[-_MOST_FRAMES:] for line in frame.lines]
    return [*_paragraph(lines[begin:first]), *reversed(own)]


def _own(frames: Sequence[_Frame]) -> Sequence[_Frame]:
    """The frames of the program's own code, outermost first. A launcher's program is a package."""
    code = [frame for frame in frames if not re.fullmatch(_LIBRARY, frame.path)]
    own = [frame for frame in code if not frame.package and not re.fullmatch(_LAUNCHER, frame.path)]
    package = next((frame.package for frame in code if frame.package), "")
    return own or [frame for frame in code if package and frame.package == package] or frames


def _paragraph(lines: Sequence[str]) -> list[str]:
    """The first lines, up to an empty one."""
    end = lines.index("") if "" in lines else len(lines)
    return list(lines[:end][:_MOST_LINES])


def _path(frame: str, line: str) -> str:
    match = re.fullmatch(frame, line)
    return match[1] if match is not None else ""
