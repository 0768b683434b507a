"""Commands run in this process, as a user in a pipe would run them."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from mcp_workbench import __main__


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def invoke(*line: str, env: Mapping[str, str] | None = None) -> Result:
    """Run a command line to its end."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdin", "stdout", "stderr")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        status = __main__.run(list(line))
    for stream in streams.values():
        stream.seek(0)
    return Result(status, streams["stdout"].read(), streams["stderr"].read())
