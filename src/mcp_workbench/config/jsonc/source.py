"""The text of a configuration file, with line and column for every offset.

Guarantees: for anything at a path (a directory, a pipe, a device, a file that grows while it is read, any bytes),
`read_source` returns at once, reads at most the size limit, and raises only `ConfigError`. It keeps the text exactly,
with byte order mark and line ends, so that it can be written back unchanged.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from mcp_workbench.errors import ConfigError
from mcp_workbench.text.sanitize import escape

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_workbench.limits import Limits

BOM = "\ufeff"

_PLAIN_KEY = r"[^\s.\[\]'\"\\]+"
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class SourceText:
    """The text of a file, with line and column for every offset. Both start at 1; columns are characters."""

    def __init__(
        self,
        text: str,
        file: Path | str | None = None,
        *,
        writable_by_others: bool = False,
        readable_by_others: bool = False,
    ) -> None:
        self.text = text
        self.file = file
        self.writable_by_others = writable_by_others
        self.readable_by_others = readable_by_others
        self._first = len(BOM) if text.startswith(BOM) else 0
        self._last = (self._first, 1, self._first)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset. The byte order mark does not count.

        It counts on from the previous call, so that many ascending offsets cost one pass.
        """
        known, line, line_start = self._last if offset >= self._last[0] else (self._first, 1, self._first)
        line += self.text.count("\n", known, offset)
        line += self.text.count("\r", known, offset) - self.text.count("\r\n", known, offset)
        newest = max(self.text.rfind("\n", known, offset), self.text.rfind("\r", known, offset))
        line_start = newest + 1 if newest >= 0 else line_start
        self._last = (max(offset, self._first), line, line_start)
        return line, max(offset - line_start, 0) + 1

    def error(self, offset: int, problem: str, *, path: str = "", hint: str = "") -> ConfigError:
        line, column = self.position(offset)
        return ConfigError(problem, file=self.file, line=line, column=column, path=path, hint=hint)


def extend_path(path: str, step: str | int) -> str:
    """The path of a member or an item: `servers.fs`, `servers["my.fs"]`, `args[1]`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    visible = escape(step)
    if visible != step or not re.fullmatch(_PLAIN_KEY, step):
        return f'{path}["{visible}"]'
    return f"{path}.{step}" if path else step


def read_source(path: str, limits: Limits) -> SourceText:
    """The text of the file at `path`."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {reason_of(error)}", file=path, hint=_remedy(error)) from None
    try:
        status = os.fstat(descriptor)
        _check_status(status, path, limits)
        data = read_bytes(descriptor, limits.config_bytes + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {reason_of(error)}", file=path) from None
    finally:
        os.close(descriptor)
    if len(data) > limits.config_bytes:
        raise _too_large(path, limits)
    return SourceText(
        _decode(data, path),
        path,
        writable_by_others=bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)),
        readable_by_others=bool(status.st_mode & (stat.S_IRGRP | stat.S_IROTH)),
    )


def reason_of(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return "this is not a file name"


def _remedy(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "Create the file, or pass the right one with --config FILE."
    if isinstance(error, PermissionError):
        return "Make it readable for your user (chmod u+r)."
    return ""


def _check_status(status: os.stat_result, path: str, limits: Limits) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ConfigError("this is a directory, not a file", file=path, hint="Pass the file inside it.")
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("this is not a regular file", file=path, hint="Pass a file, not a pipe or a device.")
    if status.st_size > limits.config_bytes:
        raise _too_large(path, limits)


def _too_large(path: str, limits: Limits) -> ConfigError:
    return ConfigError(f"the file is larger than {limits.config_bytes} bytes", file=path, hint="Is it the right file?")


def read_bytes(descriptor: int, size: int) -> bytes:
    """At most `size` bytes from the descriptor."""
    chunks: list[bytes] = []
    while size > 0 and (chunk := os.read(descriptor, size)):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _decode(data: bytes, path: str) -> str:
    # JSON begins with ASCII, so an early NUL byte means UTF-16 or UTF-32 without a byte order mark.
    if data.startswith(_WIDE_MARKS) or b"\x00" in data[:4]:
        raise ConfigError("the file is not UTF-8, but UTF-16 or UTF-32", file=path, hint="Save it as UTF-8.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = SourceText(data[: error.start].decode("utf-8"), path)
        raise before.error(len(before.text), "a byte here is not valid UTF-8", hint="Save it as UTF-8.") from None
