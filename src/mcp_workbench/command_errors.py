"""Failures that end a command and are reported to the person who typed it.

WorkbenchError
├── ListenFailed        `serve --http` can't listen on its address
├── LoginFailed         a login at a terminal failed
│   └── LoginRefused    the authorization server refused the login
├── TrustFailed         no terminal to confirm in, or the list of trusted projects can't be used
├── ConfigError
│   └── ConfigNotTrusted    the user does not trust the configuration of this folder
├── OutputFailed        the result of a call can't be written to a file
├── RecordFailed        the record can't be read
├── HostFileError       a host's file can't be read or changed
│   └── FileBusy        another process holds the lock on the folder
└── PageNotFound        the documentation has no such page or section

`errors.py` has the base classes and all other failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_workbench.errors import ConfigError, RequestError, WorkbenchError
from mcp_workbench.text.sanitize import escape

if TYPE_CHECKING:
    from pathlib import Path


class ListenFailed(WorkbenchError):
    """`serve --http` can't listen on its address."""

    code = "listen_failed"

    def __init__(self, address: str, reason: str, *, hint: str = "") -> None:
        usual = "Stop the program that uses the port, or choose another one: --http HOST:PORT."
        super().__init__(f"Can't listen on {address}: {reason}", hint=hint or usual)


class LoginFailed(WorkbenchError):
    """A login at a terminal failed."""

    code = "login_failed"
    retryable = True


class LoginRefused(LoginFailed):
    """An authorization server refused the login with an OAuth error."""

    code = "login_refused"
    retryable = False


class TrustFailed(WorkbenchError):
    code = "trust_failed"


class ConfigNotTrusted(ConfigError):
    """The configuration of the current folder is not used: the user has not trusted it, or it changed since."""

    code = "config_untrusted"

    def __init__(self, file: str, *, is_changed: bool, hint: str) -> None:
        why = "it changed since you trusted it" if is_changed else "you have not trusted it"
        problem = f"this folder's configuration decides which programs start, and {why}"
        super().__init__(problem, file=escape(file, len(file)), hint=hint)


class OutputFailed(WorkbenchError):
    """A call succeeded, but its result can't be written to the file."""

    code = "output_failed"


class RecordFailed(WorkbenchError):
    """The record, which `status` and `logs` show, can't be read."""

    code = "record_failed"

    def __init__(self, file: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{escape(file, len(file))}: {problem}", hint=hint)


class HostFileError(WorkbenchError):
    """A host's file can't be read or changed. It is left unchanged."""

    code = "host_file"

    def __init__(self, problem: str, file: Path | str, *, hint: str = "") -> None:
        super().__init__(f"{file}: {problem}", hint=hint)
        self.problem = problem
        self.file = file


class FileBusy(HostFileError):
    """Another process holds the lock on the folder for longer than a change takes."""

    code = "file_busy"
    retryable = True

    def __init__(self, file: Path | str, holder: str) -> None:
        super().__init__(f"is locked by {holder}", file, hint="Wait until that process ends, then try again.")


class PageNotFound(RequestError):
    """`docs` has no page or section of this name."""

    code = "page_not_found"
