"""`mcp-workbench logs`: what running workbenches log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mcp_workbench.cli.answering import answered
from mcp_workbench.cli.display import Tone, Words, write
from mcp_workbench.cli.happenings import moment
from mcp_workbench.cli.status import find_record
from mcp_workbench.errors import RequestError
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.observe import LEVELS
from mcp_workbench.record.reading import LoggedLine

HELP = """Show the last lines that the workbenches that run have logged, as they wrote them to stderr.

Hosts keep what a server writes to stderr in files of their own, if at all. The lines here are the same, of all
workbenches of this user in one place, without secrets. At which level is logged is said where a workbench is
started (--log-level, $WORKBENCH_LOG)."""

_TONES: Mapping[str, Tone] = {"debug": "quiet", "info": "", "warning": "doubtful", "error": "bad"}


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Mapping[str, str]) -> int:
    most, is_meant = _count(options), _filter(options)
    reader, everything = find_record(), "all" in options
    last = max((line.id for line in reader.lines(everything=True)), default=0)
    lines = [line for line in reader.lines(everything=everything) if line.id <= last]
    meant = [line for line in lines if is_meant(line)]
    _show(meant[-most:] if most else (), options)
    if "follow" not in options:
        if not meant and "json" not in options:
            write(_nothing(everything=everything), to=sys.stderr)
        return 0
    try:
        while True:
            time.sleep(DEFAULTS.shown_every_seconds)
            if reader.newest_line() < last:
                last = 0
            # A workbench that ends meanwhile still says why.
            lines = reader.lines(last, everything=True)
            last = max((line.id for line in lines), default=last)
            _show([line for line in lines if is_meant(line)], options)
    except KeyboardInterrupt:
        return 0


def _show(lines: Sequence[LoggedLine], options: Mapping[str, str]) -> None:
    if "json" in options:
        sys.stdout.writelines(msgspec.json.encode(_as_json(line)).decode() + "\n" for line in lines)
    elif lines:
        write(*(Words(f"{line.pid} {line.text}", _TONES.get(line.level, "")) for line in lines))
    sys.stdout.flush()


def _nothing(*, everything: bool) -> str:
    """What a person is told who would see nothing."""
    if everything:
        return "No workbench has logged such lines."
    return "No workbench that runs has logged such lines. Those that ended: logs --all"


def _as_json(line: LoggedLine) -> dict[str, Any]:
    return {
        "at": moment(line.at),
        "pid": line.pid,
        "level": line.level,
        "server": line.server or None,
        "line": line.text,
    }


def _filter(options: Mapping[str, str]) -> Callable[[LoggedLine], bool]:
    server, rank = options.get("server", ""), LEVELS.index(options.get("level", LEVELS[0]))

    def is_meant(line: LoggedLine) -> bool:
        is_about = not server or line.server == server or line.server.startswith(f"{server}/")
        return is_about and (line.level not in LEVELS or LEVELS.index(line.level) >= rank)

    return is_meant


def _count(options: Mapping[str, str]) -> int:
    """How many lines. Raises `RequestError`."""
    written = options.get("lines", str(DEFAULTS.logs_lines))
    if not (written.isascii() and written.isdigit()):
        raise RequestError("--lines must be a whole number", hint="Write, for example, --lines 100")
    return min(int(written[: len(str(DEFAULTS.record_lines)) + 1]), DEFAULTS.record_lines)
