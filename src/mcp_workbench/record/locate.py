"""Where the record is, and whether there is one."""

# ruff: noqa: PTH111, PTH118 -- on the way of a start, where importing pathlib is noticeable

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from mcp_workbench.config.locate import FOLDER_NAME

VARIABLE: Final = "WORKBENCH_RECORD"
FILE_NAME: Final = "record.sqlite"
NO_RECORD: Final = "none"


def record_path(environ: Mapping[str, str]) -> str:
    """`$WORKBENCH_RECORD`, or a file in the user's state folder; empty where nothing is recorded."""
    if named := environ.get(VARIABLE):
        return "" if named == NO_RECORD else os.path.expanduser(named)
    home = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", FOLDER_NAME, FILE_NAME)
    xdg = environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is invalid and to be ignored.
    folder = xdg if xdg.startswith("/") else os.path.join(home, ".local", "state")
    return os.path.join(folder, FOLDER_NAME, FILE_NAME)
