"""Where the record is, and whether there is one."""

# ruff: noqa: PTH111 -- on the way of a start, where importing pathlib is noticeable

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from mcp_workbench.config.locate import own_file

VARIABLE: Final = "WORKBENCH_RECORD"
FILE_NAME: Final = "record.sqlite"
NO_RECORD: Final = "none"


def record_path(environ: Mapping[str, str]) -> str:
    """`$WORKBENCH_RECORD`, or a file in the user's state folder; empty where nothing is recorded."""
    if named := environ.get(VARIABLE):
        return "" if named == NO_RECORD else os.path.expanduser(named)
    return own_file(environ, "state", FILE_NAME)
