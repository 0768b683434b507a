"""`mcp-workbench logs`: shows the log lines of running workbenches, or their tool calls."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mcp_workbench.activity.reading import LoggedLine, RecordedCall, RecordReader
from mcp_workbench.cli.display import REFRESH_SECONDS, Tone, Words, write
from mcp_workbench.cli.status import find_record
from mcp_workbench.cli.status_view import milliseconds, moment, time_of_day
from mcp_workbench.errors import RequestError
from mcp_workbench.logger import LEVELS
from mcp_workbench.text.sanitize import escape, slashed

_TONES: Final[Mapping[str, Tone]] = {"debug": "quiet", "info": "", "warning": "doubtful", "error": "bad"}


class LogLine(ABC):
    """A log line or a call. It is formatted only when it is shown, which most are not."""

    id: int
    level: str
    toolbox: str
    server: str
    """The server that the entry is about; `toolbox` and `server` are empty if there is none."""

    @property
    def about(self) -> tuple[str, str]:
        """The values of `--server` that match it."""
        return slashed(self.toolbox), slashed(self.toolbox, self.server)

    @abstractmethod
    def words(self) -> Iterator[Words]:
        """The entry as text."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The entry as JSON."""


class Source(NamedTuple):
    """Where entries of one kind come from."""

    after: Callable[[int, bool], Sequence[LogLine]]
    """The entries after one, by its number: of running workbenches, or of all."""
    newest: Callable[[], int]
    """The number of the last entry. Numbers start over when the record is created again."""
    activity: str
    """Completes "No workbench has ..."."""


def _lines(reader: RecordReader) -> Source:
    def after(last: int, everything: bool) -> list[LogLine]:  # noqa: FBT001 -- two sources share the signature
        return [LineEntry(line) for line in reader.lines(last, everything=everything)]

    return Source(after, reader.newest_line, "logged such lines")


def _calls(reader: RecordReader) -> Source:
    def after(last: int, everything: bool) -> list[LogLine]:  # noqa: FBT001
        return [CallEntry(call) for call in reader.calls(last, everything=everything)]

    return Source(after, reader.newest_call, "had such calls")


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


_MOST_DIGITS = 9
LOGS_LINES = 50
"""The default of `--lines`: two screens."""

HELP = """Show the last lines that running workbenches wrote to stderr.

Some hosts keep the stderr of a server in a file, others drop it. This command shows the lines of all your
workbenches in one place, without secrets. To change the level, start the workbench with --log-level or
$WORKBENCH_LOG.

With --calls it shows tool calls instead, each with its duration and outcome. If the configuration has
"record": "full", it also shows their arguments and results."""


def run(options: Mapping[str, str]) -> int:
    everything, most, is_meant = "all" in options, _count(options), _filter(options)
    source = (_calls if "calls" in options else _lines)(find_record())
    last = source.newest()
    found = source.after(0, everything)
    meant = [entry for entry in found if entry.id <= last and is_meant(entry)]
    _show(meant[-most:] if most else (), options)
    if "follow" not in options:
        if not meant and "json" not in options:
            write(_nothing(source, everything=everything), to=sys.stderr)
        return 0
    try:
        while True:
            time.sleep(REFRESH_SECONDS)
            if source.newest() < last:
                last = 0
            # Includes ended workbenches: the last lines say why one ended.
            entries = source.after(last, True)  # noqa: FBT003
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


def _nothing(source: Source, *, everything: bool) -> str:
    """The message if there is nothing to show."""
    if everything:
        return f"No workbench has {source.activity}."
    return f"No running workbench has {source.activity}. For ended ones: logs --all"


def _filter(options: Mapping[str, str]) -> Callable[[LogLine], bool]:
    server, rank = options.get("server", ""), LEVELS.index(options.get("level", LEVELS[0]))

    def is_meant(entry: LogLine) -> bool:
        return (not server or server in entry.about) and (
            entry.level not in LEVELS or LEVELS.index(entry.level) >= rank
        )

    return is_meant


def _count(options: Mapping[str, str]) -> int:
    """The number of entries to show. Raises `RequestError`."""
    written = options.get("lines", str(LOGS_LINES))
    if not (written.isascii() and written.isdigit()):
        raise RequestError("--lines must be a whole number", hint="Write, for example, --lines 100")
    return int(written[:_MOST_DIGITS])
