"""Failures that end a command and are reported to the person who typed it.

    WorkbenchError
    ├── ListenFailed        the address for HTTP can't be taken
    ├── LoginFailed         a person's login at a terminal did not come about
    │   └── LoginRefused    the authorization server refused the login
    ├── TrustFailed         nobody can be asked, or the record of what is trusted can't be used
    ├── ConfigError
    │   └── ConfigNotTrusted    the configuration of this folder is not trusted
    ├── OutputFailed        the result of a tool can't be written to a file
    ├── RecordFailed        what workbenches do can't be read
    ├── HostFileError       the file of a host can't be read or changed
    │   └── FileBusy        another process changes files of the same folder
    └── PageNotFound        the documentation has no such page or section

All others, and what they have in common, are in `errors.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_workbench.errors import ConfigError, RequestError, WorkbenchError
from mcp_workbench.text.sanitize import escape

if TYPE_CHECKING:
    from pathlib import Path


class ListenFailed(WorkbenchError):
    """`serve --http` can't listen where it should."""

    code = "listen_failed"

    def __init__(self, address: str, reason: str, *, hint: str = "") -> None:
        usual = "Stop what uses that port, or choose another one: --http HOST:PORT."
        super().__init__(f"Can't listen on {address}: {reason}", hint=hint or usual)


class LoginFailed(WorkbenchError):
    """A login at a terminal did not come about."""

    code = "login_failed"
    retryable = True


class LoginRefused(LoginFailed):
    """An authorization server refused the login with an OAuth error."""

    code = "login_refused"
    retryable = False


class TrustFailed(WorkbenchError):
    code = "trust_failed"


class ConfigNotTrusted(ConfigError):
    """The configuration of the current folder is not used: nobody trusted it, or it changed since."""

    code = "config_untrusted"

    def __init__(self, file: str, *, is_changed: bool, hint: str) -> None:
        why = "it changed since you trusted it" if is_changed else "you have not trusted it"
        problem = f"this folder's configuration decides which programs start, and {why}"
        super().__init__(problem, file=escape(file, len(file)), hint=hint)


class OutputFailed(WorkbenchError):
    """A tool was called, and its result can't be written where it should go."""

    code = "output_failed"


class RecordFailed(WorkbenchError):
    """The record of what workbenches do can't be read."""

    code = "record_failed"

    def __init__(self, file: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{escape(file, len(file))}: {problem}", hint=hint)


class HostFileError(WorkbenchError):
    """The file of a host can't be read or changed; it is as it was."""

    code = "host_file"

    def __init__(self, problem: str, file: Path | str, *, hint: str = "") -> None:
        super().__init__(f"{file}: {problem}", hint=hint)
        self.problem = problem
        self.file = file


class FileBusy(HostFileError):
    """Another process changes files of the same folder, for longer than a change takes."""

    code = "file_busy"
    retryable = True

    def __init__(self, file: Path | str, holder: str) -> None:
        super().__init__(f"is locked by {holder}", file, hint="Wait until that process has ended, and try again.")


class PageNotFound(RequestError):
    """`docs` has no page, or no section, of this name."""

    code = "page_not_found"
