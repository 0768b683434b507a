"""Errors at a terminal: what is wrong, what to do, and where to read more. No other module turns errors into text."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO, cast

from mcp_workbench import logger
from mcp_workbench.cli.display import is_terminal
from mcp_workbench.cli.options import DEBUG
from mcp_workbench.errors import (
    CallFailed,
    ConfigError,
    ConnectFailed,
    Fault,
    RequestError,
    ToolboxFailed,
    WorkbenchError,
)
from mcp_workbench.text.sanitize import escape

FAILURE = 1
USAGE = 2
"""The exit status for a command line or a configuration that can't be used."""
INTERRUPTED = 130
"""As a shell has it for a program that Ctrl-C ended."""

_OF_SERVERS = (Fault, ConnectFailed, CallFailed, ToolboxFailed)
_UNWRITABLE = frozenset((errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""How stdout fails. What fails with a file of ours is a `WorkbenchError`, or knows its name."""


def report(error: WorkbenchError) -> int:
    """Tell the person on stderr; the exit status."""
    # Why servers fail takes more than a line to explain; the other hints say all there is to know.
    more = _page_of(error) if error.hint and isinstance(error, _OF_SERVERS) else ""
    tell(str(error), hint_of(error), more)
    return exit_status(error)


def exit_status(error: WorkbenchError) -> int:
    return USAGE if isinstance(error, ConfigError | RequestError) else FAILURE


def hint_of(error: WorkbenchError) -> str:
    """What to do; where nobody knows, where it is explained."""
    return error.hint or f"Run: {_page_of(error)}"


def _page_of(error: WorkbenchError) -> str:
    return f"mcp-workbench docs errors#{error.wire_code}"


def say(text: str) -> None:
    """A line for the person who waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A line on stderr, next to the answer on stdout. Where it can't be written, the command goes on."""
    _write(f"{_one_line(text)}\n")


def tell(problem: str, hint: str, more: str = "") -> None:
    """A line for each, however many there are in the texts. Where nobody can be told, the exit status says enough."""
    _write(f"error: {_one_line(problem)}\nhint: {_one_line(hint)}\n" + (f"more: {more}\n" if more else ""))


def reported(run: Callable[[], int], *, is_debugging: bool) -> int:
    """The exit status of a command; what goes wrong with it is two lines, and also where, if somebody asks for that."""
    _open_streams()
    try:
        status = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:  # noqa: BLE001 -- the end of the program: a person is told, without a traceback
        if is_debugging:
            _show_traceback(error)
        return _told(error)
    return status


def _told(error: Exception) -> int:
    if isinstance(error, WorkbenchError):
        return report(error)
    if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
        return _told_of_output(error)
    what = logger.redacted(f"{type(error).__name__}: {error}".rstrip(": "))
    tell(what, f"Run it again as 'mcp-workbench {DEBUG.name} ...' to see where that came from, and please report it.")
    return FAILURE


def _told_of_output(error: OSError) -> int:
    _drop(sys.stdout)
    if error.errno == errno.EPIPE:  # who read the output has seen enough
        return 0
    tell(f"the output can't be written: {error.strerror}", "Make room where it goes, or send it elsewhere.")
    return FAILURE


def _show_traceback(error: Exception) -> None:
    import traceback  # noqa: PLC0415 -- hardly anybody asks

    _write(logger.redacted("".join(traceback.format_exception(error))))


def _interrupted() -> int:
    if sys.stderr is not None and sys.stderr.isatty():
        _write("\n")  # what comes next does not begin behind the ^C
    return INTERRUPTED


def _one_line(text: str) -> str:
    return " | ".join(escape(line, len(line)) for line in text.expandtabs().splitlines())


# -- the streams


def _open_streams() -> None:
    """One that was closed is as good as /dev/null, and what the output can't encode is escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        codecs.register_error("escaped", _escaped)
        cast("io.TextIOWrapper[Any]", stdout).reconfigure(errors="escaped")


def _write(text: str) -> None:
    if sys.stderr is None:  # it was closed when Python started
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """As JSON has it, in a JSON document and elsewhere."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end


def _drop(stream: TextIO) -> None:
    """Let what is left in a stream go nowhere: it would be tried again, and fail, at the very end."""
    with suppress(io.UnsupportedOperation):  # it is no file
        descriptor = stream.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, descriptor)
        os.close(nothing)


def is_agreed(question: str, *, to: TextIO | None = None) -> bool:
    """Whether the person at the terminal says yes. Anything else is a no, the end of the input too."""
    stream = to if to is not None else sys.stdout
    forget_typed()
    stream.write(f"{question} [y/N] ")
    stream.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def forget_typed() -> None:
    """Drop what was typed so far, before a question is shown to which it could pass for the answer."""
    if is_terminal(sys.stdin):
        with contextlib.suppress(termios.error):  # the terminal has gone away, and so has the person
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
