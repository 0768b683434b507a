"""What the record has one after the other, lines of logs or calls, each as a person and as a program is told of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mcp_workbench.activity.reading import LoggedLine, Reader, RecordedCall
from mcp_workbench.cli.display import Tone, Words
from mcp_workbench.cli.happenings import milliseconds, moment, time_of_day
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import escape, slashed

_TONES: Final[Mapping[str, Tone]] = {"debug": "quiet", "info": "", "warning": "doubtful", "error": "bad"}


class Entry(ABC):
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


class Entries(ABC):
    """All of one kind."""

    most: int
    """How many are kept."""
    nothing: str
    """What workbenches have not done where there are none."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @abstractmethod
    def after(self, last: int, *, everything: bool) -> Sequence[Entry]:
        """Those behind one, of workbenches that run or of all."""

    @abstractmethod
    def newest(self) -> int:
        """The number of the last one; they begin anew in a record that was made anew."""


class Lines(Entries):
    most = DEFAULTS.record_lines
    nothing = "logged such lines"

    def after(self, last: int, *, everything: bool) -> Sequence[Entry]:
        return [LineEntry(line) for line in self._reader.lines(last, everything=everything)]

    def newest(self) -> int:
        return self._reader.newest_line()


class Calls(Entries):
    most = DEFAULTS.record_calls
    nothing = "had such calls"

    def after(self, last: int, *, everything: bool) -> Sequence[Entry]:
        return [CallEntry(call) for call in self._reader.calls(last, everything=everything)]

    def newest(self) -> int:
        return self._reader.newest_call()


class LineEntry(Entry):
    def __init__(self, line: LoggedLine) -> None:
        self.id, self.level, self.toolbox, self.server = line.id, line.level, line.toolbox, line.server
        self._line = line

    def words(self) -> Iterator[Words]:
        yield Words(f"{self._line.pid} {self._line.text}", _TONES.get(self.level, ""))

    def document(self) -> dict[str, Any]:
        line = self._line
        about = {"level": line.level, "toolbox": line.toolbox or None, "server": line.server or None, "line": line.text}
        return {"at": moment(line.at), "pid": line.pid, **about}


class CallEntry(Entry):
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
