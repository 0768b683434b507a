"""Failures that end a command, of which the person who typed it is told.

    WorkbenchError
    ├── ListenFailed        the address for HTTP can't be taken
    ├── LoginFailed         a person's login at a terminal did not come about
    │   └── LoginRefused    the authorization server refused the login
    ├── TrustFailed         a project's configuration can't be trusted, or no more
    ├── RecordFailed        what workbenches do can't be read
    └── HostFileError       the file of a host can't be read or changed

All others, and what they have in common, are in `errors.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_workbench.errors import WorkbenchError
from mcp_workbench.shown import shown

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


class RecordFailed(WorkbenchError):
    """The record of what workbenches do can't be read."""

    code = "record_failed"

    def __init__(self, file: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{shown(file, len(file))}: {problem}", hint=hint)


class HostFileError(WorkbenchError):
    """The file of a host can't be read or changed; it is as it was."""

    code = "host_file"

    def __init__(self, problem: str, file: Path | str, *, hint: str = "") -> None:
        super().__init__(f"{file}: {problem}", hint=hint)
        self.problem = problem
