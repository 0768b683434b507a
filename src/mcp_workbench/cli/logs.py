"""`mcp-workbench logs`: what running workbenches log, and the calls that they made."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mcp_workbench.activity.reading import LoggedLine, RecordedCall, RecordReader
from mcp_workbench.cli.display import SHOWN_EVERY_SECONDS, Tone, Words, write
from mcp_workbench.cli.json_output import answered
from mcp_workbench.cli.status import find_record
from mcp_workbench.cli.status_view import milliseconds, moment, time_of_day
from mcp_workbench.errors import RequestError
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.logger import LEVELS
from mcp_workbench.text.sanitize import escape, slashed

_TONES: Final[Mapping[str, Tone]] = {"debug": "quiet", "info": "", "warning": "doubtful", "error": "bad"}


class LogLine(ABC):
    """One of them. What is told of it is made when it is shown: most are not."""

    id: int
    level: str
    toolbox: str
    server: str
    """The server that the line is about; `toolbox` and `server` are empty if there is none."""

    @property
    def about(self) -> tuple[str, str]:
        """Its toolbox and server, for `--server`."""
        return slashed(self.toolbox), slashed(self.toolbox, self.server)

    @abstractmethod
    def words(self) -> Iterator[Words]:
        """For a person."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """For a program."""


class LogView(ABC):
    """All of one kind."""

    most: int
    """How many are kept."""
    nothing: str
    """What workbenches have not done where there are none."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader

    @abstractmethod
    def after(self, last: int, *, everything: bool) -> Sequence[LogLine]:
        """Those behind one, of workbenches that run or of all."""

    @abstractmethod
    def newest(self) -> int:
        """The number of the last one; they begin anew in a record that was made anew."""


class Lines(LogView):
    most = DEFAULTS.record_lines
    nothing = "logged such lines"

    def after(self, last: int, *, everything: bool) -> Sequence[LogLine]:
        return [LineEntry(line) for line in self._reader.lines(last, everything=everything)]

    def newest(self) -> int:
        return self._reader.newest_line()


class CallLog(LogView):
    most = DEFAULTS.record_calls
    nothing = "had such calls"

    def after(self, last: int, *, everything: bool) -> Sequence[LogLine]:
        return [CallEntry(call) for call in self._reader.calls(last, everything=everything)]

    def newest(self) -> int:
        return self._reader.newest_call()


class LineEntry(LogLine):
    def __init__(self, line: LoggedLine) -> None:
        self.id, self.level, self.toolbox, self.server = line.id, line.level, line.toolbox, line.server
        self._line = line

    def words(self) -> Iterator[Words]:
        yield Words(f"{self._line.pid} {self._line.text}", _TONES.get(self.level, ""))

    def document(self) -> dict[str, Any]:
        line = self._line
        about = {"level": line.level, "toolbox": line.toolbox or None, "server": line.server or None, "line": line.text}
        return {"at": moment(line.at), "pid": line.pid, **about}


class CallEntry(LogLine):
    def __init__(self, call: RecordedCall) -> None:
        self.id, self.toolbox, self.server = call.id, call.toolbox, call.server
        self.level = "error" if call.outcome else "info"
        self._call = call

    def words(self) -> Iterator[Words]:
        call = self._call
        tool = slashed(call.toolbox, call.server, call.tool)
        began = time_of_day(call.at)
        took = milliseconds(call.milliseconds)
        yield Words(f"{call.pid} {began} {tool} {took} {call.outcome or 'ok'}", _TONES[self.level])
        for name, text in (("arguments", call.arguments), ("result", call.result)):
            if text:
                yield Words(f"{name} {escape(text, len(text))}", "quiet", 2)

    def document(self) -> dict[str, Any]:
        call = self._call
        return {
            "at": moment(call.at),
            "pid": call.pid,
            "toolbox": call.toolbox,
            "server": call.server,
            "tool": call.tool,
            "ms": round(call.milliseconds, 3),
            "error": call.outcome or None,
            "arguments_text": call.arguments,
            "result_text": call.result,
        }


LOGS_LINES = 50
"""Lines that `mcp-workbench logs` shows: two screens."""

HELP = """Show the last lines that running workbenches wrote to stderr.

Hosts keep the stderr of a server in files of their own, or not at all. These are the same lines, of all your
workbenches in one place and without secrets. To change the level, start the workbench with --log-level or
$WORKBENCH_LOG.

With --calls it shows tool calls instead, each with its duration and outcome. If the configuration has
"record": "full", it also shows their arguments and results."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Mapping[str, str]) -> int:
    kind, everything = CallLog if "calls" in options else Lines, "all" in options
    most, is_meant = _count(options, kind.most), _filter(options)
    source = kind(find_record())
    last = source.newest()
    found = source.after(0, everything=everything)
    meant = [entry for entry in found if entry.id <= last and is_meant(entry)]
    _show(meant[-most:] if most else (), options)
    if "follow" not in options:
        if not meant and "json" not in options:
            write(_nothing(source, everything=everything), to=sys.stderr)
        return 0
    try:
        while True:
            time.sleep(SHOWN_EVERY_SECONDS)
            if source.newest() < last:
                last = 0
            # A workbench that ends meanwhile still says why.
            entries = source.after(last, everything=True)
            last = max((entry.id for entry in entries), default=last)
            _show([entry for entry in entries if is_meant(entry)], options)
    except KeyboardInterrupt:
        return 0


def _show(entries: Sequence[LogLine], options: Mapping[str, str]) -> None:
    if "json" in options:
        sys.stdout.writelines(msgspec.json.encode(entry.document()).decode() + "\n" for entry in entries)
    elif entries:
        write(*(words for entry in entries for words in entry.words()))
    sys.stdout.flush()


def _nothing(source: LogView, *, everything: bool) -> str:
    """What a person is told who would see nothing."""
    if everything:
        return f"No workbench has {source.nothing}."
    return f"No workbench that runs has {source.nothing}. Those that ended: logs --all"


def _filter(options: Mapping[str, str]) -> Callable[[LogLine], bool]:
    server, rank = options.get("server", ""), LEVELS.index(options.get("level", LEVELS[0]))

    def is_meant(entry: LogLine) -> bool:
        return (not server or server in entry.about) and (
            entry.level not in LEVELS or LEVELS.index(entry.level) >= rank
        )

    return is_meant


def _count(options: Mapping[str, str], most: int) -> int:
    """How many of them. Raises `RequestError`."""
    written = options.get("lines", str(LOGS_LINES))
    if not (written.isascii() and written.isdigit()):
        raise RequestError("--lines must be a whole number", hint="Write, for example, --lines 100")
    return min(int(written[: len(str(most)) + 1]), most)
