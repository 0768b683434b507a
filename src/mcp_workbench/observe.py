"""What people are told about a running workbench: one event is one line on stderr.

Guarantees: no control or format character of foreign text reaches the terminal; no secret that
was registered with `hide` appears, plain, base64 or URL-encoded; a log that can't be written
(closed, full) never disturbs a call. It keeps no state but the level and the secrets.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from typing import Final

from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown

LEVELS: Final = ("debug", "info", "warning", "error", "off")

_STDERR: Final = 2


class Redactor:
    """Replaces secrets by `***`, also in their usual encodings."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()

    def hide(self, secrets: Iterable[str]) -> None:
        """Never show these again. Short values and plain paths are spared: they are no secrets."""
        forms = {form for secret in secrets if _is_worth_hiding(secret) for form in _forms(secret)}
        # The longest first, so that a secret that contains another one disappears whole.
        self._forms = tuple(sorted({*self._forms, *forms}, key=len, reverse=True))

    @property
    def longest(self) -> int:
        """Characters of the longest form of a secret."""
        return len(self._forms[0]) if self._forms else 0

    def __call__(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, "***")
        return text


def _is_worth_hiding(value: str) -> bool:
    if len(value) < DEFAULTS.secret_length:
        return False
    ambient = (os.environ.get(name) for name in ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TMPDIR"))
    return value not in ambient and not (value.startswith("/") and os.path.exists(value))  # noqa: PTH110 -- pathlib costs a start-up import


def _forms(secret: str) -> set[str]:
    """A secret as it may turn up: plain or encoded, escaped as JSON or Python do, whole or line by line."""
    import base64  # noqa: PLC0415 -- only where there are secrets
    import json  # noqa: PLC0415
    from urllib.parse import quote, quote_plus  # noqa: PLC0415

    forms: set[str] = set()
    for part in {secret, *secret.splitlines()}:
        raw = part.encode("utf-8", "surrogatepass")
        forms |= {part, shown(part, len(part)), quote(raw, safe=""), quote(raw), quote_plus(raw)}
        forms |= {text.decode().rstrip("=") for text in (base64.b64encode(raw), base64.urlsafe_b64encode(raw))}
        forms |= {
            json.dumps(part)[1:-1],
            json.dumps(part, ensure_ascii=False)[1:-1],
            repr(part)[1:-1],
            ascii(part)[1:-1],
        }
    return {form for form in forms if len(form) >= DEFAULTS.secret_length}


class Log:
    """Writes events at or above a level to a file descriptor."""

    def __init__(self, descriptor: int = _STDERR, level: str = "warning") -> None:
        self._descriptor = descriptor
        self._rank = LEVELS.index(level)
        self._lost = 0
        self.redact = Redactor()

    def set_level(self, level: str) -> None:
        self._rank = LEVELS.index(level)

    def event(self, level: str, message: str, values: dict[str, object]) -> None:
        if LEVELS.index(level) < self._rank:
            return
        # Redacted before they are cut: half a secret would no longer be recognised.
        texts = {name: self.redact(str(value)) for name, value in values.items() if value is not None}
        pairs = "".join(f" {name}={_value(text)}" for name, text in texts.items())
        moment = time.strftime("%H:%M:%S")
        lost = f"({self._lost} lines before this one were lost) " if self._lost else ""
        line = f"{moment} {level} {lost}{message}{pairs}".encode("utf-8", "backslashreplace")
        if len(line) >= DEFAULTS.log_line_bytes:  # cut between two characters
            line = line[: DEFAULTS.log_line_bytes - 1].decode("utf-8", "ignore").encode()
        self._lost = 0 if self._write(line + b"\n") else self._lost + 1

    def _write(self, line: bytes) -> bool:
        """Write without waiting: nobody may suffer from a log that is not read. Whether it was written."""
        try:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            if not any(state & select.POLLOUT for _, state in poll.poll(0)):
                return False
            os.write(self._descriptor, line)
        except OSError:
            return False
        return True


def _value(value: str) -> str:
    text = shown(value, DEFAULTS.log_value_length)
    return f'"{text}"' if not text or " " in text or '"' in text else text


log = Log()
"""The one sink of this process."""


def debug(message: str, **values: object) -> None:
    log.event("debug", message, values)


def info(message: str, **values: object) -> None:
    log.event("info", message, values)


def warning(message: str, **values: object) -> None:
    log.event("warning", message, values)


def error(message: str, **values: object) -> None:
    log.event("error", message, values)


def redacted(text: str) -> str:
    """`text` without secrets."""
    return log.redact(text)


def foreign(text: str, length: int = DEFAULTS.name_shown_length) -> str:
    """Text from a server or the system, fit for an error: one line, no secrets, nothing invisible."""
    # As far as a secret that begins in what is shown may reach: the rest may be megabytes.
    return shown(log.redact(text[: length + log.redact.longest]), length)
