"""Reports errors at a terminal: the problem, a hint, and a page. No other module turns errors into text."""

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
"""The exit status for an invalid command line or configuration."""
INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells report it."""

_OF_SERVERS = (Fault, ConnectFailed, CallFailed, ToolboxFailed)
_UNWRITABLE = frozenset((errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""Errors of stdout. An error of a file is a `WorkbenchError`, or has a file name."""


def report(error: WorkbenchError) -> int:
    """Print an error to stderr; return the exit status."""
    # Failures of servers need more explanation than a hint.
    more = _page_of(error) if error.hint and isinstance(error, _OF_SERVERS) else ""
    print_error(str(error), hint_of(error), more)
    return exit_status(error)


def exit_status(error: WorkbenchError) -> int:
    return USAGE if isinstance(error, ConfigError | RequestError) else FAILURE


def hint_of(error: WorkbenchError) -> str:
    """The hint of an error, or the command that explains its code."""
    return error.hint or f"Run: {_page_of(error)}"


def _page_of(error: WorkbenchError) -> str:
    return f"mcp-workbench docs errors#{error.wire_code}"


def say(text: str) -> None:
    """Print a line to stdout at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line to stderr. If that fails, the command continues."""
    _write(f"{_one_line(text)}\n")


def print_error(problem: str, hint: str, more: str = "") -> None:
    """Print each on one line, whatever line ends it contains. If that fails, the exit status remains."""
    _write(f"error: {_one_line(problem)}\nhint: {_one_line(hint)}\n" + (f"more: {more}\n" if more else ""))


def run_reporting_errors(run: Callable[[], int], *, is_debugging: bool) -> int:
    """Run a command; return the exit status. Report any error in two lines, with `--debug` also a traceback."""
    _open_streams()
    try:
        status = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:  # noqa: BLE001 -- the top of the program
        if is_debugging:
            _show_traceback(error)
        return _report_exception(error)
    return status


def _report_exception(error: Exception) -> int:
    if isinstance(error, WorkbenchError):
        return report(error)
    if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
        return _report_output_error(error)
    what = logger.redacted(f"{type(error).__name__}: {error}".rstrip(": "))
    print_error(what, f"Run it again as 'mcp-workbench {DEBUG.name} ...' for a traceback, and please report it.")
    return FAILURE


def _report_output_error(error: OSError) -> int:
    _drop(sys.stdout)
    if error.errno == errno.EPIPE:  # the reader of the pipe has exited
        return 0
    print_error(f"the output can't be written: {error.strerror}", "Free some space, or write the output elsewhere.")
    return FAILURE


def _show_traceback(error: Exception) -> None:
    import traceback  # noqa: PLC0415 -- rarely needed

    _write(logger.redacted("".join(traceback.format_exception(error))))


def _interrupted() -> int:
    if sys.stderr is not None and sys.stderr.isatty():
        _write("\n")  # end the line of the ^C
    return INTERRUPTED


def _one_line(text: str) -> str:
    return " | ".join(escape(line, len(line)) for line in text.expandtabs().splitlines())


# -- the streams


def _open_streams() -> None:
    """Replace closed streams with /dev/null, and escape characters that stdout can't encode."""
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
    """Encode errors as JSON escapes, which are valid in JSON output and readable elsewhere."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end


def _drop(stream: TextIO) -> None:
    """Discard the buffer of a stream: Python would flush it at exit, and fail."""
    with suppress(io.UnsupportedOperation):  # not a file
        descriptor = stream.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, descriptor)
        os.close(nothing)


def is_agreed(question: str, *, to: TextIO | None = None) -> bool:
    """Ask a yes/no question. Anything but yes means no, the end of the input too."""
    stream = to if to is not None else sys.stdout
    discard_typed_input()
    stream.write(f"{question} [y/N] ")
    stream.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def discard_typed_input() -> None:
    """Discard typed-ahead input, so that it does not answer the next question."""
    if is_terminal(sys.stdin):
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
