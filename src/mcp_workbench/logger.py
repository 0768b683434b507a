"""The log: one event is one line on stderr.

Guarantees: untrusted text brings no control or format characters to the terminal; registered secrets never appear,
plain or encoded; no value can end early or look like another field; a log that can't be written (closed, full) never
delays a call.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, NamedTuple, Protocol, runtime_checkable

from mcp_workbench.text.redact import Redactor
from mcp_workbench.text.sanitize import NAME_SHOWN_LENGTH, escape

LOG_LINE_BYTES = 4096
"""One log line: what a pipe takes in one piece."""
LOG_VALUE_LENGTH = 500
"""Characters of one value in a log line."""
LOG_REPEAT_SECONDS = 1.0
"""An identical unexpected failure is logged at most this often. A system without free file descriptors has thousands a
second."""
LOG_EARLY_LINES = 100
"""Events that are kept until a listener is set: a warning for each variable that is not set."""

LEVELS: Final = ("debug", "info", "warning", "error", "off")

_STDERR: Final = 2


@runtime_checkable
class Identifier(Protocol):
    """The identifier of a server or a tool. `server=identifier` is logged as `toolbox=… server=…`."""

    def params(self) -> dict[str, str]: ...


class LogEvent(NamedTuple):
    """A logged line with its time, and the server that it is about, if any."""

    at: float
    level: str
    toolbox: str
    server: str
    line: str


class Log:
    """Writes events at or above a level to a file descriptor."""

    def __init__(self, descriptor: int = _STDERR, level: str = "warning") -> None:
        self._descriptor = descriptor
        self._rank = LEVELS.index(level)
        self._lost = 0
        self._early: list[LogEvent] = []
        self._listener: Callable[[LogEvent], None] = self._keep
        self.redact = Redactor()

    def set_level(self, level: str) -> None:
        self._rank = LEVELS.index(level)

    def shows(self, level: str) -> bool:
        """Whether events of this level are written."""
        return LEVELS.index(level) >= self._rank

    def event(self, level: str, message: str, values: dict[str, object]) -> None:
        if not self.shows(level):
            return
        values = _fields(values)
        pairs = "".join(f" {name}={self._value(str(value))}" for name, value in values.items() if value is not None)
        moment = time.strftime("%H:%M:%S")
        lost = f"({self._lost} lines before this one were lost) " if self._lost else ""
        line = f"{moment} {level} {lost}{message}{pairs}".encode("utf-8", "backslashreplace")
        if len(line) >= LOG_LINE_BYTES:  # cut between two characters
            line = line[: LOG_LINE_BYTES - 1].decode("utf-8", "ignore").encode()
        self._lost = 0 if self._write(line + b"\n") else self._lost + 1
        toolbox, server = (str(values.get(name) or "") for name in ("toolbox", "server"))
        self._listener(LogEvent(time.time(), level, toolbox, server, line.decode("utf-8", "replace")))

    def set_listener(self, listener: Callable[[LogEvent], None]) -> None:
        """Send every event to `listener` too, first those that were kept since the start."""
        early, self._early, self._listener = self._early, [], listener
        for event in early:
            listener(event)

    def clear_listener(self) -> None:
        """Keep events until there is a new listener."""
        self._listener = self._keep

    def _keep(self, event: LogEvent) -> None:
        if len(self._early) < LOG_EARLY_LINES:
            self._early.append(event)

    def _value(self, value: str) -> str:
        text, cut = self._clean(value, LOG_VALUE_LENGTH)
        if text and not any(character in text for character in ' "\\'):
            return escape(text, len(text)) + cut
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escape(escaped, len(escaped))}{cut}"'

    def fit(self, text: str, length: int) -> str:
        """The first `length` characters as one line, without secrets and invisible characters."""
        clean, cut = self._clean(text, length)
        return escape(clean, len(clean)) + cut

    def _clean(self, text: str, length: int) -> tuple[str, str]:
        """The first `length` characters without secrets, and the truncation mark."""
        # Redact before cutting: half a secret would not be recognised. The text may have megabytes, so read only as far
        # as a secret can reach that begins in the shown part.
        return self.redact(text[: length + self.redact.longest], end=length), "…" if len(text) > length else ""

    def _write(self, line: bytes) -> bool:
        """Write without waiting, since nobody may read the log; whether it was written."""
        try:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            if not any(state & select.POLLOUT for _, state in poll.poll(0)):
                return False
            os.write(self._descriptor, line)
        except OSError:
            return False
        return True


def _fields(values: dict[str, object]) -> dict[str, object]:
    """The fields of a log line. An identifier becomes one field per part."""
    fields: dict[str, object] = {}
    for name, value in values.items():
        fields |= value.params() if isinstance(value, Identifier) else {name: value}
    return fields


log = Log()
"""The log of this process."""


def debug(message: str, **values: object) -> None:
    log.event("debug", message, values)


def info(message: str, **values: object) -> None:
    log.event("info", message, values)


def warning(message: str, **values: object) -> None:
    log.event("warning", message, values)


def error(message: str, **values: object) -> None:
    log.event("error", message, values)


def guard(secrets: Callable[[], Iterable[str]]) -> None:
    """Log uncaught exceptions as one line, without `secrets`, instead of a traceback."""

    def report(kind: type[BaseException], value: BaseException | None, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.redact.hide(secrets())
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else None
        error("unexpected", error=_described(kind, value), where=where)

    sys.excepthook = report
    sys.unraisablehook = lambda it: report(it.exc_type, it.exc_value, it.exc_traceback)


def _described(kind: type[BaseException], value: BaseException | None) -> str:
    try:
        return repr(value) if value is not None else kind.__name__
    except Exception:  # noqa: BLE001 -- an error in its own description would bring the traceback back
        return kind.__name__


def redacted(text: str, length: int | None = None) -> str:
    """`text` without secrets, cut after `length` characters."""
    reach = None if length is None else length + log.redact.longest
    return log.redact(text[:reach], end=length)


def foreign(text: str, length: int = NAME_SHOWN_LENGTH) -> str:
    """Text from a server or the system as one line for errors, without secrets and invisible characters."""
    return log.fit(text, length)
