"""Errors at a terminal: what is wrong, and what to do. The one place where errors become such text."""

from __future__ import annotations

import sys

from mcp_workbench.errors import ConfigError, WorkbenchError

FAILURE = 1
USAGE = 2
"""The exit status for a command line or a configuration that can't be used."""


def report(error: WorkbenchError) -> int:
    """Tell the person on stderr; the exit status."""
    sys.stderr.write(f"error: {error}\n")
    for line in error.hint.splitlines():
        sys.stderr.write(f"hint: {line}\n")
    return USAGE if isinstance(error, ConfigError) else FAILURE
